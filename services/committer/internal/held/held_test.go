package held

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
)

// What was shown is what is executed: when the graph moves, the accept is refused with the plan of now and nothing is written.
func TestTheSeenPlanIsAccepted(t *testing.T) {
	r := newRoom(t, guild)
	r.commit("j-a", says("doc-1", "Lin MEMBER_OF Guild", "Lin is 30", "Perhaps Wren"))
	seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Orva", "Lin is 30", "Perhaps Lark"), says("doc-3", "Mo KNOWS Lin"))
	require.Equal(t, []string{
		"+ candidate Lark Ship  (doc-1)", "    “Lark”", "- candidate Wren Ship  (doc-1)", "    “Wren”", "~ document new version  (doc-1)",
		"+ Guild Orva  (doc-1)", "    “Orva”", "+ Lin MEMBER_OF Orva  (doc-1)", "    “Lin MEMBER_OF Orva”",
		"+ to decide, not stated any more: Lin MEMBER_OF Guild  (doc-1)", "    “Lin MEMBER_OF Guild”",
		"+ document added  (doc-3)", "+ Person Lin  (doc-3)  1 other source", "    “Lin”", "+ Person Mo  (doc-3)", "    “Mo”", "+ Mo KNOWS Lin  (doc-3)", "    “Mo KNOWS Lin”",
	}, seen.Plan.Lines())
	require.Equal(t, []plan.Base{{Document: "doc-1", Revision: 1}, {Document: "doc-3"}}, seen.Plan.Base)
	require.Equal(t, seen.Plan.Fingerprint(), seen.Fingerprint)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 1, Updated: 1}, seen.Job.Does.Documents)
	require.Equal(t, []int{2, 2, 1, 1}, []int{seen.Job.Does.EntitiesCreated, seen.Job.Does.RelationsCreated, seen.Job.Does.StaleAsked, seen.Job.Does.CandidatesWritten})
	require.Equal(t, map[string]int{"Lin MEMBER_OF Guild": 1}, r.relations(), "it was only looked at")
	r.sound()
	list, err := r.List(t.Context(), g, api.HeldList{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []any{seen.Item, 1, 1}, []any{list.Groups[0], list.Total, list.Waiting})
	require.Equal(t, api.Group{Key: "job|look", Kind: "job", Label: "add", Text: "look", Reasons: []string{"hold"}, State: "pending", Count: 2, Documents: 2,
		IDs: []string{"look"}, Revision: 1, Sample: api.Sample{Document: "doc-1"}}, seen.Item)

	r.commit("j-b", says("doc-2", "Lin MEMBER_OF Guild"))
	no := r.refused(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: seen.Fingerprint})
	now := r.get("look")
	require.Equal(t, []any{409, "stale_plan", now.Fingerprint, now.Plan}, []any{no.Status, no.Code, no.Details["fingerprint"], no.Details["plan"]})
	require.Contains(t, now.Plan.Lines(), "+ to decide, not stated any more: Lin MEMBER_OF Guild  (doc-1)  1 other source")
	require.Equal(t, map[string]int{"Lin MEMBER_OF Guild": 2}, r.relations())
	require.Equal(t, "stale_plan", r.refused(api.HeldDecide{ID: "look", Decision: "reject", Fingerprint: seen.Fingerprint}).Code)
	r.wait("look", api.JobHeld)
	require.Empty(t, r.records("look"))

	// What does not touch it leaves it as it is.
	r.commit("j-c", says("doc-9", "Ida KNOWS Ove"))
	req := api.HeldDecide{Key: "job|look", Decision: "accept", Fingerprint: now.Fingerprint, RequestID: "once"}
	d := r.decide(req)
	require.Equal(t, []string{"job|look"}, d.Outcome.Changed)
	require.Equal(t, map[string]int{"Lin MEMBER_OF Guild": 2, "Lin MEMBER_OF Orva": 1, "Mo KNOWS Lin": 1, "Ida KNOWS Ove": 1}, r.relations())
	s := r.wait("look", api.JobCommitted)
	require.Equal(t, []any{d.Seq, 1}, []any{s.CommitSeq, s.Stages.Storage.StaleAsked})
	require.Equal(t, d, r.decide(req), "asked again it answers the same")
	r.restart()
	require.Equal(t, d, r.decide(req))
	req.Decision = "reject"
	require.Equal(t, "operation_reused", r.refused(req).Code)
	req.RequestID = ""
	late := r.refused(req)
	require.Equal(t, []any{409, "stale_revision", "approved", "eva"}, []any{late.Status, late.Code, late.Details["state"], late.Details["actor"]})
	list_ := r.records("look")
	require.Len(t, list_, 1)
	rec := list_[0]
	require.Equal(t, []any{"job", "accept", now.Fingerprint, "once", "pending", "approved", d.Seq, d.Records["job|look"]},
		[]any{rec.Kind, rec.Decision, rec.Plan, rec.Operation, rec.Before, rec.After, rec.Seq, rec.Record})
	require.Contains(t, string(rec.Item), "Lin MEMBER_OF Guild")
	r.sound()
}

