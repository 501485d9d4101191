package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/factmill/factmill/pkg/graph"
)

// merge sorts items and keeps the first of each run of equal ones. order puts equal items beside each other, the best first,
// and decides between any two items that differ.
func merge[T any](items []T, same func(a, b *T) bool, order func(a, b T) int) []T {
	if len(items) == 0 {
		return nil
	}
	slices.SortFunc(items, order)
	n := 1
	for i := 1; i < len(items); i++ {
		if !same(&items[n-1], &items[i]) {
			items[n] = items[i]
			n++
		}
	}
	return items[:n]
}

func sameMention(a, b *graph.Mention) bool {
	return a.Entity == b.Entity && a.Start == b.Start && a.End == b.End
}

func byMention(a, b graph.Mention) int {
	return cmp.Or(
		cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Entity, b.Entity),
		cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Extractor, b.Extractor), cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Name, b.Name),
	)
}

// property is a PropertyA with its value as text, which orders values of any type and tells equal ones.
type property struct {
	graph.PropertyA
	text string
}

func mergeProperties(in []graph.PropertyA) []graph.PropertyA {
	if len(in) == 0 {
		return nil
	}
	all := make([]property, len(in))
	for i, p := range in {
		all[i] = property{p, valueText(p.Value)}
	}
	all = merge(all, func(a, b *property) bool {
		return a.Entity == b.Entity && a.Name == b.Name && a.text == b.text && a.Start == b.Start && a.End == b.End
	}, func(a, b property) int {
		return cmp.Or(
			cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.text, b.text), cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Extractor, b.Extractor),
		)
	})
	out := make([]graph.PropertyA, len(all))
	for i := range all {
		out[i] = all[i].PropertyA
	}
	return out
}

// mergeRelations merges copies of one assertion: type, ends, quote and kind are equal. The most confident one stays, with the
// properties of all.
func mergeRelations(in []relation) []graph.RelationA {
	if len(in) == 0 {
		return nil
	}
	slices.SortFunc(in, func(a, b relation) int {
		return cmp.Or(
			cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Source, b.Source), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Assertion, b.Assertion),
			cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Extractor, b.Extractor), cmp.Compare(a.Rule, b.Rule),
		)
	})
	var out []graph.RelationA
	for i := 0; i < len(in); {
		first := in[i].RelationA
		var props []graph.PropertyItem
		for ; i < len(in) && sameRelation(&in[i].RelationA, &first); i++ {
			props = append(props, in[i].properties...)
		}
		first.Properties = values(props)
		out = append(out, first)
	}
	return out
}

func sameRelation(a, b *graph.RelationA) bool {
	return a.Type == b.Type && a.Source == b.Source && a.Target == b.Target && a.Start == b.Start && a.End == b.End &&
		a.Assertion == b.Assertion
}

// values has the most confident value of each property, the smallest where two are equally confident.
func values(props []graph.PropertyItem) map[string]any {
	if len(props) == 0 {
		return nil
	}
	best := make(map[string]graph.PropertyItem, len(props))
	for _, p := range props {
		old, ok := best[p.Name]
		if !ok || p.Confidence > old.Confidence || p.Confidence == old.Confidence && valueText(p.Value) < valueText(old.Value) {
			best[p.Name] = p
		}
	}
	out := make(map[string]any, len(best))
	for n, p := range best {
		out[n] = p.Value
	}
	return out
}

// valueText tells values apart: a text from a number of the same digits too. A whole number is the same whether it came as
// int64 or, out of JSON, as float64.
func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return "s" + v
	case bool:
		return "b" + strconv.FormatBool(v)
	case int64:
		return number(float64(v))
	case int:
		return number(float64(v))
	case float64:
		return number(v)
	default:
		return fmt.Sprintf("x%v", v)
	}
}

func number(f float64) string { return "n" + strconv.FormatFloat(f, 'g', -1, 64) }

// tally counts dropped items by kind, label and reason, with the smallest sample.
type tally map[[3]string]graph.Dropped

func (t tally) add(x graph.Dropped) {
	k := [3]string{x.Kind, x.Label, x.Reason}
	old, ok := t[k]
	if ok {
		x.Count, x.Candidates = x.Count+old.Count, x.Candidates+old.Candidates
		if old.Sample != "" && (x.Sample == "" || old.Sample < x.Sample) {
			x.Sample = old.Sample
		}
	}
	t[k] = x
}

func (t tally) list() []graph.Dropped {
	if len(t) == 0 {
		return nil
	}
	out := make([]graph.Dropped, 0, len(t))
	for _, x := range t {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b graph.Dropped) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Label, b.Label), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
