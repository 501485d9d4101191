package integration

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// shownJob is a held job as people are shown it.
func (c *cluster) shownJob(graph, job string) api.ReviewShowReply {
	c.t.Helper()
	return ask[api.ReviewShowReply](c, graph, "review.show", api.ReviewShow{Key: api.JobKey(job)})
}

// accept accepts what a held job would do, as it is shown; shown anew where the graph moved, or documents had to be read anew.
func (c *cluster) accept(graph, job string) (s api.JobStatus) {
	c.t.Helper()
	testkit.Await(c.t, "job "+job+" to be accepted", func() bool {
		s = ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: job, Wait: "5s"})
		if s.State != api.JobHeld {
			return api.Ended(s.State)
		}
		var shown api.ReviewShowReply
		err := c.conn.Request(c.t.Context(), "factmill."+graph+".review.show", api.ReviewShow{Key: api.JobKey(job)}, &shown)
		if err == nil {
			req := api.JobAccept{Job: job, Fingerprint: shown.Fingerprint, Actor: "test"}
			err = c.conn.Request(c.t.Context(), "factmill."+graph+".jobs.accept", req, &s)
		}
		var refused *api.Error
		if errors.As(err, &refused) && (refused.Code == "stale_plan" || refused.Code == "job_not_held") { // it was read anew
			return false
		}
		require.NoError(c.t, err)
		return api.Ended(s.State)
	})
	return s
}

// What a held job was shown to do is what accepting it does, or nothing is done: another document moved the graph meanwhile. In the end the
// graph is what it is without holding.
func TestHeldJobsOverNATS(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{Replicas: 2})
	first := doc("doc-1", "Lin works for Guild. Mo works for Orva.")
	change := []map[string]any{doc("doc-1", "Mo works for Orva. Mo works for Guild."), doc("doc-3", "They say that Lin works for Orva.")}
	other := doc("doc-2", "Everybody knows that Lin works for Guild.")
	f.putSchema("g", guild)
	f.putSchema("free", guild)
	f.run("g", map[string]any{"documents": []any{first}})
	job := f.publish("g", map[string]any{"job": "look", "documents": change, "hold": true})
	f.await("g", job, api.JobHeld)
	before := f.export("g")

	list := ask[api.ReviewListReply](f.cluster, "g", "review.list", map[string]any{"kinds": []string{"job"}})
	require.Len(t, list.Groups, 1)
	require.Equal(t, []any{"job|look", "pending", 2, uint64(1)}, []any{list.Groups[0].Key, list.Groups[0].State, list.Groups[0].Count, list.Groups[0].Revision})
	require.Equal(t, 1, ask[api.ReviewStatsReply](f.cluster, "g", "review.stats", nil).Jobs)
	seen := f.shownJob("g", job)
	require.Equal(t, []string{"+ Mo WORKS_FOR Guild  (doc-1)", "+ to decide, not stated any more: Lin WORKS_FOR Guild  (doc-1)", "+ Lin WORKS_FOR Orva  (doc-3)"},
		slices.DeleteFunc(seen.Plan.Lines(), func(l string) bool { return !strings.Contains(l, "WORKS_FOR") }))
	require.Equal(t, before, f.export("g"), "it was only looked at")
	no := refused(f.cluster, "g", "review.approve", api.ReviewDecide{Keys: []string{"job|look"}, Decision: "accept", Actor: "eva"})
	require.Equal(t, []any{400, "bad_value"}, []any{no.Status, no.Code})

	f.run("g", map[string]any{"documents": []any{other}})
	moved := f.export("g")
	req := api.ReviewDecide{Keys: []string{"job|look"}, Decision: "accept", Fingerprint: seen.Fingerprint, Actor: "eva"}
	no = refused(f.cluster, "g", "review.approve", req)
	require.Equal(t, []any{409, "stale_plan"}, []any{no.Status, no.Code})
	require.Equal(t, moved, f.export("g"), "nothing was written")
	f.restart("committer")
	f.await("g", job, api.JobHeld)
	now := f.shownJob("g", job)
	require.Equal(t, no.Details["fingerprint"], now.Fingerprint, "equal after a restart")
	raw, err := json.Marshal(no.Details["plan"])
	require.NoError(t, err)
	fresh, err := json.Marshal(now.Plan)
	require.NoError(t, err)
	require.JSONEq(t, string(fresh), string(raw))
	require.Contains(t, now.Plan.Lines(), "+ to decide, not stated any more: Lin WORKS_FOR Guild  (doc-1)  1 other source")

	req.Fingerprint, req.RequestID = now.Fingerprint, "once"
	d := ask[api.DecideReply](f.cluster, "g", "review.approve", req)
	require.Equal(t, d, ask[api.DecideReply](f.cluster, "g", "review.approve", req))
	byID := req
	byID.Keys, byID.IDs, byID.RequestID = nil, []string{"look"}, ""
	late := refused(f.cluster, "g", "review.approve", byID)
	require.Equal(t, []any{409, "stale_revision", "approved"}, []any{late.Status, late.Code, late.Details["state"]})
	s := f.await("g", job, api.JobCommitted)
	require.Equal(t, []any{d.Seq, 1, 1}, []any{s.CommitSeq, s.Documents.Added, s.Documents.Updated})
	for _, event := range []map[string]any{{"documents": []any{first}}, {"documents": []any{other}}, {"documents": change}} {
		f.run("free", event)
	}
	require.Equal(t, f.export("free"), f.export("g"))
	f.sound("g")
	undo := refused(f.cluster, "g", "review.undo", api.ReviewUndo{Decision: d.Records["job|look"], Actor: "bo"})
	require.Equal(t, []any{412, "not_supported"}, []any{undo.Status, undo.Code})
	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Item: "job|look", Verify: true})
	require.Len(t, log.Records, 1)
	require.Empty(t, log.Problems)
}

