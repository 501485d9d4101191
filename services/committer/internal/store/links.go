package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
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
	// CapLeft is how many names behind a blocking key's bound were not compared.
	CapLeft int
}

const (
	blockLen = 8
	// partIDs is how many entities one row of a block lists.
	partIDs = 128
	// defaultMaxBlock is how many names of one blocking key are compared with a new one.
	defaultMaxBlock = 5000
)

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

// block is a blocking key of one label.
type block [blockLen]byte

func blocksOf(label string, keys []string) []block {
	out := make([]block, 0, len(keys))
	for _, k := range keys {
		h := fnv.New64a()
		_, _ = h.Write([]byte(label))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(k))
		out = append(out, block(binary.BigEndian.AppendUint64(nil, h.Sum64())))
	}
	return out
}

func blockKey(g uint32, b block, part uint32) key { return newKey(g, spaceBlock).raw(b[:]).u32(part) }

// A row of a block: whether another part follows, then the ids.
type blockRow struct {
	more bool
	ids  []id
}

func (r blockRow) encode() []byte {
	w := make(writer, 0, 1+len(r.ids)*idLen).bool(r.more)
	for _, v := range r.ids {
		w = w.id(v)
	}
	return w
}

func decodeBlock(b []byte) (r blockRow, err error) {
	if len(b)%idLen != 1 {
		return r, fmt.Errorf("%w: block", ErrCorrupt)
	}
	rd := reader{b: b}
	r.more = rd.bool()
	r.ids = make([]id, 0, len(b)/idLen)
	for len(rd.b) > 0 {
		r.ids = append(r.ids, rd.id())
	}
	return r, rd.err("block")
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

// refile files entities under their blocking keys, and no longer under those of the names they had.
func (t *Txn) refile(list []renamed) error {
	type change struct {
		block block
		id    id
		add   bool
	}
	var all []change
	for _, r := range list {
		var was, is []block
		if r.before != (shown{}) {
			n := r.before.prepare()
			was = blocksOf(r.before.label, linkage.Blocks(&n))
		}
		if r.now != (shown{}) {
			n := r.now.prepare()
			is = blocksOf(r.now.label, linkage.Blocks(&n))
		}
		for _, b := range was {
			if !slices.Contains(is, b) {
				all = append(all, change{b, r.id, false})
			}
		}
		for _, b := range is {
			if !slices.Contains(was, b) {
				all = append(all, change{b, r.id, true})
			}
		}
	}
	// In the order of the rows, so that each look-up goes on where the last one ended.
	slices.SortFunc(all, func(a, b change) int {
		if c := bytes.Compare(a.block[:], b.block[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	for _, c := range all {
		var err error
		if c.add {
			err = t.file(c.block, c.id)
		} else {
			err = t.unfile(c.block, c.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Txn) blockPart(b block, part uint32) (blockRow, bool, error) {
	v, ok, err := t.load(blockKey(t.g.id, b, part))
	if err != nil || !ok {
		return blockRow{}, false, err
	}
	r, err := decodeBlock(v)
	return r, true, err
}

// file adds an entity to a block: to the first part that has room.
func (t *Txn) file(b block, v id) error {
	for part := uint32(0); ; part++ {
		r, there, err := t.blockPart(b, part)
		if err != nil {
			return err
		}
		if slices.Contains(r.ids, v) {
			return nil
		}
		if there && len(r.ids) >= partIDs {
			if !r.more {
				r.more = true
				t.put(blockKey(t.g.id, b, part), r.encode())
			}
			continue
		}
		r.ids = append(r.ids, v)
		t.put(blockKey(t.g.id, b, part), r.encode())
		return nil
	}
}

// unfile takes an entity out of a block. A part that others follow stays, though it be empty.
func (t *Txn) unfile(b block, v id) error {
	for part := uint32(0); ; part++ {
		r, there, err := t.blockPart(b, part)
		if err != nil || !there {
			return err
		}
		if i := slices.Index(r.ids, v); i >= 0 {
			r.ids = slices.Delete(r.ids, i, i+1)
			var row []byte
			if len(r.ids) > 0 || r.more {
				row = r.encode()
			}
			t.put(blockKey(t.g.id, b, part), row)
			return nil
		}
		if !r.more {
			return nil
		}
	}
}

// find compares an entity with all that share a blocking key with it.
func (f *finder) find(r renamed) error {
	name := r.now.prepare()
	compared := map[id]bool{}
	for _, b := range blocksOf(r.now.label, linkage.Probes(&name)) {
		seen := 0
		for part := uint32(0); ; part++ {
			row, _, err := f.t.blockPart(b, part)
			if err != nil {
				return err
			}
			for _, o := range row.ids {
				if o == r.id {
					continue
				}
				if seen++; seen > f.t.s.opt.maxBlock {
					f.t.links.CapLeft++
					continue
				}
				if f.met[o] || compared[o] {
					continue
				}
				compared[o] = true
				if err := f.compare(r, &name, o); err != nil {
					return err
				}
			}
			if !row.more {
				break
			}
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
