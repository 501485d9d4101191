// Package patch is how a schema grows out of approved candidates: what to add (Patch), made from candidates (Build), checked
// against a schema (Missing), and written into a schema file without touching anything else in it (Apply).
package patch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
)

// Format is the patch_format that this version writes and reads.
const Format = 1

// MaxBytes of a patch file.
const MaxBytes = 8 << 20

const readme = "Approved candidates and what the schema needs to hold them. 1. factmill schema apply-patch THIS --schema FILE. " +
	"2. factmill schema put FILE. 3. factmill review convert --patch THIS. Additions may be empty: then only step 3 is needed."

// Patch is what the schema needs so that approved candidates can be converted.
type Patch struct {
	Readme  string `json:"readme"`
	Format  int    `json:"patch_format"`
	PatchID string `json:"patch_id"`
	// BaseSchema is the schema that the additions are counted from.
	BaseSchema    Base           `json:"base_schema"`
	Additions     Additions      `json:"additions"`
	AddProperties []AddProperty  `json:"add_properties"`
	Evidence      map[string]int `json:"evidence"`      // entity:L, relation:L, property:E.name → sightings
	CandidateIDs  []string       `json:"candidate_ids"` // sorted
	// Next is set in replies that do not hold all ids: the cursor of the next page. A patch file has all of them.
	Next string `json:"next,omitempty"`
}

// Base names a schema.
type Base struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Fingerprint string `json:"fingerprint"`
}

// Additions are new types in the schema's own grammar; new relations come before those that only get patterns.
type Additions struct {
	Entities  []Entity   `json:"entities"`
	Relations []Relation `json:"relations"`
}

// Entity is a new entity type. Description is for a person to fill in.
type Entity struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Relation is a new relation type (Patterns) or more pairs of a declared one (AddPatterns), each "A->B".
type Relation struct {
	Label       string   `json:"label"`
	Patterns    []string `json:"patterns,omitempty"`
	AddPatterns []string `json:"add_patterns,omitempty"`
	Description string   `json:"description,omitempty"`
}

// AddProperty is a new property of a declared or new entity type.
type AddProperty struct {
	Entity string `json:"entity"`
	Name   string `json:"name"`
	Spec   Spec   `json:"spec"`
}

// Spec is the property in the schema's own grammar.
type Spec struct {
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

// Empty says whether the patch adds nothing to the schema.
func (p *Patch) Empty() bool {
	return len(p.Additions.Entities)+len(p.Additions.Relations)+len(p.AddProperties) == 0
}

// ID returns the patch id: the first 16 hex digits of the SHA-256 of {"base": "…", "ids": ["…", …]}, the ids sorted.
func ID(base string, ids []string) string {
	ids = slices.Sorted(slices.Values(ids))
	var b strings.Builder
	b.WriteString(`{"base": ` + text(base) + `, "ids": [`)
	for i, id := range ids {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text(id))
	}
	b.WriteString("]}")
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])[:16]
}

// Intact says whether the patch has the id of its base schema and candidates. Additions may have been corrected by hand.
func (p *Patch) Intact() bool { return p.PatchID == ID(p.BaseSchema.Fingerprint, p.CandidateIDs) }

// text is s as ASCII JSON.
func text(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return `"` + s + `"`
	}
	b, err := fingerprint.Canonical(s)
	if err != nil {
		return `""` // a text always encodes
	}
	return string(b)
}

// Encode returns the patch as its file holds it: JSON, two spaces a level, a newline at the end.
func (p *Patch) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("patch %s: %w", p.PatchID, err)
	}
	return b.Bytes(), nil
}

// Parse reads a patch file. It checks the form alone; Check looks at what it names.
func Parse(data []byte) (*Patch, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the patch is larger than %d bytes", MaxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var p Patch
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("not a patch: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a patch: something follows the JSON object")
	}
	if p.Format != Format {
		return nil, fmt.Errorf("patch_format is %d: this version reads %d", p.Format, Format)
	}
	if p.Next != "" {
		return nil, errors.New("the patch is one page of a reply: ask for the others and join their candidate_ids")
	}
	return &p, nil
}

// Page returns the patch with the ids behind cursor that fit into budget bytes of JSON, and the cursor of the rest. ok is false when
// not one fits.
func (p *Patch) Page(cursor string, budget int) (page *Patch, ok bool, err error) {
	out := *p
	from, found := slices.BinarySearch(p.CandidateIDs, cursor)
	if found {
		from++
	}
	out.CandidateIDs = []string{}
	bare, err := json.Marshal(out)
	if err != nil {
		return nil, false, fmt.Errorf("patch %s: %w", p.PatchID, err)
	}
	const around = 128 // of the cursor and its field
	used := len(bare) + around
	to := from
	for to < len(p.CandidateIDs) {
		if used += len(text(p.CandidateIDs[to])) + 1; used > budget {
			break
		}
		to++
	}
	out.CandidateIDs = append(out.CandidateIDs, p.CandidateIDs[from:to]...)
	if to < len(p.CandidateIDs) {
		if to == from {
			return nil, false, nil
		}
		out.Next = p.CandidateIDs[to-1]
	}
	return &out, len(bare)+around <= budget, nil
}

