// Package held answers what people ask and decide about jobs that wait for them before their commit: what the job would do, accepting exactly
// that, taking it back, or sending it back with edits.
package held

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Deps of New; all but Committed and Now are required.
type Deps struct {
	Store      *store.Store
	Jobs       *jobs.Machine
	Schemas    Schemas
	Operations *operations.Operations
	// Committed is told that a graph has another sequence.
	Committed func(graph string)
	Now       func() time.Time
}

// Schemas gives the revisions of a graph's schema.
type Schemas interface {
	Schema(graph string, revision uint64) (*schema.Schema, error)
}

// Desk answers the verbs. Safe for concurrent use.
type Desk struct {
	deps Deps
	// keep is how many bytes of a plan are held to be fingerprinted at once; a larger one is made twice, part by part.
	keep int
}

// New makes a desk.
func New(d Deps) *Desk {
	if d.Committed == nil {
		d.Committed = func(string) {}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Desk{deps: d, keep: 8 << 20}
}

// Bytes of what a job is shown with.
const (
	planBudget    = 250 << 10
	itemsBudget   = 250 << 10
	historyBudget = 100 << 10
	refusalBudget = 200 << 10 // of the plan in a refusal
	seenBudget    = 8 << 10   // of the plan in an audit record
)

// anewWait is how long a request waits for documents that are read anew.
const anewWait = 15 * time.Second

func group(h jobs.Held) api.Group {
	n := h.Status.Documents.Total
	g := api.Group{
		Key: api.JobKey(h.Job.ID), Kind: api.KindJob, Label: h.Job.Op, Text: h.Job.ID, Reasons: []string{api.ReasonHold}, State: api.StatePending,
		Count: n, Documents: n, IDs: []string{h.Job.ID}, Revision: h.Revision, Sample: api.Sample{Document: h.First},
	}
	if h.HeldBy != "" {
		g.Reasons = []string{api.ReasonHoldPolicy}
	}
	return g
}

// List answers held.list.
func (d *Desk) List(_ context.Context, graphName string, req api.HeldList) (reply api.HeldListReply, err error) {
	reply.Groups = []api.Group{}
	switch {
	case req.Limit < 0 || req.Limit > desk.MaxLimit:
		return reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", req.Limit, desk.MaxLimit)
	case math.IsNaN(req.MinScore) || req.MinScore < 0 || req.MinScore > 1:
		return reply, api.Errorf(400, "bad_value", "min_score is %v: it must be between 0 and 1", req.MinScore)
	case req.MinCount < 0:
		return reply, api.Errorf(400, "bad_value", "min_count is %d: it must not be negative", req.MinCount)
	}
	if reply.Seq, err = d.deps.Store.Seq(graphName); errors.Is(err, store.ErrNoGraph) {
		err = nil
	}
	if err != nil {
		return reply, err
	}
	wanted := map[string]bool{}
	for _, id := range req.IDs {
		wanted[id] = true
	}
	page := desk.NewTop[api.Group](req.Limit + 1)
	label := schema.FoldLabel(req.Label)
	for _, h := range d.deps.Jobs.AllHeld(graphName) {
		reply.Waiting++
		g := group(h)
		if len(wanted) > 0 && !wanted[h.Job.ID] || label != "" && schema.FoldLabel(g.Label) != label || g.Count < req.MinCount || req.MinScore > 0 {
			continue
		}
		reply.Total++
		if p := g.Place(); req.After == nil || req.After.Before(p) {
			page.Add(g, p)
		}
	}
	if req.Limit == 0 {
		return reply, nil
	}
	reply.Groups, reply.More, err = desk.Fill(page.List(), req.Limit, func(g api.Group) (api.Group, error) { return g, nil })
	return reply, err
}

// jobOf is the job that an id or key names.
func jobOf(id, key string) (string, error) {
	if (id == "") == (key == "") {
		return "", api.Errorf(400, "bad_value", "give either id or key")
	}
	if key != "" {
		job, ok := strings.CutPrefix(key, api.KindJob+"|")
		if !ok {
			return "", api.Errorf(400, "bad_value", "%.120q is no key of a held job: that begins with job|", key)
		}
		id = job
	}
	if !events.ValidJob(id) {
		return "", api.Errorf(404, "job_not_found", "%.120q is no job id", id)
	}
	return id, nil
}

// Get answers held.get.
func (d *Desk) Get(ctx context.Context, graphName string, req api.HeldGet) (reply api.HeldReply, err error) {
	job, err := jobOf(req.ID, req.Key)
	if err != nil {
		return reply, err
	}
	err = d.settled(ctx, graphName, job, func() error {
		return d.deps.Jobs.Try(ctx, graphName, job, func(a jobs.Applied) error {
			reply.Seq, reply.Item = a.Txn.Seq()-1, group(a.Held)
			reply.Job = d.item(a)
			made, err := d.plan(ctx, graphName, a, planBudget)
			reply.Planned = made
			return err
		})
	})
	if err != nil {
		return reply, err
	}
	if err := d.documents(ctx, graphName, req.Document, &reply.Job); err != nil {
		return reply, err
	}
	reply.History, err = d.history(graphName, job)
	return reply, err
}

// settled calls fn until documents that had to be read anew are there.
func (d *Desk) settled(ctx context.Context, graphName, job string, fn func() error) error {
	err := fn()
	if errors.Is(err, jobs.ErrAnew) {
		err = d.again(ctx, graphName, job, fn)
	}
	return err
}

// again waits until documents that are read anew are there, and calls fn.
func (d *Desk) again(ctx context.Context, graphName, job string, fn func() error) error {
	end := d.deps.Now().Add(anewWait)
	for {
		s, err := d.deps.Jobs.Wait(ctx, graphName, job, anewWait, func(s api.JobStatus) bool { return s.State == api.JobHeld || api.Ended(s.State) })
		if err != nil {
			return err
		}
		if s.State != api.JobHeld || !d.deps.Now().Before(end) {
			return api.Errorf(503, "not_ready", "documents of job %s moved and are read anew: ask again when it is held", job)
		}
		if err := fn(); !errors.Is(err, jobs.ErrAnew) {
			return err
		}
	}
}

// item is the job and its counts; its documents are added later.
func (d *Desk) item(a jobs.Applied) api.JobItem {
	x := a.Does
	out := api.JobItem{Job: a.Job.ID, Op: a.Job.Op, HeldBy: a.HeldBy, OpenedAt: stamp(a.OpenedAt), Deadline: stamp(a.Deadline), Documents: []api.JobDocument{}}
	merge, storage, read := x.Stages.Merge, x.Stages.Storage, x.Stages.Extraction
	out.Does = api.JobDoes{Documents: x.Documents, EntitiesCreated: merge.EntitiesCreated, EntitiesUpdated: merge.EntitiesUpdated,
		EntitiesRemoved: storage.EntitiesRemoved, RelationsCreated: merge.RelationsCreated, RelationsJoined: merge.RelationsJoined,
		RelationsRemoved: storage.RelationsRemoved, Conflicts: merge.Conflicts, StaleKept: storage.StaleKept, StaleAsked: storage.StaleAsked,
		CandidatesWritten: read.CandidatesWritten, CandidatesSuppressed: read.CandidatesSuppressed}
	out.Does.Documents.Total = len(a.Documents)
	out.Does.Documents.Unchanged = 0
	out.DocumentsTotal = len(a.Documents)
	for _, doc := range a.Documents {
		if doc.Result.Outcome == store.Unchanged || doc.Result.Outcome == store.Unknown {
			out.Does.Documents.Unchanged++
		}
		if len(out.Documents) < maxDocuments {
			out.Documents = append(out.Documents, api.JobDocument{Key: doc.Key, Outcome: doc.Result.Outcome, Items: []api.StagedItem{}})
		}
	}
	return out
}

// maxDocuments of a job are shown.
const maxDocuments = 200

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// history is what was decided about the job, as much as fits.
func (d *Desk) history(graphName, job string) ([]events.Audit, error) {
	list, err := (audit.Trail{Store: d.deps.Store, Graph: graphName}).Of(api.JobKey(job))
	if err != nil {
		return nil, err
	}
	used := 0
	for i, r := range list {
		if used += 600 + 2*(len(r.Item)+len(r.Edited)+len(r.Reason)); used > historyBudget && i > 0 {
			return list[:i], nil
		}
	}
	return list, nil
}
