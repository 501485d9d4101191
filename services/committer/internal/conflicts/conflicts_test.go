package conflicts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

const first = `
entities:
  Agent: {properties: {founded: {type: integer, identifies: true}}}
  Person: {properties: {born: {type: date, identifies: true}, height: {type: integer, merge: newest}, alias: {type: string, merge: all}}}
  Org: {parents: [Agent]}
relations:
  WORKS_FOR: {patterns: ["Person->Org"], properties: {since: {type: integer}, role: {type: string, merge: all}}}
`

// room is a desk over a store in memory.
type room struct {
	*Desk
	t      testing.TB
	st     *store.Store
	active *schema.Schema
	order  int64
}

// Schema implements Schemas.
func (r *room) Schema(string, uint64) (*schema.Schema, error) { return r.active, nil }

func (r *room) put(text string) {
	r.t.Helper()
	s, err := schema.Parse([]byte(text), "test.yaml", nil)
	require.NoError(r.t, err)
	r.active = s
}

func newRoom(t testing.TB) *room {
	st, err := store.Open(context.Background(), store.Options{Dir: "data", FS: vfs.NewMem(), Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }, CacheBytes: 8 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	st.Graph(g, true)
	r := &room{t: t, st: st}
	r.put(first)
	r.Desk = New(Deps{Store: st, Schemas: r, Operations: operations.New(st)})
	return r
}

func entityID(name string) string {
	label, name, _ := strings.Cut(name, ":")
	return fingerprint.EntityID(label, fingerprint.Fold(name))
}

// commit adds a document. Each line is a sentence: "Label:Name" alone, with " property=value", or with " TYPE Label:Name property=value".
func (r *room) commit(doc string, lines ...string) {
	r.t.Helper()
	r.order++
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: doc}, SchemaFP: "s", SchemaName: "t", SchemaVersion: "1", SchemaRevision: 1,
		ChunkerFP: "c", ExtractionFP: "e", Job: "job-" + doc, Order: graph.Order{Time: r.order}}
	var a graph.ChunkAssertions
	ref := func(m string) int {
		if i := slices.IndexFunc(c.Assertions.Entities, func(e graph.EntityRef) bool { return e.ID == entityID(m) }); i >= 0 {
			return i
		}
		label, name, _ := strings.Cut(m, ":")
		c.Assertions.Entities = append(c.Assertions.Entities, graph.EntityRef{ID: entityID(m), Label: label, Key: fingerprint.Fold(name)})
		return len(c.Assertions.Entities) - 1
	}
	write := func(s string) (start, end int) {
		start = len(c.Text)
		c.Text += s
		return start, len(c.Text)
	}
	mention := func(m string) int {
		_, name, _ := strings.Cut(m, ":")
		start, end := write(name)
		a.Mentions = append(a.Mentions, graph.Mention{Name: name, Start: start, End: end, Confidence: 0.9, Extractor: "rules", Entity: ref(m)})
		return ref(m)
	}
	for _, line := range lines {
		f := strings.Fields(line)
		for i := range f {
			f[i] = strings.ReplaceAll(f[i], "_", " ")
		}
		write("They say that ")
		begin := len(c.Text)
		e := mention(f[0])
		switch len(f) {
		case 2:
			name, value, _ := strings.Cut(f[1], "=")
			value, sure, _ := strings.Cut(value, "@")
			p := graph.PropertyA{Entity: e, Name: name, Value: value, Confidence: 0.8, Extractor: "rules"}
			if sure != "" {
				_, err := fmt.Sscan(sure, &p.Confidence)
				require.NoError(r.t, err)
			}
			write(" has " + name + " ")
			p.Start, p.End = write(value)
			a.Properties = append(a.Properties, p)
		case 4:
			write(" " + f[1] + " ")
			to := mention(f[2])
			name, value, _ := strings.Cut(f[3], "=")
			a.Relations = append(a.Relations, graph.RelationA{Type: strings.ReplaceAll(f[1], " ", "_"), Source: e, Target: to, Start: begin, End: len(c.Text), Confidence: 0.7, Extractor: "rules",
				Properties: map[string]any{name: value}})
		}
		write(".\n")
	}
	c.Chunks = []graph.Chunk{{End: len(c.Text), Content: "text", Tokens: 1}}
	c.Assertions.Chunks = []graph.ChunkAssertions{a}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	r.apply(c)
}

