package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// MaxApart is how many documents may mention a name of which several things are told apart: they are folded anew in one commit.
const MaxApart = 20_000

// ErrTooMany says that more documents would be folded anew than one commit does.
var ErrTooMany = errors.New("too many documents")

// apartBy is the ruling by which things of one name are told apart; nil: nobody told them apart.
type apartBy func(entity id) (*Ruling, error)

func apartKey(g uint32, entity id) key { return newKey(g, spaceApart).id(entity) }

// told is apartBy as this commit sees it.
func (t *Txn) told(entity id) (*Ruling, error) {
	row, ok, err := t.load(apartKey(t.g.id, entity))
	if err != nil || !ok {
		return nil, err
	}
	rd := reader{b: row}
	property := rd.str()
	if err := rd.err("apart"); err != nil {
		return nil, err
	}
	row, ok, err = t.load(rulingKey(t.g.id, entity, property))
	if err == nil && !ok {
		err = fmt.Errorf("%w: things named as %s are told apart by no ruling", ErrCorrupt, entity)
	}
	if err != nil {
		return nil, err
	}
	var r Ruling
	return &r, decodeJSON(row, &r)
}

// fold are the facts that a side supports: what it states, with what people told apart.
func (t *Txn) fold(s side) (*docFacts, error) {
	if t.counts.Apart == 0 {
		return s.facts, nil
	}
	return foldBy(s, t.told)
}

func foldBy(s side, by apartBy) (*docFacts, error) {
	st, changed, err := s.stated.apart(by)
	if err != nil || !changed {
		return s.facts, err
	}
	return factsOfStated(st)
}

// apart are the statements of a document as they count: an entity of a name that people told apart becomes the one of the value that the
// document gives. Of several values, each chunk that gives one of them speaks of that one. Mentions without a value, and values that were
// rejected, stay with the one that is undecided. It changes nothing of s, whose statements name things as the document does.
func (s *Stated) apart(by apartBy) (out Stated, changed bool, err error) {
	told := map[string]*apartName{}
	look := func(ref graph.EntityRef) error {
		if _, ok := told[ref.ID]; ok {
			return nil
		}
		v, err := mustID(ref.ID)
		if err != nil {
			return err
		}
		r, err := by(v)
		if err == nil && r != nil {
			changed = true
			told[ref.ID] = &apartName{ref: ref, ruling: r, values: map[string]bool{}, chunks: map[int]map[string]bool{}}
		} else {
			told[ref.ID] = nil
		}
		return err
	}
	for _, e := range s.Entities {
		if err := look(e); err != nil {
			return out, false, err
		}
	}
	for i := range s.Kept {
		for _, e := range s.Kept[i].Ends {
			if err := look(e.EntityRef); err != nil {
				return out, false, err
			}
		}
	}
	if !changed {
		return *s, false, nil
	}
	if err := s.eachValue(told); err != nil {
		return out, false, err
	}
	return s.renamed(told), true, nil
}

// apartName is a name that people told apart, as one document speaks of it.
type apartName struct {
	ref    graph.EntityRef
	ruling *Ruling
	values map[string]bool         // ids of the things whose values the document gives
	chunks map[int]map[string]bool // the same by chunk
}

func (a *apartName) give(name string, value any, chunk int) error {
	if a == nil || name != a.ruling.Property {
		return nil
	}
	k, err := valueKey(value)
	if err != nil || a.ruling.Rejects(k) {
		return err
	}
	v := HomonymOf(a.ref, value)
	a.values[v] = true
	if chunk >= 0 {
		if a.chunks[chunk] == nil {
			a.chunks[chunk] = map[string]bool{}
		}
		a.chunks[chunk][v] = true
	}
	return nil
}

// HomonymOf is the id of the entity that a name with a value stands for, told apart from others of the name.
func HomonymOf(ref graph.EntityRef, value any) string {
	return fingerprint.HomonymID(ref.Label, ref.Key, schema.ValueText(canonicalValue(value)))
}

// in is the entity that the name stands for in a chunk; -1 is the document as a whole.
func (a *apartName) in(chunk int) graph.EntityRef {
	ref, of := a.ref, a.values
	if len(of) > 1 {
		of = a.chunks[chunk]
	}
	if len(of) == 1 {
		for ref.ID = range of {
		}
	}
	return ref
}

