package stale

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

// room is a desk over a store in memory.
type room struct {
	*Desk
	t     testing.TB
	st    *store.Store
	order int64
}

func newRoom(t testing.TB) *room {
	t.Helper()
	st, err := store.Open(context.Background(), store.Options{Dir: "data", FS: vfs.NewMem(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20,
		FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	st.Graph(g, true)
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &room{Desk: New(Deps{Store: st, Operations: operations.New(st), Now: func() time.Time { return clock }}), t: t, st: st}
}

// read commits the next version of a document: sentences "A REL B" and "A is N" (a property age); others say nothing. What goes is asked
// about.
func (r *room) read(key string, sentences ...string) {
	r.t.Helper()
	r.order++
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: key}, SchemaFP: "s", ChunkerFP: "c", ExtractionFP: "e", Job: "job-" + key,
		Order: graph.Order{Time: r.order}, Stale: func(store.StaleFact) string { return store.StaleReview }}
	at := map[string]int{}
	entity := func(name string) int {
		n, ok := at[name]
		if !ok {
			n = len(c.Assertions.Entities)
			at[name] = n
			k := fingerprint.Fold(name)
			c.Assertions.Entities = append(c.Assertions.Entities, graph.EntityRef{ID: fingerprint.EntityID("Person", k), Label: "Person", Key: k})
		}
		return n
	}
	var a graph.ChunkAssertions
	for _, s := range sentences {
		start := len(c.Text)
		c.Text += s + ".\n"
		w := strings.Fields(s)
		if len(w) != 3 {
			continue
		}
		end := start + len(s)
		a.Mentions = append(a.Mentions, graph.Mention{Entity: entity(w[0]), Name: w[0], Start: start, End: start + len(w[0]), Confidence: 0.9, Extractor: "rules"})
		if w[1] == "is" {
			from := start + strings.LastIndex(s, w[2])
			var n int64
			_, err := fmt.Sscan(w[2], &n)
			require.NoError(r.t, err)
			a.Properties = append(a.Properties, graph.PropertyA{Entity: entity(w[0]), Name: "age", Value: n, Start: from, End: end, Confidence: 0.7, Extractor: "rules"})
			continue
		}
		from := start + strings.LastIndex(s, w[2])
		a.Mentions = append(a.Mentions, graph.Mention{Entity: entity(w[2]), Name: w[2], Start: from, End: end, Confidence: 0.9, Extractor: "rules"})
		a.Relations = append(a.Relations, graph.RelationA{Type: w[1], Source: entity(w[0]), Target: entity(w[2]), Start: start, End: end, Confidence: 0.8, Extractor: "rules"})
	}
	c.Chunks = []graph.Chunk{{End: len(c.Text), Content: "text", Tokens: 1}}
	if len(a.Mentions) > 0 {
		c.Assertions.Chunks = []graph.ChunkAssertions{a}
	}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	r.commit(c)
}

func (r *room) remove(key string) {
	r.order++
	r.commit(store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: key}, Order: graph.Order{Time: r.order}})
}

func (r *room) commit(c store.DocChange) {
	r.t.Helper()
	txn, err := r.st.Begin(context.Background(), g)
	require.NoError(r.t, err)
	_, err = txn.Apply(context.Background(), c)
	require.NoError(r.t, err)
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(r.t, err)
}

func (r *room) list(req api.StaleList) api.StaleListReply {
	r.t.Helper()
	req.Limit = max(req.Limit, 10)
	reply, err := r.List(context.Background(), g, req)
	require.NoError(r.t, err)
	return reply
}

// waiting are the texts of what waits, in the order of the list, with how many others say it.
func (r *room) waiting() (out []string) {
	r.t.Helper()
	for _, x := range r.list(api.StaleList{}).Groups {
		out = append(out, fmt.Sprintf("%s %s +%d", x.Sample.Document, x.Text, x.Count-1))
	}
	return out
}

func (r *room) get(key string) api.StaleReply {
	r.t.Helper()
	reply, err := r.Get(context.Background(), g, api.StaleGet{Key: key})
	require.NoError(r.t, err)
	return reply
}

func (r *room) decide(req api.StaleDecide) api.DecideReply {
	r.t.Helper()
	req.Actor = "eva"
	reply, err := r.Decide(context.Background(), g, req)
	require.NoError(r.t, err)
	r.verified()
	return reply
}

