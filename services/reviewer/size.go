package reviewer

import (
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
)

// groupSize is at least as many bytes as a group takes in a reply.
func groupSize(g api.Group) int {
	n := 700 + textSize(g.Key) + textSize(g.Label) + textSize(g.Text) + textSize(g.SourceText) + textSize(g.TargetText) + textSize(g.SourceLabel) +
		textSize(g.TargetLabel) + textSize(g.Sample.Document) + textSize(g.Sample.Chunk) + textSize(g.Sample.Quote)
	for _, of := range [][]string{g.IDs, g.Reasons} {
		for _, s := range of {
			n += textSize(s) + 1
		}
	}
	return n
}

// textSize is how many bytes a text takes as encoding/json writes it.
func textSize(s string) int {
	n := len(s) + len(`""`)
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == '\u2028' || r == '\u2029' || r == utf8.RuneError && size == 1 {
				n += len(`\u2028`) - size
			}
			i += size
			continue
		}
		switch i++; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			n++
		case c < ' ', c == '<', c == '>', c == '&':
			n += len(`\u0000`) - 1
		}
	}
	return n
}
