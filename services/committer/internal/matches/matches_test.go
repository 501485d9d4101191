package matches

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// room is a desk over a store in memory.
type room struct {
	*Desk
	t     testing.TB
	st    *store.Store
	told  atomic.Int64
	order int64
}

func open(t testing.TB, fs vfs.FS) *room {
	t.Helper()
	st, err := store.Open(context.Background(), store.Options{Dir: "data", FS: fs, Now: func() time.Time { return clock },
		FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }, CacheBytes: 64 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	r := &room{t: t, st: st}
	r.Desk = New(Deps{Store: st, Operations: operations.New(st), Now: func() time.Time { return clock }, Committed: func(string) { r.told.Add(1) }})
	return r
}

// newRoom has the firms Acme, Acme Ltd, ACME Corporation and the people Ada and Ada L, in the documents d0…d3.
func newRoom(t *testing.T) *room {
	r := open(t, vfs.NewMem())
	r.fill()
	return r
}

func (r *room) fill() {
	r.st.Graph(g, true)
	r.commit("d0", "Organization:Acme", "Organization:Acme Ltd", "Person:Ada")
	r.commit("d1", "Organization:Acme", "Person:Ada L")
	r.commit("d2", "Organization:ACME Corporation")
	r.commit("d3", "Organization:Acme")
	r.found("Organization:Acme", "Organization:Acme Ltd", "legal_suffix", 0.97, store.MatchActive)
	r.found("Organization:Acme", "Organization:ACME Corporation", "cosine", 0.9, store.MatchUnclear)
	r.found("Organization:Acme Ltd", "Organization:ACME Corporation", "legal_suffix", 0.91, store.MatchUnclear)
	r.found("Person:Ada", "Person:Ada L", "initials", 0.8, store.MatchUnclear)
}

func entityID(name string) string {
	label, name, _ := strings.Cut(name, ":")
	return fingerprint.EntityID(label, fingerprint.Fold(name))
}

func id(a, b string) string  { return fingerprint.MatchID(entityID(a), entityID(b)) }
func key(a, b string) string { return fingerprint.MatchKey(entityID(a), entityID(b)) }

// commit adds a document that mentions entities, each in a sentence.
func (r *room) commit(doc string, mentions ...string) {
	r.t.Helper()
	r.order++
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: doc}, SchemaFP: "s", SchemaName: "t", SchemaVersion: "1", SchemaRevision: 1,
		ChunkerFP: "c", ExtractionFP: "e", Job: "job-" + doc, Order: graph.Order{Time: r.order}}
	for _, m := range mentions {
		label, name, _ := strings.Cut(m, ":")
		c.Assertions.Entities = append(c.Assertions.Entities, graph.EntityRef{ID: entityID(m), Label: label, Key: fingerprint.Fold(name)})
	}
	slices.SortFunc(c.Assertions.Entities, func(a, b graph.EntityRef) int { return strings.Compare(a.ID, b.ID) })
	var a graph.ChunkAssertions
	for _, m := range mentions {
		_, name, _ := strings.Cut(m, ":")
		c.Text += "They say that "
		start := len(c.Text)
		c.Text += name
		a.Mentions = append(a.Mentions, graph.Mention{Name: name, Start: start, End: len(c.Text), Confidence: 0.9, Extractor: "rules",
			Entity: slices.IndexFunc(c.Assertions.Entities, func(e graph.EntityRef) bool { return e.ID == entityID(m) })})
		c.Text += " grew.\n"
	}
	c.Chunks = []graph.Chunk{{End: len(c.Text), Content: "text", Tokens: 1}}
	c.Assertions.Chunks = []graph.ChunkAssertions{a}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	r.txn(func(txn *store.Txn) error {
		_, err := txn.Apply(context.Background(), c)
		return err
	})
}

func (r *room) remove(doc string) {
	r.order++
	r.txn(func(txn *store.Txn) error {
		_, err := txn.Apply(context.Background(), store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: doc}, Order: graph.Order{Time: r.order}})
		return err
	})
}

func (r *room) found(a, b, method string, score float64, state string) {
	r.txn(func(txn *store.Txn) error {
		_, err := txn.PutMatch(store.Match{A: entityID(a), B: entityID(b), Method: method, Score: score, Found: state})
		return err
	})
}

func (r *room) txn(fn func(*store.Txn) error) {
	r.t.Helper()
	txn, err := r.st.Begin(context.Background(), g)
	require.NoError(r.t, err)
	require.NoError(r.t, fn(txn))
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(r.t, err)
}

