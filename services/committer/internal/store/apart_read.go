package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// told is apartBy at the snapshot's sequence.
func (sn *Snapshot) told(entity id) (*Ruling, error) {
	property := ""
	ok, err := sn.get(apartKey(sn.g.id, entity), func(b []byte) error {
		r := reader{b: b}
		property = r.str()
		return r.err("apart")
	})
	if err != nil || !ok {
		return nil, err
	}
	r, ok, err := sn.Ruling(entity.String(), property)
	if err == nil && !ok {
		err = fmt.Errorf("%w: things named as %s are told apart by no ruling", ErrCorrupt, entity)
	}
	return &r, err
}

// anyApart says whether people told anything apart.
func (sn *Snapshot) anyApart() (bool, error) {
	sn.apartOnce.Do(func() {
		c, err := sn.Counts()
		sn.apart, sn.apartErr = c.Apart > 0, err
	})
	return sn.apart, sn.apartErr
}

// ToldApart is the ruling by which things of an entity's name are told apart; ok is false when nobody did. The entity is the undecided one,
// of the id that label and key give.
func (sn *Snapshot) ToldApart(entity string) (r Ruling, ok bool, err error) {
	some, err := sn.anyApart()
	v, valid := parseID(entity)
	if err != nil || !some || !valid {
		return r, false, err
	}
	p, err := sn.told(v)
	if err != nil || p == nil {
		return r, false, err
	}
	return *p, true, nil
}

// Homonyms are the entities that were told apart from one of their label and key, in the order of ids.
func (sn *Snapshot) Homonyms(ref graph.EntityRef) (out []EntityFold, err error) {
	hits, err := sn.EntitiesNamed(ref.Key)
	if err != nil {
		return nil, err
	}
	for _, h := range hits {
		if !h.Full || h.Label != ref.Label || h.ID == ref.ID {
			continue
		}
		e, ok, err := sn.Entity(h.ID)
		if err != nil {
			return nil, err
		}
		if ok && e.Key == ref.Key {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b EntityFold) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// RulingByID is the ruling about the property of a conflict's id; ok is false when there is none.
func (sn *Snapshot) RulingByID(conflictID string) (r Ruling, ok bool, err error) {
	v, valid := parseID(conflictID)
	if !valid {
		return r, false, nil
	}
	owner, property := "", ""
	ok, err = sn.get(sn.key(spaceRulingID).id(v), func(b []byte) error {
		rd := reader{b: b}
		owner, property = rd.id().String(), rd.str()
		return rd.err("ruling id")
	})
	if err != nil || !ok {
		return r, false, err
	}
	return sn.Ruling(owner, property)
}

// Counted is what a document kept as it counts, with the entities that its names stand for.
func (sn *Snapshot) Counted(docID string, k Kept) (Kept, error) {
	some, err := sn.anyApart()
	if err != nil || !some {
		return k, err
	}
	d, ok, err := sn.Doc(docID)
	if err != nil || !ok || !d.Open {
		return k, err
	}
	st, _, err := sn.stated(docID, d.Version)
	if err != nil {
		return k, err
	}
	fact, err := k.FactID()
	if err != nil {
		return k, err
	}
	at := slices.IndexFunc(st.Kept, func(x Kept) bool { f, err := x.FactID(); return err == nil && f == fact })
	if at < 0 {
		return k, nil
	}
	st, _, err = st.apart(sn.told)
	if err != nil {
		return k, err
	}
	return st.Kept[at], nil
}

// apart checks that things are told apart by the rulings that say so, and by no others.
func (v *verifier) apart() error {
	return v.each(v.sn.key(spaceApart), func(k key, kr *keyReader, val []byte) error {
		entity := kr.id()
		rd := reader{b: val}
		property := rd.str()
		if err := rd.err("apart"); err != nil {
			return err
		}
		v.found.Apart++
		var r Ruling
		ok, err := v.get(rulingKey(v.sn.g.id, entity, property), func(b []byte) error { return decodeJSON(b, &r) })
		if err == nil && (!ok || !r.Apart) {
			v.problem(k, "no ruling about %s tells them apart", property)
		}
		return err
	})
}

// isApart checks that a ruling which tells things apart is found by their name.
func (v *verifier) isApart(r *Ruling, owner id) error {
	if !r.Apart {
		return nil
	}
	k := apartKey(v.sn.g.id, owner)
	if fingerprint.EntityID(r.Label, r.Key) != owner.String() {
		v.problem(rulingKey(v.sn.g.id, owner, r.Property), "it tells apart %s %q, which is another entity", r.Label, r.Key)
	}
	ok, err := v.get(k, func(b []byte) error {
		if !bytes.Equal(b, make(writer, 0, 32).str(r.Property)) {
			v.problem(k, "it does not lead to the ruling about %s", r.Property)
		}
		return nil
	})
	if err == nil && !ok {
		v.problem(k, "missing: a ruling tells apart by %s", r.Property)
	}
	return err
}

// counted are the facts of an open version as they count. Where things are told apart by rows that are damaged, which other passes say, it
// is what is stated.
func (v *verifier) counted(s side) (*docFacts, error) {
	f, err := foldBy(s, v.sn.told)
	if errors.Is(err, ErrCorrupt) {
		return s.facts, nil
	}
	return f, err
}
