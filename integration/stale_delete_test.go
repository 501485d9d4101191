package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// guildWith is the schema guild with another review section.
func guildWith(review string) string {
	return strings.Replace(guild, "review: {stale: review}", "review: {"+review+"}", 1)
}

const linInGuild = "Lin works for Guild."

// stated says of each relation how many documents' statements it has, and whether any of them is open.
func (c *cluster) stated(graph string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, r := range ask[api.RelationListReply](c, graph, "query.relations", api.RelationList{Type: "WORKS_FOR"}).Relations {
		open := "open"
		if r.NoOpenSource {
			open = "no open source"
		}
		out[r.SourceName+" "+r.TargetName] = fmt.Sprintf("%d %s", r.EvidenceTotal, open)
	}
	return out
}

// decideStale looks at the only fact that waits and decides.
func (c *cluster) decideStale(graph, verb string) (api.ReviewShowReply, api.DecideReply) {
	c.t.Helper()
	items := c.stale(graph)
	require.Len(c.t, items, 1)
	for _, g := range items {
		shown := ask[api.ReviewShowReply](c, graph, "review.show", api.ReviewShow{Key: g.Key})
		return shown, ask[api.DecideReply](c, graph, "review."+verb, api.ReviewDecide{IDs: g.IDs, Fingerprint: shown.Fingerprint, Actor: "eva"})
	}
	return api.ReviewShowReply{}, api.DecideReply{}
}

// Two documents say it and one of them drops it: a withdrawal takes that document's support, and the fact goes with the other one. Kept by
// the policy it stays, and says that no open document is its source.
func TestStaleWithAnotherSource(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	for _, policy := range []string{"review", "keep"} {
		g := policy
		f.putSchema(g, guildWith("stale: "+policy))
		f.cluster.add(g, doc("doc-1", linInGuild), doc("doc-2", "They say that Lin works for Guild."))
		s := f.cluster.add(g, doc("doc-1", "Nobody works."))
		require.Equal(t, 1, s.Stages.Storage.StaleKept)
		require.Equal(t, map[string]string{"Lin Guild": "2 open"}, f.stated(g))
		if policy == "keep" {
			require.Zero(t, s.Stages.Storage.StaleAsked)
			require.Empty(t, f.stale(g))
			f.remove(g, "doc-2")
			require.Equal(t, map[string]string{"Lin Guild": "1 no open source"}, f.stated(g))
			require.Contains(t, f.exported(g, 0), `"document":"doc-1","end":20,"extractors":["rules"],"kept":true,"quote":"Lin works for Guild."`)
			f.sound(g)
			continue
		}
		shown, _ := f.decideStale(g, "approve")
		require.Equal(t, []any{1, "doc-2"}, []any{*shown.Others, shown.OtherSources[0].Document})
		require.Equal(t, map[string]string{"Lin Guild": "1 open"}, f.stated(g))
		f.remove(g, "doc-2")
		require.Empty(t, f.stated(g))
		f.sound(g)
	}
}

