package store

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/linkage"
)

// States of a match.
const (
	MatchActive    = "active"    // the comparison links
	MatchUnclear   = "unclear"   // a person decides
	MatchConfirmed = "confirmed" // decided: one thing
	MatchRejected  = "rejected"  // decided: two things
)

// Match is a pair of entities that may be one thing. A is the lesser id.
type Match struct {
	A, B   string
	Method string
	Score  float64
	State  string
}

// Linked tells whether the pair is one thing.
func (m Match) Linked() bool { return m.State == MatchActive || m.State == MatchConfirmed }

// Links counts what a commit compared.
type Links struct {
	Compared int
	Linked   int
	Unclear  int
	// CapLeft is how many blocking keys were not followed to their end.
	CapLeft int
}

// shown is how an entity is compared: by its label and its display name. The zero value is an entity that is not there.
type shown struct{ label, name string }

func shownAs(f *EntityFold) shown {
	if f.Documents == 0 {
		return shown{}
	}
	return shown{f.Label, f.Display()}
}

func (s shown) prepare() linkage.Name { return linkage.Prepare(s.label, s.name, nil) }

// renamed is an entity that came, went, or is displayed by another name.
type renamed struct {
	id          id
	before, now shown
}

// link brings the matches up to date with the names that changed since it was called last (decision 5).
func (t *Txn) link() error {
	if len(t.renamed) == 0 {
		return nil
	}
	list := lastNames(t.renamed)
	t.renamed = nil
	for _, r := range list {
		if r.before == (shown{}) {
			continue
		}
		if err := t.unlink(r.id); err != nil {
			return err
		}
	}
	if err := t.refile(list); err != nil {
		return err
	}
	f := finder{t: t, met: make(map[id]bool, len(list)), names: map[id]prepared{}}
	for _, r := range list {
		if r.now == (shown{}) {
			continue
		}
		if err := f.find(r); err != nil {
			return err
		}
		f.met[r.id] = true
	}
	return nil
}

// finder looks for the matches of entities one after the other.
type finder struct {
	t *Txn
	// met were looked for already: a pair of two new names is compared once.
	met   map[id]bool
	names map[id]prepared
}

// prepared is how an entity is compared, taken apart.
type prepared struct {
	as   shown
	name linkage.Name
}

// maxPrepared is how many names are held taken apart: that costs more than comparing them.
const maxPrepared = 1 << 14

// lastNames makes one change of the changes of each entity, in the order of ids.
func lastNames(all []renamed) []renamed {
	slices.SortStableFunc(all, func(a, b renamed) int { return bytes.Compare(a.id[:], b.id[:]) })
	out := all[:0:0]
	for _, r := range all {
		if n := len(out); n > 0 && out[n-1].id == r.id {
			out[n-1].now = r.now
			continue
		}
		out = append(out, r)
	}
	return out
}

// unlink removes the matches of an entity.
func (t *Txn) unlink(v id) error {
	var others []id
	it, err := t.iter(false)
	if err != nil {
		return err
	}
	prefix := newKey(t.g.id, spaceMatch).id(v)
	err = scanRows(it, prefix, nil, t.seq, false, func(k key, _ []byte) error {
		r := keyReader{b: k[len(prefix):]}
		others = append(others, r.id())
		return nil
	})
	if err != nil {
		return err
	}
	for o, there := range t.matched[v] {
		if there {
			others = append(others, o)
		}
	}
	for _, o := range others {
		t.putMatch(v, o, nil)
	}
	return nil
}

// putMatch writes a match under both its ends.
func (t *Txn) putMatch(a, b id, row []byte) {
	for _, p := range [2][2]id{{a, b}, {b, a}} {
		t.put(newKey(t.g.id, spaceMatch).id(p[0]).id(p[1]), row)
		if t.matched[p[0]] == nil {
			t.matched[p[0]] = map[id]bool{}
		}
		t.matched[p[0]][p[1]] = row != nil
	}
}

