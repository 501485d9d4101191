package query

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/graph"
)

// The rows of entities and relations are written piece by piece, since one may have a million mentions. The bytes are those
// of encoding/json in its default form (so <, > and & are escaped), which a reply that carries rows cannot change.

func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			return appendJSON(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendJSON appends any value; the values of the graph are strings, numbers, booleans, and lists and maps of them.
func appendJSON(b []byte, v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, out...)
}

func appendValue(b []byte, v any) []byte {
	switch x := v.(type) {
	case string:
		return appendText(b, x)
	case int64:
		return strconv.AppendInt(b, x, 10)
	case float64:
		return appendJSON(b, graph.Round6(x))
	}
	return appendJSON(b, rounded(v))
}

// appendScore writes a confidence: 0…1 with six digits at most.
func appendScore(b []byte, f float64) []byte {
	f = graph.Round6(f)
	if f != 0 && f < 1e-5 {
		return appendJSON(b, f)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

func appendTexts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, s)
	}
	return append(b, ']')
}
