package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
)

// Result is a schema file with a patch applied.
type Result struct {
	Data    []byte // the whole file; the given one where nothing changed
	Changed bool
	Version string // of the schema after it
	// Before and After are the effective schemas.
	Before, After *schema.Schema
	Warnings      []string
	Diff          string // unified, empty where nothing changed
}

// Refused is why a patch does not fit a schema file: every problem at once.
type Refused struct {
	Name     string
	Problems []schema.Problem
}

// Error returns one line a problem, after a line that counts them.
func (e *Refused) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the patch does not fit %s: %d problem(s); review patch makes one on the active schema", e.Name, len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// ByHand is a file that has what is to be changed in a form that is not edited, such as one that an anchor shares. Snippet is what
// to add.
type ByHand struct {
	Name    string
	Why     error
	Snippet string
}

// Error says why, and what to add.
func (e *ByHand) Error() string {
	return fmt.Sprintf("%s: %v; nothing was written. Add this by hand:\n%s", e.Name, e.Why, strings.TrimRight(e.Snippet, "\n"))
}

// Unwrap returns why.
func (e *ByHand) Unwrap() error { return e.Why }

// Apply writes the additions of a patch that a schema file does not hold yet into it, in the file's own style, and raises its
// version; every other byte stays. What comes out is read again: it says what the file said and the additions, nothing else.
// name and resolve are as for schema.Parse; what a file extends is not changed. The error is a *schema.Error of the file as it is, a *Refused, or a *ByHand.
func Apply(data []byte, name string, resolve schema.Resolver, p *Patch) (*Result, error) {
	before, err := schema.Parse(data, name, resolve)
	if err != nil {
		return nil, err
	}
	if problems := p.Check(before); len(problems) > 0 {
		return nil, &Refused{name, problems}
	}
	t := plan(p, before)
	r := &Result{Data: data, Version: before.Version(), Before: before, After: before, Warnings: t.warnings}
	if t.empty() {
		return r, nil
	}
	version := raised(before.Version())
	if over := t.problems(); len(over) > 0 {
		return nil, &Refused{name, over}
	}
	want, err := t.onto(before, version)
	var bad *schema.Error
	if errors.As(err, &bad) {
		return nil, &Refused{name, bad.Problems}
	}
	if err != nil {
		return nil, err
	}
	byHand := func(why error) error { return &ByHand{name, why, t.snippet()} }
	edits, err := t.edits(data, name, before)
	if err != nil {
		return nil, byHand(err)
	}
	r.Data = edited(data, edits)
	r.After, err = schema.Parse(r.Data, name, resolve)
	if err != nil {
		return nil, byHand(handf("the file as it would be is no schema: %v", err))
	}
	if !r.After.Equal(want) {
		return nil, byHand(handf("an edit would change more than the patch says"))
	}
	r.Changed, r.Version = true, version
	r.Diff = diff(data, edits, name)
	for _, w := range r.After.Warnings() {
		if strings.HasSuffix(w.Message, "has no description") && t.adds(w) {
			r.Warnings = append(r.Warnings, w.String()+": extraction reads descriptions, say what it is")
		}
	}
	return r, nil
}

// raised is the next version: a number goes up, of 2.10 the last part; anything else gets ".1".
func raised(version string) string {
	i := strings.LastIndexByte(version, '.') + 1
	last := version[i:]
	if last == "" || strings.Trim(last, "0123456789") != "" {
		return version + ".1"
	}
	digits := []byte(last)
	for k := len(digits) - 1; k >= 0; k-- {
		if digits[k] != '9' {
			digits[k]++
			return version[:i] + string(digits)
		}
		digits[k] = '0'
	}
	return version[:i] + "1" + string(digits)
}

// todo is what of a patch a schema does not hold, in the schema's own spelling.
type todo struct {
	entities   []Entity
	relations  []Relation          // new ones
	patterns   map[string][]string // of declared relations
	properties map[string][]AddProperty
	warnings   []string
	labels     map[string]bool // of new types
}

func (t *todo) empty() bool {
	return len(t.entities)+len(t.relations)+len(t.patterns)+len(t.properties) == 0
}

// adds says whether a warning is about a new type.
func (t *todo) adds(w schema.Problem) bool {
	label, _, _ := strings.Cut(w.Message, " ")
	return t.labels[label]
}