func (r *room) list(req api.MatchesList) api.MatchesReply {
	r.t.Helper()
	reply, err := r.List(r.t.Context(), g, req)
	require.NoError(r.t, err)
	return reply
}

func (r *room) decide(req api.MatchDecide) api.DecideReply {
	r.t.Helper()
	reply, err := r.Decide(r.t.Context(), g, req)
	require.NoError(r.t, err)
	return reply
}

func (r *room) refused(req api.MatchDecide) string {
	r.t.Helper()
	seq, err := r.st.Seq(g)
	require.NoError(r.t, err)
	_, err = r.Decide(r.t.Context(), g, req)
	var e *api.Error
	require.ErrorAs(r.t, err, &e)
	after, err := r.st.Seq(g)
	require.NoError(r.t, err)
	require.Equal(r.t, seq, after, "nothing is committed")
	return fmt.Sprintf("%d %s", e.Status, e.Code)
}

// states are "text state" of all matches.
func (r *room) states() map[string]string {
	out := map[string]string{}
	for _, x := range r.list(api.MatchesList{Limit: 100}).Groups {
		out[x.IDs[0]] = x.State
	}
	return out
}

// audited are the events of decisions that wait to be published, in order; they are chained.
func (r *room) audited() (out []events.Audit) {
	r.t.Helper()
	rows, err := r.st.Outbox(g, 0, 0)
	require.NoError(r.t, err)
	prev := ""
	for _, row := range rows {
		e, err := row.Event()
		require.NoError(r.t, err)
		a, ok := e.(*events.Audit)
		if !ok {
			continue
		}
		again, err := a.Sealed(uint64(len(out)+1), prev)
		require.NoError(r.t, err)
		require.Equal(r.t, again, *a, "numbered and chained")
		prev = a.Record
		out = append(out, *a)
	}
	return out
}

func (r *room) verified() {
	r.t.Helper()
	v, err := r.st.Verify(r.t.Context(), g, nil)
	require.NoError(r.t, err)
	require.Empty(r.t, v.Problems)
	_, err = audit.Trail{Store: r.st, Graph: g}.Verify(r.t.Context(), func(p api.Problem) { require.Fail(r.t, "a problem", "%+v", p) })
	require.NoError(r.t, err)
}

func texts(l api.MatchesReply) []string {
	out := []string{}
	for _, x := range l.Groups {
		names := []string{x.SourceText, x.TargetText}
		slices.Sort(names)
		out = append(out, fmt.Sprintf("%s ~ %s %s %d %d", names[0], names[1], x.State, x.Count, x.Documents))
	}
	return out
}

// The list: the pairs that are in most documents first, then the likeliest; filtered; page by page.
func TestList(t *testing.T) {
	r := newRoom(t)
	all := r.list(api.MatchesList{Limit: 100})
	require.Equal(t, []string{
		"Acme ~ Acme Ltd active 4 3",
		"ACME Corporation ~ Acme pending 4 4",
		"ACME Corporation ~ Acme Ltd pending 2 2",
		"Ada ~ Ada L pending 2 2",
	}, texts(all))
	require.Equal(t, map[string]int{"active": 1, "pending": 3}, all.States)
	require.Equal(t, 4, all.Total)
	require.False(t, all.More)
	first := all.Groups[0]
	require.Equal(t, []string{"legal_suffix"}, first.Reasons)
	require.Equal(t, []any{api.KindMatch, "Organization", key("Organization:Acme", "Organization:Acme Ltd"), 0.97, uint64(0)},
		[]any{first.Kind, first.Label, first.Key, first.Confidence, first.Revision})
	require.Equal(t, []string{id("Organization:Acme Ltd", "Organization:Acme")}, first.IDs)
	require.Equal(t, first.SourceText, first.Sample.Quote)
	require.Equal(t, first.SourceText+" ~ "+first.TargetText, first.Text)
	for _, c := range []struct {
		f    api.MatchFilter
		want int
	}{
		{api.MatchFilter{States: []string{"pending"}}, 3}, {api.MatchFilter{States: []string{"active", "rejected"}}, 1},
		{api.MatchFilter{Label: "person"}, 1}, {api.MatchFilter{Label: "Place"}, 0}, {api.MatchFilter{MinScore: 0.9}, 3},
		{api.MatchFilter{MinScore: 0.91}, 2}, {api.MatchFilter{MinCount: 3}, 2}, {api.MatchFilter{MinCount: 5}, 0},
	} {
		got := r.list(api.MatchesList{MatchFilter: c.f, Limit: 100})
		require.Len(t, got.Groups, c.want, "%+v", c.f)
		require.Equal(t, c.want, got.Total)
	}
	var paged []string
	req := api.MatchesList{Limit: 1}
	for {
		page := r.list(req)
		require.Equal(t, 4, page.Total)
		paged = append(paged, texts(page)...)
		if !page.More {
			break
		}
		p := page.Groups[0].Place()
		req.After = &p
	}
	require.Equal(t, texts(all), paged)
	counts := r.list(api.MatchesList{})
	require.Empty(t, counts.Groups)
	require.Equal(t, all.States, counts.States)
	none, err := r.List(t.Context(), "other", api.MatchesList{Limit: 3})
	require.NoError(t, err)
	require.Empty(t, none.Groups)
	for _, bad := range []api.MatchesList{{Limit: -1}, {Limit: 1001}, {MatchFilter: api.MatchFilter{States: []string{"unclear"}}}, {MatchFilter: api.MatchFilter{MinScore: 2}}, {MatchFilter: api.MatchFilter{MinCount: -1}}} {
		_, err := r.List(t.Context(), g, bad)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "bad_value", e.Code)
	}
}