func (s *Stated) eachValue(told map[string]*apartName) error {
	for _, c := range s.Chunks {
		for _, p := range c.Properties {
			if p.Entity < 0 || p.Entity >= len(s.Entities) {
				return ErrCorrupt
			}
			if err := told[s.Entities[p.Entity].ID].give(p.Name, p.Value, c.Index); err != nil {
				return err
			}
		}
	}
	for _, k := range s.Kept {
		if k.Type == "" && len(k.Ends) == 1 {
			if err := told[k.Ends[0].ID].give(k.Name, k.Value, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// renamed writes the statements anew with the entities that the names stand for.
func (s *Stated) renamed(told map[string]*apartName) Stated {
	out := *s
	out.Entities, out.Chunks, out.Kept = nil, make([]graph.ChunkAssertions, len(s.Chunks)), slices.Clone(s.Kept)
	place := map[string]int{}
	in := func(n, chunk int) int {
		if n < 0 || n >= len(s.Entities) {
			return n
		}
		ref := s.Entities[n]
		if a := told[ref.ID]; a != nil {
			ref = a.in(chunk)
		}
		i, ok := place[ref.ID]
		if !ok {
			i = len(out.Entities)
			place[ref.ID] = i
			out.Entities = append(out.Entities, ref)
		}
		return i
	}
	for i, c := range s.Chunks {
		c.Mentions, c.Properties, c.Relations = slices.Clone(c.Mentions), slices.Clone(c.Properties), slices.Clone(c.Relations)
		for j := range c.Mentions {
			c.Mentions[j].Entity = in(c.Mentions[j].Entity, c.Index)
		}
		for j := range c.Properties {
			c.Properties[j].Entity = in(c.Properties[j].Entity, c.Index)
		}
		for j := range c.Relations {
			c.Relations[j].Source, c.Relations[j].Target = in(c.Relations[j].Source, c.Index), in(c.Relations[j].Target, c.Index)
		}
		out.Chunks[i] = c
	}
	for i := range out.Kept {
		out.Kept[i].Ends = slices.Clone(out.Kept[i].Ends)
		for j, e := range out.Kept[i].Ends {
			if a := told[e.ID]; a != nil {
				out.Kept[i].Ends[j].EntityRef = a.in(-1)
			}
		}
	}
	return out
}

// TellApart replaces the ruling about a property, before or after which things of one name are told apart by it (now nil: there is no
// ruling any more): the documents that mention the name are folded anew. It returns how many. ErrTooMany says that there are more than
// MaxApart, ErrBadChange that the entity is told apart by another property, or is itself one of several of a name.
func (t *Txn) TellApart(ctx context.Context, owner, property string, now *Ruling) (folded int, err error) {
	if err := t.lock(); err != nil {
		return 0, err
	}
	defer t.unlock()
	if folded, err = t.tellApart(ctx, owner, property, now); err != nil {
		return 0, fmt.Errorf("tell apart by %s: %w", property, err)
	}
	return folded, t.flushIfFull(ctx)
}

func (t *Txn) tellApart(ctx context.Context, owner, property string, now *Ruling) (int, error) {
	plain, err := mustID(owner)
	if err != nil {
		return 0, err
	}
	was, err := t.told(plain)
	if err != nil {
		return 0, err
	}
	if was != nil && was.Property != property {
		return 0, fmt.Errorf("%w: they are told apart by %s", ErrBadChange, was.Property)
	}
	var then *Ruling
	if now != nil && now.Apart {
		then = now
	}
	docs, err := t.ofName(plain, was, then != nil)
	if err != nil {
		return 0, err
	}
	by := func(r *Ruling) apartBy {
		return func(e id) (*Ruling, error) {
			if e == plain {
				return r, nil
			}
			return t.told(e)
		}
	}
	for _, doc := range docs {
		if err := errorsJoin(ctx.Err(), t.refold(doc, by(was), by(then))); err != nil {
			return 0, err
		}
		if err := t.flushIfFull(ctx); err != nil {
			return 0, err
		}
	}
	return len(docs), t.rule(plain, owner, property, was, now)
}

// rule writes the ruling and what leads to it.
func (t *Txn) rule(plain id, owner, property string, was, now *Ruling) error {
	var lead, row []byte
	if now != nil {
		if what := now.check(); what != "" || now.Owner != owner || now.Property != property {
			return fmt.Errorf("%w: %s", ErrBadChange, what)
		}
		r := *now
		if r.Seq == 0 {
			r.Seq, r.At = t.seq, t.at
		}
		var err error
		if row, err = encodeJSON(r); err != nil {
			return err
		}
		if now.Apart {
			lead = make(writer, 0, 32).str(property)
			t.counts.Apart++
		}
	}
	if was != nil {
		t.counts.Apart--
	}
	t.put(apartKey(t.g.id, plain), lead)
	return t.putRuling(owner, property, row)
}

// refold moves the facts of an open document from one way of telling names apart to another.
func (t *Txn) refold(doc id, was, now apartBy) error {
	d, ok, err := t.loadDoc(doc)
	if err != nil || !ok {
		return err
	}
	var st Stated
	s := side{}
	if d.Open {
		s.version, s.date = d.Version, d.Date()
		st, err = t.stated(doc, d.Version)
	} else {
		st, err = t.left(doc)
	}
	if err != nil {
		return err
	}
	facts, err := factsOfStated(st)
	if err != nil {
		return fmt.Errorf("assertions of version %d: %w", d.Version, err)
	}
	s.facts, s.stated = facts, st
	before, err := foldBy(s, was)
	if err != nil {
		return err
	}
	after, err := foldBy(s, now)
	if err != nil {
		return err
	}
	var res DocResult
	return t.diffFolded(doc, side{s.version, s.date, before, st}, side{s.version, s.date, after, st}, &res)
}

// ofName are the documents that mention an entity, or one that was told apart from it, by id.
func (t *Txn) ofName(plain id, was *Ruling, divide bool) ([]id, error) {
	all := map[id]bool{plain: true}
	ref, err := t.nameOf(plain, was)
	if err != nil {
		return nil, err
	}
	if divide && fingerprint.EntityID(ref.Label, ref.Key) != plain.String() {
		return nil, fmt.Errorf("%w: it was told apart from others of its name before", ErrBadChange)
	}
	others, err := t.homonyms(ref)
	if err != nil {
		return nil, err
	}
	for _, v := range others {
		all[v] = true
	}
	docs := map[id]bool{}
	for _, v := range inOrder(all) {
		it, err := t.iter(false)
		if err != nil {
			return nil, err
		}
		prefix := newKey(t.g.id, spaceMention).id(v)
		err = scanRows(it, prefix, nil, t.seq, false, func(k key, _ []byte) error {
			r := keyReader{b: k[len(prefix):]}
			if docs[r.id()] = true; len(docs) > MaxApart {
				return fmt.Errorf("%w: more than %d mention the name", ErrTooMany, MaxApart)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return inOrder(docs), nil
}

// nameOf is label and key of an entity that may be gone since it was told apart.
func (t *Txn) nameOf(plain id, was *Ruling) (ref graph.EntityRef, err error) {
	a, err := t.entity(plain)
	if err != nil {
		return ref, err
	}
	if a.fold.Documents > 0 {
		return graph.EntityRef{ID: plain.String(), Label: a.fold.Label, Key: a.fold.Key}, nil
	}
	if was == nil || was.Label == "" {
		return ref, fmt.Errorf("%w: there is no entity %s", ErrBadChange, plain)
	}
	return graph.EntityRef{ID: plain.String(), Label: was.Label, Key: was.Key}, nil
}

// homonyms are the other entities of a label and key, by id.
func (t *Txn) homonyms(ref graph.EntityRef) (out []id, err error) {
	it, err := t.iter(false)
	if err != nil {
		return nil, err
	}
	prefix := newKey(t.g.id, spaceName).str(ref.Key)
	var ids []id
	err = scanRows(it, prefix, nil, t.seq, false, func(k key, _ []byte) error {
		r := keyReader{b: k[len(prefix):]}
		ids = append(ids, r.id())
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, v := range ids {
		a, err := t.entity(v)
		if err != nil {
			return nil, err
		}
		if a.fold.Label == ref.Label && a.fold.Key == ref.Key && v.String() != ref.ID {
			out = append(out, v)
		}
	}
	return out, nil
}
