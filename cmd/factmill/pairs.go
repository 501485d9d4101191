package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// pairs reads name=value flags. A value that is a JSON number, true, false or null is one; anything else is text. Quote a
// value ("2024") to keep it a text.
func pairs(in []string) (map[string]any, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := map[string]any{}
	for _, s := range in {
		name, v, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=value", s)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%q stands twice", name)
		}
		out[name] = value(v)
	}
	return out, nil
}

func value(v string) any {
	var x any
	d := json.NewDecoder(strings.NewReader(v))
	d.UseNumber()
	if err := d.Decode(&x); err != nil || d.More() {
		return v
	}
	switch x.(type) {
	case map[string]any, []any:
		return v
	}
	return x
}
