package query

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// SchemaProblems calls fn for every missing required value and every relation beyond its cardinality, under the active schema.
// Kinds are "required" and "cardinality", keys entity ids.
func (q *Queries) SchemaProblems(ctx context.Context, name string, fn func(api.Problem)) error {
	return q.with(ctx, name, 0, "", func(v *view) error {
		if v == nil {
			return nil
		}
		return v.sn.EntitiesAll("", func(f store.EntityFold) error {
			if err := v.tick(); err != nil {
				return err
			}
			if err := v.required(f, fn); err != nil {
				return err
			}
			return v.cardinality(f, fn)
		})
	})
}

func (v *view) required(f store.EntityFold, fn func(api.Problem)) error {
	missing := map[string]bool{}
	for _, p := range v.schema.Properties(f.Label) {
		if p.Required {
			missing[p.Name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	folds, err := v.sn.PropertyFolds(f.ID)
	if err != nil {
		return err
	}
	for _, p := range folds {
		delete(missing, p.Name)
	}
	for _, p := range v.schema.Properties(f.Label) {
		if missing[p.Name] {
			fn(api.Problem{Kind: "required", Key: f.ID, Message: fmt.Sprintf("%s %q has no %s, which is required", f.Label, f.Display(), p.Name)})
		}
	}
	return nil
}

func (v *view) cardinality(f store.EntityFold, fn func(api.Problem)) error {
	for _, r := range v.schema.Relations() {
		if err := v.bounded(f, r, r.Cardinality.MaxPerSource, v.sn.Out, "from", fn); err != nil {
			return err
		}
		if err := v.bounded(f, r, r.Cardinality.MaxPerTarget, v.sn.In, "to", fn); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) bounded(f store.EntityFold, r schema.Relation, most int, edges func(id, relType string, fn func(store.Edge) error) error,
	side string, fn func(api.Problem)) error {
	if most == 0 {
		return nil
	}
	n := 0
	if err := edges(f.ID, r.Label, func(store.Edge) error { n++; return nil }); err != nil {
		return err
	}
	if n > most {
		fn(api.Problem{Kind: "cardinality", Key: f.ID,
			Message: fmt.Sprintf("%d relations %s %s %s %q, at most %d", n, r.Label, side, f.Label, f.Display(), most)})
	}
	return nil
}
