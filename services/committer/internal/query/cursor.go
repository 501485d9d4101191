package query

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
)

// A cursor is a position in JSON, in URL-safe base64. It names the verb, so that one verb's cursor is refused by another.

func encodeCursor(verb string, at any) string {
	b, err := json.Marshal(at)
	if err != nil { // positions are structs of texts and numbers
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte(verb+":"), b...))
}

func decodeCursor(verb, cursor string, into any) error {
	bad := badValue("cursor is not one that %s gave", verb)
	if len(cursor) > 16<<10 {
		return bad
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return bad
	}
	rest, ok := bytes.CutPrefix(b, []byte(verb+":"))
	if !ok {
		return bad
	}
	d := json.NewDecoder(bytes.NewReader(rest))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil {
		return bad
	}
	if _, err := d.Token(); err != io.EOF {
		return bad
	}
	return nil
}

// MaxReply is about how many bytes a reply may have: the broker's limit of 1 MiB less headers and envelope.
const MaxReply = 900 << 10

// budget is how many bytes of a reply are left. What is put in is counted a little too large.
type budget int

func newBudget() *budget { b := budget(MaxReply - 16<<10); return &b }

// take says whether n more bytes fit, and counts them if so.
func (b *budget) take(n int) bool {
	if int(*b) < n {
		return false
	}
	*b -= budget(n)
	return true
}

// textCost is about the most bytes that s takes in JSON.
func textCost(s string) int {
	n := len(s) + 2
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
			n++
		case c < 0x20 || c == '<' || c == '>' || c == '&':
			n += 5
		case c == 0xE2: // U+2028 and U+2029 are escaped
			n += 3
		}
	}
	return n
}
