package query

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	defaultPage = 50
	maxPage     = 1000
	// perRelation bounds the evidence of one relation in a list of relations; query.evidence has the rest.
	perRelation = 10
)

// Entity answers query.entity: the entity with its mentions and properties, and the relations it stands in, those that begin
// at it first, each list at most a page. Unless the request is raw, the entity comes with its cluster, and the relations are those of
// all its members.
func (q *Queries) Entity(ctx context.Context, name string, req api.EntityGet) (api.EntityReply, error) {
	out := api.EntityReply{Relations: []graph.RelationRow{}}
	limit, bad := limited("limit", req.Limit, defaultPage, maxPage)
	if bad != nil {
		return out, bad
	}
	err := q.within(ctx, name, req.AsOf, req.Offsets, req.Within, func(v *view) error {
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
		ids := []string{e.ID}
		if !req.Raw {
			c, err := v.clusterOf(e)
			if err != nil {
				return err
			}
			part := rest / 2
			rest -= part
			if err := c.show(&part, &out); err != nil {
				return err
			}
			rest += part
			if v.sn.limited() { // what waits for a person is not shown
				out.Unclear, out.UnclearTotal = nil, 0
			}
			for _, m := range c.members {
				if m.ID != e.ID {
					ids = append(ids, m.ID)
				}
			}
		}
		return v.relationsOf(ids, limit, &rest, &out)
	})
	return out, err
}

// relationsOf lists and counts the relations of entities, each once.
func (v *view) relationsOf(ids []string, limit int, b *budget, out *api.EntityReply) error {
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
	among := make(map[string]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	for _, id := range ids {
		if err := v.sn.Out(id, "", add); err != nil {
			return err
		}
		err := v.sn.In(id, "", func(e store.Edge) error {
			if among[e.Other] { // listed where it begins
				return nil
			}
			return add(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
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
