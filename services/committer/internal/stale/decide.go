package stale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func check(req api.StaleDecide) error {
	switch {
	case req.Undo != "" && (req.ID != "" || req.Key != "" || req.Decision != ""):
		return api.Errorf(400, "bad_value", "an undo names the audit record alone")
	case req.Undo == "" && (req.ID == "") == (req.Key == ""):
		return api.Errorf(400, "bad_value", "decide about one stale fact at a time, by id or key: its plan has a fingerprint of its own")
	case req.Undo == "" && req.Decision != api.DecideWithdraw && req.Decision != api.DecideKeep:
		return api.Errorf(400, "bad_value", "decision is %.40q: a stale fact is withdrawn or kept", req.Decision)
	case req.Undo == "" && req.Fingerprint == "":
		return api.Errorf(400, "bad_value", "fingerprint is missing: show gives that of the plan")
	case strings.TrimSpace(req.Actor) == "":
		return api.Errorf(400, "bad_value", "actor is missing: say who decides")
	case len(req.Actor) > api.MaxActor || !utf8.ValidString(req.Actor) || strings.ContainsFunc(req.Actor, unicode.IsControl):
		return api.Errorf(400, "bad_value", "actor must be a name of at most %d bytes, without control characters", api.MaxActor)
	case strings.EqualFold(strings.TrimSpace(req.Actor), api.ActorPolicy):
		return api.Errorf(400, "bad_value", "actor is %q: so are the decisions of the policy signed; say who you are", req.Actor)
	case len(req.Reason) > api.MaxReason || !utf8.ValidString(req.Reason):
		return api.Errorf(400, "bad_value", "reason must be a text of at most %d bytes", api.MaxReason)
	}
	return nil
}

