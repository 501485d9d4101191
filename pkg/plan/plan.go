// Package plan is what a decision or a job would do: a mutation of the graph with what it goes by, in a form that a person reads and
// that has a fingerprint. What is shown is what is executed: a decision quotes the fingerprint of the plan that it saw, and whoever
// executes it makes the plan anew and compares.
package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// Plan is one mutation. The order of its lists says nothing; Canonical sorts them.
type Plan struct {
	Graph string `json:"graph"`
	// Item is the key of the review item that it is of.
	Item string `json:"item"`
	// Decision is what would be decided: withdraw, choose, accept.
	Decision string `json:"decision"`
	// Base are the documents that the plan goes by, as they are now.
	Base []Base `json:"base"`
	// Schema and Extraction are the fingerprints that the mutation was made under; empty where none matters.
	Schema     string   `json:"schema_fingerprint,omitempty"`
	Extraction string   `json:"extraction_fingerprint,omitempty"`
	Changes    []Change `json:"changes"`
	// Rest is what the plan has beyond: what is too long to be listed is counted and hashed.
	Rest *Rest `json:"rest,omitempty"`
}

// Rest stands for changes, each with its document, that are not listed. Digest is what a Digest of them gives.
type Rest struct {
	Changes int    `json:"changes"`
	Digest  string `json:"digest"`
}

// Base is a document and the revision that the plan expects it at; 0 is a document that is not there.
type Base struct {
	Document string `json:"document"`
	Revision uint64 `json:"revision"`
}

// What a change does.
const (
	Add    = "add"    // a fact, support of one, or a document comes
	Remove = "remove" // it goes
	Set    = "set"    // a state or a shown value becomes another one
	Wait   = "wait"   // it would come, but something hinders it: Was says what
)

// Change is one step of a mutation. Kind is document, entity, relation, property or state; of a job also candidate (Value is its key), stale (an
// item about a fact that the document does not state any more) and kept (such a fact, about which nobody is asked). Which of the other
// fields say something follows from it.
type Change struct {
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	Label string `json:"label,omitempty"` // type, or name of a property
	// Source is the entity, the source of a relation, or the holder of a property, by name; SourceID its id.
	Source   string `json:"source,omitempty"`
	SourceID string `json:"source_id,omitempty"`
	Target   string `json:"target,omitempty"`
	TargetID string `json:"target_id,omitempty"`
	Value    any    `json:"value,omitempty"`
	// Was is the value or state before.
	Was any `json:"was,omitempty"`
	// Document is the one whose support changes; empty: all.
	Document string  `json:"document,omitempty"`
	Quotes   []Quote `json:"quotes,omitempty"`
	// Left is how many other open documents say it; of a removal: afterwards. It is a part of what was seen.
	Left int `json:"left"`
}

