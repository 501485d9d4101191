package conflicts

import (
	"errors"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// ref is the entity as documents name it.
func (x *item) ref() graph.EntityRef {
	return graph.EntityRef{ID: x.Owner, Label: x.label, Key: x.mergeKey}
}

// canBeApart says whether the item is of a name whose things can be told apart: not of one that was.
func (x *item) canBeApart() bool {
	return x.kind == store.ConflictOfEntity && fingerprint.EntityID(x.label, x.mergeKey) == x.Owner
}

// conflict is the conflict of an id, or the name that was told apart by it.
func (r *reader) conflict(id string) (c store.Conflict, ok bool, err error) {
	if c, ok, err = r.stored(id); err != nil || ok {
		return c, ok, err
	}
	if c, ok, err = r.missingByID(id); err != nil || ok {
		return c, ok, err
	}
	x, ok, err := r.sn.RulingByID(id)
	return store.Conflict{ID: id, Owner: x.Owner, Property: x.Property}, ok && x.Apart, err
}

// of is the conflict of a property; one that has values is what byID finds.
func (r *reader) of(owner, property string, byID func(string) (store.Conflict, bool, error)) (store.Conflict, bool, error) {
	if name, ok := store.ParseMissing(property); ok {
		return missingConflict(owner, name), true, nil
	}
	return byID(fingerprint.ConflictID(owner, property))
}

// stored is the conflict of an id that a row is of.
func (r *reader) stored(id string) (c store.Conflict, ok bool, err error) {
	if c, ok, err = r.sn.Conflict(id); err != nil || ok {
		return c, ok, err
	}
	d, ok, err := r.sn.DegreeByID(id)
	if err != nil || !ok {
		return c, false, err
	}
	return degreeConflict(d), true, nil
}

// eachApart calls fn for the names that were told apart and are no conflict any more. All rulings are read by then.
func (r *reader) eachApart(fn func(store.Conflict) error) error {
	for _, x := range r.ruled {
		if !x.Apart {
			continue
		}
		id := fingerprint.ConflictID(x.Owner, x.Property)
		_, ok, err := r.sn.Conflict(id)
		if err == nil && !ok {
			err = fn(store.Conflict{ID: id, Owner: x.Owner, Property: x.Property})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// toldApart reads an item whose values are of things that were told apart; ok is false when none of them is there.
func (r *reader) toldApart(x item) (_ item, ok bool, err error) {
	x.label, x.mergeKey = x.ruling.Label, x.ruling.Key
	spec, _ := r.schema.Property(x.label, x.Property)
	x.rule, x.reason = spec.Merge, api.ReasonHomonym
	all, err := r.sn.Homonyms(x.ref())
	if err != nil {
		return x, false, err
	}
	e, ok, err := r.sn.Entity(x.Owner)
	if err != nil {
		return x, false, err
	}
	if ok {
		all = append([]store.EntityFold{e}, all...)
	}
	for i, e := range all {
		if i == 0 {
			x.name = e.Display()
		}
		x.owners = append(x.owners, e.ID)
		x.documents += e.Documents
	}
	return x, len(all) > 0, nil
}

// values calls fn for each value of an item, of each thing apart where they were told apart.
func (r *reader) values(x *item, fn func(store.PropertyFold) error) error {
	if _, _, ok := store.ParseDegreeProperty(x.Property); ok {
		return r.edges(x, fn)
	}
	if _, ok := store.ParseMissing(x.Property); ok {
		return nil
	}
	owners := x.owners
	if owners == nil {
		owners = []string{x.Owner}
	}
	for _, o := range owners {
		if err := r.sn.PropertyValues(o, x.Property, fn); err != nil {
			return err
		}
	}
	return nil
}

// stillUndecided finds mentions that are of none of the things that were told apart.
func (r *reader) stillUndecided(x *item, out *api.ConflictItem) error {
	e, ok, err := r.sn.Entity(x.Owner)
	if err != nil || !ok {
		return err
	}
	out.UndecidedDocuments = e.Documents
	var docs [][]desk.Span
	err = r.sn.Mentions(x.Owner, "", func(s store.MentionSupport) error {
		if docs = append(docs, desk.Mentions(s)); len(docs) == maxUndecided {
			return store.ErrStop
		}
		return r.tick()
	})
	if err != nil {
		return err
	}
	out.Undecided, err = desk.Quotes(r.sn, docs, maxUndecided)
	return err
}

// isApart refuses to decide about values of things that were told apart.
func (w *deciding) isApart(x *item, key string) error {
	now := "look at its history"
	all, err := w.trail.Of(key)
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.Seq == x.ruling.Seq {
			now = fmt.Sprintf("undo record %s of %s first", a.Record, a.Actor)
		}
	}
	return api.Errorf(412, "decision_not_current", "the things named %s are told apart by %s: %s", x.name, x.Property, now)
}

// tellApart makes each value of a homonym an entity of its own.
func (w *deciding) tellApart(r *reader, x *item, then *store.Ruling) error {
	if x.reason != api.ReasonHomonym {
		return api.Errorf(400, "bad_value", "%s does not identify a %s, so its values tell nothing apart: choose one, keep all, or reject the value given", x.Property, x.label)
	}
	if !x.canBeApart() {
		return api.Errorf(412, "not_supported", "%s was told apart from others of its name before: by one property, once", x.name)
	}
	if by, ok, err := r.sn.ToldApart(x.Owner); err != nil {
		return err
	} else if ok {
		return api.Errorf(412, "not_supported", "the things named %s are told apart by %s already", x.name, by.Property)
	}
	then.Label, then.Key = x.label, x.mergeKey
	return w.apart(r, x.Owner, x.Property, then)
}

// together takes back that things were told apart, or that this was taken back.
func (w *deciding) together(r *reader, stands, before *store.Ruling) error {
	return w.apart(r, stands.Owner, stands.Property, before)
}

func (w *deciding) apart(r *reader, owner, property string, now *store.Ruling) error {
	_, err := w.txn.TellApart(r.ctx, owner, property, now)
	if errors.Is(err, store.ErrTooMany) {
		return api.Errorf(413, "too_large", "more than %d documents mention the name: they are folded anew in one commit, which takes no more", store.MaxApart)
	}
	return err
}
