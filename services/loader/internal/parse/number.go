package parse

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxInteger is the largest integer that metadata holds as a number. Every stage behind the loader decodes numbers of metadata as
// float64, which rounds beyond it, so a larger one goes as text: ids and account numbers stay what they are.
const maxInteger = 1 << 53

// exact decodes a valid JSON value for metadata without rounding an integer.
func exact(value string) (any, error) {
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

// numbers replaces the numbers inside v.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return numeric(string(v))
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// numeric is what s says: an int64 for digits only, else a float64; the text itself where either would be another number.
func numeric(s string) any {
	if strings.Trim(s, "+-0123456789") == "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n > maxInteger || n < -maxInteger {
			return s
		}
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f-f != 0 { // beyond every float64, or none at all
		return s
	}
	return f
}
