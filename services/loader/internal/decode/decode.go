// Package decode turns the bytes of a source into text without guessing: what it cannot be sure of is an error, so that a
// wrong guess never turns names into other names.
package decode

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"github.com/factmill/factmill/pkg/fault"
)

// Code of every error of this package: a document fault.
const Code = "bad_encoding"

// prescan is how far a declaration is looked for, in bytes.
const prescan = 4096

// Declares says where a text of some format may declare its encoding itself.
type Declares int

// The places.
const (
	Nowhere Declares = iota
	InHTML           // a meta element, or an XML declaration
	InXML            // an XML declaration
)

// Text decodes raw. The order: a UTF-16 byte order mark, then UTF-8 whenever the bytes are valid UTF-8, then the encoding
// that the text itself declares, where its format has a place for that. Anything else is a document fault "bad_encoding", and
// so are NUL characters, which no text has. A UTF-8 or UTF-16 byte order mark stays in front of the text as U+FEFF; every
// other control character is kept as it is.
func Text(raw []byte, where Declares) (string, error) {
	text, err := decoded(raw, where)
	if err != nil {
		return "", err
	}
	return text, Check(text)
}

// Check refuses a text that holds NUL.
func Check(text string) error {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return fault.Bad(Code, "a NUL stands at byte %d: this is no text", at)
	}
	return nil
}

// Escapes refuses a valid JSON text in which an escape stands for NUL, or for half a character without its other half.
func Escapes(json string) error {
	return eachEscape(json, func(at int, unit rune) error {
		if unit == 0 {
			return fault.Bad(Code, `a NUL stands at byte %d, as \u0000: this is no text`, at)
		}
		return half(json, at)
	})
}

// Halves is Escapes that lets NUL pass. A decoder of JSON makes U+FFFD of half a character, in silence.
func Halves(json string) error {
	return eachEscape(json, func(at int, unit rune) error {
		if unit == 0 {
			return nil
		}
		return half(json, at)
	})
}

func half(json string, at int) error {
	return fault.Bad(Code, "half a character stands at byte %d, as %s: its other half is missing", at, json[at:at+escapeSize])
}

// escapeSize is that of \uXXXX.
const escapeSize = 6

// eachEscape calls fn for every escape that is NUL or half a character. Outside its strings, a valid text has no backslash.
func eachEscape(json string, fn func(at int, unit rune) error) error {
	for i := 0; ; {
		n := strings.IndexByte(json[i:], '\\')
		if n < 0 {
			return nil
		}
		i += n
		unit, ok := escaped(json[i:])
		if !ok {
			i += 2 // it and what it escapes
			if i > len(json) {
				return nil
			}
			continue
		}
		at := i
		i += escapeSize
		if utf16.IsSurrogate(unit) {
			if low, _ := escaped(json[i:]); utf16.DecodeRune(unit, low) != utf8.RuneError {
				i += escapeSize
				continue
			}
		} else if unit != 0 {
			continue
		}
		if err := fn(at, unit); err != nil {
			return err
		}
	}
}

// escaped is the \uXXXX that s begins with.
func escaped(s string) (unit rune, ok bool) {
	if len(s) < escapeSize || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:escapeSize], 16, 16)
	return rune(n), err == nil
}

func decoded(raw []byte, where Declares) (string, error) {
	switch {
	case bytes.HasPrefix(raw, []byte{0xFF, 0xFE}):
		return fromUTF16(raw, binary.LittleEndian)
	case bytes.HasPrefix(raw, []byte{0xFE, 0xFF}):
		return fromUTF16(raw, binary.BigEndian)
	}
	valid := utf8.Valid(raw)
	if valid && (where == Nowhere || bytes.IndexByte(raw, 0x1B) < 0) {
		return string(raw), nil
	}
	label := ""
	switch head := raw[:min(len(raw), prescan)]; where {
	case InXML:
		label = xmlDeclared(head)
	case InHTML:
		if label = xmlDeclared(head); label == "" {
			label = metaDeclared(head)
		}
	}
	// ISO-2022-JP is seven bits wide, so its bytes are valid UTF-8 as well: its escapes and the declaration tell.
	if valid && !strings.EqualFold(label, "iso-2022-jp") {
		return string(raw), nil
	}
	if label == "" {
		return "", fault.Bad(Code, "not UTF-8 (first broken byte at %d) and no encoding is declared: save it as UTF-8", firstBroken(raw))
	}
	return fromDeclared(raw, label)
}

func fromDeclared(raw []byte, label string) (string, error) {
	enc, name := charset.Lookup(label)
	if enc == nil {
		return "", fault.Bad(Code, "the declared encoding %q is not known", clip(label))
	}
	if name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "replacement" || name == "x-user-defined" {
		return "", fault.Bad(Code, "the declared encoding is %q, but the bytes are not (first broken byte at %d)", clip(label), firstBroken(raw))
	}
	out, err := enc.NewDecoder().Bytes(raw)
	if err != nil {
		return "", fault.Bad(Code, "decode as %s: %v", name, err)
	}
	if at := bytes.Index(out, []byte("\uFFFD")); at >= 0 {
		return "", fault.Bad(Code, "the declared encoding is %q, but some bytes have no meaning in it", clip(label))
	}
	return string(out), nil
}

// fromUTF16 decodes raw, byte order mark included.
func fromUTF16(raw []byte, order binary.ByteOrder) (string, error) {
	if len(raw)%2 != 0 {
		return "", fault.Bad(Code, "UTF-16 by its byte order mark, but of an odd number of bytes (%d)", len(raw))
	}
	var out strings.Builder
	out.Grow(len(raw) + len(raw)/4)
	for i := 0; i < len(raw); i += 2 {
		r := rune(order.Uint16(raw[i:]))
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if i+4 <= len(raw) {
				low = rune(order.Uint16(raw[i+2:]))
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return "", fault.Bad(Code, "UTF-16 by its byte order mark, but with half a character at byte %d", i)
			}
			i += 2
		}
		out.WriteRune(r)
	}
	return out.String(), nil
}

func firstBroken(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(raw)
}

// xmlDeclared finds the encoding in an XML declaration.
func xmlDeclared(head []byte) string {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("<?xml"))
	if !ok {
		return ""
	}
	end := bytes.Index(rest, []byte("?>"))
	if end < 0 {
		return ""
	}
	return param(string(rest[:end]), "encoding")
}

// metaDeclared finds the encoding in a meta element of a page's head.
func metaDeclared(head []byte) string {
	z := html.NewTokenizer(bytes.NewReader(head))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if string(name) != "meta" {
				continue
			}
			if label := metaCharset(z, more); label != "" {
				return label
			}
		}
	}
}

func metaCharset(z *html.Tokenizer, more bool) string {
	var label, content string
	isType := false
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		switch string(key) {
		case "charset":
			label = string(val)
		case "content":
			content = string(val)
		case "http-equiv":
			isType = strings.EqualFold(string(val), "content-type")
		}
	}
	if label == "" && isType {
		label = param(content, "charset")
	}
	return strings.TrimSpace(label)
}

// param finds name=value or name="value" in s.
func param(s, name string) string {
	at := strings.Index(strings.ToLower(s), name)
	if at < 0 || at+len(name) > len(s) {
		return ""
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(s[at+len(name):], " \t\r\n"), "=")
	if !ok {
		return ""
	}
	rest = strings.TrimLeft(rest, " \t\r\n")
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		value, _, _ := strings.Cut(rest[1:], rest[:1])
		return strings.TrimSpace(value)
	}
	if end := strings.IndexAny(rest, "; \t\r\n"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