func (r *room) remove(doc string) {
	r.order++
	r.apply(store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: doc}, Order: graph.Order{Time: r.order}})
}

func (r *room) apply(c store.DocChange) {
	r.t.Helper()
	txn, err := r.st.Begin(context.Background(), g)
	require.NoError(r.t, err)
	_, err = txn.Apply(context.Background(), c)
	require.NoError(r.t, err)
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(r.t, err)
}

func (r *room) list(req api.ConflictsList) api.ConflictsReply {
	r.t.Helper()
	reply, err := r.List(r.t.Context(), g, req)
	require.NoError(r.t, err)
	return reply
}

// lines are the conflicts of a list: "label text property values reasons count/documents confidence".
func lines(r api.ConflictsReply) []string {
	out := []string{}
	for _, x := range r.Groups {
		out = append(out, fmt.Sprintf("%s: %s: %s: %s: %s %d/%d %g", x.Label, x.Text, x.SourceText, x.TargetText, strings.Join(x.Reasons, ","), x.Count, x.Documents, x.Confidence))
	}
	return out
}

func (r *room) fill() {
	r.commit("a", "Person:John_Smith born=1950-05-01", "Person:John_Smith alias=Jack", "Person:John_Smith WORKS_FOR Org:Acme since=1970")
	r.commit("b", "Person:John_Smith born=1962-09-09@0.95", "Person:John_Smith alias=Johnny", "Person:John_Smith WORKS_FOR Org:Acme since=1971")
	r.commit("c", "Person:John_Smith born=1950-05-01", "Person:John_Smith height=180", "Org:Acme founded=1901", "Person:John_Smith WORKS_FOR Org:Acme role=clerk")
	r.commit("d", "Person:John_Smith height=181", "Org:Acme founded=1902", "Person:John_Smith WORKS_FOR Org:Acme role=chief")
	r.commit("e", "Person:John_Smith", "Person:John_Smith colour=red")
	r.commit("f", "Person:John_Smith colour=blue")
}

var all = []string{
	"Person: John Smith: born: 1950-05-01 | 1962-09-09: homonym 3/3 0.95",
	"Org: Acme: founded: 1901 | 1902: homonym 2/2 0.8",
	"Person: John Smith: height: 180 | 181: property_conflict 2/2 0.8",
	"WORKS_FOR: John Smith WORKS_FOR Acme: since: 1970 | 1971: property_conflict 2/2 0.7",
}

