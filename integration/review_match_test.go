package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// matchable are documents in which some names may be of one thing.
func matchable() []map[string]any {
	return []map[string]any{
		doc("a", "Mara Velt works for Norrin Works. Mara Velt lives in Halden."),
		doc("b", "M. Velt works for Norrin Works Ltd. Mara J. Velt joined Halden Institute."),
		doc("c", "Norrin Works Inc owns Skyloom. Norin Works owns Skyloom."),
	}
}

// pairs are the matches of a graph, "A ~ B" with the names in order, by state.
func (c *cluster) pairs(graph, state string) map[string]api.Group {
	c.t.Helper()
	req := map[string]any{"kinds": []string{"match"}, "state": state}
	if state == "" {
		req["state"] = nil
	}
	out := map[string]api.Group{}
	for _, g := range ask[api.ReviewListReply](c, graph, "review.list", req).Groups {
		names := []string{g.SourceText, g.TargetText}
		slices.Sort(names)
		out[strings.Join(names, " ~ ")] = g
	}
	return out
}

// audit reads what the audit stream holds, of one graph, once it has n records, and demands that they are numbered and chained.
func (c *cluster) audit(graph string, n int) (out []events.Audit) {
	c.t.Helper()
	stream, err := c.conn.JS.Stream(c.t.Context(), bus.StreamAudit)
	require.NoError(c.t, err)
	info := stream.CachedInfo()
	testkit.AwaitFor(c.t, 20*time.Second, fmt.Sprintf("%d audit records", n), func() bool {
		info, err = stream.Info(c.t.Context())
		return err == nil && int(info.State.Msgs) >= n
	})
	prev := ""
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(c.t.Context(), seq)
		require.NoError(c.t, err)
		require.Equal(c.t, "factmill."+graph+".audit", m.Subject)
		e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
		require.NoError(c.t, err)
		a := *e.(*events.Audit)
		sealed, err := a.Sealed(uint64(len(out)+1), prev)
		require.NoError(c.t, err)
		require.Equal(c.t, sealed, a)
		prev = a.Record
		out = append(out, a)
	}
	require.Len(c.t, out, n)
	return out
}

// states are the states of a graph's matches by pair.
func (c *cluster) states(graph string) map[string]string {
	out := map[string]string{}
	for names, g := range c.pairs(graph, "") {
		out[names] = g.State
	}
	return out
}

const (
	ltd    = "Norrin Works ~ Norrin Works Ltd"
	typo   = "Norin Works ~ Norrin Works"
	middle = "Mara J. Velt ~ Mara Velt"
)

// What people decide about matches stays, whatever happens to the documents and the vectors, in processes over a server of its own.
func TestMatchDecisionsStay(t *testing.T) {
	c := sixProcesses(t, 2)
	c.add("g", matchable()...)
	before := c.states("g")
	require.Equal(t, []string{"active", "pending", "pending"}, []string{before[ltd], before[typo], before[middle]})
	open := c.pairs("g", "pending")
	require.NotContains(t, open, ltd)
	shown := ask[api.ReviewShowReply](c, "g", "review.show", api.ReviewShow{ID: open[typo].IDs[0]})
	for _, s := range []api.MatchSide{shown.Match.A, shown.Match.B} {
		require.NotEmpty(t, s.Evidence)
		for _, e := range s.Evidence {
			text := c.document("g", e.Document, "").Text
			require.Equal(t, s.Name, e.Quote)
			require.Equal(t, e.Quote, text[e.Start:e.End])
			require.True(t, strings.HasSuffix(text[:e.Start], e.Before) && strings.HasPrefix(text[e.End:], e.After))
		}
	}

	// The next question of whoever decided has the decision in it, whichever replica answers.
	d := ask[api.DecideReply](c, "g", "review.approve", api.ReviewDecide{IDs: open[typo].IDs, Actor: "eva", Reason: "a slip of the pen"})
	require.Equal(t, []string{open[typo].Key}, d.Outcome.Changed)
	require.NotContains(t, c.pairs("g", "pending"), typo)
	r := loose[api.DecideReply](t, c.cli(0, "review", "reject", "--graph", "g", "--key", c.pairs("g", "active")[ltd].Key, "--actor", "bo", "--reason", "two firms", "--json").stdout)
	require.Len(t, r.Outcome.Changed, 1)
	ask[api.DecideReply](c, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"match"}, Label: "person"}, Actor: "eva"})
	people := 0
	for _, g := range open {
		if g.Label == "Person" {
			people++
		}
	}
	want := c.states("g")
	require.Equal(t, []string{"rejected", "approved", "approved"}, []string{want[ltd], want[typo], want[middle]})
	require.Equal(t, people+1, ask[api.ReviewStatsReply](c, "g", "review.stats", nil).Matches["approved"])
	log := c.audit("g", people+2)
	require.Equal(t, []string{"eva", "bo", "eva"}, []string{log[0].Actor, log[1].Actor, log[2].Actor})
	require.Equal(t, []string{"active", "rejected", "two firms", events.DecisionDifferent}, []string{log[1].Before, log[1].After, log[1].Reason, log[1].Decision})
	export := c.export("g")
	require.Equal(t, people+2, strings.Count(export, `"kind":"decision"`))

	stands := func(what string) {
		t.Helper()
		testkit.AwaitFor(t, 20*time.Second, "the decisions after "+what, func() bool {
			got := c.states("g")
			return len(got) == len(want) && fmt.Sprint(got) == fmt.Sprint(want)
		})
		require.Equal(t, export, c.export("g"), what)
		c.sound("g")
	}
	c.await("g", c.publish("g", map[string]any{"documents": matchable(), "force": true}), api.JobCommitted)
	stands("everything was read again")
	for _, k := range []string{"a", "b", "c"} {
		c.remove("g", k)
	}
	require.Empty(t, c.states("g"))
	require.Equal(t, "match_not_found", refused(c, "g", "review.approve", api.ReviewDecide{IDs: open[typo].IDs, Actor: "eva"}).Code)
	c.add("g", matchable()...)
	stands("everything was deleted and added again")
	c.cli(0, "reembed", "--graph", "g")
	stands("reembed")
	for _, name := range []string{"committer", "reviewer"} {
		for _, p := range c.procs[name] {
			p.stop(t)
		}
		c.start(name)
		c.ready(name)
	}
	stands("a restart")
	c.audit("g", people+2)

	// What was decided is taken back: as it was found.
	rec := ask[api.ReviewShowReply](c, "g", "review.show", api.ReviewShow{Key: open[typo].Key}).History[0].Record
	require.Equal(t, d.Records[open[typo].Key], rec)
	c.cli(0, "review", "undo", rec, "--graph", "g", "--actor", "eva")
	require.Equal(t, "decision_not_current", refused(c, "g", "review.undo", api.ReviewUndo{Decision: rec, Actor: "eva"}).Code)
	c.cli(1, "review", "undo", rec, "--graph", "g", "--actor", "eva")
	require.Equal(t, "pending", c.states("g")[typo])
	log = c.audit("g", people+3)
	require.Equal(t, []string{events.DecisionUndo, rec, "approved", "pending"}, []string{log[people+2].Decision, log[people+2].Undoes, log[people+2].Before, log[people+2].After})
	c.noDeadLetters()
}

