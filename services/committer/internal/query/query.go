// Package query answers the read verbs of a graph (spec 2, Query verbs) and writes its export, over snapshots of the store:
// every reply is true of exactly one commit sequence, which it names. Candidates are in no reply but a document's items and the
// export.
//
// Refusals are *api.Error with the codes of api.Codes; any other error is the store's or the context's. A reply stays below
// MaxReply bytes: lists are cut, and totals, a cursor or a flag say so.
package query

import (
	"context"
	"errors"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Schemas gives a graph's schema of one revision; 0 is the active one. The active one decides which labels an entity shows
// and which property value.
type Schemas interface {
	Schema(graph string, revision uint64) (*schema.Schema, error)
}

// Queries answers for every graph of one store. It is safe for concurrent use.
type Queries struct {
	st      *store.Store
	schemas Schemas
	vectors Vectors // nil: none
	names   Names   // nil: none
	aliases Aliases // nil: none
	lists   *lists
	// maxGroup is the constant, less in tests.
	maxGroup int
}

// New makes the answering side over st.
func New(st *store.Store, schemas Schemas) *Queries {
	return &Queries{st: st, schemas: schemas, maxGroup: maxGroup, lists: newLists(listCache)}
}

// open begins a view at a sequence (0: now); close must follow. Where the graph does not exist yet and seq is 0 the view is nil:
// the graph is as good as empty.
func (q *Queries) open(ctx context.Context, name string, seq uint64, offsets string, w *api.Within) (*view, error) {
	unit, bad := checkUnit(offsets)
	if bad != nil {
		return nil, bad
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sn, err := q.st.Snapshot(name, seq)
	if errors.Is(err, store.ErrNoGraph) && seq == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, refusal(name, err)
	}
	sch, err := q.schemas.Schema(name, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("active schema of %s: %w", name, err), sn.Close())
	}
	in, err := q.limit(ctx, sn, sch, seq, w)
	if err != nil {
		return nil, errors.Join(refusal(name, err), sn.Close())
	}
	v := newView(ctx, in, sch, unit)
	v.names = q.names
	return v, nil
}

// with runs fn on a view and closes it. A graph that does not exist is fn(nil).
func (q *Queries) with(ctx context.Context, name string, seq uint64, offsets string, fn func(v *view) error) error {
	return q.within(ctx, name, seq, offsets, nil, fn)
}

// within is with under limits.
func (q *Queries) within(ctx context.Context, name string, seq uint64, offsets string, w *api.Within, fn func(v *view) error) error {
	v, err := q.open(ctx, name, seq, offsets, w)
	if err != nil {
		return err
	}
	if v == nil {
		return fn(nil)
	}
	err = fn(v)
	return refusal(name, errors.Join(err, v.sn.Close()))
}

// Stats answers query.stats.
func (q *Queries) Stats(ctx context.Context, name string) (api.StatsReply, error) {
	out := api.StatsReply{Graph: name, ByType: map[string]int{}, ByRelation: map[string]int{}}
	err := q.with(ctx, name, 0, "", func(v *view) error {
		if v == nil {
			s, err := q.schemas.Schema(name, 0)
			if err != nil {
				return fmt.Errorf("active schema of %s: %w", name, err)
			}
			out.Schema, out.SchemaFP = s.Name(), s.Fingerprint()
			return nil
		}
		c, err := v.sn.Counts()
		if err != nil {
			return err
		}
		out.Seq, out.Documents, out.Chunks, out.Mentions, out.Candidates = v.sn.Seq(), c.Documents, c.Chunks, c.Mentions, c.Candidates
		out.CandidateNo, out.Schema, out.SchemaFP = c.CandidateNo, v.schema.Name(), v.schema.Fingerprint()
		for k, n := range c.Entities {
			out.ByType[k] = n
			out.Entities += n
		}
		for k, n := range c.Relations {
			out.ByRelation[k] = n
			out.Relations += n
		}
		out.ByMatch = c.Matches
		for _, n := range c.Matches {
			out.Matches += n
		}
		return nil
	})
	return out, err
}

// RelationTypes answers query.relation_types.
func (q *Queries) RelationTypes(ctx context.Context, name string, req api.RelationTypesGet) (api.RelationTypesReply, error) {
	out := api.RelationTypesReply{Types: map[string]int{}}
	err := q.within(ctx, name, 0, "", req.Within, func(v *view) error {
		if v == nil {
			return nil
		}
		if v.sn.limited() {
			var err error
			out.Seq = v.sn.Seq()
			out.Types, out.Cut, err = v.relationTypes()
			out.Outside = v.nothing(len(out.Types))
			return err
		}
		c, err := v.sn.Counts()
		if err != nil {
			return err
		}
		out.Seq = v.sn.Seq()
		for k, n := range c.Relations {
			out.Types[k] = n
		}
		return nil
	})
	return out, err
}

// maxStored is how many keys one query.stored may ask for.
const maxStored = 2000

// Stored answers query.stored: what the decision table compares with, one entry a key, in order.
func (q *Queries) Stored(ctx context.Context, name string, req api.StoredGet) (api.StoredReply, error) {
	if len(req.Keys) > maxStored {
		return api.StoredReply{}, api.Errorf(413, "too_large", "keys has %d keys: at most %d", len(req.Keys), maxStored)
	}
	out := api.StoredReply{Stored: make([]graph.Stored, len(req.Keys))}
	err := q.with(ctx, name, 0, "", func(v *view) error {
		if v == nil {
			return nil
		}
		for i, k := range req.Keys {
			d, ok, err := v.sn.DocByKey(k)
			if err != nil {
				return err
			}
			if ok {
				out.Stored[i] = d.Stored()
			}
		}
		return nil
	})
	return out, err
}