// The fingerprint is of the whole plan, whatever is shown of it, and equal after a restart; a plan that is too large to be held has the same one.
func TestFingerprintIsStable(t *testing.T) {
	r := newRoom(t, guild)
	r.commit("j-a", says("doc-1", "Lin MEMBER_OF Guild"), says("doc-2", "Lin MEMBER_OF Guild"))
	seen := r.hold("look", says("doc-2", "Mo KNOWS Lin", "Mo is 7"), says("doc-1", "Ida KNOWS Ove"), says("doc-4", "Perhaps Wren"))
	r.keep = 600
	small := r.get("look")
	require.Equal(t, seen.Fingerprint, small.Fingerprint)
	require.Less(t, len(small.Plan.Changes), len(seen.Plan.Changes))
	require.Equal(t, len(seen.Plan.Changes)-len(small.Plan.Changes), small.PlanLeftOut)
	require.Equal(t, seen.Plan.Base, small.Plan.Base)
	r.restart()
	require.Equal(t, seen, r.get("look"))
	// Golden: the same on every machine.
	require.Equal(t, "75e9711d1390a653538fa3d0d6368430b859bffd3dbc0b8466650421b0628cce", seen.Fingerprint)
}

func TestRejectRollsBack(t *testing.T) {
	r := newRoom(t, guild)
	r.commit("j-a", says("doc-1", "Lin MEMBER_OF Guild"))
	seen := r.hold("look", says("doc-1"))
	require.Equal(t, "delete", seen.Job.Op)
	require.Equal(t, []string{"- document deleted  (doc-1)", "- Guild Guild  (doc-1)  0 left", "    “Guild”", "- Person Lin  (doc-1)  0 left", "    “Lin”",
		"- Lin MEMBER_OF Guild  (doc-1)  0 left", "    “Lin MEMBER_OF Guild”"}, seen.Plan.Lines())
	d := r.decide(api.HeldDecide{ID: "look", Decision: "reject", Fingerprint: seen.Fingerprint, Reason: "too soon", RequestID: "q"})
	s := r.wait("look", api.JobRolledBack)
	require.Equal(t, "rejected: by eva: too soon", s.Reason)
	require.Equal(t, map[string]int{"Lin MEMBER_OF Guild": 1}, r.relations())
	rec := r.records("look")
	require.Len(t, rec, 1)
	require.Equal(t, []string{"reject", "rejected", "too soon", seen.Fingerprint}, []string{rec[0].Decision, rec[0].After, rec[0].Reason, rec[0].Plan})
	r.restart()
	require.Equal(t, d, r.decide(api.HeldDecide{ID: "look", Decision: "reject", Fingerprint: seen.Fingerprint, Reason: "too soon", RequestID: "q"}))
	list, err := r.List(t.Context(), g, api.HeldList{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list.Groups)
	r.sound()
}

// Two decide at once by the same screen: one does, the other is told what was done, and there is one record.
func TestTwoReviewers(t *testing.T) {
	for range 8 {
		r := newRoom(t, guild)
		seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Guild"))
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, decision := range []string{"accept", "reject"} {
			wg.Go(func() {
				_, errs[i] = r.Decide(t.Context(), g, api.HeldDecide{ID: "look", Decision: decision, Fingerprint: seen.Fingerprint, Actor: decision + "er"})
			})
		}
		wg.Wait()
		rec := r.records("look")
		require.Len(t, rec, 1)
		won := 0
		if rec[0].Decision == "reject" {
			won = 1
		}
		require.NoError(t, errs[won])
		var e *api.Error
		require.ErrorAs(t, errs[1-won], &e)
		require.Equal(t, []any{409, "stale_revision", rec[0].After, rec[0].Actor}, []any{e.Status, e.Code, e.Details["state"], e.Details["actor"]})
		r.wait("look", []string{api.JobCommitted, api.JobRolledBack}[won])
	}
}

// Whoever waits for a person loses no lease. A deadline is the user's own bound and holds all the same.
func TestLeaseAndDeadline(t *testing.T) {
	r := newRoom(t, guild)
	r.hold("look", says("doc-1", "Lin MEMBER_OF Guild"))
	r.opened("dated", func(o *api.JobOpen) { o.Hold, o.Deadline = true, "1000h" }, says("doc-2", "Mo KNOWS Lin"))
	r.wait("dated", api.JobHeld)
	require.Equal(t, "2024-06-12T04:00:00Z", r.get("dated").Job.Deadline)
	r.add(24 * time.Hour)
	r.restart()
	r.add(24 * time.Hour)
	r.commit("other", says("doc-3", "Ida KNOWS Ove")) // the machine has looked meanwhile
	seen := r.get("look")
	require.Equal(t, 1, r.wait("look", api.JobHeld).Attempt)
	r.add(1000 * time.Hour)
	require.Contains(t, r.wait("dated", api.JobRolledBack).Reason, "deadline")
	r.wait("look", api.JobHeld)
	require.Zero(t, r.held, "no stream was asked for messages of it")
	r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: seen.Fingerprint})
	r.wait("look", api.JobCommitted)
	require.Equal(t, map[string]int{"Lin MEMBER_OF Guild": 1, "Ida KNOWS Ove": 1}, r.relations())
}

