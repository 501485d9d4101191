package held

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
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func check(req api.HeldDecide) error {
	switch {
	case req.Decision != api.DecideAccept && req.Decision != api.DecideReject && req.Decision != api.DecideSendBack:
		return api.Errorf(400, "bad_value", "decision is %.40q: a held job is accepted, rejected or sent back (accept, reject, send_back)", req.Decision)
	case req.Fingerprint == "":
		return api.Errorf(400, "bad_value", "fingerprint is missing: show gives that of the plan")
	case req.Decision == api.DecideSendBack && len(req.Edits) == 0:
		return api.Errorf(400, "bad_value", "edits are missing: a job is sent back with what to change in it")
	case req.Decision != api.DecideSendBack && len(req.Edits) > 0:
		return api.Errorf(400, "bad_value", "edits are of a job that is sent back: decision is %s", req.Decision)
	case len(req.Edits) > api.MaxEdits:
		return api.Errorf(413, "too_large", "there are %d edits: at most %d", len(req.Edits), api.MaxEdits)
	case strings.TrimSpace(req.Actor) == "":
		return api.Errorf(400, "bad_value", "actor is missing: say who decides")
	case strings.EqualFold(strings.TrimSpace(req.Actor), api.ActorPolicy):
		return api.Errorf(400, "bad_value", "actor is %q: that name is the policy's, which holds jobs and decides about none", req.Actor)
	case len(req.Actor) > api.MaxActor || !utf8.ValidString(req.Actor) || strings.ContainsFunc(req.Actor, unicode.IsControl):
		return api.Errorf(400, "bad_value", "actor must be a name of at most %d bytes, without control characters", api.MaxActor)
	case len(req.Reason) > api.MaxReason || !utf8.ValidString(req.Reason):
		return api.Errorf(400, "bad_value", "reason must be a text of at most %d bytes", api.MaxReason)
	}
	return nil
}

// Accept answers jobs.accept.
func (d *Desk) Accept(ctx context.Context, graphName string, req api.JobAccept) (reply api.DecideReply, err error) {
	out := api.HeldDecide{ID: req.Job, Decision: api.DecideAccept, Fingerprint: req.Fingerprint, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID}
	if err := check(out); err != nil {
		return reply, err
	}
	reply, err = d.decide(ctx, graphName, "jobs.accept", out)
	return reply, d.explained(graphName, out, err)
}

// Decide answers held.decide.
func (d *Desk) Decide(ctx context.Context, graphName string, req api.HeldDecide) (reply api.DecideReply, err error) {
	if err := check(req); err != nil {
		return reply, err
	}
	reply, err = d.decide(ctx, graphName, "held.decide", req)
	return reply, d.explained(graphName, req, err)
}

func (d *Desk) decide(ctx context.Context, graphName, verb string, req api.HeldDecide) (reply api.DecideReply, err error) {
	job, err := jobOf(req.ID, req.Key)
	if err != nil {
		return reply, err
	}
	err = d.deps.Operations.Within(ctx, graphName, verb, req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		reply = api.DecideReply{Outcome: api.Outcome{Changed: []string{}, Skipped: map[string]string{}}, Records: map[string]string{}}
		w := &decision{d: d, ctx: ctx, graph: graphName, job: job, req: req, reply: &reply, remember: remember}
		return w.take()
	})
	return reply, err
}

// decision is one under way.
type decision struct {
	d        *Desk
	ctx      context.Context
	graph    string
	job      string
	req      api.HeldDecide
	reply    *api.DecideReply
	remember func() ([]store.Op, error)
	rec      events.Audit
}

