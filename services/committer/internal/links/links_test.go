package links

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

type T interface {
	require.TestingT
	Helper()
}

// fixture is a store with a linker, which runs only when the test says so.
type fixture struct {
	tb    T
	st    *store.Store
	l     *Linker
	set   settings.Pipeline
	mu    sync.Mutex
	alias map[string][]string // "label key" → aliases
	known map[string]bool     // "label key" of what the registry knows by that name
	order int64
}

func openFixture(tb T, fs vfs.FS, cfg Config, judge Judge) *fixture {
	tb.Helper()
	st, err := store.Open(context.Background(), store.Options{Dir: "data", FS: fs, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }})
	require.NoError(tb, err)
	st.Graph(g, true)
	x := &fixture{tb: tb, st: st, set: settings.Default(), alias: map[string][]string{}}
	x.l, err = New(cfg, Deps{Store: st, Judge: judge, Known: func(_, label, key string) (bool, error) { return x.known[label+" "+key], nil }, Settings: func(string) (settings.Pipeline, error) { return x.set, nil },
		Aliases: func(_, label, key string) ([]string, error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.alias[label+" "+key], nil
		}})
	require.NoError(tb, err)
	return x
}

// doc mentions entities, "Label:Name" each.
func doc(key string, mentions ...string) store.DocChange {
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: key}, SchemaFP: "s", SchemaName: "t", SchemaVersion: "1", SchemaRevision: 1,
		ChunkerFP: "c", ExtractionFP: "e", Job: "job-" + key}
	refs := map[string]graph.EntityRef{}
	for _, m := range mentions {
		label, name, _ := strings.Cut(m, ":")
		k := fingerprint.Fold(name)
		id := fingerprint.EntityID(label, k)
		refs[id] = graph.EntityRef{ID: id, Label: label, Key: k}
	}
	for _, r := range refs {
		c.Assertions.Entities = append(c.Assertions.Entities, r)
	}
	slices.SortFunc(c.Assertions.Entities, func(a, b graph.EntityRef) int { return strings.Compare(a.ID, b.ID) })
	a := graph.ChunkAssertions{}
	for _, m := range mentions {
		label, name, _ := strings.Cut(m, ":")
		id := fingerprint.EntityID(label, fingerprint.Fold(name))
		start := len(c.Text)
		c.Text += name
		a.Mentions = append(a.Mentions, graph.Mention{Name: name, Start: start, End: len(c.Text), Confidence: 0.9, Extractor: "rules",
			Entity: slices.IndexFunc(c.Assertions.Entities, func(r graph.EntityRef) bool { return r.ID == id })})
		c.Text += " lived.\n"
	}
	c.Chunks = []graph.Chunk{{Start: 0, End: len(c.Text), Content: "text", Tokens: 1}}
	c.Assertions.Chunks = []graph.ChunkAssertions{a}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	return c
}

func gone(key string) store.DocChange {
	return store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: key}, Job: "del-" + key}
}

func (x *fixture) commit(changes ...store.DocChange) {
	x.tb.Helper()
	txn, err := x.st.Begin(context.Background(), g)
	require.NoError(x.tb, err)
	for _, c := range changes {
		x.order++
		c.Order = graph.Order{Time: x.order}
		_, err := txn.Apply(context.Background(), c)
		require.NoError(x.tb, err)
	}
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(x.tb, err)
}

// link links what is committed, without anything running beside.
func (x *fixture) link() {
	x.tb.Helper()
	require.NoError(x.tb, x.l.of(g).catchUp(context.Background()))
}

func (x *fixture) judge() { require.NoError(x.tb, x.l.of(g).ask(context.Background())) }

// matches lists them by display names: "a ~ b method state".
func (x *fixture) matches() []string {
	x.tb.Helper()
	sn, err := x.st.Snapshot(g, 0)
	require.NoError(x.tb, err)
	defer sn.Close()
	out := []string{}
	require.NoError(x.tb, sn.MatchesAll(store.Match{}, func(m store.Match) error {
		var names []string
		for _, id := range []string{m.A, m.B} {
			e, ok, err := sn.Entity(id)
			require.NoError(x.tb, err)
			require.True(x.tb, ok)
			names = append(names, e.Display())
		}
		slices.Sort(names)
		out = append(out, fmt.Sprintf("%s ~ %s %s %s", names[0], names[1], m.Method, m.State()))
		return nil
	}))
	slices.Sort(out)
	return out
}

// verify checks the store and the links.
func (x *fixture) verify() {
	x.tb.Helper()
	r, err := x.st.Verify(context.Background(), g, nil)
	require.NoError(x.tb, err)
	require.Empty(x.tb, r.Problems)
	require.Empty(x.tb, x.problems())
}

