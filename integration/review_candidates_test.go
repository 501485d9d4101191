package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// undeclared are documents that speak of what the schema staff does not declare.
func undeclared() []map[string]any {
	return []map[string]any{
		doc("a", "The Larch Workshop took place in Vell Harbour. Alice works at Acme. Perhaps Bob will work for Orva."),
		doc("b", "The Larch Workshop was full. The Larch Workshop was cold. Perhaps Bob will work for Orva."),
	}
}

// candidateGroups are the candidate groups of a state ("": all) by key.
func (c *cluster) candidateGroups(graph, state string) map[string]api.Group {
	c.t.Helper()
	req := map[string]any{"state": state}
	if state == "" {
		req["state"] = nil
	}
	out := map[string]api.Group{}
	for _, g := range ask[api.ReviewListReply](c, graph, "review.list", req).Groups {
		out[g.Key+" "+g.State] = g
	}
	return out
}

const bobAtOrva = "relation|works for|bob|orva"

// What people decide about candidates stays, whatever happens to the documents, and every next question has it in it.
func TestCandidateDecisionsStay(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 3})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"documents": undeclared()})
	open := f.candidateGroups("g", "pending")
	require.Contains(t, open, bobAtOrva+" pending", "%v", open)
	g := open[bobAtOrva+" pending"]
	require.Equal(t, []int{2, 2}, []int{g.Count, g.Documents})

	r := ask[api.DecideReply](f.cluster, "g", "review.reject", api.ReviewDecide{IDs: g.IDs[:1], Actor: "eva", Reason: "hearsay", Revision: &g.Revision})
	require.Equal(t, []string{bobAtOrva}, r.Outcome.Changed)
	for range 6 { // whichever replica answers
		require.NotContains(t, f.candidateGroups("g", "pending"), bobAtOrva+" pending")
		require.Equal(t, 2, f.candidateGroups("g", "rejected")[bobAtOrva+" rejected"].Documents)
	}
	shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: bobAtOrva})
	require.Equal(t, []string{"eva", "hearsay", "reject", r.Records[bobAtOrva]}, []string{shown.History[0].Actor, shown.History[0].Reason, shown.History[0].Decision, shown.History[0].Record})
	require.Equal(t, uint64(r.Seq), shown.Revision)

	s := f.run("g", map[string]any{"documents": undeclared(), "force": true})
	require.Equal(t, 2, s.Stages.Extraction.CandidatesSuppressed)
	f.remove("g", "a")
	s = f.run("g", map[string]any{"documents": []map[string]any{undeclared()[0], doc("c", "Perhaps Bob will work for Orva.")}})
	require.Equal(t, 2, s.Stages.Extraction.CandidatesSuppressed)
	require.NotContains(t, f.candidateGroups("g", "pending"), bobAtOrva+" pending")
	export := f.exported("g", 0)
	require.Contains(t, export, `{"key":"`+bobAtOrva+`","kind":"decision","state":"rejected"}`)

	// Approved stays approved, and later sightings join.
	rest := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"entity"}}, Actor: "bo"})
	approved := f.candidateGroups("g", "approved")
	require.Len(t, approved, len(rest.Outcome.Changed))
	f.run("g", map[string]any{"documents": undeclared(), "force": true})
	require.Equal(t, keysOfGroups(approved), keysOfGroups(f.candidateGroups("g", "approved")))

	// Taken back, it comes again with the next reading.
	u := ask[api.DecideReply](f.cluster, "g", "review.undo", api.ReviewUndo{Decision: r.Records[bobAtOrva], Actor: "eva"})
	require.Equal(t, []string{bobAtOrva}, u.Outcome.Changed)
	require.NotContains(t, f.candidateGroups("g", ""), bobAtOrva+" rejected")
	require.Equal(t, "decision_not_current", refused(f.cluster, "g", "review.undo", api.ReviewUndo{Decision: r.Records[bobAtOrva], Actor: "eva"}).Code)
	f.run("g", map[string]any{"documents": undeclared(), "force": true})
	require.Equal(t, 2, f.candidateGroups("g", "pending")[bobAtOrva+" pending"].Documents)

	// So it does after a prune.
	ask[api.DecideReply](f.cluster, "g", "review.reject", api.ReviewDecide{Keys: []string{bobAtOrva}, Actor: "eva"})
	dry := ask[api.ReviewPruneReply](f.cluster, "g", "review.prune", api.ReviewPrune{Rejected: true})
	require.Equal(t, []any{[]string{bobAtOrva}, 0, false}, []any{dry.Matched, dry.Deleted, dry.Applied})
	done := ask[api.ReviewPruneReply](f.cluster, "g", "review.prune", api.ReviewPrune{Rejected: true, Apply: true, Actor: "eva"})
	require.Equal(t, []any{2, true}, []any{done.Deleted, done.Applied})
	f.run("g", map[string]any{"documents": undeclared(), "force": true})
	one := f.candidateGroups("g", "pending")[bobAtOrva+" pending"]
	require.Equal(t, 2, one.Documents)

	// An edit is shown at once; the record keeps its key.
	edited := ask[api.ReviewEditReply](f.cluster, "g", "review.edit", api.ReviewEdit{ID: one.IDs[0], Set: map[string]any{"target_text": "Acme"}, Actor: "eva"})
	require.Contains(t, []string{edited.Records[0].TargetText, edited.Records[1].TargetText}, "Acme")
	require.Equal(t, bobAtOrva, edited.Item.Key)
	require.Equal(t, "edit", edited.History[0].Decision)

	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Verify: true})
	require.Empty(t, log.Problems)
	require.Equal(t, int(log.Total), *log.Verified)
	require.Len(t, f.audit("g", int(log.Total)), len(log.Records))
	f.sound("g")
}

