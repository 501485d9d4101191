package patch

import (
	"slices"
	"strings"
)

// spot is where a type stands in its section.
type spot struct {
	section entry
	// at is the type's key and body: for `label: X` items the item itself.
	at     entry
	inFlow bool   // the key stands in braces
	col    int    // of the key
	item   *place // the list item, where the section is a list
	form   spotForm
}

type spotForm uint8

const (
	inMap    spotForm = iota // X: …
	labelled                 // - label: X
	oneKey                   // - X: …
	bare                     // - X
	short                    // A-X->B, in a list or as a key
)

// find looks a type up in a section, as the schema parser would.
func (e *editor) find(section, label string, fields []string) (spot, bool) {
	f, ok := e.root.field(section)
	if !ok {
		return spot{}, false
	}
	v := f.value
	at := spot{section: f, inFlow: v.flow, col: v.col}
	for _, x := range v.fields {
		if x.key == label || section == "relations" && x.value.kind == nullPlace && shortOf(x.key) == label {
			if at.at = x; x.key != label {
				at.form = short
			}
			return at, true
		}
	}
	for _, it := range v.items {
		at.item, at.inFlow, at.col = it, v.flow, e.column(it.start)
		text := strings.TrimSpace(it.text)
		switch {
		case it.kind == textPlace && text == label:
			at.form = bare
			return at, true
		case it.kind == textPlace && section == "relations" && shortOf(text) == label:
			at.form = short
			return at, true
		case it.kind != mapPlace || it.alias:
		default:
			if l, ok := it.field("label"); ok {
				if strings.TrimSpace(l.value.text) == label {
					at.form, at.at, at.col = labelled, entry{key: label, start: it.start, value: it}, v.col
					return at, true
				}
			} else if len(it.fields) == 1 && it.fields[0].key == label && !slices.Contains(fields, label) {
				at.form, at.at, at.inFlow = oneKey, it.fields[0], it.flow
				if !it.flow {
					at.col = it.col
				}
				return at, true
			}
		}
	}
	return spot{}, false
}

// shortOf is the relation that "A-REL->B" names.
func shortOf(pattern string) string {
	left, _, ok := strings.Cut(pattern, "->")
	if i := strings.LastIndexByte(left, '-'); ok && i >= 0 {
		return strings.TrimSpace(left[i+1:])
	}
	return ""
}

var fieldNames = []string{"label", "parents", "description", "properties", "override", "patterns", "add_patterns", "cardinality", "symmetric", "self", "inverse"}

// properties adds properties to a type that the schema declares.
func (e *editor) properties(at spot, list []AddProperty) error {
	if at.at.value != nil {
		if p, ok := at.at.value.field("properties"); ok {
			inFlow, col := at.at.value.flow, at.at.value.col
			return e.addPairs(p, inFlow, col, e.specs(list, p.value))
		}
	}
	return e.addField(at, pair{"properties", out{pairs: e.specs(list, nil), isMap: true}})
}

// specs are property entries, short where those beside them are.
func (e *editor) specs(list []AddProperty, beside *place) []pair {
	long := e.json
	if beside != nil && len(beside.fields) > 0 {
		long = !slices.ContainsFunc(beside.fields, func(f entry) bool { return f.value.kind == textPlace })
	}
	var pairs []pair
	for _, a := range list {
		v := out{text: a.Spec.Type}
		if long || a.Spec.Description != "" {
			v = out{pairs: describe([]pair{{"type", v}}, a.Spec.Description), isMap: true, flat: true}
		}
		pairs = append(pairs, pair{a.Name, v})
	}
	return pairs
}