// find compares an entity with all that share a blocking key with it.
func (f *finder) find(r renamed) error {
	name := r.now.prepare()
	compared := map[id]bool{}
	for _, b := range blocksOf(r.now.label, linkage.Probes(&name)) {
		seen := 0
		err := f.t.members(b, func(o id) error {
			if o == r.id {
				return nil
			}
			if seen++; seen > f.t.s.opt.maxBlock {
				f.t.links.CapLeft++ // at least one is left
				return ErrStop
			}
			if f.met[o] || compared[o] {
				return nil
			}
			compared[o] = true
			return f.compare(r, &name, o)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) prepared(v id) (prepared, error) {
	if p, ok := f.names[v]; ok {
		return p, nil
	}
	a, err := f.t.entity(v)
	if err != nil {
		return prepared{}, err
	}
	p := prepared{as: shownAs(&a.fold)}
	if p.as != (shown{}) {
		p.name = p.as.prepare()
	}
	if len(f.names) >= maxPrepared {
		clear(f.names)
	}
	f.names[v] = p
	return p, nil
}

func (f *finder) compare(r renamed, name *linkage.Name, o id) error {
	t := f.t
	other, err := f.prepared(o)
	if err != nil {
		return err
	}
	if other.as.label != r.now.label {
		return nil // gone, or another label's of the same hash
	}
	t.links.Compared++
	v := linkage.Compare(name, &other.name, linkage.Options{})
	if v.Outcome != linkage.Link && v.Outcome != linkage.Unclear {
		return nil
	}
	d, _, err := t.verdict(ordered(r.id, o))
	if err != nil {
		return err
	}
	if v.Outcome == linkage.Link {
		t.links.Linked++
	} else {
		t.links.Unclear++
	}
	t.putMatch(r.id, o, matchRow(v, d.State))
	return nil
}

func (t *Txn) verdict(p [2]id) (d Verdict, ok bool, err error) {
	row, ok, err := t.load(newKey(t.g.id, spaceVerdict).id(p[0]).id(p[1]))
	if err != nil || !ok {
		return d, false, err
	}
	return d, true, decodeJSON(row, &d)
}

func ordered(a, b id) [2]id {
	if bytes.Compare(b[:], a[:]) < 0 {
		a, b = b, a
	}
	return [2]id{a, b}
}

// matchRow is the row of a comparison, with what was decided above it; nil for a pair that is none.
func matchRow(v linkage.Verdict, decided string) []byte {
	state := MatchActive
	switch v.Outcome {
	case linkage.Link:
	case linkage.Unclear:
		state = MatchUnclear
	default:
		return nil
	}
	if decided != "" {
		state = decided
	}
	return make(writer, 0, 40).str(string(v.Method)).float(v.Score).str(state)
}

func decodeMatch(b []byte, m *Match) error {
	r := reader{b: b}
	m.Method, m.Score, m.State = r.str(), r.float(), r.str()
	return r.err("match")
}

// Links are what the commit compared so far: call it behind Written.
func (t *Txn) Links() Links { return t.links }

// Verdict is what was decided about a pair of entities. It outlives both.
type Verdict struct {
	A     string `json:"a"`
	B     string `json:"b"`
	State string `json:"state"` // MatchConfirmed or MatchRejected
	Seq   uint64 `json:"seq"`
	At    string `json:"at"`
}

// DecideMatch stores what was decided about a pair; an empty state takes the decision back. A pair that does not match now can be
// decided too: should its names come to match, the decision stands.
func (t *Txn) DecideMatch(a, b, state string) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	x, err := mustID(a)
	if err != nil {
		return err
	}
	y, err := mustID(b)
	if err != nil {
		return err
	}
	if x == y {
		return fmt.Errorf("%w: an entity is no match of itself", ErrBadChange)
	}
	p := ordered(x, y)
	k := newKey(t.g.id, spaceVerdict).id(p[0]).id(p[1])
	switch state {
	case MatchConfirmed, MatchRejected:
		if err := t.putJSON(k, Verdict{A: p[0].String(), B: p[1].String(), State: state, Seq: t.seq, At: t.at}); err != nil {
			return err
		}
	case "":
		t.put(k, nil)
	default:
		return fmt.Errorf("%w: a match is decided %q", ErrBadChange, state)
	}
	return t.redecide(p, state)
}

// redecide writes the match of a pair anew, if it is one.
func (t *Txn) redecide(p [2]id, state string) error {
	var names [2]linkage.Name
	for i, v := range p {
		a, err := t.entity(v)
		if err != nil {
			return err
		}
		as := shownAs(&a.fold)
		if as == (shown{}) || i == 1 && as.label != names[0].Label() {
			return nil
		}
		names[i] = as.prepare()
	}
	row := matchRow(linkage.Compare(&names[0], &names[1], linkage.Options{}), state)
	if row == nil {
		return nil
	}
	t.putMatch(p[0], p[1], row)
	t.touch(p[0])
	t.touch(p[1])
	return nil
}