// take carries it out. Where documents have to be read anew, the plan that was looked at is not the one of now.
func (w *decision) take() (err error) {
	hooks := jobs.Hooks{Check: w.check, Finish: w.finish}
	machine := w.d.deps.Jobs
	w.rec = events.Audit{Decision: w.req.Decision, Before: api.StatePending, After: api.StatePending}
	switch w.req.Decision {
	case api.DecideAccept:
		w.rec.After = api.StateApproved
		_, err = machine.Accept(w.ctx, w.graph, w.job, hooks)
	case api.DecideReject:
		w.rec.After = api.StateRejected
		reason := "rejected: by " + strings.TrimSpace(w.req.Actor)
		if w.req.Reason != "" {
			reason += ": " + w.req.Reason
		}
		_, err = machine.Reject(w.ctx, w.graph, w.job, reason, hooks)
	case api.DecideSendBack:
		err = w.sendBack(hooks)
	}
	if !errors.Is(err, jobs.ErrAnew) {
		return err
	}
	var now api.Planned
	err = w.d.again(w.ctx, w.graph, w.job, func() error {
		return machine.Try(w.ctx, w.graph, w.job, func(a jobs.Applied) (err error) {
			now, err = w.d.plan(w.ctx, w.graph, a, refusalBudget)
			return err
		})
	})
	if err != nil {
		return err
	}
	return stalePlan(w.job, now)
}

// stalePlan refuses what was looked at.
func stalePlan(job string, now api.Planned) error {
	e := api.Errorf(409, "stale_plan", "what job %s would do is not what was looked at: look again", job)
	e.Details = map[string]any{"plan": now.Plan, "plan_left_out": now.PlanLeftOut, "fingerprint": now.Fingerprint}
	return e
}

// check compares the job, applied, with what was looked at.
func (w *decision) check(a jobs.Applied) error {
	if w.req.Revision != nil && *w.req.Revision != a.Revision {
		return api.Errorf(409, "stale_revision", "job %s is at revision %d, not %d: look again", w.job, a.Revision, *w.req.Revision)
	}
	now, err := w.d.plan(w.ctx, w.graph, a, refusalBudget)
	if err != nil {
		return err
	}
	if w.req.Fingerprint != now.Fingerprint {
		return stalePlan(w.job, now)
	}
	short, left := now.Plan.Within(seenBudget)
	seen := map[string]any{"job": w.job, "op": a.Job.Op, "revision": a.Revision, "does": w.d.item(a).Does, "plan": short, "plan_left_out": left + now.PlanLeftOut}
	if a.HeldBy != "" {
		seen["held_by"] = a.HeldBy
	}
	if w.rec.Item, err = json.Marshal(seen); err != nil {
		return fmt.Errorf("audit of job %s: %w", w.job, err)
	}
	w.rec.Plan = now.Fingerprint
	return nil
}

// finish ends the commit of the decision.
func (w *decision) finish(ctx context.Context, txn *store.Txn, ops []store.Op) error {
	r := w.rec
	r.Graph, r.At, r.Seq, r.Kind = w.graph, w.d.deps.Now().UTC().Format(time.RFC3339Nano), txn.Seq(), api.KindJob
	r.Key, r.ItemID = api.JobKey(w.job), w.job
	r.Operation, r.RequestID, r.Actor, r.Reason = w.req.RequestID, w.req.RequestID, strings.TrimSpace(w.req.Actor), w.req.Reason
	if r.Operation == "" {
		r.Operation = fmt.Sprintf("c%d", r.Seq)
	}
	records := []events.Audit{r}
	_, err := audit.Trail{Store: w.d.deps.Store, Graph: w.graph}.Commit(ctx, txn, records, func() {
		w.reply.Seq, w.reply.Outcome.Changed, w.reply.Outcome.ChangedTotal = txn.Seq(), []string{r.Key}, 1
		w.reply.Records[r.Key] = records[0].Record
	}, func() ([]store.Op, error) {
		rows, err := w.remember()
		return append(ops, rows...), err
	})
	if err == nil {
		w.d.deps.Committed(w.graph)
	}
	return err
}

// explained says of a job that is not held any more what was decided about it: somebody else was first.
func (d *Desk) explained(graphName string, req api.HeldDecide, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "job_not_held" {
		return err
	}
	job, jerr := jobOf(req.ID, req.Key)
	if jerr != nil {
		return jerr
	}
	list, aerr := (audit.Trail{Store: d.deps.Store, Graph: graphName}).Of(api.JobKey(job))
	if aerr != nil {
		return aerr
	}
	if len(list) == 0 || list[0].After == api.StatePending {
		return err
	}
	last := list[0]
	out := api.Errorf(409, "stale_revision", "job %s is decided: %s by %s, record %s; %s", job, last.Decision, last.Actor, last.Record, e.Message)
	out.Details = map[string]any{"state": last.After, "record": last.Record, "actor": last.Actor}
	return out
}