// A match is shown with both entities, their evidence apart, and what was decided.
func TestGet(t *testing.T) {
	r := newRoom(t)
	m, err := r.Get(t.Context(), g, api.MatchGet{ID: id("Organization:Acme", "Organization:Acme Ltd")})
	require.NoError(t, err)
	require.Empty(t, m.History)
	require.Nil(t, m.Match.Decided)
	sides := map[string]api.MatchSide{m.Match.A.Name: m.Match.A, m.Match.B.Name: m.Match.B}
	require.Equal(t, entityID("Organization:Acme"), sides["Acme"].ID)
	require.Equal(t, []any{3, 3, 1}, []any{sides["Acme"].Documents, len(sides["Acme"].Evidence), len(sides["Acme Ltd"].Evidence)})
	for _, e := range sides["Acme"].Evidence {
		require.Equal(t, "Acme", e.Quote)
		require.True(t, strings.HasSuffix(e.Before, "They say that ") && strings.HasPrefix(e.After, " grew."), "%+v", e)
		require.NotEmpty(t, e.Chunk)
	}
	require.Equal(t, []any{"legal_suffix", 0.97, "active"}, []any{m.Match.Method, m.Match.Score, m.Match.Found})

	d := r.decide(api.MatchDecide{Keys: []string{m.Item.Key}, Decision: "different", Actor: "eva", Reason: "two firms"})
	r.decide(api.MatchDecide{Keys: []string{m.Item.Key}, Decision: "same", Actor: "bo"})
	m, err = r.Get(t.Context(), g, api.MatchGet{Key: m.Item.Key})
	require.NoError(t, err)
	require.Equal(t, api.StateApproved, m.Item.State)
	require.Equal(t, []any{"same", "bo", m.Seq}, []any{m.Match.Decided.Decision, m.Match.Decided.Actor, m.Item.Revision})
	require.Len(t, m.History, 2)
	require.Equal(t, []string{"bo", "rejected", "approved"}, []string{m.History[0].Actor, m.History[0].Before, m.History[0].After})
	require.Equal(t, []string{"eva", "active", "rejected", "two firms", d.Records[m.Item.Key]},
		[]string{m.History[1].Actor, m.History[1].Before, m.History[1].After, m.History[1].Reason, m.History[1].Record})
	shown := r.audited()[1]
	require.Len(t, shown.Plan, 64)
	require.NotEmpty(t, shown.Evidence)
	require.LessOrEqual(t, len(shown.Evidence), 2*maxSeen)
	for _, e := range shown.Evidence {
		require.NotEmpty(t, e.Quote)
		require.NotEmpty(t, e.Document)
	}
	for _, bad := range []struct {
		req  api.MatchGet
		code string
	}{{api.MatchGet{}, "bad_value"}, {api.MatchGet{ID: "x", Key: "y"}, "bad_value"}, {api.MatchGet{ID: entityID("Person:Ada")}, "match_not_found"},
		{api.MatchGet{Key: "match|a|b"}, "match_not_found"}, {api.MatchGet{Key: key("Person:Ada", "Organization:Acme")}, "match_not_found"}} {
		_, err := r.Get(t.Context(), g, bad.req)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, bad.code, e.Code)
	}
}

