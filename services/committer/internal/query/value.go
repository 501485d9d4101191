package query

import (
	"cmp"
	"slices"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// compareValues is the order of property values: booleans, numbers, texts; numbers by value, texts by bytes.
func compareValues(a, b any) int {
	ra, rb := valueRank(a), valueRank(b)
	if ra != rb {
		return cmp.Compare(ra, rb)
	}
	switch x := a.(type) {
	case bool:
		y, _ := b.(bool)
		if x == y {
			return 0
		}
		if y {
			return -1
		}
		return 1
	case string:
		y, _ := b.(string)
		return cmp.Compare(x, y)
	}
	ai, aInt := a.(int64)
	bi, bInt := b.(int64)
	if aInt && bInt {
		return cmp.Compare(ai, bi)
	}
	return cmp.Compare(toFloat(a), toFloat(b))
}

func valueRank(v any) int {
	switch v.(type) {
	case bool:
		return 0
	case string:
		return 2
	}
	return 1
}

func toFloat(v any) float64 {
	switch x := v.(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	}
	return 0
}

// ranked sorts the values of one property, the one to show first, by the property's merge rule. Every rule ends in the
// order of values, so that two stores with the same facts show the same.
func ranked(rule schema.Merge, values []store.PropertyFold) []store.PropertyFold {
	out := slices.Clone(values)
	docs := func(a, b store.PropertyFold) int { return cmp.Compare(b.Documents, a.Documents) }
	best := func(a, b store.PropertyFold) int { return cmp.Compare(b.Best, a.Best) }
	date := func(a, b store.PropertyFold) int { return cmp.Compare(b.Newest, a.Newest) }
	value := func(a, b store.PropertyFold) int { return compareValues(a.Value, b.Value) }
	by := []func(a, b store.PropertyFold) int{docs, best, date, value}
	switch rule {
	case schema.MergeNewest:
		by = []func(a, b store.PropertyFold) int{date, docs, best, value}
	case schema.MergeMostConfident:
		by = []func(a, b store.PropertyFold) int{best, docs, date, value}
	case schema.MergeAll:
		by = by[3:]
	}
	slices.SortFunc(out, func(a, b store.PropertyFold) int {
		for _, f := range by {
			if c := f(a, b); c != 0 {
				return c
			}
		}
		return 0
	})
	return out
}

// Rounded is a value as replies have it.
func Rounded(v any) any { return rounded(v) }

// rounded cuts the floats of a value out of JSON, at all depths, to six digits.
func rounded(v any) any {
	switch x := v.(type) {
	case float64:
		return graph.Round6(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = rounded(x[i])
		}
		return out
	case map[string]any:
		return roundedMap(x)
	}
	return v
}

// roundedMap is rounded for a map; it is never nil, so that it is written as {}.
func roundedMap(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = rounded(v)
	}
	return out
}