// Without a rule a deletion withdraws what people decided, and says so; with one it waits, as of a document that is not open, through
// everything that can come.
func TestDeletesAsk(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	const lin = "doc-1 Lin WORKS_FOR Guild"
	f.putSchema("g", guildWith("stale: withdraw, manual: [{deletes: true, kind: relation}]"))
	f.cluster.add("g", doc("doc-1", linInGuild+" Mo works for Orva."), doc("doc-2", "Mo works for Orva."))
	s := f.remove("g", "doc-1")
	require.Equal(t, []int{2, 2, 0, 1}, []int{s.Stages.Storage.StaleKept, s.Stages.Storage.StaleAsked, s.Stages.Storage.RelationsRemoved, s.Documents.Deleted})
	require.Equal(t, map[string]string{"Lin Guild": "1 no open source", "Mo Orva": "2 open"}, f.stated("g"))
	require.Equal(t, []string{"document_deleted"}, f.stale("g")[lin].Reasons)
	require.Equal(t, "deleted", ask[api.DocumentReply](f.cluster, "g", "query.document", map[string]any{"key": "doc-1"}).State)
	require.Empty(t, ask[api.SearchReply](f.cluster, "g", "query.search", api.Search{Q: "Guild", Kinds: []string{"chunk"}}).Hits, "its text is found no more")
	mo := f.stale("g")["doc-1 Mo WORKS_FOR Orva"]
	shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: mo.Key})
	require.Equal(t, []any{1, "Mo works for Orva.", "doc-2"}, []any{*shown.Others, shown.Evidence[0].Quote, shown.OtherSources[0].Document})
	require.Equal(t, []string{"- Mo WORKS_FOR Orva  (doc-1)  1 left", "    “Mo works for Orva.”"}, shown.Plan.Lines())
	w := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{IDs: mo.IDs, Fingerprint: shown.Fingerprint, Actor: "eva"})
	require.Equal(t, "1 open", f.stated("g")["Mo Orva"])
	f.sound("g")
	ask[api.DecideReply](f.cluster, "g", "review.undo", api.ReviewUndo{Decision: w.Records[mo.Key], Actor: "bo"})
	require.Len(t, f.stale("g"), 2)
	require.Zero(t, f.remove("g", "doc-1").Documents.Deleted, "a second deletion finds nothing")
	require.Len(t, f.stale("g"), 2)
	rejected := true
	ask[api.ReviewPruneReply](f.cluster, "g", "review.prune", api.ReviewPrune{Rejected: rejected, Apply: true, Actor: "eva"})
	require.Len(t, f.stale("g"), 2)

	// It comes back with the one and not with the other; who comes late to the first is told.
	f.cluster.add("g", doc("doc-1", linInGuild))
	require.NotContains(t, f.stale("g"), lin)
	require.Equal(t, map[string]string{"Lin Guild": "1 open", "Mo Orva": "2 open"}, f.stated("g"))
	f.decideStale("g", "reject")
	f.sound("g")

	f.putSchema("g", guildWith("stale: withdraw"))
	s = f.remove("g", "doc-1")
	require.Equal(t, []any{1, []string{`"Mo" WORKS_FOR "Orva"`}}, []any{s.Stages.Storage.DecidedWithdrawn, s.WithdrawnDecided}, "somebody kept it")
	require.Equal(t, []string{`"Lin" WORKS_FOR "Guild"`, `Organization "Guild"`, `Person "Lin"`}, s.Removed)
	require.Equal(t, map[string]string{"Mo Orva": "1 open"}, f.stated("g"))
	f.sound("g")
}

// Two people decide about one fact at once: one wins, the other is told what was decided; there is one record.
func TestTwoDecideAboutAStaleFact(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.putSchema("g", guild)
	for n := range 5 {
		f.cluster.add("g", doc("d", linInGuild))
		f.cluster.add("g", doc("d", fmt.Sprint("Nothing ", n)))
		item := f.stale("g")["d Lin WORKS_FOR Guild"]
		shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: item.Key})
		before := len(f.trail("g"))
		answers := make(chan error, 2)
		for i, verb := range []string{"approve", "reject"} {
			req := api.ReviewDecide{Keys: []string{item.Key}, Fingerprint: shown.Fingerprint, Actor: "eva"}
			if i == n%2 {
				req.Keys, req.IDs = nil, item.IDs
			}
			go func() { answers <- f.conn.Request(t.Context(), "factmill.g.review."+verb, req, nil) }()
		}
		first, second := <-answers, <-answers
		if first != nil {
			first, second = second, first
		}
		require.NoError(t, first)
		var e *api.Error
		require.ErrorAs(t, second, &e)
		require.Equal(t, []any{409, "already_decided"}, []any{e.Status, e.Code})
		log := f.trail("g")[before:]
		require.Len(t, log, 1)
		require.Equal(t, log[0].After, e.Details["state"])
		f.sound("g")
	}
}