// seen is a stale fact as it was decided about.
type seen struct {
	store.StaleItem
	Document    string `json:"document"`
	Said        string `json:"said"`
	Others      int    `json:"others"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Decide answers stale.decide.
func (d *Desk) Decide(ctx context.Context, graphName string, req api.StaleDecide) (reply api.DecideReply, err error) {
	if err := check(req); err != nil {
		return reply, err
	}
	err = d.deps.Operations.Within(ctx, graphName, "stale.decide", req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		reply = api.DecideReply{Outcome: api.Outcome{Changed: []string{}, Skipped: map[string]string{}}, Records: map[string]string{}}
		txn, err := d.deps.Store.Begin(ctx, graphName)
		if errors.Is(err, store.ErrNoGraph) {
			return notFound(graphName, req.ID+req.Key+req.Undo)
		}
		if err != nil {
			return err
		}
		if err := d.decide(ctx, txn, graphName, req, &reply, remember); err != nil {
			return errors.Join(err, txn.Abort())
		}
		d.deps.Committed(graphName)
		return nil
	})
	return reply, err
}

// decide takes the decision in its commit: nobody else changes the graph meanwhile.
func (d *Desk) decide(ctx context.Context, txn *store.Txn, graphName string, req api.StaleDecide, reply *api.DecideReply, remember func() ([]store.Op, error)) error {
	trail := audit.Trail{Store: d.deps.Store, Graph: graphName}
	var rec events.Audit
	err := desk.With(d.deps.Store, graphName, func(sn *store.Snapshot) (err error) {
		r := &reader{ctx, sn}
		if req.Undo != "" {
			rec, err = r.undo(trail, txn, req.Undo)
			return err
		}
		rec, err = r.decide(txn, graphName, req)
		return err
	})
	if err != nil {
		return err
	}
	rec.Graph, rec.At, rec.Seq, rec.Kind = graphName, d.deps.Now().UTC().Format(time.RFC3339Nano), txn.Seq(), api.KindStale
	rec.Operation, rec.RequestID, rec.Actor, rec.Reason = req.RequestID, req.RequestID, strings.TrimSpace(req.Actor), req.Reason
	if rec.Operation == "" {
		rec.Operation = fmt.Sprintf("c%d", rec.Seq)
	}
	records := []events.Audit{rec}
	_, err = trail.Commit(ctx, txn, records, func() {
		reply.Seq, reply.Outcome.Changed, reply.Outcome.ChangedTotal = txn.Seq(), []string{rec.Key}, 1
		reply.Records[rec.Key] = records[0].Record
	}, remember)
	return err
}

func (r *reader) decide(txn *store.Txn, graphName string, req api.StaleDecide) (rec events.Audit, err error) {
	it, err := r.find(graphName, req.ID, req.Key)
	if err != nil {
		return rec, err
	}
	if req.Revision != 0 && req.Revision != it.Seq {
		return rec, api.Errorf(409, "stale_revision", "the stale fact %s is at revision %d, not %d: look again", it.key(), it.Seq, req.Revision)
	}
	p, err := r.plan(graphName, &it)
	if err != nil {
		return rec, err
	}
	if fp := p.Fingerprint(); fp != req.Fingerprint {
		e := api.Errorf(409, "stale_plan", "what a withdrawal would do is not what was looked at: %s; look again", strings.Join(p.Lines()[:1], ""))
		e.Details = map[string]any{"plan": p, "fingerprint": fp}
		return rec, e
	}
	withdraw := req.Decision == api.DecideWithdraw
	if _, err := txn.DecideStale(r.ctx, it.StaleItem, withdraw, store.Decision{Actor: strings.TrimSpace(req.Actor), Reason: req.Reason}); err != nil {
		return rec, err
	}
	rec = events.Audit{Key: it.key(), ItemID: it.ID, Decision: req.Decision, Plan: req.Fingerprint, Before: api.StatePending, After: api.StateRejected}
	if withdraw {
		rec.After = api.StateApproved
	}
	rec.Plan = req.Fingerprint
	rec.Saw(audit.Seen(p)...)
	rec.Item, err = json.Marshal(seen{it.StaleItem, it.doc.Meta.Key, it.said(), it.others, req.Fingerprint})
	return rec, err
}

// undo takes a decision back: the fact is kept and waits again.
func (r *reader) undo(trail audit.Trail, txn *store.Txn, record string) (rec events.Audit, err error) {
	was, ok, err := trail.Record(strings.ToLower(record))
	switch {
	case err != nil:
		return rec, err
	case !ok:
		return rec, api.Errorf(404, "decision_not_found", "no audit record has the id %.80q", record)
	case was.Kind != api.KindStale:
		return rec, api.Errorf(412, "not_supported", "record %s decides about a %s, not about a stale fact", was.Record, was.Kind)
	case was.Decision == events.DecisionUndo:
		return rec, api.Errorf(412, "decision_not_current", "record %s is an undo: decide again", was.Record)
	}
	now, ok, err := r.sn.Decision(was.Key)
	if err != nil {
		return rec, err
	}
	if !ok || now.Seq != was.Seq {
		return rec, api.Errorf(412, "decision_not_current", "decision %s does not stand any more", was.Record)
	}
	var x seen
	d := json.NewDecoder(strings.NewReader(string(was.Item)))
	if err := d.Decode(&x); err != nil {
		return rec, fmt.Errorf("%w: audit record %s: %w", store.ErrCorrupt, was.Record, err)
	}
	x.Kept.Whole()
	if _, err := txn.AskAgain(r.ctx, x.StaleItem); errors.Is(err, store.ErrBadChange) {
		return rec, api.Errorf(412, "decision_not_current", "decision %s cannot be taken back: %v", was.Record, err)
	} else if err != nil {
		return rec, err
	}
	return events.Audit{Key: was.Key, ItemID: was.ItemID, Decision: events.DecisionUndo, Undoes: was.Record, Before: was.After, After: api.StatePending, Item: was.Item, Evidence: was.Evidence}, nil
}