// addField adds a field to a type's body. A body that is a description or nothing becomes a map.
func (e *editor) addField(at spot, p pair) error {
	if at.form == bare {
		return e.bareField(at, p)
	}
	v := at.at.value
	if v.kind != textPlace || v.alias {
		return e.addPairs(at.at, at.inFlow, at.col, []pair{p})
	}
	if at.inFlow {
		e.put(v.start, 0, "{"+e.key("description"))
		e.put(v.end, 0, ", "+e.flowPair(p)+"}")
		return nil
	}
	// The description keeps its lines: its new key is less deep than they are.
	col, end := at.col+e.unit, e.blockEnd(v, at.col+1, at.col)
	for i := e.lineOf(at.at.colon) + 1; i < len(e.lines) && e.lines[i] < end; i++ {
		if line := e.line(i); strings.TrimSpace(line) != "" {
			col = min(col, indent(line)-1)
		}
	}
	if col <= at.col {
		return handf("the description of %s has no room for a key before it", at.at.key)
	}
	e.put(at.at.colon, 0, e.eol+strings.Repeat(" ", col)+"description:")
	e.putLines(end, e.blockPair(p, col))
	return nil
}

// bareField makes a label in a list a map.
func (e *editor) bareField(at spot, p pair) error {
	it := at.item
	switch {
	case it.alias || e.severalLines(it):
		return handf("%s is written in an unusual way", it.text)
	case at.inFlow:
		e.put(it.start, 0, "{"+e.key("label"))
		e.put(it.end, 0, ", "+e.flowPair(p)+"}")
	default:
		e.put(it.start, 0, "label: ")
		e.putLines(e.next(e.lineOf(it.start)), e.blockPair(p, at.col))
	}
	return nil
}

// patterns adds pairs to a relation that the schema declares and that is no pattern itself.
func (e *editor) patterns(at spot, label string, list []string) error {
	name := "patterns"
	if r, ok := e.s.Relation(label); ok && len(r.Patterns) > 0 {
		name = "add_patterns" // its pairs are those of an extended file
	}
	field := pair{name, out{list: list}}
	if at.form == bare {
		return e.bareField(at, field)
	}
	v := at.at.value
	switch {
	case v.alias:
		return handf("%s is an alias", label)
	case v.kind == mapPlace:
		f, ok := v.field("add_patterns")
		if _, over := v.field("override"); !ok && over { // patterns of an override may only narrow
			field.key = "add_patterns"
		} else if !ok {
			f, ok = v.field("patterns")
		}
		if ok {
			return e.more(f, v.flow, v.col, list)
		}
		return e.addPairs(at.at, at.inFlow, at.col, []pair{field})
	case v.kind == nullPlace:
		return e.addPairs(at.at, at.inFlow, at.col, []pair{field})
	}
	return e.more(at.at, at.inFlow, at.col, list)
}

// shorts adds patterns beside those that stand in the section itself.
func (e *editor) shorts(at spot, label string, list []string) error {
	for _, x := range list {
		var err error
		if at.item != nil {
			err = e.addItem(at.section.value, e.root.col, e.pattern(arrow(label, x)))
		} else {
			err = e.addPairs(at.section, e.root.flow, e.root.col, []pair{{arrow(label, x), out{null: true}}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// more adds patterns to the pattern or patterns that a key holds.
func (e *editor) more(at entry, inFlow bool, col int, list []string) error {
	v := at.value
	switch {
	case v.alias:
		return handf("%s is an alias", at.key)
	case v.kind == listPlace && len(v.items) == 0:
		return e.flowAppend(v, strings.Join(e.quoted(list), ", "))
	case v.kind == listPlace:
		for _, x := range list {
			if err := e.addItem(v, col, e.pattern(x)); err != nil {
				return err
			}
		}
	case v.kind == nullPlace && v.absent:
		text := " " + e.flow(out{list: list})
		if e.data[at.colon-1] != ':' {
			text = ":" + text
		}
		e.put(at.colon, 0, text)
	case v.kind == nullPlace:
		e.put(v.start, v.end-v.start, e.flow(out{list: list}))
	case v.kind == textPlace && !e.severalLines(v):
		e.put(v.start, 0, "[")
		e.put(v.end, 0, ", "+strings.Join(e.quoted(list), ", ")+"]")
	default:
		return handf("the patterns of %s are written in an unusual way", at.key)
	}
	return nil
}
