package reviewer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// maxPatch is how many bytes of a patch fit a reply.
const maxPatch = 900 << 10

// patch makes the patch of approved candidates onto the active schema. It changes nothing.
func (d *desk) patch(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewPatch
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	if req.IDs != nil && len(req.IDs) == 0 {
		return nil, api.Errorf(400, "bad_value", "ids is empty: name approved candidates, or leave it out for all of them")
	}
	active, err := d.committer.Schema(ctx, graphName)
	if err != nil {
		return nil, err
	}
	rule, err := d.state(graphName).covers.Of(active)
	if err != nil {
		return nil, err
	}
	var records []api.Record
	var why map[string]string
	if err := d.at(ctx, graphName, func(m *model.Graph) { records, why = m.Approved(req.IDs) }); err != nil {
		return nil, err
	}
	if len(why) > 0 {
		e := api.Errorf(412, "not_approved", "%d of the %d ids are no approved candidates: approve them first, or leave them out", len(why), len(req.IDs))
		e.Details = map[string]any{"skipped": some(why)}
		return nil, e
	}
	items := make([]patch.Item, 0, len(records))
	for _, r := range records {
		items = append(items, patch.Item{ID: r.ID, Candidate: r.Candidate})
	}
	p, _ := patch.Build(items, rule.Rule())
	page, ok, err := p.Page(req.Cursor, maxPatch)
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", graphName, err)
	}
	if !ok {
		return nil, api.Errorf(413, "too_large", "what %d candidates add to the schema does not fit a reply of %d bytes: name fewer ids", len(items), maxPatch)
	}
	return page, nil
}

// some of a long map: an error must fit a reply too.
func some(all map[string]string) map[string]string {
	const most = 100
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if len(out) == most {
			break
		}
		out[k] = all[k]
	}
	return out
}
