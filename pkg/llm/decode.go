package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// maxDepth of a reply's JSON.
const maxDepth = 1000

// decode reads JSON with the slips that models make: words that JSON does not have, commas before a closing bracket, and a name that is
// given twice in an object. keys are the names of which no value may be lost.
func decode(s string, keys []string) (any, error) {
	v, err := unmarshal(s, keys)
	if err == nil {
		return v, nil
	}
	if v, again := unmarshal(mended(s), keys); again == nil {
		return v, nil
	}
	return nil, err
}

func unmarshal(s string, keys []string) (any, error) {
	d := &decoder{json.NewDecoder(strings.NewReader(s)), keys}
	d.UseNumber()
	return d.value(0)
}

type decoder struct {
	*json.Decoder
	keys []string
}

func (d *decoder) value(depth int) (any, error) {
	t, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case depth > maxDepth:
		return nil, errors.New("it is nested too deeply")
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, d.close()
	case json.Delim('{'):
		return d.object(depth)
	}
	return t, nil
}

func (d *decoder) close() error {
	_, err := d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// object reads an object; names that differ in case alone are one.
func (d *decoder) object(depth int) (any, error) {
	o, names := Object{}, map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%v is no name", t)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		low := strings.ToLower(strings.TrimSpace(name))
		if before, twice := names[low]; twice {
			name = before
			if v, err = d.both(low, o[name], v); err != nil {
				return nil, err
			}
		}
		names[low] = name
		o[name] = v
	}
	return o, d.close()
}

// both is the value of a name that was given twice: lists are joined, objects put together, of anything else the later one counts where
// nothing is lost by that.
func (d *decoder) both(name string, a, b any) (any, error) {
	if a == nil || reflect.DeepEqual(a, b) {
		return b, nil
	}
	if b == nil {
		return a, nil
	}
	_, isList := a.([]any)
	_, alsoList := b.([]any)
	x, isObject := a.(Object)
	y, alsoObject := b.(Object)
	known := slices.Contains(d.keys, name)
	switch {
	case isList || alsoList || known && isObject && alsoObject:
		return Joined(a, b), nil
	case isObject && alsoObject:
		for k, v := range y {
			x[k] = v
		}
		return x, nil
	case known:
		return nil, fmt.Errorf("%q is given twice in one object", name)
	}
	return b, nil
}

// Joined is one list of values: of lists their items, of anything else itself.
func Joined(values ...any) []any {
	out := []any{}
	for _, v := range values {
		if list, ok := v.([]any); ok {
			out = append(out, list...)
		} else {
			out = append(out, v)
		}
	}
	return out
}