func (r *room) verified() {
	r.t.Helper()
	v, err := r.st.Verify(context.Background(), g, nil)
	require.NoError(r.t, err)
	require.Empty(r.t, v.Problems)
	_, err = audit.Trail{Store: r.st, Graph: g}.Verify(context.Background(), func(p api.Problem) { require.Fail(r.t, "a problem", "%+v", p) })
	require.NoError(r.t, err)
}

// refused is the status and code of an error, after which nothing is committed.
func (r *room) refused(req api.StaleDecide) *api.Error {
	r.t.Helper()
	seq, err := r.st.Seq(g)
	require.NoError(r.t, err)
	if req.Actor == "" {
		req.Actor = "eva"
	}
	_, err = r.Decide(context.Background(), g, req)
	var e *api.Error
	require.ErrorAs(r.t, err, &e)
	after, err := r.st.Seq(g)
	require.NoError(r.t, err)
	require.Equal(r.t, seq, after)
	return e
}

func (r *room) support(typ, a, b string) int {
	r.t.Helper()
	sn, err := r.st.Snapshot(g, 0)
	require.NoError(r.t, err)
	defer sn.Close()
	id := func(n string) string { return fingerprint.EntityID("Person", fingerprint.Fold(n)) }
	f, _, err := sn.Relation(fingerprint.RelationID(typ, id(a), id(b), false))
	require.NoError(r.t, err)
	return f.Documents
}

// doc-1 and doc-2 say it, doc-1 drops it: one other source. Withdrawn, only doc-1's support goes; when doc-2 goes, the fact does.
func TestWithdraw(t *testing.T) {
	r := newRoom(t)
	r.read("doc-1", "Lin MEMBER_OF Guild")
	r.read("doc-2", "Lin MEMBER_OF Guild")
	require.Empty(t, r.waiting())
	r.read("doc-1", "Nothing to see here")
	require.Equal(t, []string{"doc-1 Lin MEMBER_OF Guild +1"}, r.waiting())
	x := r.list(api.StaleList{}).Groups[0]
	whole := r.get(x.Key)
	require.Equal(t, x, whole.Item)
	require.Equal(t, []any{"Lin MEMBER_OF Guild", "doc-1", 1, "doc-2"}, []any{whole.Evidence[0].Quote, whole.Evidence[0].Document, whole.Others, whole.OtherQuotes[0].Document})
	require.Equal(t, []string{"- Lin MEMBER_OF Guild  (doc-1)  1 left", "    “Lin MEMBER_OF Guild”"}, whole.Plan.Lines())
	require.Equal(t, []plan.Base{{Document: "doc-1", Revision: 2}}, whole.Plan.Base)
	require.Equal(t, whole.Plan.Fingerprint(), whole.Fingerprint)

	r.decide(api.StaleDecide{ID: x.IDs[0], Decision: "withdraw", Fingerprint: whole.Fingerprint})
	require.Empty(t, r.waiting())
	require.Equal(t, 1, r.support("MEMBER_OF", "Lin", "Guild"))
	r.remove("doc-2")
	require.Zero(t, r.support("MEMBER_OF", "Lin", "Guild"))
	r.verified()
}

// Kept, it stays though no open version says it; nobody is asked again.
func TestKeepAndUndo(t *testing.T) {
	r := newRoom(t)
	r.read("doc-1", "Lin MEMBER_OF Guild", "Lin is 30")
	r.read("doc-1", "Nothing to see here")
	require.Equal(t, []string{"doc-1 Lin MEMBER_OF Guild +0", "doc-1 age of Lin = 30 +0"}, r.waiting())
	var records []string
	for i, x := range r.list(api.StaleList{}).Groups {
		d := r.decide(api.StaleDecide{Key: x.Key, Decision: []string{"keep", "withdraw"}[i], Fingerprint: r.get(x.Key).Fingerprint})
		require.Equal(t, []string{x.Key}, d.Outcome.Changed)
		records = append(records, d.Records[x.Key])
	}
	require.Empty(t, r.waiting())
	require.Equal(t, 1, r.support("MEMBER_OF", "Lin", "Guild"))
	for _, rec := range records {
		r.decide(api.StaleDecide{Undo: rec})
		require.Equal(t, "decision_not_current", r.refused(api.StaleDecide{Undo: rec}).Code)
	}
	require.Equal(t, []string{"doc-1 Lin MEMBER_OF Guild +0", "doc-1 age of Lin = 30 +0"}, r.waiting())
	x := r.list(api.StaleList{Label: "AGE"}).Groups
	require.Len(t, x, 1)
	r.decide(api.StaleDecide{Key: x[0].Key, Decision: "withdraw", Fingerprint: r.get(x[0].Key).Fingerprint})
	r.read("doc-1", "Lin is 30")
	last, err := audit.Trail{Store: r.st, Graph: g}.Of(x[0].Key)
	require.NoError(t, err)
	require.Equal(t, "decision_not_current", r.refused(api.StaleDecide{Undo: last[0].Record}).Code, "the document states it again")
}

