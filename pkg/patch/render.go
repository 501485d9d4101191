package patch

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// out is a value to write: a text, a list of patterns, or a map.
type out struct {
	text   string
	raw    bool // true, false: no quotes
	quoted bool // always in quotes
	null   bool
	list   []string
	pairs  []pair
	isMap  bool
	flat   bool // in braces always
}

type pair struct {
	key   string
	value out
}

var (
	plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// word may mean something else without quotes.
	special = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// word writes a text as a key or value: plain where nothing can be misread.
func (e *editor) word(s string) string {
	if !e.json && plain.MatchString(s) && !special.MatchString(s) {
		return s
	}
	return inQuotes(s)
}

// inQuotes is s as a JSON string, which YAML reads alike.
func inQuotes(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""` // a text always encodes
	}
	// What breaks lines in YAML is escaped.
	return strings.NewReplacer("\u0085", `\u0085`, "\ufeff", `\ufeff`, "\u007f", `\u007f`).Replace(strings.TrimSuffix(b.String(), "\n"))
}

func (e *editor) key(s string) string { return e.word(s) + ": " }

// pattern writes a pattern in the quotes that the file uses.
func (e *editor) pattern(s string) string {
	if e.json {
		return inQuotes(s)
	}
	return e.quote + s + e.quote
}

func (e *editor) quoted(list []string) []string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = e.pattern(s)
	}
	return texts
}

// flow writes a value on one line.
func (e *editor) flow(v out) string {
	switch {
	case v.isMap || len(v.pairs) > 0:
		parts := make([]string, len(v.pairs))
		for i, p := range v.pairs {
			parts[i] = e.flowPair(p)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case v.list != nil:
		return "[" + strings.Join(e.quoted(v.list), ", ") + "]"
	case v.null:
		return "null"
	case v.raw:
		return v.text
	case v.quoted:
		return inQuotes(v.text)
	}
	return e.word(v.text)
}

func (e *editor) flowPair(p pair) string {
	if strings.Contains(p.key, "->") {
		return inQuotes(p.key) + ": " + e.flow(p.value)
	}
	return e.key(p.key) + e.flow(p.value)
}

// blockPair writes a key and its value as lines; maps take lines of their own.
func (e *editor) blockPair(p pair, col int) []string {
	margin := strings.Repeat(" ", col)
	if len(p.value.pairs) == 0 || p.value.flat {
		if p.value.null {
			return []string{margin + e.pattern(p.key) + ":"}
		}
		return []string{margin + e.flowPair(p)}
	}
	lines := []string{margin + e.word(p.key) + ":"}
	for _, x := range p.value.pairs {
		lines = append(lines, e.blockPair(x, col+e.unit)...)
	}
	return lines
}

// snippet is what a person has to add where no edit is possible.
func (t *todo) snippet() string {
	e := &editor{file: &file{}, unit: 2, quote: `"`}
	var types []pair
	for _, x := range t.entities {
		types = append(types, pair{x.Label, out{isMap: true, pairs: describe(nil, x.Description)}})
	}
	for _, label := range slices.Sorted(maps.Keys(t.properties)) {
		props := pair{"properties", out{pairs: e.specs(t.properties[label], nil), isMap: true}}
		if i := slices.IndexFunc(types, func(p pair) bool { return p.key == label }); i >= 0 {
			types[i].value.pairs = append(types[i].value.pairs, props)
		} else {
			types = append(types, pair{label, out{isMap: true, pairs: []pair{props}}})
		}
	}
	var lines []string
	if len(types) > 0 {
		lines = e.blockPair(pair{"entities", out{pairs: types}}, 0)
	}
	types = nil
	for _, x := range t.relations {
		types = append(types, pair{x.Label, out{isMap: true, pairs: describe([]pair{{"patterns", out{list: x.Patterns}}}, x.Description)}})
	}
	for _, label := range slices.Sorted(maps.Keys(t.patterns)) {
		types = append(types, pair{label, out{isMap: true, pairs: []pair{{"add_patterns", out{list: t.patterns[label]}}}}})
	}
	if len(types) > 0 {
		lines = append(lines, e.blockPair(pair{"relations", out{pairs: types}}, 0)...)
	}
	return strings.Join(lines, "\n") + "\n"
}
