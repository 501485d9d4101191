package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Marked puts lines of JSON between two lines with a mark, which is a hash of them, so that they do not hold their own end. text ends
// with a line's end.
func Marked(text string) string {
	sum := sha256.Sum256([]byte(text))
	mark := hex.EncodeToString(sum[:8])
	return "BEGIN " + mark + "\n" + text + "END " + mark + "\n"
}

// Visible writes what nobody sees in JSON, and what opens and closes a tag, by number.
func Visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r != '<' && r != '>' && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