func keysOfGroups(m map[string]api.Group) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Two reviewers approve one candidate through several replicas at once: one of them changes it, and there is one record.
func TestCandidateReviewersAtOnce(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 3})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"documents": undeclared()})
	require.NotEmpty(t, f.candidateGroups("g", "pending"))
	var wg sync.WaitGroup
	changed := make(chan int, 4)
	for who := range 4 {
		wg.Go(func() {
			var r api.DecideReply
			err := f.conn.Request(t.Context(), "factmill.g.review.reject", api.ReviewDecide{Keys: []string{bobAtOrva}, Actor: fmt.Sprint("reviewer ", who)}, &r)
			if err != nil {
				t.Error(err)
			}
			changed <- len(r.Outcome.Changed)
		})
	}
	wg.Wait()
	require.Equal(t, 1, <-changed+<-changed+<-changed+<-changed)
	require.Len(t, f.audit("g", 1), 1)
}

// A client that gives up before a slow committer has answered, and asks again with the same request id, gets one change and one reply.
func TestAskedAgainAfterATimeout(t *testing.T) {
	c := sixProcesses(t, 1)
	c.putSchema("g", staff)
	c.add("g", undeclared()...)
	before := c.candidateGroups("g", "pending")
	require.Contains(t, before, bobAtOrva+" pending")
	req := api.ReviewDecide{Query: &api.ReviewList{}, Actor: "eva", RequestID: "once"}
	c.the("committer").signal(t, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	err := c.conn.Request(ctx, "factmill.g.review.reject", req, nil)
	cancel()
	require.Error(t, err)
	require.NoError(t, c.procs["committer"][0].cmd.Process.Signal(syscall.SIGCONT))
	var first api.DecideReply
	testkit.AwaitFor(t, 30*time.Second, "an answer", func() bool {
		first = api.DecideReply{}
		return c.conn.Request(t.Context(), "factmill.g.review.reject", req, &first) == nil
	})
	require.Len(t, first.Outcome.Changed, len(before))
	require.Equal(t, first, ask[api.DecideReply](c, "g", "review.reject", req))
	log := c.audit("g", len(before))
	for _, a := range log {
		require.Equal(t, []string{"once", events.DecisionReject}, []string{a.Operation, a.Decision})
	}
	require.Empty(t, c.candidateGroups("g", "pending"))
	c.sound("g")
}

// The commands on a directory, as people see them.
func TestReviewCandidateCommands(t *testing.T) {
	dir := t.TempDir()
	for _, d := range undeclared() {
		write(t, dir, "docs/"+d["key"].(string)+".txt", d["text"].(string))
	}
	write(t, dir, "staff.yaml", staff)
	said := func(stdin string, code int, args ...string) result {
		t.Helper()
		r := runIn(t, dir, stdin, append(args, "--data", "g")...)
		require.Equal(t, code, r.code, "%v\n%s\n%s", args, r.stdout, r.stderr)
		return r
	}
	command := func(code int, args ...string) result { t.Helper(); return said("", code, args...) }
	command(0, "ingest", "docs", "--schema", "staff.yaml")
	groups := loose[api.ReviewListReply](t, command(0, "review", "list", "--json").stdout).Groups
	require.NotEmpty(t, groups)
	out := command(4, "review", "approve", "--key", bobAtOrva, "--key", "entity|x|y", "--actor", "eva")
	require.Contains(t, out.stdout, "skipped entity|x|y: candidate_not_found")
	require.Contains(t, out.stderr, "skipped")
	command(0, "review", "reject", "--key", bobAtOrva, "--actor", "eva", "--reason", "hearsay")
	require.Contains(t, command(0, "review", "reject", "--key", bobAtOrva).stdout, "skipped "+bobAtOrva+": already rejected")
	require.Contains(t, command(0, "review", "show", bobAtOrva).stdout, "hearsay")
	require.Contains(t, command(0, "review", "audit", "--item", bobAtOrva).stdout, "hearsay")
	require.Contains(t, command(0, "review", "audit", "--verify").stdout, "the chain is whole")
	require.Contains(t, command(0, "review", "prune", "--rejected").stdout, "1 candidate would be forgotten; --apply does it")
	require.Contains(t, command(0, "review", "prune", "--rejected", "--apply").stdout, "1 candidate forgotten, 2 records deleted")
	command(0, "ingest", "docs", "--force")
	walk := said("x\nr\nu\nq\n", 0, "review", "next", "--kind", "relation").stdout
	for _, want := range []string{"Bob  WORKS_FOR  Orva", "2 left", "one of a, r, s, d, u, q", "rejected\n", "1 left", "taken back; a rejected candidate is proposed again", "0 approved, 0 rejected, 1 skipped"} {
		require.Contains(t, walk, want)
	}
	command(0, "ingest", "docs", "--force")
	require.Contains(t, said("d\nr\n", 0, "review", "next", "--label", "works for").stdout, "\n0 approved, 1 rejected, 0 skipped")
	require.Contains(t, command(0, "review", "next", "--label", "works for").stdout, "nothing waits for review here")
	record := loose[api.ReviewAuditReply](t, command(0, "review", "audit", "--item", bobAtOrva, "--json").stdout).Records[0].Record
	require.True(t, strings.HasPrefix(command(0, "review", "undo", record).stdout, "1 candidate taken back"))
	require.Contains(t, command(1, "review", "undo", record).stderr, "decision_not_current")
	command(0, "verify")
}