func (x *fixture) problems() (out []string) {
	x.tb.Helper()
	_, err := x.l.Verify(context.Background(), g, func(p api.Problem) { out = append(out, p.Message) })
	require.NoError(x.tb, err)
	return out
}

// The same links, whichever came first, together or apart, in one document or two; none when one of them is gone.
func TestLinksKnowNoOrder(t *testing.T) {
	docs := map[string][]string{"a": {"Person:Babbage Charles"}, "b": {"Person:Charles Babbage"}, "c": {"Person:C. Babbage", "Org:Babbage Charles"}}
	want := []string{"Babbage Charles ~ C. Babbage initials active", "Babbage Charles ~ Charles Babbage order active", "C. Babbage ~ Charles Babbage initials active"}
	want = want[1:]
	for _, order := range [][]string{{"abc"}, {"a", "b", "c"}, {"c", "b", "a"}, {"b", "ca"}, {"bc", "a"}} {
		for _, each := range []bool{false, true} {
			x := openFixture(t, vfs.NewMem(), Config{}, nil)
			for _, job := range order {
				var all []store.DocChange
				for _, k := range job {
					all = append(all, doc(string(k), docs[string(k)]...))
				}
				x.commit(all...)
				if each {
					x.link()
				}
			}
			x.link()
			require.Equal(t, want, x.matches(), "%v", order)
			x.verify()
			x.commit(gone("a"))
			require.Equal(t, want[1:], x.matches(), "gone with the commit itself")
			x.link()
			require.Equal(t, want[1:], x.matches())
			x.verify()
			x.commit(gone("b"), gone("c"))
			x.link()
			require.Empty(t, x.matches())
			x.verify()
		}
	}
}

// What must not link: differing numbers, marks, another label.
func TestLinksVetoed(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{}, nil)
	x.commit(doc("d", "Task:Task 5", "Task:Task 6", "Lang:C", "Lang:C++", "Lang:C#", "Lang:HTTP", "Lang:HTTPS", "Person:Ada", "Place:Ada", "Lang:.NET", "Lang:Net", "Task:Tarea 5", "Task:Tarea 6"))
	x.link()
	require.Empty(t, x.matches())
	x.verify()
}

// A name that becomes the usual one of its entity is compared anew.
func TestLinksFollowTheDisplayName(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{}, nil)
	x.commit(doc("a", "Org:ESA"), doc("b", "Org:European Space Agency"))
	x.link()
	require.Equal(t, []string{"ESA ~ European Space Agency acronym unclear"}, x.matches())
	x.commit(doc("c", "Org:esa", "Org:esa"))
	x.link()
	require.Empty(t, x.matches(), "the entity is displayed in small letters, which are no acronym")
	x.verify()
	x.commit(gone("c"))
	x.link()
	require.Equal(t, []string{"ESA ~ European Space Agency acronym unclear"}, x.matches())
	x.verify()
}

// Counters are a job's, and the same however the feed is cut into pages.
func TestStatsOfAJob(t *testing.T) {
	for _, page := range []int{1, 2, 512} {
		x := openFixture(t, vfs.NewMem(), Config{Page: page}, nil)
		x.commit(doc("a", "Org:Acme", "Org:Acme Ltd", "Org:ACME Inc.", "Org:Other"))
		x.commit(doc("b", "Org:Acme GmbH"))
		x.link()
		a, err := x.l.Stats(g, "job-a")
		require.NoError(t, err)
		require.Equal(t, api.Resolution{Compared: 3, Matched: api.Matched{Fuzzy: 2}, Unclear: 1}, a, "page %d", page)
		b, err := x.l.Stats(g, "job-b")
		require.NoError(t, err)
		require.Equal(t, api.Resolution{Compared: 3, Matched: api.Matched{Fuzzy: 1}, Unclear: 2}, b, "page %d", page)
		again := x.l.of(g)
		require.NoError(t, again.catchUp(t.Context()))
		same, err := x.l.Stats(g, "job-b")
		require.NoError(t, err)
		require.Equal(t, b, same, "nothing is counted twice")
	}
}

// A linker that stops between pages, or whose last page was lost, goes on where it was.
func TestLinksSurviveARestart(t *testing.T) {
	fs := vfs.NewMem()
	x := openFixture(t, fs, Config{Page: 2}, nil)
	x.commit(doc("a", "Person:Babbage Charles", "Org:Acme", "Org:Acme Ltd", "Person:Charles Babbage", "Org:Other"))
	var at position
	_, err := x.l.of(g).step(t.Context(), &at)
	require.NoError(t, err)
	require.NoError(t, x.st.Close())
	x = openFixture(t, fs, Config{Page: 3}, nil)
	x.link()
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active", "Babbage Charles ~ Charles Babbage order active"}, x.matches())
	x.verify()
	require.NoError(t, x.st.Close())
}