// Unclear, active and decided matches can be decided; each change has one record, in one commit with it.
func TestDecide(t *testing.T) {
	r := newRoom(t)
	ltd, corp := id("Organization:Acme", "Organization:Acme Ltd"), id("Organization:Acme", "Organization:ACME Corporation")
	unknown := id("Person:Ada", "Organization:Acme")
	d := r.decide(api.MatchDecide{IDs: []string{corp, ltd, corp, unknown}, Decision: "same", Actor: " eva ", Reason: "letterhead", RequestID: "r1"})
	require.ElementsMatch(t, []string{key("Organization:Acme", "Organization:Acme Ltd"), key("Organization:Acme", "Organization:ACME Corporation")}, d.Outcome.Changed)
	require.Equal(t, map[string]string{unknown: api.SkippedUnknown}, d.Outcome.Skipped)
	require.EqualValues(t, 1, r.told.Load())
	require.Equal(t, []string{api.StateApproved, api.StateApproved}, []string{r.states()[ltd], r.states()[corp]})
	log := r.audited()
	require.Len(t, log, 2)
	require.Equal(t, []string{"r1", "r1", "match", "eva", "letterhead", "same", "pending", "approved"},
		[]string{log[0].Operation, log[0].RequestID, log[0].Kind, log[0].Actor, log[0].Reason, log[0].Decision, log[0].Before, log[0].After})
	require.Equal(t, d.Seq, log[0].Seq)
	var seen struct {
		A, B struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(log[0].Item, &seen))
	require.ElementsMatch(t, []string{"Acme", "ACME Corporation"}, []string{seen.A.Name, seen.B.Name})

	// Once more: the stored reply, no write; another body is refused.
	require.Equal(t, d, r.decide(api.MatchDecide{IDs: []string{corp, ltd, corp, unknown}, Decision: "same", Actor: " eva ", Reason: "letterhead", RequestID: "r1"}))
	require.Equal(t, "409 operation_reused", r.refused(api.MatchDecide{IDs: []string{corp}, Decision: "same", Actor: "eva", RequestID: "r1"}))
	require.Len(t, r.audited(), 2)

	// What is decided so already stays; what is decided otherwise changes.
	again := r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "same", Actor: "bo", RequestID: "r2"})
	require.Equal(t, map[string]string{ltd: api.SkippedApproved}, again.Outcome.Skipped)
	require.Equal(t, again, r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "same", Actor: "bo", RequestID: "r2"}))
	require.Len(t, r.audited(), 2)
	rev := r.list(api.MatchesList{Limit: 1, MatchFilter: api.MatchFilter{States: []string{"approved"}}}).Groups[0].Revision
	require.Equal(t, "409 stale_revision", r.refused(api.MatchDecide{IDs: []string{ltd}, Decision: "different", Actor: "bo", Revision: new(rev + 1)}))
	require.Equal(t, "409 stale_revision", r.refused(api.MatchDecide{IDs: []string{ltd}, Decision: "different", Actor: "bo", Revision: new(uint64)}), "nobody had decided it")
	r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "different", Actor: "bo", Revision: new(rev)})
	require.Equal(t, api.StateRejected, r.states()[ltd])

	// By query: what is left unclear of one label.
	q := api.MatchFilter{States: []string{"pending"}, Label: "organization"}
	d = r.decide(api.MatchDecide{Query: &q, Decision: "different", Actor: "eva"})
	require.Equal(t, []string{key("Organization:Acme Ltd", "Organization:ACME Corporation")}, d.Outcome.Changed)
	require.Empty(t, r.decide(api.MatchDecide{Query: &q, Decision: "different", Actor: "eva"}).Outcome.Changed)
	require.Equal(t, api.StatePending, r.states()[id("Person:Ada", "Person:Ada L")])
	require.Len(t, r.audited(), 4)
	r.verified()

	many := make([]string, api.MaxDecided+1)
	for want, reqs := range map[string][]api.MatchDecide{
		"400 bad_value": {
			{IDs: []string{ltd}, Decision: "same"}, {IDs: []string{ltd}, Decision: "same", Actor: " \t"},
			{IDs: []string{ltd}, Decision: "same", Actor: "a\nb"}, {IDs: []string{ltd}, Decision: "same", Actor: strings.Repeat("a", 201)},
			{IDs: []string{ltd}, Decision: "same", Actor: "a", Reason: strings.Repeat("a", 2001)}, {IDs: []string{ltd}, Decision: "maybe", Actor: "a"},
			{IDs: []string{ltd}, Actor: "a"}, {IDs: []string{ltd}, Decision: "same", Actor: " Policy"}, {Decision: "same", Actor: "a"}, {IDs: []string{ltd}, Keys: []string{"x"}, Decision: "same", Actor: "a"},
			{Query: &q, Decision: "undo", Actor: "a"}, {Record: "x", Decision: "same", Actor: "a"}, {Query: &q, Revision: new(uint64(1)), Decision: "same", Actor: "a"},
			{Query: &api.MatchFilter{States: []string{"so-so"}}, Decision: "same", Actor: "a"},
		},
		"404 match_not_found":    {{IDs: []string{unknown}, Decision: "same", Actor: "a"}, {Keys: []string{"match|x|y", "entity|a|b"}, Decision: "undo", Actor: "a"}},
		"404 decision_not_found": {{Record: "x", Decision: "undo", Actor: "a"}},
		"413 too_large":          {{IDs: many, Decision: "same", Actor: "a"}},
	} {
		for _, req := range reqs {
			require.Equal(t, want, r.refused(req), "%+v", req)
		}
	}
	_, err := r.Decide(t.Context(), "other", api.MatchDecide{IDs: []string{ltd}, Decision: "same", Actor: "a"})
	require.ErrorContains(t, err, "graph other has no match")
}