// Missing names every addition that a schema does not hold: "entity type X", "relation R", "pattern R A->B", "property E.p".
func (p *Patch) Missing(s *schema.Schema) []string {
	out := []string{}
	for _, e := range p.Additions.Entities {
		if _, ok := s.Canon(schema.KindEntity, e.Label); !ok {
			out = append(out, "entity type "+e.Label)
		}
	}
	for _, r := range p.Additions.Relations {
		label, swapped, ok := s.CanonRelation(r.Label)
		if !ok {
			out = append(out, "relation "+r.Label)
			continue
		}
		for _, x := range slices.Concat(r.Patterns, r.AddPatterns) {
			a, b, err := ends(x)
			if err != nil || !allows(s, label, swapped, a, b) {
				out = append(out, "pattern "+r.Label+" "+x)
			}
		}
	}
	for _, a := range p.AddProperties {
		entity, ok := s.Canon(schema.KindEntity, a.Entity)
		if ok {
			_, ok = s.Property(entity, a.Name)
		}
		if !ok {
			out = append(out, "property "+a.Entity+"."+a.Name)
		}
	}
	return out
}

func allows(s *schema.Schema, label string, swapped bool, a, b string) bool {
	if swapped {
		a, b = b, a
	}
	from, okA := s.Canon(schema.KindEntity, a)
	to, okB := s.Canon(schema.KindEntity, b)
	return okA && okB && s.Allows(label, from, to)
}

// ends reads "A->B".
func ends(pattern string) (source, target string, err error) {
	source, target, ok := strings.Cut(pattern, "->")
	if !ok || source == "" || target == "" {
		return "", "", fmt.Errorf("%.200q is no pattern, write \"A->B\"", pattern)
	}
	return source, target, nil
}

// Check returns everything that keeps the patch from being applied to a schema, as paths in the patch and messages. Labels are
// checked as new ones are: nothing that is not a plain word reaches a file.
func (p *Patch) Check(s *schema.Schema) []schema.Problem {
	c := &checker{s: s, added: map[string]bool{}}
	var labels []string
	for _, e := range s.Entities() {
		labels = append(labels, e.Label)
	}
	for i, e := range p.Additions.Entities {
		at := fmt.Sprintf("additions.entities[%d]", i)
		if err := schema.CheckLabel(schema.KindEntity, e.Label); err != nil {
			c.add(at+".label", "%v", err)
			continue
		}
		c.added[e.Label] = true
		labels = append(labels, e.Label)
	}
	slices.Sort(labels)
	c.labels = slices.Compact(labels)
	for i, r := range p.Additions.Relations {
		c.relation(fmt.Sprintf("additions.relations[%d]", i), r)
	}
	for i, a := range p.AddProperties {
		at := fmt.Sprintf("add_properties[%d]", i)
		c.known(at+".entity", a.Entity)
		if err := schema.CheckName(a.Name); err != nil {
			c.add(at+".name", "%v", err)
		}
		if !slices.Contains(types, schema.Type(a.Spec.Type)) {
			c.add(at+".spec.type", "unknown property type %.80q (one of string, integer, float, boolean, date)", a.Spec.Type)
		}
	}
	return c.problems
}

var types = []schema.Type{schema.TypeString, schema.TypeInteger, schema.TypeFloat, schema.TypeBoolean, schema.TypeDate}

type checker struct {
	s        *schema.Schema
	added    map[string]bool
	labels   []string
	problems []schema.Problem
}

func (c *checker) add(path, format string, args ...any) {
	c.problems = append(c.problems, schema.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) known(path, label string) {
	if _, ok := c.s.Canon(schema.KindEntity, label); !ok && !c.added[label] {
		c.add(path, "unknown type %.80q%s", label, schema.Suggest(label, c.labels))
	}
}

func (c *checker) relation(at string, r Relation) {
	_, _, declared := c.s.CanonRelation(r.Label)
	if err := schema.CheckLabel(schema.KindRelation, r.Label); err != nil {
		c.add(at+".label", "%v", err)
	} else if !declared && len(r.Patterns) == 0 {
		var known []string
		for _, x := range c.s.Relations() {
			known = append(known, x.Label)
		}
		c.add(at+".label", "unknown relation %.80q%s", r.Label, schema.Suggest(r.Label, known))
	}
	for name, list := range map[string][]string{".patterns": r.Patterns, ".add_patterns": r.AddPatterns} {
		for i, x := range list {
			here := fmt.Sprintf("%s%s[%d]", at, name, i)
			a, b, err := ends(x)
			if err != nil {
				c.add(here, "%v", err)
				continue
			}
			c.known(here, a)
			if b != a {
				c.known(here, b)
			}
		}
	}
}