// A newer version of its document committed meanwhile: what the held job would do is nothing, and that is what is shown and accepted.
func TestSupersededMeanwhile(t *testing.T) {
	r := newRoom(t, guild)
	seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Guild"))
	r.commit("newer", says("doc-1", "Lin MEMBER_OF Orva"))
	no := r.refused(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: seen.Fingerprint})
	require.Equal(t, "stale_plan", no.Code)
	require.Equal(t, []string{"~ document superseded  (doc-1)"}, no.Details["plan"].(*plan.Plan).Lines())
	r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: no.Details["fingerprint"].(string)})
	require.Equal(t, api.DocumentCounts{Total: 1, Superseded: 1}, r.wait("look", api.JobCommitted).Documents)
	require.Equal(t, map[string]int{"Lin MEMBER_OF Orva": 1}, r.relations())
}

// A later job that says supersede takes the document while somebody decides in vain.
func TestTakenByALaterJob(t *testing.T) {
	r := newRoom(t, guild)
	seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Guild"), says("doc-2", "Mo KNOWS Lin"))
	r.opened("later", func(o *api.JobOpen) { o.Supersede, o.Hold = true, true }, says("doc-1", "Lin MEMBER_OF Orva"))
	r.wait("later", api.JobHeld)
	now := r.get("look")
	require.NotEqual(t, seen.Fingerprint, now.Fingerprint)
	require.Equal(t, 1, now.Job.DocumentsTotal)
	require.Equal(t, "stale_plan", r.refused(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: seen.Fingerprint}).Code)
	r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: now.Fingerprint})
	require.Equal(t, map[string]int{"Mo KNOWS Lin": 1}, r.relations())
}