// An undo takes the decision back that stands; it is a record of its own.
func TestUndo(t *testing.T) {
	r := newRoom(t)
	ltd, k := id("Organization:Acme", "Organization:Acme Ltd"), key("Organization:Acme", "Organization:Acme Ltd")
	one := r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "different", Actor: "eva"}).Records[k]
	two := r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "same", Actor: "bo"}).Records[k]
	require.Equal(t, "412 decision_not_current", r.refused(api.MatchDecide{Record: one, Decision: "undo", Actor: "eva"}))
	u := r.decide(api.MatchDecide{Record: two, Decision: "undo", Actor: "eva", Reason: "slip", RequestID: "u"})
	require.Equal(t, []string{k}, u.Outcome.Changed)
	require.Equal(t, u, r.decide(api.MatchDecide{Record: two, Decision: "undo", Actor: "eva", Reason: "slip", RequestID: "u"}))
	require.Equal(t, api.StateActive, r.states()[ltd], "as it is found")
	log := r.audited()
	require.Equal(t, []string{"undo", two, "approved", "active", "eva"}, []string{log[2].Decision, log[2].Undoes, log[2].Before, log[2].After, log[2].Actor})
	for _, rec := range []string{one, two, u.Records[k]} {
		require.Equal(t, "412 decision_not_current", r.refused(api.MatchDecide{Record: rec, Decision: "undo", Actor: "eva"}))
	}
	require.Equal(t, map[string]string{ltd: "not decided"}, r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "undo", Actor: "eva"}).Outcome.Skipped)

	// A decision outlives its entities, and can be taken back without them.
	three := r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "different", Actor: "eva"}).Records[k]
	for _, doc := range []string{"d0", "d1", "d3"} {
		r.remove(doc)
	}
	require.Equal(t, "404 match_not_found", r.refused(api.MatchDecide{IDs: []string{ltd}, Decision: "same", Actor: "eva"}))
	r.commit("d4", "Organization:Acme", "Organization:Acme Ltd")
	r.found("Organization:Acme", "Organization:Acme Ltd", "legal_suffix", 0.97, store.MatchActive)
	require.Equal(t, api.StateRejected, r.states()[ltd])
	r.remove("d4")
	require.Equal(t, []string{k}, r.decide(api.MatchDecide{Keys: []string{k}, Decision: "undo", Actor: "eva"}).Outcome.Changed)
	log = r.audited()
	require.Equal(t, []string{three, "rejected", ""}, []string{log[4].Undoes, log[4].Before, log[4].After})
	r.verified()
}

