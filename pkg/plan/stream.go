package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Stream is the fingerprint of a plan that is too large to be held whole: it is given the parts in canonical order, base documents first.
type Stream struct {
	f              framer
	bases, changes int // that are still to come
	begun          bool
}

// NewStream begins the fingerprint of a plan with so many base documents and changes; of head only graph, item, decision and fingerprints count.
func NewStream(head Plan, bases, changes int) *Stream {
	s := &Stream{f: framer{sha256.New()}, bases: bases, changes: changes}
	s.f.text("factmill plan 1", head.Graph, head.Item, head.Decision, head.Schema, head.Extraction)
	s.f.number(bases)
	return s
}

// Base takes the next base document.
func (s *Stream) Base(b Base) {
	s.bases--
	s.f.text(b.Document)
	s.f.number(int(b.Revision))
}

// Change takes the next change; its quotes must be in order.
func (s *Stream) Change(x Change) {
	s.begin()
	s.changes--
	s.f.change(x)
}

// begin frames the number of changes, which stands behind the base documents.
func (s *Stream) begin() {
	if !s.begun {
		s.begun = true
		s.f.number(s.changes)
	}
}

// Rest takes what is counted and not listed, behind all changes.
func (s *Stream) Rest(r Rest) {
	s.begin()
	s.f.text("rest", r.Digest)
	s.f.number(r.Changes)
}

// Sum is the fingerprint, in hex. Another number of parts than was announced is an error.
func (s *Stream) Sum() (string, error) {
	if s.bases != 0 || s.changes != 0 {
		return "", fmt.Errorf("plan: %d base documents and %d changes are missing of what was announced", s.bases, s.changes)
	}
	s.begin()
	return hex.EncodeToString(s.f.h.Sum(nil)), nil
}