// Reviewers who decide at once through several replicas: one audit record a change.
func TestReviewersAtOnce(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 3})
	f.run("g", map[string]any{"documents": matchable()})
	g := f.pairs("g", "")[typo]
	var mu sync.Mutex
	changed := 0
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for n := range 8 {
				verb := []string{"approve", "reject"}[(who+n)%2]
				var r api.DecideReply
				err := f.conn.Request(t.Context(), "factmill.g.review."+verb, api.ReviewDecide{IDs: g.IDs, Actor: fmt.Sprint("reviewer ", who)}, &r)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				changed += len(r.Outcome.Changed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	log := f.audit("g", changed)
	require.NotEmpty(t, log)
	was := "pending"
	for _, a := range log {
		require.Equal(t, was, a.Before)
		require.NotEqual(t, was, a.After)
		was = a.After
	}
	require.Equal(t, was, f.states("g")[typo])
	require.Equal(t, log[len(log)-1].Record, ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{ID: g.IDs[0]}).History[0].Record)
	f.sound("g")
	t.Logf("32 decisions at once were %d changes and as many records", changed)
}

// The commands on a directory, as people see them.
func TestReviewMatchCommands(t *testing.T) {
	dir := t.TempDir()
	for _, d := range matchable() {
		write(t, dir, "docs/"+d["key"].(string)+".txt", d["text"].(string))
	}
	command := func(code int, args ...string) result {
		t.Helper()
		r := runIn(t, dir, "", append(args, "--data", "g")...)
		require.Equal(t, code, r.code, "%v\n%s\n%s", args, r.stdout, r.stderr)
		return r
	}
	command(0, "ingest", "docs")
	list := command(0, "review", "list", "--kind", "match").stdout
	require.Regexp(t, `(?m)^ID +LABEL +A +B +METHOD +SCORE +STATE +DOCUMENTS +FIT *$`, list)
	require.Contains(t, list, "Norin Works")
	require.NotContains(t, list, "active")
	require.Contains(t, command(0, "review", "list", "--kind", "match", "--state", "active").stdout, "legal suffix")
	require.Equal(t, "no group matches\n", command(0, "review", "list", "--kind", "match", "--min-score", "0.99").stdout)
	page := loose[api.ReviewListReply](t, command(0, "review", "list", "--kind", "match", "--label", "organization", "--json").stdout)
	require.NotEmpty(t, page.Groups)
	one := page.Groups[0]

	shown := command(0, "review", "show", one.IDs[0]).stdout
	for _, want := range []string{one.Text, "match pending", "key " + one.Key, "»" + one.SourceText + "«", "»" + one.TargetText + "«"} {
		require.Contains(t, shown, want)
	}
	out := command(0, "review", "approve", "--id", one.IDs[0], "--actor", "eva", "--reason", "one letterhead").stdout
	require.True(t, strings.HasPrefix(out, "1 match approved\n"), out)
	require.Contains(t, command(0, "review", "approve", "--id", one.IDs[0]).stdout, "skipped "+one.IDs[0]+": already approved")
	shown = command(0, "review", "show", one.Key).stdout
	require.Contains(t, shown, "eva says same")
	require.Contains(t, shown, "because one letterhead")
	rest := loose[api.DecideReply](t, command(0, "review", "reject", "--kind", "match", "--label", "Organization", "--reason", "no", "--json").stdout)
	require.Len(t, rest.Outcome.Changed, len(page.Groups)-1)
	for _, g := range loose[api.ReviewListReply](t, command(0, "review", "list", "--kind", "match", "--state", "rejected", "--json").stdout).Groups {
		h := loose[api.ReviewShowReply](t, command(0, "review", "show", g.IDs[0], "--json").stdout).History
		require.NotEmpty(t, h[0].Actor, "the user of the machine decides where none is named")
		require.Equal(t, h[0].RequestID, h[0].Operation)
	}
	rec := loose[api.ReviewShowReply](t, command(0, "review", "show", one.Key, "--json").stdout).History[0].Record
	require.Contains(t, command(0, "review", "undo", rec, "--reason", "wrong pair").stdout, "1 match taken back")
	require.Contains(t, command(1, "review", "undo", rec).stderr, "decision_not_current")
	require.Contains(t, command(0, "review", "stats").stdout, "rejected")
	require.Contains(t, command(4, "review", "approve", "--id", one.IDs[0], "--id", "nobody").stderr, "1 item was skipped")
	require.Contains(t, command(1, "review", "reject", "--id", "nobody").stderr, "match_not_found")
	require.Contains(t, command(4, "review", "reject", "--key", "entity|a|b").stdout, "skipped entity|a|b: candidate_not_found")
	require.Contains(t, command(2, "review", "reject", "--key", "job|a").stderr, "fingerprint is missing")
	require.Contains(t, command(2, "review", "reject", "--key", "stale|a|b").stderr, "fingerprint is missing")
	require.Contains(t, command(2, "review", "reject", "--key", "conflict|a|b").stderr, "fingerprint is missing")
	require.Contains(t, command(2, "review", "reject", "--id", one.IDs[0], "--actor", "a\nb").stderr, "actor must be a name")
	command(0, "ingest", "docs", "--force")
	require.Equal(t, "approved", loose[api.ReviewShowReply](t, command(0, "review", "show", one.Key, "--json").stdout).Item.State)
	command(0, "verify")
}