// What was looked at is what is decided about: a fact that another document states meanwhile has another plan.
func TestTheSeenPlanIsDecided(t *testing.T) {
	r := newRoom(t)
	r.read("doc-1", "Lin MEMBER_OF Guild")
	r.read("doc-1", "Nothing to see here")
	x := r.list(api.StaleList{}).Groups[0]
	seen := r.get(x.Key)
	r.read("doc-2", "Lin MEMBER_OF Guild")
	e := r.refused(api.StaleDecide{Key: x.Key, Decision: "withdraw", Fingerprint: seen.Fingerprint})
	now := r.get(x.Key)
	require.Equal(t, []any{409, "stale_plan", now.Fingerprint, now.Plan}, []any{e.Status, e.Code, e.Details["fingerprint"], e.Details["plan"]})
	require.Equal(t, 2, r.support("MEMBER_OF", "Lin", "Guild"), "nothing was written")
	r.read("doc-1", "Nothing to see here", "Nor here")
	require.Equal(t, "stale_plan", r.refused(api.StaleDecide{Key: x.Key, Decision: "keep", Fingerprint: now.Fingerprint}).Code, "another version of the document")
	require.Equal(t, "stale_revision", r.refused(api.StaleDecide{Key: x.Key, Decision: "keep", Fingerprint: r.get(x.Key).Fingerprint, Revision: 99}).Code)

	req := api.StaleDecide{Key: x.Key, Decision: "withdraw", Fingerprint: r.get(x.Key).Fingerprint, RequestID: "once", Revision: x.Revision}
	d := r.decide(req)
	require.Equal(t, d, r.decide(req), "asked again it answers the same")
	req.Decision = "keep"
	require.Equal(t, "operation_reused", r.refused(req).Code)
	for _, late := range []api.StaleDecide{{Key: x.Key}, {ID: x.IDs[0]}} { // by who looked before it was decided
		late.Decision, late.Fingerprint = "keep", "x"
		e := r.refused(late)
		require.Equal(t, []any{409, "already_decided", "withdrawn", "approved"}, []any{e.Status, e.Code, e.Details["decision"], e.Details["state"]})
	}
}

func TestRefusals(t *testing.T) {
	r := newRoom(t)
	r.read("doc-1", "Lin MEMBER_OF Guild")
	r.read("doc-1", "Nothing to see here")
	x := r.list(api.StaleList{}).Groups[0]
	for want, req := range map[string]api.StaleDecide{
		"fingerprint is missing": {Key: x.Key, Decision: "keep"}, "decisions of the policy": {Key: x.Key, Decision: "keep", Fingerprint: "x", Actor: "POLICY "}, "is withdrawn or kept": {Key: x.Key, Decision: "choose", Fingerprint: "x"},
		"one stale fact at a time": {Decision: "keep", Fingerprint: "x"}, "names the audit record alone": {Undo: "x", Key: x.Key},
	} {
		require.Contains(t, r.refused(req).Message, want)
	}
	require.Equal(t, "decision_not_found", r.refused(api.StaleDecide{Undo: "77"}).Code)
	for _, key := range []string{"stale|x", "entity|a|b", "stale|" + fingerprint.DocumentID("doc-1") + "|x"} {
		_, err := r.Get(t.Context(), g, api.StaleGet{Key: key})
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "stale_not_found", e.Code)
	}
	reply, err := r.List(t.Context(), "nowhere", api.StaleList{Limit: 5})
	require.NoError(t, err)
	require.Empty(t, reply.Groups)
}