// What is a conflict is the active schema's to say: inherited identifying properties, single-valued ones, neither those that may have
// several values nor those that it does not declare.
func TestList(t *testing.T) {
	r := newRoom(t)
	r.fill()
	got := r.list(api.ConflictsList{Limit: 100})
	want := slices.Clone(all)
	// Places with equal numbers are in the order of their keys.
	require.Equal(t, want[0], lines(got)[0])
	require.ElementsMatch(t, want, lines(got))
	require.True(t, slices.IsSortedFunc(got.Groups, func(a, b api.Group) int {
		if b.Place().Before(a.Place()) {
			return 1
		}
		return -1
	}))
	require.Equal(t, []any{4, false, uint64(6), map[string]int{"homonym": 2, "property_conflict": 2}}, []any{got.Total, got.More, got.Seq, got.Reasons})
	x := got.Groups[0]
	require.Equal(t, []any{api.KindConflict, api.StatePending, "Person", []string{fingerprint.ConflictID(entityID("Person:John Smith"), "born")},
		"conflict|" + entityID("Person:John Smith") + "|born", "1950-05-01", "a"},
		[]any{x.Kind, x.State, x.SourceLabel, x.IDs, x.Key, x.Sample.Quote, x.Sample.Document})
	for _, c := range []struct {
		f    api.ConflictFilter
		want int
	}{
		{api.ConflictFilter{States: []string{"pending", "approved"}}, 4}, {api.ConflictFilter{States: []string{"approved"}}, 0}, {api.ConflictFilter{Label: "person"}, 2},
		{api.ConflictFilter{Property: "height"}, 1}, {api.ConflictFilter{MinScore: 0.9}, 1}, {api.ConflictFilter{MinCount: 3}, 1}, {api.ConflictFilter{IDs: []string{"x", x.IDs[0], strings.ToUpper(x.IDs[0])}}, 1},
	} {
		reply := r.list(api.ConflictsList{ConflictFilter: c.f, Limit: 100})
		require.Equal(t, []int{c.want, c.want}, []int{len(reply.Groups), reply.Total}, "%+v", c.f)
	}
	req, paged := api.ConflictsList{Limit: 1}, []string{}
	for {
		page := r.list(req)
		paged = append(paged, lines(page)...)
		if !page.More {
			break
		}
		last := page.Groups[len(page.Groups)-1].Place()
		req.After = &last
	}
	require.Equal(t, lines(got), paged)
	for _, bad := range []api.ConflictsList{{Limit: -1}, {Limit: 1001}, {ConflictFilter: api.ConflictFilter{States: []string{"open"}}}, {ConflictFilter: api.ConflictFilter{MinScore: 2}},
		{ConflictFilter: api.ConflictFilter{MinCount: -1}}, {ConflictFilter: api.ConflictFilter{IDs: make([]string, api.MaxDecided+1)}}} {
		_, err := r.List(t.Context(), g, bad)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "bad_value", e.Code, "%+v", bad)
	}
	none, err := r.List(t.Context(), "other", api.ConflictsList{Limit: 3})
	require.NoError(t, err)
	require.Empty(t, none.Groups)

	r.put(`entities: {Person: {properties: {colour: string, born: {type: date, merge: all}}}, Org: An org.}`)
	now := r.list(api.ConflictsList{Limit: 100})
	require.Equal(t, []string{"Person: John Smith: colour: blue | red: property_conflict 2/2 0.8"}, lines(now))
	require.Equal(t, map[string]int{"property_conflict": 1}, now.Reasons)
	_, err = r.Get(t.Context(), g, api.ConflictGet{Key: x.Key})
	require.ErrorContains(t, err, "has no conflict")
}