// A graph whose feed does not reach back is compared whole, and so is one that is reset; decisions stay.
func TestLinksFromTheBeginning(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{Page: 2}, nil)
	x.commit(doc("a", "Org:Acme", "Org:Other"))
	x.commit(doc("b", "Org:Acme Ltd", "Org:ACME Limited", "Org:Else"))
	require.NoError(t, x.st.TrimFeed(t.Context(), g, 1))
	x.link()
	want := []string{"ACME Limited ~ Acme Ltd abbreviation active", "ACME Limited ~ Acme legal suffix active", "Acme ~ Acme Ltd legal suffix active"}
	require.ElementsMatch(t, want, x.matches())
	txn, err := x.st.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.DecideMatch(store.Verdict{A: fingerprint.EntityID("Org", "acme"), B: fingerprint.EntityID("Org", "acme ltd"), State: store.MatchRejected})
	require.NoError(t, err)
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	before := x.matches()
	require.Contains(t, before, "Acme ~ Acme Ltd legal suffix rejected")
	require.NoError(t, x.l.Reset(t.Context(), g))
	x.link()
	require.Equal(t, before, x.matches())
	x.verify()
}

// Names that another version of the rules filed are filed anew.
func TestLinksOfOtherRules(t *testing.T) {
	fs := vfs.NewMem()
	x := openFixture(t, fs, Config{}, nil)
	x.commit(doc("a", "Org:Acme", "Org:Acme Ltd"))
	x.link()
	op, err := x.l.of(g).rows.json(keyPosition, position{Seq: 2, Rules: "of old"})
	require.NoError(t, err)
	require.NoError(t, x.st.Write(t.Context(), []store.Op{op, {Graph: g, Space: space, Key: []byte("b"), DeletePrefix: true}}, true))
	require.NotEmpty(t, x.problems())
	require.NoError(t, x.st.Close())
	x = openFixture(t, fs, Config{}, nil)
	x.link()
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active"}, x.matches())
	x.verify()
}

// What the registry declares links, and what it declares no longer does not.
func TestAliases(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{}, nil)
	x.commit(doc("a", "Org:International Business Machines", "Org:Big Blue"))
	x.link()
	require.Empty(t, x.matches())
	id := fingerprint.EntityID("Org", "international business machines")
	x.alias["Org international business machines"] = []string{"Big Blue"}
	require.NoError(t, x.l.Relink(t.Context(), g, []string{id}))
	x.link()
	require.Equal(t, []string{"Big Blue ~ International Business Machines alias active"}, x.matches())
	x.verify()
	delete(x.alias, "Org international business machines")
	require.NoError(t, x.l.Relink(t.Context(), g, []string{id}))
	x.link()
	require.Empty(t, x.matches())
	x.verify()
}

// Two that the registry lists as two are not linked, whatever their names, unless a person says so; and a changed threshold holds for all.
func TestKnownApart(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{}, nil)
	x.known = map[string]bool{"Org acme": true, "Org acme ltd": true, "Person ada lovelace": true}
	x.commit(doc("a", "Org:Acme", "Org:Acme Ltd", "Person:Ada Lovelace", "Person:Lovelace Ada"))
	x.link()
	require.Equal(t, []string{"Acme ~ Acme Ltd registry rejected", "Ada Lovelace ~ Lovelace Ada order active"}, x.matches())
	x.verify()
	delete(x.known, "Org acme")
	require.NoError(t, x.l.Relink(t.Context(), g, []string{fingerprint.EntityID("Org", "acme")}))
	x.link()
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active", "Ada Lovelace ~ Lovelace Ada order active"}, x.matches())
	x.verify()
}

// Settings that decide about pairs hold for those that were compared before, too.
func TestOtherSettings(t *testing.T) {
	j := &scripted{say: func(api.JudgePair) string { return api.VerdictMatch }}
	x := openFixture(t, vfs.NewMem(), Config{}, j)
	x.commit(doc("a", "Org:ESA", "Org:European Space Agency"))
	x.link()
	x.judge()
	require.Equal(t, []string{"ESA ~ European Space Agency acronym unclear"}, x.matches())
	x.set.Resolver.Judge, x.set.Resolver.JudgeModel = settings.JudgeOllama, "fake:1"
	x.link()
	x.judge()
	require.Equal(t, []string{"ESA ~ European Space Agency model active"}, x.matches())
	x.set.Resolver.Judge = ""
	x.link()
	require.Equal(t, []string{"ESA ~ European Space Agency acronym unclear"}, x.matches())
	x.verify()
}