// What the verbs refuse, over NATS.
func TestReviewVerbsRefuse(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.run("g", map[string]any{"documents": append(matchable(), doc("z", "The Larch Engine was built by the Larch Society in Halden."))})
	g := f.pairs("g", "")[typo]
	ask[api.DecideReply](f.cluster, "g", "review.approve", json.RawMessage(`{"ids":["`+g.IDs[0]+`"],"actor":"eva","request_id":"x"}`))
	for _, c := range []struct{ verb, body, code string }{
		{"approve", `{"ids":["` + g.IDs[0] + `"]}`, "operation_reused"},
		{"approve", `{"ids":["` + g.IDs[0] + `"],"actor":""}`, "bad_value"},
		{"reject", `{"ids":["` + g.IDs[0] + `"],"actor":"eva","revision":1}`, "stale_revision"},
		{"approve", `{"actor":"eva"}`, "bad_value"},
		{"approve", `{"keys":["job|a"],"actor":"eva"}`, "bad_value"},
		{"approve", `{"keys":["conflict|a|b"],"actor":"eva"}`, "bad_value"},
		{"approve", `{"keys":["conflict|a|b"],"actor":"eva","fingerprint":"x"}`, "conflict_not_found"},
		{"approve", `{"keys":["match|a|b","entity|a|b"],"actor":"eva"}`, "not_supported"},
		{"approve", `{"keys":["match|a|b"],"actor":"eva"}`, "match_not_found"},
		{"undo", `{"decision":"x","actor":"eva"}`, "decision_not_found"},
		{"undo", `{}`, "bad_value"},
		{"decide", `{}`, "unknown_verb"},
	} {
		body := c.body
		if c.code == "operation_reused" {
			body = strings.Replace(body, "}", `,"actor":"bo","request_id":"x"}`, 1)
		}
		require.Equal(t, c.code, refused(f.cluster, "g", "review."+c.verb, json.RawMessage(body)).Code, "%s %s", c.verb, body)
	}
	require.Equal(t, "match_not_found", refused(f.cluster, "nowhere", "review.approve", api.ReviewDecide{IDs: g.IDs, Actor: "eva"}).Code)
	f.audit("g", 1)
}