// A conflict shows its values with the evidence of each apart, and of a homonym the mentions that may be of any.
func TestGet(t *testing.T) {
	r := newRoom(t)
	r.fill()
	key := fingerprint.ConflictKey(entityID("Person:John Smith"), "born")
	reply, err := r.Get(t.Context(), g, api.ConflictGet{Key: key})
	require.NoError(t, err)
	byID, err := r.Get(t.Context(), g, api.ConflictGet{ID: strings.ToUpper(reply.Conflict.ID)})
	require.NoError(t, err)
	require.Equal(t, reply, byID)
	require.Equal(t, key, reply.Item.Key)
	c := reply.Conflict
	require.Equal(t, []any{entityID("Person:John Smith"), "Person", "John Smith", "born", "homonym", 2, 3},
		[]any{c.Owner, c.Label, c.Name, c.Property, c.Reason, c.ValuesTotal, c.UndecidedDocuments})
	docs := func(quotes []api.Surrounded) (out []string) {
		for _, q := range quotes {
			out = append(out, q.Document+": "+q.Quote)
		}
		return sorted(out)
	}
	require.Equal(t, []any{"1950-05-01", 2, 0.8}, []any{c.Values[0].Value, c.Values[0].Documents, c.Values[0].Confidence})
	require.Equal(t, []string{"a: 1950-05-01", "c: 1950-05-01"}, docs(c.Values[0].Evidence))
	require.Equal(t, []any{"1962-09-09", 1, 0.95}, []any{c.Values[1].Value, c.Values[1].Documents, c.Values[1].Confidence})
	require.Equal(t, []string{"b: 1962-09-09"}, docs(c.Values[1].Evidence))
	require.True(t, strings.HasSuffix(c.Values[1].Evidence[0].Before, "They say that John Smith has born "))
	require.True(t, strings.HasPrefix(c.Values[1].Evidence[0].After, ".\n"))
	require.Equal(t, []string{"d: John Smith", "d: John Smith", "e: John Smith", "e: John Smith", "f: John Smith"}, docs(c.Undecided))

	reply, err = r.Get(t.Context(), g, api.ConflictGet{Key: fingerprint.ConflictKey(entityID("Person:John Smith"), "height")})
	require.NoError(t, err)
	require.Equal(t, []any{"property_conflict", 0, 0}, []any{reply.Conflict.Reason, len(reply.Conflict.Undecided), reply.Conflict.UndecidedDocuments})
	for _, c := range []struct {
		req  api.ConflictGet
		code string
	}{{api.ConflictGet{}, "bad_value"}, {api.ConflictGet{ID: "x", Key: "y"}, "bad_value"}, {api.ConflictGet{ID: "x"}, "conflict_not_found"}, {api.ConflictGet{Key: "conflict|x|y"}, "conflict_not_found"},
		{api.ConflictGet{Key: "match|" + entityID("Org:Acme") + "|founded"}, "conflict_not_found"}, {api.ConflictGet{Key: fingerprint.ConflictKey(entityID("Person:John Smith"), "alias")}, "conflict_not_found"}} {
		_, err := r.Get(t.Context(), g, c.req)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, c.code, e.Code, "%+v", c.req)
	}
	r.remove("b")
	_, err = r.Get(t.Context(), g, api.ConflictGet{Key: key})
	require.ErrorContains(t, err, "has no conflict")
	require.Len(t, r.list(api.ConflictsList{Limit: 9}).Groups, 2, "since went with b too")
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// A reply has a bound: of many long values some are left out, and it says how many there are.
func TestManyValues(t *testing.T) {
	r := newRoom(t)
	for i := range 60 {
		r.commit(fmt.Sprintf("d%02d", i), fmt.Sprintf("Person:Ada height=%02d%s", i, strings.Repeat("x", 30_000)))
	}
	reply, err := r.Get(t.Context(), g, api.ConflictGet{Key: fingerprint.ConflictKey(entityID("Person:Ada"), "height")})
	require.NoError(t, err)
	require.Equal(t, 60, reply.Conflict.ValuesTotal)
	n, bytes := len(reply.Conflict.Values), 0
	for _, v := range reply.Conflict.Values {
		bytes += len(v.Value.(string)) + size(v.Evidence)
		require.NotEmpty(t, v.Evidence)
	}
	require.True(t, n > 2 && n < 60, n)
	require.Less(t, bytes, 800<<10)
	require.Equal(t, []any{60, 60}, []any{reply.Item.Count, reply.Item.Documents})
	require.True(t, strings.HasSuffix(reply.Item.TargetText, "… | …"), reply.Item.TargetText)
}

// Whatever order documents come in, and whatever was there meanwhile, the conflicts are the same.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := newRoom(t)
		steps := []func(){
			func() {
				r.commit("a", "Person:John_Smith born=1950-05-01", "Person:John_Smith alias=Jack", "Person:John_Smith WORKS_FOR Org:Acme since=1970")
			},
			func() {
				r.commit("b", "Person:John_Smith born=1962-09-09@0.95", "Person:John_Smith alias=Johnny", "Person:John_Smith WORKS_FOR Org:Acme since=1971")
			},
			func() {
				r.commit("c", "Person:John_Smith born=1950-05-01", "Person:John_Smith height=180", "Org:Acme founded=1901", "Person:John_Smith WORKS_FOR Org:Acme role=clerk")
			},
			func() {
				r.commit("d", "Person:John_Smith height=181", "Org:Acme founded=1902", "Person:John_Smith WORKS_FOR Org:Acme role=chief")
			},
			func() { r.commit("x", "Person:John_Smith born=1999-01-01", "Org:Acme founded=1999"); r.remove("x") },
		}
		rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, s := range steps {
			s()
		}
		require.ElementsMatch(t, all, lines(r.list(api.ConflictsList{Limit: 10})), "seed %d", seed)
		v, err := r.st.Verify(t.Context(), g, nil)
		require.NoError(t, err)
		require.Empty(t, v.Problems)
	}
}