// A decision that rested on what was stored is taken anew when that moved; the job is held again then.
func TestReadAnew(t *testing.T) {
	r := newRoom(t, guild)
	r.commit("j-a", says("doc-1", "Lin MEMBER_OF Guild"))
	r.seq++
	o, err := r.m.Open(t.Context(), g, api.JobOpen{Job: "look", Digest: "x", At: graph.Order{Time: 100, Seq: 100}, Op: events.OpAdd, ErrorPolicy: events.PolicyRaise, Atomic: events.AtomicJob, Hold: true})
	require.NoError(t, err)
	d := says("doc-1", "Lin MEMBER_OF Guild")
	staged := r.events(o.Job, d, 0)[0].(*events.Staged)
	staged.Decision, staged.Base, staged.Text, staged.Chunks, staged.Meta.Title = graph.MetadataOnly, 1, "", nil, "Another title"
	r.send(staged, &events.Sealed{Job: o.Job, Sources: []string{staged.Doc.Source}})
	r.wait("look", api.JobHeld)
	seen := r.get("look")
	require.Equal(t, []string{"~ document metadata  (doc-1)"}, seen.Plan.Lines())
	r.commit("j-b", says("doc-1", "Lin MEMBER_OF Guild", "Mo KNOWS Lin"))
	answer := make(chan error, 1)
	go func() {
		_, err := r.Decide(t.Context(), g, api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: seen.Fingerprint, Actor: "eva"})
		answer <- err
	}()
	r.wait("look", api.JobPending)
	r.send(r.events(o.Job, d, 1)...)
	var e *api.Error
	require.ErrorAs(t, <-answer, &e)
	now := r.get("look")
	require.Equal(t, []any{"stale_plan", now.Fingerprint}, []any{e.Code, e.Details["fingerprint"]})
	require.Equal(t, uint64(2), now.Item.Revision)
	require.Contains(t, now.Plan.Lines(), "~ document new version  (doc-1)")
	revision := uint64(1)
	require.Equal(t, "stale_revision", r.refused(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: now.Fingerprint, Revision: &revision}).Code)
	r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: now.Fingerprint})
	r.wait("look", api.JobCommitted)
	require.Equal(t, map[string]int{"Lin MEMBER_OF Guild": 1, "Mo KNOWS Lin": 1}, r.relations(), "Mo's waits as a stale fact")
	r.sound()
}

func TestRefusals(t *testing.T) {
	r := newRoom(t, guild)
	r.hold("look", says("doc-1", "Lin MEMBER_OF Guild"))
	for want, req := range map[string]api.HeldDecide{
		"fingerprint is missing":     {ID: "look", Decision: "accept"},
		"accepted, rejected or sent": {ID: "look", Decision: "choose", Fingerprint: "x"},
		"give either id or key":      {Decision: "accept", Fingerprint: "x"},
		"edits are missing":          {ID: "look", Decision: "send_back", Fingerprint: "x"},
		"edits are of a job that":    {ID: "look", Decision: "accept", Fingerprint: "x", Edits: []api.JobEdit{{}}},
		"begins with job|":           {Key: "stale|look", Decision: "accept", Fingerprint: "x"},
		"that name is the policy's":  {ID: "look", Decision: "accept", Fingerprint: "x", Actor: "Policy"},
		"no job id":                  {ID: "a b", Decision: "accept", Fingerprint: "x"},
		"graph g has no job none":    {ID: "none", Decision: "accept", Fingerprint: "x"},
		"is not what was looked at":  {ID: "look", Decision: "accept", Fingerprint: "x"},
	} {
		require.Contains(t, r.refused(req).Message, want)
	}
	for _, id := range []string{"none", "nothing"} {
		_, err := r.Get(t.Context(), "nowhere", api.HeldGet{ID: id})
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "job_not_found", e.Code)
	}
	reply, err := r.List(t.Context(), "nowhere", api.HeldList{Limit: 5})
	require.NoError(t, err)
	require.Empty(t, reply.Groups)
	reply, err = r.List(t.Context(), g, api.HeldList{Limit: 5, Label: "delete"})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{reply.Total, reply.Waiting})

	// jobs.accept quotes a fingerprint, too.
	seen := r.get("look")
	for _, req := range []api.JobAccept{{Job: "look", Actor: "eva"}, {Job: "look", Actor: "eva", Fingerprint: "*"}, {Job: "look", Fingerprint: seen.Fingerprint}} {
		_, err = r.Accept(t.Context(), g, req)
		require.Error(t, err)
	}
	_, err = r.Accept(t.Context(), g, api.JobAccept{Job: "look", Actor: "eva", Fingerprint: seen.Fingerprint})
	require.NoError(t, err)
	rec := r.records("look")
	require.Equal(t, []any{1, "eva", seen.Fingerprint}, []any{len(rec), rec[0].Actor, rec[0].Plan})
}