// Quote is a piece of evidence: bytes Start to End of the document's text of Version.
type Quote struct {
	Version int    `json:"version"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
	Text    string `json:"text"`
}

// Canonical sorts the lists of the plan, so that equal plans are equal.
func (p *Plan) Canonical() *Plan {
	slices.SortFunc(p.Base, func(a, b Base) int {
		return cmp.Or(strings.Compare(a.Document, b.Document), cmp.Compare(a.Revision, b.Revision))
	})
	p.Base = slices.Compact(p.Base)
	for i := range p.Changes {
		slices.SortFunc(p.Changes[i].Quotes, func(a, b Quote) int {
			return cmp.Or(a.Version-b.Version, a.Start-b.Start, a.End-b.End, strings.Compare(a.Text, b.Text))
		})
	}
	slices.SortFunc(p.Changes, func(a, b Change) int { return strings.Compare(a.order(), b.order()) })
	return p
}

// order is a text by which changes sort: those of one document together, what goes before what comes.
func (c Change) order() string {
	return strings.Join([]string{c.Document, c.Kind, c.Label, c.Source, c.SourceID, c.Target, c.TargetID, text(c.Value), c.Op, text(c.Was)}, "\x00")
}

// text is a value as canonical JSON.
func text(v any) string {
	if v == nil {
		return ""
	}
	b, err := fingerprint.Canonical(v)
	if err != nil { // only what JSON holds gets here
		return fmt.Sprint(v)
	}
	return string(b)
}

// Fingerprint is the SHA-256, in hex, over the plan's content in canonical order. Every text is framed by its length and every list by its
// number of elements, so that no two plans have the same content. Times and the maker's machine are no part of it.
func (p *Plan) Fingerprint() string {
	c := *p
	c.Base, c.Changes = slices.Clone(p.Base), slices.Clone(p.Changes)
	for i := range c.Changes {
		c.Changes[i].Quotes = slices.Clone(c.Changes[i].Quotes)
	}
	c.Canonical()
	s := NewStream(c, len(c.Base), len(c.Changes))
	for _, b := range c.Base {
		s.Base(b)
	}
	for _, x := range c.Changes {
		s.Change(x)
	}
	if c.Rest != nil {
		s.Rest(*c.Rest)
	}
	sum, _ := s.Sum() // as many as were announced
	return sum
}

// Digest takes changes that are too many to be listed, in an order that the maker of the plan answers for. The zero value is ready.
type Digest struct {
	f framer
	n int
}

// Add takes a change, and the document with its revision that it goes by.
func (d *Digest) Add(c Change, b Base) {
	if d.f.h == nil {
		d.f.h = sha256.New()
	}
	d.n++
	d.f.change(c)
	d.f.text(b.Document)
	d.f.number(int(b.Revision))
}

// Rest is what was taken; nil where nothing was.
func (d *Digest) Rest() *Rest {
	if d.n == 0 {
		return nil
	}
	return &Rest{Changes: d.n, Digest: hex.EncodeToString(d.f.h.Sum(nil))}
}

type framer struct{ h hash.Hash }

func (f framer) change(x Change) {
	f.text(x.Op, x.Kind, x.Label, x.Source, x.SourceID, x.Target, x.TargetID, text(x.Value), text(x.Was), x.Document)
	f.number(x.Left)
	f.number(len(x.Quotes))
	for _, q := range x.Quotes {
		f.number(q.Version)
		f.number(q.Start)
		f.number(q.End)
		f.text(q.Text)
	}
}

func (f framer) number(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	_, _ = f.h.Write(b[:]) // a hash takes everything
}

func (f framer) text(list ...string) {
	for _, s := range list {
		f.number(len(s))
		_, _ = f.h.Write([]byte(s))
	}
}

// Lines is the plan as a diff: what goes begins with -, what comes with +, what becomes something else with ~, what something hinders with
// ?; quotes stand below.
func (p *Plan) Lines() []string {
	var out []string
	for _, c := range p.Changes {
		line := map[string]string{Add: "+ ", Remove: "- ", Set: "~ ", Wait: "? "}[c.Op] + c.what()
		if c.Document != "" {
			line += "  (" + c.Document + ")"
		}
		if c.Op == Remove && (c.Kind == "entity" || c.Kind == "relation" || c.Kind == "property") {
			line += fmt.Sprintf("  %d left", c.Left)
		}
		switch {
		case c.Op == Wait:
			line += fmt.Sprintf("  %v", c.Was)
		case c.Op == Add && c.Left > 0 && c.Kind != "document":
			line += "  " + others(c.Left)
		}
		out = append(out, line)
		for _, q := range c.Quotes {
			if q.Text == "" {
				continue
			}
			out = append(out, "    “"+q.Text+"”")
		}
	}
	if p.Rest != nil {
		out = append(out, fmt.Sprintf("+ %d more like these", p.Rest.Changes))
	}
	return out
}

// others says how many other documents state what comes.
func others(n int) string {
	if n == 1 {
		return "1 other source"
	}
	return fmt.Sprintf("%d other sources", n)
}

func (c Change) what() string {
	switch c.Kind {
	case "relation":
		s := c.Source + " " + c.Label + " " + c.Target
		switch was, is := fmt.Sprint(c.Was), fmt.Sprint(c.Value); {
		case c.Op != Set || c.Was == nil:
			return s
		case was == is:
			return s + ": stays " + is
		default:
			return s + ": " + was + " becomes " + is
		}
	case "property":
		s := c.Label + " of " + c.Source
		if c.Op == Set && c.Was != nil {
			return fmt.Sprintf("%s: %v becomes %v", s, c.Was, c.Value)
		}
		return fmt.Sprintf("%s = %v", s, c.Value)
	case "entity":
		return c.Label + " " + c.Source
	case "state":
		return fmt.Sprintf("%v becomes %v", c.Was, c.Value)
	case "candidate":
		return "candidate " + strings.TrimSpace(c.Source+" "+c.Label+" "+c.Target)
	case "stale":
		return "to decide, not stated any more: " + c.fact()
	case "kept":
		return "kept, not stated any more: " + c.fact()
	}
	return c.Kind + " " + c.Label
}

// fact is a relation, or a value of a property.
func (c Change) fact() string {
	c.Op, c.Kind = Add, "property"
	if c.Value == nil {
		c.Kind = "relation"
	}
	return c.what()
}
