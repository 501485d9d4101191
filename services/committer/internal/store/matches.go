package store

import (
	"bytes"
	"fmt"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// States of a match.
const (
	MatchActive    = "active"    // the comparison, or a model, links
	MatchUnclear   = "unclear"   // a person decides
	MatchConfirmed = "confirmed" // decided: one thing
	MatchRejected  = "rejected"  // decided by a person, or by a model: two things
)

// Match is a pair of entities that may be one thing. A is the lesser id.
type Match struct {
	A, B   string
	Method string
	Score  float64
	// Found is what the comparison or a model says; a Decided state, of a person, stands above it.
	Found   string
	Decided string
}

// State is what counts.
func (m Match) State() string {
	if m.Decided != "" {
		return m.Decided
	}
	return m.Found
}

// Linked tells whether the pair is one thing.
func (m Match) Linked() bool { return m.State() == MatchActive || m.State() == MatchConfirmed }

func (m Match) row() []byte {
	return make(writer, 0, 48).str(m.Method).float(m.Score).str(m.Found).str(m.Decided)
}

func decodeMatch(b []byte, m *Match) error {
	r := reader{b: b}
	m.Method, m.Score, m.Found, m.Decided = r.str(), r.float(), r.str(), r.str()
	return r.err("match")
}

// Verdict is what a person decided about a pair of entities. It outlives both.
type Verdict struct {
	A      string `json:"a"`
	B      string `json:"b"`
	State  string `json:"state"` // MatchConfirmed or MatchRejected
	Seq    uint64 `json:"seq"`
	At     string `json:"at"`
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Of is the key of the match that was chosen, where that decision rejected this pair.
	Of string `json:"of,omitempty"`
}

func ordered(a, b id) [2]id {
	if bytes.Compare(b[:], a[:]) < 0 {
		a, b = b, a
	}
	return [2]id{a, b}
}

func pairOf(a, b string) (p [2]id, err error) {
	x, err := mustID(a)
	if err != nil {
		return p, err
	}
	y, err := mustID(b)
	if err != nil {
		return p, err
	}
	if x == y {
		return p, fmt.Errorf("%w: an entity is no match of itself", ErrBadChange)
	}
	return ordered(x, y), nil
}

func matchKey(g uint32, a, b id) key   { return newKey(g, spaceMatch).id(a).id(b) }
func verdictKey(g uint32, p [2]id) key { return newKey(g, spaceVerdict).id(p[0]).id(p[1]) }

// matchIDKey is that of the row by which a match's id leads to its pair.
func matchIDKey(g uint32, p [2]id) (key, error) {
	v, err := mustID(fingerprint.MatchID(p[0].String(), p[1].String()))
	return newKey(g, spaceMatchID).id(v), err
}

// matchLead is the value of that row.
func matchLead(p [2]id) []byte { return make(writer, 0, 2*idLen).id(p[0]).id(p[1]) }

func (t *Txn) there(v id) (bool, error) {
	a, err := t.entity(v)
	return err == nil && a.fold.Documents > 0, err
}
func (t *Txn) verdict(p [2]id) (Verdict, error) {
	var d Verdict
	row, ok, err := t.load(verdictKey(t.g.id, p))
	if err != nil || !ok {
		return d, err
	}
	return d, decodeJSON(row, &d)
}

func (t *Txn) match(p [2]id) (m Match, ok bool, err error) {
	m = Match{A: p[0].String(), B: p[1].String()}
	row, ok, err := t.load(matchKey(t.g.id, p[0], p[1]))
	if err != nil || !ok {
		return m, false, err
	}
	return m, true, decodeMatch(row, &m)
}

// PutMatch stores what a comparison found about a pair; what a person decided about it stays. Nothing is written, and changed is false,
// when the row says so already, or one of the two is gone.
func (t *Txn) PutMatch(m Match) (changed bool, err error) {
	if err := t.lock(); err != nil {
		return false, err
	}
	defer t.unlock()
	switch m.Found {
	case MatchActive, MatchUnclear, MatchRejected:
	default:
		return false, fmt.Errorf("%w: a match is found %.40q", ErrBadChange, m.Found)
	}
	p, err := pairOf(m.A, m.B)
	if err != nil {
		return false, err
	}
	for _, v := range p {
		if ok, err := t.there(v); err != nil || !ok {
			return false, err
		}
	}
	d, err := t.verdict(p)
	if err != nil {
		return false, err
	}
	m.Decided = d.State
	return t.putMatch(p, &m)
}

// DropMatch removes a pair that matches no longer. One that is not there is no error.
func (t *Txn) DropMatch(a, b string) (changed bool, err error) {
	if err := t.lock(); err != nil {
		return false, err
	}
	defer t.unlock()
	p, err := pairOf(a, b)
	if err != nil {
		return false, err
	}
	return t.putMatch(p, nil)
}

// putMatch writes a match under both its ends, or removes it (nil), and counts it.
func (t *Txn) putMatch(p [2]id, m *Match) (changed bool, err error) {
	was, ok, err := t.match(p)
	if err != nil || !ok && m == nil {
		return false, err
	}
	var row []byte
	if m != nil {
		if row = m.row(); ok && bytes.Equal(row, was.row()) {
			return false, nil
		}
		t.count(m.State(), 1)
	}
	if ok {
		t.count(was.State(), -1)
	}
	t.put(matchKey(t.g.id, p[0], p[1]), row)
	t.put(matchKey(t.g.id, p[1], p[0]), row)
	if ok != (m != nil) {
		if err := t.putMatchID(p, m != nil); err != nil {
			return false, err
		}
	}
	if m != nil {
		for i, v := range p {
			if t.matched[v] == nil {
				t.matched[v] = map[id]bool{}
			}
			t.matched[v][p[1-i]] = true
		}
	}
	t.touch(p[0])
	t.touch(p[1])
	return true, nil
}

func (t *Txn) putMatchID(p [2]id, there bool) error {
	k, err := matchIDKey(t.g.id, p)
	if err != nil {
		return err
	}
	var row []byte
	if there {
		row = matchLead(p)
	}
	t.put(k, row)
	return nil
}

func (t *Txn) count(state string, by int) {
	if t.counts.Matches == nil {
		t.counts.Matches = map[string]int{}
	}
	addCount(t.counts.Matches, state, by)
}

// unlink removes the matches of an entity that goes.
func (t *Txn) unlink(v id) error {
	if len(t.counts.Matches) == 0 {
		return nil
	}
	others := map[id]bool{}
	it, err := t.iter(false)
	if err != nil {
		return err
	}
	prefix := newKey(t.g.id, spaceMatch).id(v)
	err = scanRows(it, prefix, nil, t.seq, false, func(k key, _ []byte) error {
		r := keyReader{b: k[len(prefix):]}
		others[r.id()] = true
		return nil
	})
	if err != nil {
		return err
	}
	for o := range t.matched[v] {
		others[o] = true
	}
	for _, o := range inOrder(others) {
		if _, err := t.putMatch(ordered(v, o), nil); err != nil {
			return err
		}
	}
	return nil
}

// DecideMatch stores what a person decided about a pair; an empty state takes the decision back. A pair that does not match now can be
// decided too: should it come to match, the decision stands. One without a sequence is of this commit, and changed is false when the pair
// was decided so already; one with a sequence is put back as it was.
func (t *Txn) DecideMatch(d Verdict) (changed bool, err error) {
	if err := t.lock(); err != nil {
		return false, err
	}
	defer t.unlock()
	p, err := pairOf(d.A, d.B)
	if err != nil {
		return false, err
	}
	was, err := t.verdict(p)
	if err != nil || was.State == d.State && d.Seq == 0 {
		return false, err
	}
	switch d.State {
	case MatchConfirmed, MatchRejected:
		d.A, d.B = p[0].String(), p[1].String()
		if d.Seq == 0 {
			d.Seq, d.At = t.seq, t.at
		}
		if err := t.putJSON(verdictKey(t.g.id, p), d); err != nil {
			return false, err
		}
	case "":
		t.put(verdictKey(t.g.id, p), nil)
	default:
		return false, fmt.Errorf("%w: a match is decided %.40q", ErrBadChange, d.State)
	}
	m, ok, err := t.match(p)
	if err != nil || !ok {
		return true, err
	}
	m.Decided = d.State
	_, err = t.putMatch(p, &m)
	return true, err
}
