package query

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	defaultPage = 50
	maxPage     = 1000
	// perRelation bounds the evidence of one relation in a list of relations; query.evidence has the rest.
	perRelation = 10
)

// Entity answers query.entity: the entity with its mentions and properties, and the relations it stands in, those that begin
// at it first, each list at most a page.
func (q *Queries) Entity(ctx context.Context, name string, req api.EntityGet) (api.EntityReply, error) {
	out := api.EntityReply{Relations: []graph.RelationRow{}}
	limit, bad := limited("limit", req.Limit, defaultPage, maxPage)
	if bad != nil {
		return out, bad
	}
	err := q.with(ctx, name, req.AsOf, req.Offsets, func(v *view) error {
		e, err := v.find(req.ID, req.Type, req.Name)
		if err != nil {
			return err
		}
		out.Seq = v.sn.Seq()
		b := newBudget()
		// Half of the reply at most for the entity itself, so that relations have room.
		half := *b / 2
		if out.Entity, _, err = v.entityRow(e, limit, &half); err != nil {
			return err
		}
		rest := *b/2 + half
		return v.relationsOf(e.ID, limit, &rest, &out)
	})
	return out, err
}

// relationsOf lists and counts an entity's relations.
func (v *view) relationsOf(id string, limit int, b *budget, out *api.EntityReply) error {
	full := false
	add := func(e store.Edge) error {
		if err := v.tick(); err != nil {
			return err
		}
		out.RelationsTotal++
		if full || len(out.Relations) >= limit {
			return nil
		}
		f, ok, err := v.sn.Relation(e.Relation)
		if err != nil || !ok {
			return err
		}
		row, ok, err := v.relationRow(f, min(limit, perRelation), b)
		if err != nil {
			return err
		}
		if !ok {
			full = true
			return nil
		}
		out.Relations = append(out.Relations, row)
		return nil
	}
	if err := v.sn.Out(id, "", add); err != nil {
		return err
	}
	return v.sn.In(id, "", func(e store.Edge) error {
		if e.Other == id { // a relation to itself was listed as an outgoing one
			return nil
		}
		return add(e)
	})
}

// find is the entity that a request names by id, by type and name, or by a name that only one has.
func (v *view) find(id, label, name string) (store.EntityFold, error) {
	switch {
	case id != "" && (label != "" || name != ""):
		return store.EntityFold{}, badValue("give either id, or type and name")
	case id == "" && name == "":
		return store.EntityFold{}, badValue("give id, or type and name")
	case v == nil:
		return store.EntityFold{}, api.Errorf(404, "entity_not_found", "the graph is empty")
	case id != "":
		e, ok, err := v.sn.Entity(strings.ToLower(id))
		if err == nil && !ok {
			err = api.Errorf(404, "entity_not_found", "no entity has the id %q", clip(id))
		}
		return e, err
	}
	return v.named(label, name)
}

// named finds an entity by name, and by type when label is not empty. Merge keys come before aliases, the type itself before
// types below it.
func (v *view) named(label, name string) (store.EntityFold, error) {
	folded := fingerprint.Fold(name)
	if label != "" {
		if canon, ok := v.schema.Canon(schema.KindEntity, label); ok {
			label = canon
		}
		if e, ok, err := v.sn.Entity(fingerprint.EntityID(label, folded)); err != nil || ok {
			return e, err
		}
	}
	hits, err := v.sn.EntitiesNamed(folded)
	if err != nil {
		return store.EntityFold{}, err
	}
	for _, admit := range []func(store.NamedEntity) bool{
		func(n store.NamedEntity) bool { return n.Full && v.isA(n.Label, label, true) },
		func(n store.NamedEntity) bool { return v.isA(n.Label, label, true) },
		func(n store.NamedEntity) bool { return v.isA(n.Label, label, false) },
	} {
		var found []store.NamedEntity
		for _, h := range hits {
			if admit(h) {
				found = append(found, h)
			}
		}
		if len(found) > 1 {
			return store.EntityFold{}, ambiguous(name, found)
		}
		if len(found) == 1 {
			e, ok, err := v.sn.Entity(found[0].ID)
			if err != nil || ok {
				return e, err
			}
		}
	}
	if label != "" {
		return store.EntityFold{}, api.Errorf(404, "entity_not_found", "no %s is named %q", clip(label), clip(name))
	}
	return store.EntityFold{}, api.Errorf(404, "entity_not_found", "no entity is named %q", clip(name))
}

// isA says whether an entity's label is the one asked for ("": any); unless exact, one below it will do.
func (v *view) isA(label, wanted string, exact bool) bool {
	if wanted == "" || label == wanted {
		return true
	}
	if exact {
		return false
	}
	for _, l := range v.labels(label) {
		if l == wanted {
			return true
		}
	}
	return false
}

func ambiguous(name string, found []store.NamedEntity) error {
	const most = 20
	list := make([]map[string]any, 0, min(len(found), most))
	for _, f := range found[:min(len(found), most)] {
		list = append(list, map[string]any{"id": f.ID, "type": f.Label, "name": f.Name})
	}
	e := badValue("%d entities are named %q: give the type or the id", len(found), clip(name))
	e.Details = map[string]any{"entities": list, "total": len(found)}
	return e
}
