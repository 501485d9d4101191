package candidates

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Bounds of a patch.
const (
	maxPatch        = 900 << 10 // bytes of a reply
	maxPatchRecords = 200_000
)

// Patch answers candidates.patch: what the active schema lacks for approved candidates, all or those that the request names. The types
// of their ends are those of the entities that the ends are now.
func (d *Desk) Patch(ctx context.Context, graphName string, req api.CandidatesPatch) (p patch.Patch, err error) {
	if req.RequestID == "" {
		return d.patch(ctx, graphName, req)
	}
	err = d.deps.Operations.Once(ctx, graphName, "candidates.patch", req.RequestID, req, &p, func() (none []store.Op, err error) {
		p, err = d.patch(ctx, graphName, req)
		return nil, err
	})
	return p, err
}

func (d *Desk) patch(ctx context.Context, graphName string, req api.CandidatesPatch) (patch.Patch, error) {
	if len(req.IDs) > 0 && len(req.Keys) > 0 {
		return patch.Patch{}, api.Errorf(400, "bad_value", "say of what: ids, keys or neither")
	}
	if len(req.IDs)+len(req.Keys) > maxPatchRecords {
		return patch.Patch{}, tooManyRecords()
	}
	s, err := d.deps.Schemas.Schema(graphName, 0)
	if err != nil {
		return patch.Patch{}, err
	}
	var items []patch.Item
	err = d.with(graphName, func(sn *store.Snapshot) error {
		b := &patching{sn: sn, ends: NewEnds(ctx, sn, s), schema: s, why: map[string]string{}}
		if err := b.collect(ctx, req); err != nil {
			return err
		}
		items = b.items
		return b.refused(len(req.IDs))
	})
	if err != nil {
		return patch.Patch{}, err
	}
	p, _ := patch.Build(items, s)
	if req.Cursor == "" {
		if err := d.keep(ctx, graphName, p); err != nil {
			return patch.Patch{}, err
		}
	}
	budget := maxPatch
	if req.Budget > 0 {
		budget = min(budget, req.Budget)
	}
	page, ok, err := p.Page(req.Cursor, budget)
	if err != nil {
		return patch.Patch{}, err
	}
	if !ok {
		return patch.Patch{}, api.Errorf(413, "too_large", "what %d candidates add to the schema does not fit a reply of %d bytes: name fewer ids", len(items), budget)
	}
	return *page, nil
}

func tooManyRecords() error {
	return api.Errorf(413, "too_large", "a patch has at most %d candidates: name fewer ids", maxPatchRecords)
}

// patching collects the records of a patch.
type patching struct {
	sn     *store.Snapshot // nil: there is no graph
	ends   *Ends
	schema *schema.Schema
	items  []patch.Item
	why    map[string]string // of ids that are no approved records
}

func (b *patching) collect(ctx context.Context, req api.CandidatesPatch) error {
	switch {
	case b.sn == nil:
		for _, id := range req.IDs {
			b.why[id] = api.SkippedUnknownID
		}
		return nil
	case len(req.IDs) > 0:
		for _, id := range req.IDs {
			if err := b.named(id); err != nil {
				return err
			}
		}
		return nil
	case len(req.Keys) > 0:
		for _, key := range req.Keys {
			if err := b.sn.CandidatesByKey(key, b.add); err != nil {
				return err
			}
		}
		return nil
	}
	return b.sn.DecisionsFrom("", "", func(dec store.Decision) error {
		if err := ctx.Err(); err != nil || dec.State != api.StateApproved || kindOf(dec.Key) == "" {
			return err
		}
		return b.sn.CandidatesByKey(dec.Key, b.add)
	})
}

func (b *patching) named(id string) error {
	doc, key, current, err := b.sn.CandidateByID(strings.ToLower(id))
	if err != nil {
		return err
	}
	if !current {
		b.why[id] = api.SkippedUnknownID
		return nil
	}
	r, _, err := b.sn.Candidate(doc, key)
	if err != nil {
		return err
	}
	if r.State != api.StateApproved {
		b.why[id] = "is " + r.State
		return nil
	}
	return b.add(r)
}

// add takes an approved record, with its ends as they are now.
func (b *patching) add(r store.CandidateRecord) error {
	if r.State != api.StateApproved {
		return nil
	}
	if len(b.items) == maxPatchRecords {
		return tooManyRecords()
	}
	c := r.Candidate
	var err error
	if r.Kind == graph.KindRelation || r.Kind == graph.KindProperty {
		c.SourceLabel, err = b.end(end{r.SourceText, r.SourceLabel, r.SourceEntity})
	}
	if err == nil && r.Kind == graph.KindRelation {
		c.TargetLabel, err = b.end(end{r.TargetText, r.TargetLabel, r.TargetEntity})
	}
	b.items = append(b.items, patch.Item{ID: r.ID, Candidate: c})
	return err
}

// end is the type of an end. An approved candidate of another label than the end's is found in the patch by its text.
func (b *patching) end(x end) (string, error) {
	a, err := b.ends.find(x)
	switch {
	case err != nil || a.label != "":
		return a.label, err
	case a.candidate != "" && a.candidate != fingerprint.EntityKey(x.label, x.text):
		return "", nil
	}
	return x.label, nil
}

// refused says which ids are no approved candidates; of many the first ones.
func (b *patching) refused(asked int) error {
	if len(b.why) == 0 {
		return nil
	}
	const most = 100
	named := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(b.why))[:min(most, len(b.why))] {
		named[id] = b.why[id]
	}
	e := api.Errorf(412, "not_approved", "%d of the %d ids are no approved candidates: approve them first, or leave them out", len(b.why), asked)
	e.Details = map[string]any{"skipped": named}
	return e
}