// A chunk that could not be read, or whose reply was cut, makes nothing stale that it had said.
func TestUnreadTextMakesNothingStale(t *testing.T) {
	t.Parallel()
	reply := testkit.ModelReply{}
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		if strings.Contains(c.Last(), "unreadable") {
			return reply
		}
		return told(c)
	}})
	f := asking(t, fleetOptions{}, m, "refused", "cut")
	for how, r := range map[string]testkit.ModelReply{"refused": {Content: "I'm sorry, I cannot help with that."}, "cut": {Content: `{"entities": [{"name": "Bo`, DoneReason: "length"}} {
		g := how
		f.putSchema(g, strings.Replace(desk, "WORKS_AT", "WORKS_FOR", 1)+"review: {stale: review}\n")
		f.putSettings(g, map[string]string{"chunker.size": "64", "chunker.min_size": "1"})
		reply = r
		read := func(first, second string) api.Storage {
			s := f.run(g, map[string]any{"documents": []map[string]any{doc("d", "# One\n\n"+first+"\n\n# Two\n\n"+second)}, "error_policy": "skip"})
			return s.Stages.Storage
		}
		const ann, bob = "«Person: Ann @0.9» «Organization: Acme @0.9» «Ann -WORKS_FOR-> Acme @0.9»", "«Person: Bob @0.9» «Organization: Orva @0.9» «Bob -WORKS_FOR-> Orva @0.9»"
		read("It began with "+ann+" in July.", "And then "+bob+" came.")
		require.Equal(t, map[string]int{"Ann Acme": 1, "Bob Orva": 1}, f.worksFor(g))
		s := read("It began in July.", "This is unreadable: "+bob+" came.")
		require.Equal(t, []int{1, 1, 0}, []int{s.StaleKept, s.StaleAsked, s.RelationsRemoved}, how)
		require.Equal(t, map[string]int{"Ann Acme": 1, "Bob Orva": 1}, f.worksFor(g))
		require.Len(t, f.stale(g), 1)
		require.Contains(t, f.stale(g), "d Ann WORKS_FOR Acme")
		s = read("It began in July.", "Nothing came of it all.")
		require.Equal(t, 1, s.StaleAsked, "it was read, and does not say it")
		require.Len(t, f.stale(g), 2)
		f.sound(g)
	}
}

// A text that goes and comes again, as a version or a document, is as it was; what is older than a deletion comes to nothing, also where
// facts of the deleted document wait.
func TestStaleTextsComeAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	for g, review := range map[string]string{"asked": "stale: review, manual: [{deletes: true}]", "kept": "stale: keep, auto_reject: [{deletes: true}]", "plain": "stale: withdraw"} {
		f.putSchema(g, guildWith(review))
		f.cluster.add(g, doc("d", linInGuild))
		whole := f.exported(g, 0)
		for _, between := range []string{"Mo works for Orva.", ""} {
			want := map[string]string{"asked": "1 no open source", "kept": "1 no open source", "plain": ""}[g]
			if between != "" {
				f.cluster.add(g, doc("d", between))
			} else {
				f.remove(g, "d")
				old := doc("d", "Lin works for Orva.")
				old["source_updated_at"] = "2001-01-01"
				require.Equal(t, api.DocumentCounts{Total: 1, Superseded: 1}, f.cluster.add(g, old).Documents)
			}
			require.Equal(t, want, f.stated(g)["Lin Guild"])
			f.sound(g)
			f.cluster.add(g, doc("d", linInGuild))
			require.Empty(t, nonKept(f.stale(g)))
			require.Equal(t, "1 open", f.stated(g)["Lin Guild"])
			if g == "plain" {
				require.Equal(t, whole, f.exported(g, 0))
			}
			f.sound(g)
		}
	}
}

// nonKept are items about what the text states.
func nonKept(items map[string]api.Group) (out []string) {
	for name := range items {
		if strings.Contains(name, "Lin WORKS_FOR Guild") {
			out = append(out, name)
		}
	}
	return out
}