// Sent back with edits it is held with what they make of it; of two who accept that at once one does; rejected it leaves nothing.
func TestHeldJobsAreEdited(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.putSchema("g", guild+"\n")
	f.await("g", f.publish("g", map[string]any{"job": "look", "documents": []any{doc("doc-1", "Lin works for Guild. Mo works for Orva.")}, "hold": true}), api.JobHeld)
	seen := f.shownJob("g", "look")
	item := func(kind, text string) string {
		for _, x := range seen.Job.Documents[0].Items {
			if x.Kind == kind && x.Source+" "+x.Target == text {
				return x.Item
			}
		}
		require.Fail(t, "no item", "%s in %+v", text, seen.Job)
		return ""
	}
	edit := api.ReviewDecide{IDs: []string{"look"}, Decision: "send_back", Fingerprint: seen.Fingerprint, Actor: "eva",
		Edits: []api.JobEdit{{Document: "doc-1", Item: item("relation", "Lin Guild"), Set: map[string]any{"target": "Mo"}}}}
	no := refused(f.cluster, "g", "review.reject", edit)
	require.Equal(t, 400, no.Status)
	require.Contains(t, no.Message, "no WORKS_FOR from Person to Person")
	require.Equal(t, seen.Fingerprint, f.shownJob("g", "look").Fingerprint)
	edit.Edits[0].Set, edit.Edits[0].Drop = nil, true
	sent := ask[api.DecideReply](f.cluster, "g", "review.reject", edit)
	require.NotEqual(t, seen.Fingerprint, sent.Fingerprint)
	require.Equal(t, sent.Fingerprint, f.shownJob("g", "look").Fingerprint)

	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		wg.Go(func() {
			errs[i] = f.conn.Request(t.Context(), "factmill.g.review.approve", api.ReviewDecide{IDs: []string{"look"}, Fingerprint: sent.Fingerprint, Actor: "eva"}, nil)
		})
	}
	wg.Wait()
	lost := 0
	for _, err := range errs {
		if err != nil {
			lost++
			require.ErrorContains(t, err, "is decided: accept by eva")
		}
	}
	require.Equal(t, 1, lost)
	require.Equal(t, map[string]int{"Mo Orva": 1}, f.worksFor("g"))
	require.Len(t, ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Item: "job|look"}).Records, 2)

	f.await("g", f.publish("g", map[string]any{"op": "delete", "key": "doc-1", "job": "gone", "hold": true}), api.JobHeld)
	gone := f.shownJob("g", "gone")
	require.Contains(t, gone.Plan.Lines(), "- Mo WORKS_FOR Orva  (doc-1)  0 left")
	ask[api.DecideReply](f.cluster, "g", "review.reject", api.ReviewDecide{IDs: []string{"gone"}, Fingerprint: gone.Fingerprint, Actor: "eva", Reason: "no"})
	require.Equal(t, "rejected: by eva: no", f.await("g", "gone", api.JobRolledBack).Reason)
	require.Equal(t, map[string]int{"Mo Orva": 1}, f.worksFor("g"))
	f.sound("g")
}

// A condition of the policy holds a job as its event would.
func TestHeldByThePolicy(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", strings.Replace(guild, "review: {stale: review}", "review: {version: '2', manual: [{kind: job, scope: secret}, {kind: job, deletes: true}]}", 1))
	f.run("g", map[string]any{"documents": []any{doc("open", "Lin works for Guild.")}})
	f.await("g", f.publish("g", map[string]any{"job": "look", "key": "s", "text": "Mo works for Orva.", "scope": "secret"}), api.JobHeld)
	f.await("g", f.publish("g", map[string]any{"job": "gone", "key": "open", "op": "delete"}), api.JobHeld)
	for i, job := range []string{"look", "gone"} {
		x := f.shownJob("g", job)
		require.Regexp(t, `^review\.manual\[`+[]string{"0", "1"}[i]+`\] of policy 2 \(`, x.Job.HeldBy)
		ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{IDs: []string{job}, Fingerprint: x.Fingerprint, Actor: "eva"})
	}
	require.Equal(t, map[string]int{"Mo Orva": 1}, f.worksFor("g"))
	f.sound("g")
}