// Many names of one key: what is over the bound is counted, not looked at.
func TestCapIsCounted(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{MaxBlock: 3}, nil)
	var all []string
	for _, m := range []string{"Ann", "Bea", "Cid", "Dan", "Eve", "Fay"} {
		all = append(all, "Person:"+m+" Quillfeather")
	}
	x.commit(doc("a", all...))
	x.link()
	x.commit(doc("b", "Person:Quillfeather"))
	x.link()
	s, err := x.l.Stats(g, "job-b")
	require.NoError(t, err)
	require.Equal(t, 3, s.Compared)
	require.Equal(t, 1, s.CapLeft)
}

func TestVerifyNamesDamage(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{}, nil)
	x.commit(doc("a", "Org:Acme", "Org:Acme Ltd"))
	x.link()
	x.verify()
	var keys [][]byte
	require.NoError(t, x.st.Scan(g, space, nil, nil, 0, func(k, _ []byte) error {
		keys = append(keys, slices.Clone(k))
		return nil
	}))
	tried := map[byte]int{}
	for _, k := range keys {
		if k[0] != 'b' && k[0] != 'n' {
			continue
		}
		tried[k[0]]++
		was, err := x.st.Get(g, space, k)
		require.NoError(t, err)
		require.NoError(t, x.st.Delete(t.Context(), g, space, k))
		require.NotEmpty(t, x.problems(), "%q", k)
		require.NoError(t, x.st.Put(t.Context(), g, space, k, was))
		require.Empty(t, x.problems())
	}
	require.Equal(t, 2, tried['n'])
	require.Greater(t, tried['b'], 4)
	id, _ := store.ParseID(fingerprint.EntityID("Org", "nobody"))
	require.NoError(t, x.st.Put(t.Context(), g, space, nameKey(id), named{label: "Org", name: "Nobody"}.encode()))
	require.Equal(t, []string{"it is compared, and is not there"}, x.problems())
}

var pool = []string{"Person:Ada Lovelace", "Person:Lovelace Ada", "Person:A. Lovelace", "Person:Ada, Countess of Lovelace", "Org:Acme", "Org:Acme Ltd", "Org:ACME", "Org:acme",
	"Org:ACME Inc.", "Org:東京 Ltd", "Org:東京", "Place:NYC", "Place:New York City", "Org:European Space Agency", "Org:ESA", "Org:esa"}

// Any history of documents leaves the links that its last state has when it is linked at once.
func TestLinksConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// A judge whose word depends on the two names alone.
		j := &scripted{say: func(p api.JudgePair) string {
			return []string{api.VerdictMatch, api.VerdictNoMatch, api.VerdictUncertain}[(len(p.A)+len(p.B))%3]
		}}
		x := judged(rt, j)
		x.l.cfg.Page = rapid.IntRange(1, 5).Draw(rt, "page")
		defer x.st.Close()
		last := map[string][]string{}
		for range rapid.IntRange(1, 8).Draw(rt, "commits") {
			var all []store.DocChange
			for range rapid.IntRange(1, 3).Draw(rt, "documents") {
				k := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key")
				if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
					delete(last, k)
					all = append(all, gone(k))
					continue
				}
				last[k] = rapid.SliceOfN(rapid.SampledFrom(pool), 1, 5).Draw(rt, "mentions")
				all = append(all, doc(k, last[k]...))
			}
			x.commit(all...)
			if rapid.Bool().Draw(rt, "link") {
				x.link()
				if rapid.Bool().Draw(rt, "judge") {
					x.judge()
				}
			}
		}
		x.link()
		x.judge()
		x.verify()
		fresh := judged(rt, j)
		defer fresh.st.Close()
		for k, m := range last {
			fresh.commit(doc(k, m...))
		}
		if len(last) > 0 {
			fresh.link()
			fresh.judge()
			require.Equal(rt, fresh.matches(), x.matches())
		} else {
			require.Empty(rt, x.matches())
		}
	})
}

// The linker as it runs: it is told of commits, and Wait returns when they are linked.
func TestRun(t *testing.T) {
	x := openFixture(t, vfs.NewMem(), Config{}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- x.l.Run(ctx) }()
	x.commit(doc("a", "Org:Acme"))
	x.l.Notify(g)
	x.commit(doc("b", "Org:Acme Ltd"))
	x.l.Notify(g)
	st := x.l.Wait(ctx, g, "job-b", 2)
	require.NoError(t, st.Err)
	require.GreaterOrEqual(t, st.Linked, uint64(2))
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active"}, x.matches())
	waited := make(chan Status, 1)
	go func() { waited <- x.l.Wait(t.Context(), g, "job-c", 99) }()
	cancel()
	require.NoError(t, <-done)
	select {
	case st := <-waited:
		require.Less(t, st.Linked, uint64(99))
	case <-time.After(time.Minute):
		require.Fail(t, "who waits learns nothing of the stop")
	}
}
