// Package fingerprint holds the identities of Factmill: canonical JSON, content hashes, ids that derive from content,
// merge keys of names and content keys of candidates. It depends on no other package of the project, keeps no state,
// and every function is safe for concurrent use. The formulas are part of the contract: stores written with one formula
// cannot be read with another.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// h16Len is the length of a short fingerprint in hex digits.
const h16Len = 16

// Canonical returns v as canonical JSON: object keys sorted by code point at all depths, separators "," and ":",
// everything outside printable ASCII escaped as \uXXXX (surrogate pairs above the basic plane), list order kept. The
// bytes equal those of Python's json.dumps(v, sort_keys=True, separators=(",", ":")).
//
// v may be anything that encoding/json marshals, structs included. Numbers keep the text that encoding/json or a
// json.Number gave them. Invalid UTF-8 in strings becomes U+FFFD. The error is the one of encoding/json.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil && err != io.EOF {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	return appendValue(make([]byte, 0, len(raw)+len(raw)/8), tree), nil
}

// H16 returns the first 16 hex digits of the SHA-256 of Canonical(v). It fails only where Canonical fails, so never for
// values made of strings, integers, booleans, nil, and maps, slices and structs of them.
func H16(v any) (string, error) {
	raw, err := Canonical(v)
	if err != nil {
		return "", err
	}
	return h16(raw), nil
}

// H16Strings is H16 of a list of strings. It cannot fail.
func H16Strings(parts ...string) string {
	return h16(appendStrings(nil, parts, ","))
}

// SHA256Hex returns the SHA-256 of data as 64 hex digits.
func SHA256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// PatchID returns the id of a schema patch: the first 16 hex digits of the SHA-256 of
// {"base": "<schema fingerprint>", "ids": [sorted ids]} in ASCII-escaped JSON with the separators ", " and ": ".
// The order of ids does not matter; ids is not changed.
func PatchID(base string, ids []string) string {
	sorted := slices.Sorted(slices.Values(ids))
	buf := append([]byte(nil), `{"base": `...)
	buf = appendString(buf, base)
	buf = append(buf, `, "ids": `...)
	buf = appendStrings(buf, sorted, ", ")
	return h16(append(buf, '}'))
}

func h16(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:h16Len/2])
}

// appendValue writes a tree as the decoder with UseNumber makes it.
func appendValue(buf []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(buf, "true"...)
		}
		return append(buf, "false"...)
	case json.Number:
		return append(buf, v...)
	case string:
		return appendString(buf, v)
	case []any:
		buf = append(buf, '[')
		for i, item := range v {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = appendValue(buf, item)
		}
		return append(buf, ']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		// Byte order of valid UTF-8 is code point order.
		slices.Sort(keys)
		buf = append(buf, '{')
		for i, key := range keys {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = appendString(buf, key)
			buf = append(buf, ':')
			buf = appendValue(buf, v[key])
		}
		return append(buf, '}')
	}
	return append(buf, "null"...)
}

func appendStrings(buf []byte, parts []string, separator string) []byte {
	buf = append(buf, '[')
	for i, part := range parts {
		if i > 0 {
			buf = append(buf, separator...)
		}
		buf = appendString(buf, part)
	}
	return append(buf, ']')
}

func appendString(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			buf = appendASCII(buf, c)
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r > 0xFFFF {
			r -= 0x10000
			buf = appendEscape(buf, 0xD800+(r>>10))
			buf = appendEscape(buf, 0xDC00+(r&0x3FF))
			continue
		}
		buf = appendEscape(buf, r)
	}
	return append(buf, '"')
}

func appendASCII(buf []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(buf, '\\', c)
	case '\n':
		return append(buf, '\\', 'n')
	case '\r':
		return append(buf, '\\', 'r')
	case '\t':
		return append(buf, '\\', 't')
	case '\b':
		return append(buf, '\\', 'b')
	case '\f':
		return append(buf, '\\', 'f')
	}
	if c < 0x20 || c == 0x7F {
		return appendEscape(buf, rune(c))
	}
	return append(buf, c)
}

func appendEscape(buf []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(buf, '\\', 'u', digits[unit>>12&0xF], digits[unit>>8&0xF], digits[unit>>4&0xF], digits[unit&0xF])
}
