package reviewer

import (
	"context"
	"encoding/json"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
)

// patch answers with the patch of approved candidates onto the active schema. It changes nothing. The committer makes it, which knows
// what the ends of a relation are.
func (d *desk) patch(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewPatch
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	if req.IDs != nil && len(req.IDs) == 0 {
		return nil, api.Errorf(400, "bad_value", "ids is empty: name approved candidates, or leave it out for all of them")
	}
	return d.committer.Patch(ctx, graphName, api.CandidatesPatch{IDs: req.IDs, Cursor: req.Cursor})
}

// convert makes the approved candidates of a patch facts.
func (d *desk) convert(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewConvert
	if e := bus.ReadSigned(ctx, body, &req); e != nil {
		return nil, e
	}
	return d.committer.Convert(ctx, graphName, req)
}

// maxApproval is how many bytes the reply of an approval has with its patch.
const maxApproval = 900 << 10

// addPatch puts the patch of what was approved into the reply, where all of it fits. The decision stands, so no failure here is one
// of the reply.
func (d *desk) addPatch(ctx context.Context, graphName, requestID string, reply *api.DecideReply) {
	changed := reply.Outcome.Changed
	if len(changed) == 0 || reply.Outcome.ChangedTotal > len(changed) {
		return
	}
	raw, err := json.Marshal(reply)
	if err != nil || len(raw) >= maxApproval {
		return
	}
	p, err := d.committer.Patch(ctx, graphName, api.CandidatesPatch{Keys: changed, Budget: maxApproval - len(raw), RequestID: requestID})
	if err == nil && p.Next == "" {
		reply.Patch = &p
	}
}
