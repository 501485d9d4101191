package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/fingerprint"
)

var (
	// ErrBadValue is returned for a value that is not of the property's type.
	ErrBadValue = errors.New("bad_value")
	// ErrNotInEnum is returned for a value of the right type that the property's enum does not list.
	ErrNotInEnum = errors.New("not_in_enum")
)

var grouped = regexp.MustCompile(`^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`)

// ParseValue returns raw, a value as an extractor or a person gave it, as a value of the property: string, int64,
// float64, bool, or for a date a string (YYYY, YYYY-MM, YYYY-MM-DD or RFC 3339 with its own offset). Numbers may be
// given as text, with commas between thousands; booleans as true, false, yes, no; texts and enum values as numbers.
// An enum value that differs only by case or white space becomes the declared one.
//
// The error wraps ErrBadValue or ErrNotInEnum. Lists, maps, nil and empty texts are bad values of every type.
func ParseValue(prop Property, raw any) (any, error) {
	value, ok := parseType(prop.Type, raw)
	if !ok {
		return nil, fmt.Errorf("property %s: %w: %s is no %s", prop.Name, ErrBadValue, quote(fmt.Sprint(raw)), prop.Type)
	}
	if prop.Enum == nil {
		return value, nil
	}
	text := ValueText(value)
	if slices.Contains(prop.Enum, text) {
		return value, nil
	}
	if prop.Type == TypeString {
		folded := fingerprint.Fold(text)
		for _, declared := range prop.Enum {
			if fingerprint.Fold(declared) == folded {
				return declared, nil
			}
		}
	}
	return nil, fmt.Errorf("property %s: %w: %s is none of %s", prop.Name, ErrNotInEnum, quote(text), quote(strings.Join(prop.Enum, ", ")))
}

// ValueText returns the canonical text of a value that ParseValue returned: what enums list, and what ids and keys are
// made of.
func ValueText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return fmt.Sprint(value)
}

func parseType(t Type, raw any) (any, bool) {
	text, isText, ok := scalar(raw)
	if !ok {
		return nil, false
	}
	switch t {
	case TypeInteger:
		if _, isBool := raw.(bool); isBool {
			return nil, false
		}
		return parseInteger(text)
	case TypeFloat:
		if _, isBool := raw.(bool); isBool {
			return nil, false
		}
		return parseFloat(text)
	case TypeBoolean:
		if _, isBool := raw.(bool); !isBool && !isText {
			return nil, false
		}
		switch strings.ToLower(text) {
		case "true", "yes":
			return true, true
		case "false", "no":
			return false, true
		}
		return nil, false
	case TypeDate:
		if _, isBool := raw.(bool); isBool {
			return nil, false
		}
		return parseDate(text)
	}
	return text, true
}

// scalar returns a text, number or boolean as trimmed text; isText says whether it was a text.
func scalar(raw any) (text string, isText, ok bool) {
	switch v := raw.(type) {
	case string:
		text, isText = strings.TrimSpace(v), true
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", false, false
		}
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case float32:
		return scalar(float64(v))
	case int:
		text = strconv.Itoa(v)
	case int32:
		text = strconv.FormatInt(int64(v), 10)
	case int64:
		text = strconv.FormatInt(v, 10)
	case uint64:
		text = strconv.FormatUint(v, 10)
	default:
		return "", false, false
	}
	return text, isText, text != ""
}

func ungroup(text string) string {
	if grouped.MatchString(text) {
		return strings.ReplaceAll(text, ",", "")
	}
	return text
}

var number = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

func parseInteger(text string) (any, bool) {
	text = ungroup(text)
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, true
	}
	// 1990.0 and 1e3 are whole numbers too, as far as a float is exact.
	const exact = 1 << 53
	f, ok := parseFloat(text)
	if v, isFloat := f.(float64); ok && isFloat && v == math.Trunc(v) && math.Abs(v) <= exact {
		return int64(v), true
	}
	return nil, false
}

func parseFloat(text string) (any, bool) {
	text = ungroup(text)
	if !number.MatchString(text) {
		return nil, false
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, false
	}
	if v == 0 {
		v = 0 // -0 is 0
	}
	return v, true
}

func parseDate(text string) (any, bool) {
	for _, layout := range []string{"2006", "2006-01", time.DateOnly} {
		if len(text) == len(layout) {
			at, err := time.Parse(layout, text)
			return text, err == nil && at.Year() > 0
		}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1 {
		return nil, false
	}
	return at.Format(time.RFC3339Nano), true
}

// sortEnum sorts canonical texts by value.
func sortEnum(list []string, t Type) {
	if t != TypeInteger && t != TypeFloat {
		slices.Sort(list)
		return
	}
	slices.SortFunc(list, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		if x < y {
			return -1
		}
		if x > y {
			return 1
		}
		return strings.Compare(a, b)
	})
}