// A record that was altered, lost, or put into another's place is named.
func TestTheTrailIsVerified(t *testing.T) {
	r := newRoom(t)
	ltd := id("Organization:Acme", "Organization:Acme Ltd")
	for i := range 4 {
		r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: []string{"same", "different"}[i%2], Actor: "eva"})
	}
	problems := func() (out []string) {
		n, err := audit.Trail{Store: r.st, Graph: g}.Verify(t.Context(), func(p api.Problem) { out = append(out, p.Key+": "+p.Message) })
		require.NoError(t, err)
		require.Equal(t, 4, n)
		return out
	}
	require.Empty(t, problems())
	set := func(key, value []byte) {
		require.NoError(t, r.st.Write(t.Context(), []store.Op{{Graph: g, Space: 'D', Key: key, Value: value, Delete: value == nil}}, false))
	}
	record := func(no byte) []byte { return []byte{'a', 0, 0, 0, 0, 0, 0, 0, no} }
	for _, c := range []struct {
		key   []byte
		alter func([]byte) []byte
		want  string
	}{
		{record(2), func(b []byte) []byte { return []byte(strings.Replace(string(b), "eva", "bob", 1)) }, "audit record 2: it is not what was decided then"},
		{record(3), func([]byte) []byte { return nil }, "audit record 3"},
		{record(4), func([]byte) []byte { return nil }, "the last record is"},
		{[]byte("h"), func([]byte) []byte { return []byte(`{"no":4,"id":"x"}`) }, "audit record 4: the last record is"},
		{[]byte("i" + r.audited()[0].Record), func([]byte) []byte { return nil }, "audit record 1: it is not found by"},
	} {
		was, err := r.st.Get(g, 'D', c.key)
		require.NoError(t, err)
		require.NotNil(t, was)
		set(c.key, c.alter(was))
		require.Contains(t, strings.Join(problems(), "\n"), c.want)
		set(c.key, was)
	}
	require.Empty(t, problems())
}

// Reviewers who decide at once: one record a change, and every state is that of the last record.
func TestManyDecideAtOnce(t *testing.T) {
	r := newRoom(t)
	ids := []string{id("Organization:Acme", "Organization:Acme Ltd"), id("Person:Ada", "Person:Ada L")}
	var mu sync.Mutex
	changed := 0
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(who)))
			for n := range 10 {
				d, err := r.Decide(t.Context(), g, api.MatchDecide{IDs: ids, Decision: []string{"same", "different", "undo"}[rng.IntN(3)],
					Actor: fmt.Sprint("reviewer ", who), RequestID: fmt.Sprint("w", who%2, "-", n)})
				var refused *api.Error
				if err != nil {
					require.ErrorAs(t, err, &refused)
					require.Equal(t, "operation_reused", refused.Code)
					continue
				}
				mu.Lock()
				changed += len(d.Outcome.Changed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	log := r.audited()
	require.Len(t, log, changed)
	last := map[string]string{}
	was := map[string]string{ids[0]: api.StateActive, ids[1]: api.StatePending}
	for _, a := range log {
		require.Equal(t, was[a.ItemID], a.Before, "%+v", a)
		require.NotEqual(t, a.Before, a.After)
		was[a.ItemID], last[a.ItemID] = a.After, a.After
	}
	for _, x := range ids {
		require.Equal(t, was[x], r.states()[x])
	}
	r.verified()
}

// Whenever the power fails during a decision, all of it is there or nothing; and the same request again ends it.
func TestCrashInMidDecision(t *testing.T) {
	fs := vfs.NewCrashableMem()
	r := open(t, fs)
	r.fill()
	req := api.MatchDecide{IDs: []string{id("Organization:Acme", "Organization:Acme Ltd"), id("Person:Ada", "Person:Ada L")}, Decision: "same", Actor: "eva", RequestID: "once"}
	rng := rand.New(rand.NewPCG(7, 7))
	clone := func() *vfs.MemFS {
		return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
	}
	clones := []*vfs.MemFS{clone()}
	done := make(chan api.DecideReply, 1)
	go func() {
		d, err := r.Decide(context.Background(), g, req)
		if err != nil {
			t.Error(err)
		}
		done <- d
	}()
	var want api.DecideReply
	for ended := false; !ended; {
		select {
		case want = <-done:
			ended = true
		default:
			if len(clones) < 40 {
				clones = append(clones, clone())
			}
		}
	}
	clones = append(clones, clone())
	require.Len(t, want.Outcome.Changed, 2)
	whole := 0
	for i, c := range clones {
		x := open(t, c)
		n := len(x.audited())
		decided := 0
		for _, s := range x.states() {
			if s == api.StateApproved {
				decided++
			}
		}
		require.Equal(t, n, decided, "clone %d", i)
		require.Contains(t, []int{0, 2}, n)
		whole += n
		require.Equal(t, want, x.decide(req), "clone %d", i)
		require.Len(t, x.audited(), 2)
		x.verified()
	}
	require.NotZero(t, whole, "the last one is after the commit")
	t.Logf("%d clones, %d of them behind the commit", len(clones), whole/2)
}