func plan(p *Patch, s *schema.Schema) *todo {
	t := &todo{patterns: map[string][]string{}, properties: map[string][]AddProperty{}, labels: map[string]bool{}}
	if p.BaseSchema.Fingerprint != s.Fingerprint() {
		t.warnings = append(t.warnings, fmt.Sprintf("the patch was made on schema %s %s, fingerprint %s; the file is %s %s, fingerprint %s",
			p.BaseSchema.Name, p.BaseSchema.Version, p.BaseSchema.Fingerprint, s.Name(), s.Version(), s.Fingerprint()))
	}
	for _, e := range p.Additions.Entities {
		if _, ok := s.Canon(schema.KindEntity, e.Label); !ok && !t.labels[e.Label] {
			t.entities = append(t.entities, e)
			t.labels[e.Label] = true
		}
	}
	typed := func(label string) string {
		if canon, ok := s.Canon(schema.KindEntity, label); ok {
			return canon
		}
		return label
	}
	for _, r := range p.Additions.Relations {
		label, swapped, declared := s.CanonRelation(r.Label)
		var pairs []string
		for _, x := range slices.Concat(r.Patterns, r.AddPatterns) {
			a, b, _ := ends(x) // Check has seen it
			if a, b = typed(a), typed(b); swapped {
				a, b = b, a
			}
			if !declared || !s.Allows(label, a, b) {
				pairs = append(pairs, a+"->"+b)
			}
		}
		slices.Sort(pairs)
		pairs = slices.Compact(pairs)
		switch {
		case !declared:
			t.relations = append(t.relations, Relation{Label: r.Label, Patterns: pairs, Description: r.Description})
			t.labels[r.Label] = true
		case len(pairs) > 0:
			t.patterns[label] = slices.Compact(slices.Sorted(slices.Values(append(t.patterns[label], pairs...))))
		}
	}
	for _, a := range p.AddProperties {
		entity := typed(a.Entity)
		was, ok := s.Property(entity, a.Name)
		if ok && string(was.Type) != a.Spec.Type {
			t.warnings = append(t.warnings, fmt.Sprintf("property %s.%s is %s in the file, which stays; the patch guessed %s", entity, was.Name, was.Type, a.Spec.Type))
		}
		if !ok {
			t.properties[entity] = append(t.properties[entity], a)
		}
	}
	return t
}

// problems are what only the patch as a whole shows.
func (t *todo) problems() (out []schema.Problem) {
	seen := map[string]string{}
	note := func(section, label string) {
		f := section + ":" + schema.FoldLabel(label)
		if first, ok := seen[f]; ok {
			out = append(out, schema.Problem{Path: section, Message: fmt.Sprintf("%q cannot be told from %q: case, spaces, _ and - do not count", label, first)})
		}
		seen[f] = label
	}
	for _, e := range t.entities {
		note("additions.entities", e.Label)
	}
	for _, r := range t.relations {
		note("additions.relations", r.Label)
	}
	for _, entity := range slices.Sorted(maps.Keys(t.properties)) {
		for _, a := range t.properties[entity] {
			note("add_properties."+entity, a.Name)
		}
	}
	return out
}

// onto is the schema that the file has to say afterwards, made without the file.
func (t *todo) onto(s *schema.Schema, version string) (*schema.Schema, error) {
	whole := map[string]json.RawMessage{}
	types := map[string]map[string]map[string]any{"entities": {}, "relations": {}}
	err := json.Unmarshal(s.Marshal(), &whole)
	for section, in := range types {
		if raw, ok := whole[section]; ok && err == nil {
			err = json.Unmarshal(raw, &in)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", s.Name(), err)
	}
	for _, e := range t.entities {
		types["entities"][e.Label] = map[string]any{"description": e.Description}
	}
	for _, r := range t.relations {
		types["relations"][r.Label] = map[string]any{"patterns": r.Patterns, "description": r.Description}
	}
	for label, pairs := range t.patterns {
		types["relations"][label]["add_patterns"] = pairs
	}
	for label, list := range t.properties {
		props, ok := types["entities"][label]["properties"].(map[string]any)
		if !ok {
			props = map[string]any{}
		}
		for _, a := range list {
			props[a.Name] = map[string]any{"type": a.Spec.Type, "description": a.Spec.Description}
		}
		types["entities"][label]["properties"] = props
	}
	out := map[string]any{}
	for k, v := range whole {
		out[k] = v
	}
	out["version"], out["entities"], out["relations"] = version, types["entities"], types["relations"]
	b, err := fingerprint.Canonical(out)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", s.Name(), err)
	}
	return schema.Parse(b, "patched.json", nil)
}

// edit replaces cut bytes at a place.
type edit struct {
	at, cut int
	text    string
}

func edited(data []byte, edits []edit) []byte {
	var out []byte
	from := 0
	for _, e := range edits {
		out = append(append(out, data[from:e.at]...), e.text...)
		from = e.at + e.cut
	}
	return append(out, data[from:]...)
}