// A condition of kind job holds what it fits, by scope, by what is stated, by deletes; others commit.
func TestHeldByPolicy(t *testing.T) {
	with := func(manual string) string {
		return guild[:len(guild)-len(`,"review":{"stale":"review"}}`)] + `,"review":{"version":"3","manual":` + manual + `}}`
	}
	secret := doc{key: "s", lines: []string{"Lin KNOWS Mo"}, scope: "secret"}
	for _, c := range []struct {
		manual string
		doc    doc
		held   bool
	}{
		{`[{"kind":"job"}]`, says("d", "Lin KNOWS Mo"), true},
		{`[{"kind":"job","scope":"secret"}]`, says("d", "Lin KNOWS Mo"), false},
		{`[{"kind":"entity"},{"kind":"job","scope":"secret"}]`, secret, true},
		{`[{"kind":"job","label":"member of"}]`, says("d", "Lin MEMBER_OF Guild"), true},
		{`[{"kind":"job","label":"member of"}]`, says("d", "Lin KNOWS Mo"), false},
		{`[{"kind":"job","label":"Person.age"}]`, says("d", "Lin is 30"), true},
		{`[{"kind":"job","label":"KNOWS","max_confidence":0.7}]`, says("d", "Lin KNOWS Mo"), false},
		{`[{"kind":"job","deletes":true}]`, says("d", "Lin KNOWS Mo"), false},
		{`[{"kind":"job","deletes":true}]`, says("old"), true},
		{`[{"kind":"job","deletes":true,"scope":"secret"}]`, says("old"), false},
		{`[{"kind":"job","deletes":false}]`, says("old"), false},
		{`[{"label":"KNOWS"}]`, says("d", "Lin KNOWS Mo"), false},
		{`[{"kind":"job","sensitive":true}]`, says("d", "Lin is 30"), false},
	} {
		r := newRoom(t, guild)
		r.commit("first", says("old", "Ida KNOWS Ove"))
		_, err := r.gs.SchemaPut(t.Context(), g, api.SchemaPut{Schema: with(c.manual)})
		require.NoError(t, err, c.manual)
		r.opened("look", func(o *api.JobOpen) { o.Atomic = events.AtomicDocument }, c.doc)
		if !c.held {
			r.wait("look", api.JobCommitted)
			continue
		}
		s := r.wait("look", api.JobHeld)
		require.Regexp(t, `^review\.manual\[\d\] of policy 3 \([0-9a-f]{16}\)$`, s.HeldBy, c.manual)
		r.restart()
		x := r.get("look")
		require.Equal(t, []any{s.HeldBy, "policy"}, []any{x.Job.HeldBy, x.Item.Reasons[0]})
		r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: x.Fingerprint})
		require.Equal(t, s.HeldBy, r.wait("look", api.JobCommitted).HeldBy)
		var item map[string]any
		require.NoError(t, json.Unmarshal(r.records("look")[0].Item, &item))
		require.Equal(t, s.HeldBy, item["held_by"])
		r.sound()
	}
}
