package candidates

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Undo answers candidates.undo: a rejection is taken back by forgetting its key, as prune does.
func (d *Desk) Undo(ctx context.Context, graph string, req api.CandidatesUndo) (reply api.DecideReply, err error) {
	if err := checkWho(req.Actor, req.Reason); err != nil {
		return reply, err
	}
	err = d.deps.Operations.Within(ctx, graph, "candidates.undo", req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		reply = api.DecideReply{Outcome: api.Outcome{Changed: []string{}, Skipped: map[string]string{}}, Records: map[string]string{}}
		err := d.write(ctx, graph, who{req.Actor, req.Reason, req.RequestID}, func(c *commit) error {
			r, err := c.rejection(req.Record)
			if err != nil {
				return err
			}
			item, err := c.group(r.Key, api.StateRejected)
			if err != nil {
				return err
			}
			if _, err := c.txn.ForgetCandidate(ctx, r.Key, api.StateRejected); err != nil {
				return err
			}
			a, err := c.record(r.Key, item.id(), events.DecisionUndo, api.StateRejected, "", item)
			if err == nil {
				a.Undoes = r.Record
				a.Saw(item.evidence...)
			}
			return err
		}, func(seq uint64, records []events.Audit) {
			reply.Seq = seq
			for _, a := range records {
				reply.Outcome.Changed = append(reply.Outcome.Changed, a.Key)
				reply.Records[a.Key] = a.Record
			}
		}, remember)
		if errors.Is(err, store.ErrNoGraph) {
			return noDecision(graph, req.Record)
		}
		return err
	})
	return reply, err
}

func noDecision(graph, record string) error {
	return api.Errorf(404, "decision_not_found", "graph %s has no audit record %.80q", graph, record)
}

// rejection is the record of a rejection that stands.
func (c *commit) rejection(id string) (events.Audit, error) {
	trail := c.desk.trail(c.graph)
	r, ok, err := trail.Record(strings.ToLower(id))
	switch {
	case err != nil:
		return r, err
	case !ok:
		return r, noDecision(c.graph, id)
	case kindOf(r.Key) == "":
		return r, api.Errorf(412, "not_supported", "record %s decides about a %s, not about a candidate", r.Record, r.Kind)
	case r.Decision == events.DecisionApprove:
		return r, api.Errorf(412, "not_supported", "record %s approves: an approval is not taken back, reject the candidate instead", r.Record)
	case r.Decision != events.DecisionReject:
		return r, api.Errorf(412, "not_supported", "record %s is of a decision %s: only a rejection is taken back", r.Record, r.Decision)
	}
	now, ok, err := c.sn.Decision(r.Key)
	if err != nil {
		return r, err
	}
	if ok && now.State == api.StateRejected && now.Seq == r.Seq {
		return r, nil
	}
	said := "the candidate was forgotten since"
	if all, err := trail.Of(r.Key); err != nil {
		return r, err
	} else if len(all) > 0 && all[0].Record != r.Record {
		said = fmt.Sprintf("record %s of %s, %s, came behind it", all[0].Record, all[0].Actor, all[0].Decision)
	}
	return r, api.Errorf(412, "decision_not_current", "decision %s does not stand any more: %s", r.Record, said)
}
