package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// world is a registry over a store of its own, with a clock.
type world struct {
	*Registry
	t       *testing.T
	dir     string
	st      *store.Store
	at      time.Time
	changed [][]string
}

// Ensure implements Graphs.
func (w *world) Ensure(_ context.Context, graph string) error {
	if _, ok := w.st.Graph(graph, true); !ok {
		return errors.New("no graph")
	}
	return nil
}

const wordsSchema = `{"name":"w","entities":["Person","SportsTeam","Organization"]}`

// Schema implements Graphs.
func (w *world) Schema(string, uint64) (*schema.Schema, error) {
	return schema.Parse([]byte(wordsSchema), "w.json", nil)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.open()
	t.Cleanup(func() { require.NoError(t, w.st.Close()) })
	return w
}

func (w *world) open() {
	st, err := store.Open(context.Background(), store.Options{Dir: w.dir, Now: func() time.Time { return w.at }})
	require.NoError(w.t, err)
	w.st = st
	w.Registry = New(st, w, operations.New(st), Options{
		Now:      func() time.Time { return w.at },
		OnChange: func(_ string, ids []string) { w.changed = append(w.changed, ids) },
		Queue: func(graph string, ids []string) []store.Op {
			return []store.Op{{Graph: graph, Space: 'A', Key: []byte("queued"), Value: []byte(strings.Join(ids, " "))}}
		},
	})
}

func (w *world) put(entries ...api.RegistryEntry) api.RegistryPutReply {
	w.t.Helper()
	r, err := w.Put(w.t.Context(), "g", api.RegistryPut{Entries: entries})
	require.NoError(w.t, err)
	return r
}

// refused is the error of a put, which must change nothing.
func (w *world) refused(entries ...api.RegistryEntry) *api.Error {
	w.t.Helper()
	before := w.all()
	_, err := w.Put(w.t.Context(), "g", api.RegistryPut{Entries: entries})
	var e *api.Error
	require.ErrorAs(w.t, err, &e)
	require.Equal(w.t, before, w.all())
	return e
}

func (w *world) all() []api.RegistryRow {
	w.t.Helper()
	r, err := w.List(w.t.Context(), "g", api.RegistryList{Limit: 1000})
	require.NoError(w.t, err)
	require.Len(w.t, r.Entries, r.Total)
	return r.Entries
}

// look is "key", "key+key" or "" by what a name had at a revision.
func (w *world) look(revision uint64, label, key string) string {
	w.t.Helper()
	r, err := w.Lookup(w.t.Context(), "g", api.RegistryLookup{Revision: revision, Names: []api.RegistryName{{Label: "Person", Key: "nobody"}, {Label: label, Key: key}}})
	require.NoError(w.t, err)
	require.Equal(w.t, 2, r.Answered)
	if len(r.Found) == 0 {
		return ""
	}
	require.Len(w.t, r.Found, 1)
	require.Equal(w.t, 1, r.Found[0].Index)
	if r.Found[0].Entries > 1 {
		return fmt.Sprint(r.Found[0].Entries)
	}
	return r.Found[0].Key
}

func ids(label string, names ...string) []string {
	set := map[string]bool{}
	for _, n := range names {
		set[fingerprint.EntityID(label, n)] = true
	}
	b := &batch{touched: set}
	var out []string
	for id := range b.touched {
		out = append(out, id)
	}
	return out
}

func person(name string, aliases ...string) api.RegistryEntry {
	return api.RegistryEntry{Type: "Person", Name: name, Aliases: aliases}
}

func TestPutAndFind(t *testing.T) {
	w := newWorld(t)
	r := w.put(api.RegistryEntry{Type: "person", Name: " Ada  Lovelace ", Aliases: []string{"Ada Byron", "ADA LOVELACE", "ada byron"}, ExternalID: "Q7259", Note: "n"},
		api.RegistryEntry{Type: "sports team", Name: "The Reds"}, api.RegistryEntry{Type: "Widget", Name: "Gizmo"})
	require.Equal(t, api.RegistryPutReply{Revision: 1, Added: 3, Touched: 4,
		Warnings: []string{"the active schema has no entity type Widget: its entries wait for one that has"}}, r)
	ada := api.RegistryRow{RegistryEntry: api.RegistryEntry{Type: "Person", Name: "Ada  Lovelace", Aliases: []string{"Ada Byron"}, ExternalID: "Q7259", Note: "n"},
		ID: fingerprint.EntityID("Person", "ada lovelace"), Revision: 1}
	for _, req := range []api.RegistryGet{{Name: "ada byron"}, {Type: "PERSON", Name: "“Ada Lovelace”"}, {ExternalID: "Q7259"}, {Type: "Person", ExternalID: "Q7259"}} {
		got, err := w.Get(t.Context(), "g", req)
		require.NoError(t, err)
		require.Equal(t, api.RegistryGetReply{Revision: 1, Entries: []api.RegistryRow{ada}}, got, "%+v", req)
	}
	for _, req := range []api.RegistryGet{{Name: "Q7259"}, {Type: "SportsTeam", Name: "ada byron"}, {ExternalID: "q7259"}, {Type: "Person", ExternalID: "x"}} {
		_, err := w.Get(t.Context(), "g", req)
		var e *api.Error
		require.ErrorAs(t, err, &e, "%+v", req)
		require.Equal(t, "entry_not_found", e.Code)
	}
	require.Equal(t, "ada lovelace", w.look(1, "Person", "ada byron"))
	require.Equal(t, "the reds", w.look(1, "SportsTeam", "the reds"))
	require.Empty(t, w.look(1, "Organization", "the reds"), "another label")
	aliases, err := w.Aliases("g", "Person", "ada lovelace")
	require.NoError(t, err)
	require.Equal(t, []string{"Ada Byron"}, aliases)
	aliases, err = w.Aliases("g", "Person", "ada byron")
	require.NoError(t, err)
	require.Empty(t, aliases, "an alias has none")

	r = w.put(person("ada lovelace", "Countess"))
	require.Equal(t, api.RegistryPutReply{Revision: 2, Updated: 1, Touched: 3}, r, "an entry is replaced whole")
	require.Equal(t, "", w.look(2, "Person", "ada byron"))
	_, err = w.Get(t.Context(), "g", api.RegistryGet{ExternalID: "Q7259"})
	require.Error(t, err)
	r = w.put(person("ada lovelace", "Countess"))
	require.Equal(t, api.RegistryPutReply{Revision: 2, Unchanged: 1}, r)
	r = w.put(api.RegistryEntry{Type: "Person", Name: "ada lovelace", Aliases: []string{"Countess"}, Note: "more"})
	require.Equal(t, api.RegistryPutReply{Revision: 3, Updated: 1}, r, "no name moved")
	rev, _, err := Revision(w.st, "g")
	require.NoError(t, err)
	require.EqualValues(t, 3, rev)
	rev, fp, err := Revision(w.st, "none")
	require.NoError(t, err)
	require.Zero(t, rev)
	require.Empty(t, fp)
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 201)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("a", i)
	}
	w.put(api.RegistryEntry{Type: "Person", Name: "Ada", ExternalID: "1"})
	e := w.refused(
		api.RegistryEntry{Name: "a"}, person(""), person(long), person("a\x00b"), person("a\tb"), person("--"), person("\xff"), person("Bob", "fine", " ", long),
		person("Cyd", many...), api.RegistryEntry{Type: "9", Name: "x"}, api.RegistryEntry{Type: "Document", Name: "x"},
		api.RegistryEntry{Type: "Person", Name: "Eve", ExternalID: long, Note: strings.Repeat("n", 1001)},
		person("Twin"), person(" TWIN "), person(strings.Repeat("é", 200)))
	require.Equal(t, 400, e.Status)
	require.Equal(t, "bad_value", e.Code)
	var got []string
	for _, p := range e.Details["problems"].([]api.RegistryProblem) {
		require.Equal(t, fmt.Sprintf("entries[%d].%s", p.Index, p.Field), p.Path)
		got = append(got, p.Path[len("entries"):]+": "+p.Message)
	}
	for i, want := range []string{
		"[0].type: it is missing", `[1].name: "" is no name`, "has 201 characters: at most 200", `[3].name: "a\x00b" has control characters`,
		"[4].name", "has no letter, digit or symbol", "is no UTF-8", `[7].aliases[1]: "" is no name`, "[7].aliases[2]", "[8].aliases: there are 101 of them: at most 100",
		"[9].type", "is reserved", "[11].external_id", "[11].note", `[13].name: it is the same entry as entries[12]: "Twin"`,
	} {
		require.Contains(t, got[i], want)
	}
	require.Len(t, got, 15)

	e = w.refused(person("Bob"), api.RegistryEntry{Type: "Person", Name: "Cyd", ExternalID: "1"})
	require.Equal(t, 409, e.Status)
	require.Equal(t, "external_id_taken", e.Code)
	require.Equal(t, []api.RegistryProblem{{Index: 1, Field: "external_id", Path: "entries[1].external_id", Message: `"1" is Person "Ada" already`}}, e.Details["problems"])
	e = w.refused(api.RegistryEntry{Type: "Person", Name: "Bob", ExternalID: "2"}, api.RegistryEntry{Type: "Person", Name: "Cyd", ExternalID: "2"})
	require.Equal(t, "external_id_taken", e.Code, "within a request")
	w.put(api.RegistryEntry{Type: "Organization", Name: "Ada", ExternalID: "1"}) // another type
	require.Equal(t, "bad_value", w.refused().Code)
	require.Equal(t, 413, w.refused(make([]api.RegistryEntry, 1001)...).Status)
	for _, code := range []string{"external_id_taken", "entry_not_found"} {
		require.Contains(t, api.Codes, code)
	}
}

// External ids may change hands within a request, whatever its order.
func TestExternalIDsChangeHands(t *testing.T) {
	w := newWorld(t)
	e := func(name, id string) api.RegistryEntry {
		return api.RegistryEntry{Type: "Person", Name: name, ExternalID: id}
	}
	w.put(e("a", "1"), e("b", "2"), e("c", "3"))
	w.put(e("a", "2"), e("b", "1"), e("c", ""))
	w.put(e("d", "3"))
	for id, name := range map[string]string{"1": "b", "2": "a", "3": "d"} {
		got, err := w.Get(t.Context(), "g", api.RegistryGet{Type: "Person", ExternalID: id})
		require.NoError(t, err)
		require.Equal(t, name, got.Entries[0].Name, id)
	}
}

func TestAmbiguous(t *testing.T) {
	w := newWorld(t)
	w.put(person("Jon Arden", "J. Arden", "Arden"), person("Joan Arden", "J. Arden"))
	require.Equal(t, "2", w.look(1, "Person", "j. arden"))
	require.Equal(t, "jon arden", w.look(1, "Person", "arden"))
	both, err := w.Ambiguous("g", "Person", "j. arden")
	require.NoError(t, err)
	require.Equal(t, []string{"Joan Arden", "Jon Arden"}, []string{both[0].Name, both[1].Name})
	none, err := w.Ambiguous("g", "Person", "arden")
	require.NoError(t, err)
	require.Empty(t, none)
	one, err := w.Named("g", "Person", "arden")
	require.NoError(t, err)
	require.Len(t, one, 1)
	w.put(person("Arden")) // a name may be another's alias
	require.Equal(t, "2", w.look(2, "Person", "arden"))
	got, err := w.Get(t.Context(), "g", api.RegistryGet{Name: "ARDEN"})
	require.NoError(t, err)
	require.Equal(t, []string{"Arden", "Jon Arden"}, []string{got.Entries[0].Name, got.Entries[1].Name}, "the name before the alias")
}

// A job finds what was known at its revision, until long after.
func TestLookupIsOfARevision(t *testing.T) {
	w := newWorld(t)
	w.put(person("Ada", "x"))      // 1
	w.put(person("Ada", "y"))      // 2
	w.put(person("Ada", "x", "z")) // 3
	del := func(name string) {
		_, err := w.Delete(t.Context(), "g", api.RegistryDelete{Type: "Person", Name: name})
		require.NoError(t, err)
	}
	del("ada") // 4
	check := func(when string, want map[string]string) {
		t.Helper()
		for name, revisions := range want {
			got := ""
			for rev := range uint64(5) {
				if w.look(rev+1, "Person", name) == "ada" {
					got += fmt.Sprint(rev + 1)
				}
			}
			require.Equal(t, revisions, got, "%s, %s", name, when)
		}
	}
	all := map[string]string{"ada": "123", "x": "13", "y": "2", "z": "3"}
	check("at once", all)
	w.put(person("Bob"))
	check("after another change", all)
	require.NoError(t, w.st.Close())
	w.open()
	check("opened anew", all)
	w.at = w.at.Add(remembered - time.Second)
	w.put(person("Cyd"))
	check("within the time", all)
	w.at = w.at.Add(2 * time.Second)
	w.put(person("Ada", "z")) // 7
	check("after it", map[string]string{"ada": "", "x": "", "y": ""})
	require.Equal(t, "ada", w.look(7, "Person", "z"))
	require.Equal(t, "ada", w.look(100, "Person", "ada"))
	w.put(person("Ada"))
	require.Equal(t, "ada", w.look(7, "Person", "z"), "lost again, remembered again")
	require.Empty(t, w.look(8, "Person", "z"))
	left := 0
	require.NoError(t, w.st.Scan("g", space, []byte{rowGone}, nil, 0, func(_, _ []byte) error { left++; return nil }))
	require.Equal(t, 1, left, "what was forgotten leaves no row")
}

func TestNamesThatComeAndGo(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.put(person("Ada", "x"))
		w.put(person("Ada"))
	}
	s, err := w.spans("g", nameKey("Person", "x", "ada"))
	require.NoError(t, err)
	require.Len(t, s, maxSpans)
	require.Equal(t, span{39, 40}, s[len(s)-1])
	_, err = decodeSpans([]byte{0x80})
	require.ErrorIs(t, err, store.ErrCorrupt)
	_, err = decodeSpans([]byte{1, 0x80})
	require.ErrorIs(t, err, store.ErrCorrupt)
}

func TestChangesAreTold(t *testing.T) {
	w := newWorld(t)
	w.put(person("Ada", "x", "y"))
	w.put(person("Ada", "x", "z"))
	w.put(person("Ada", "x", "z"))
	queued, err := w.st.Get("g", 'A', []byte("queued"))
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(queued)), 4, "written with the change")
	_, err = w.Put(t.Context(), "g", api.RegistryPut{Entries: []api.RegistryEntry{person("Ada"), person("Bob")}, DryRun: true})
	require.NoError(t, err)
	_, err = w.Delete(t.Context(), "g", api.RegistryDelete{Type: "Person", Name: "Ada"})
	require.NoError(t, err)
	require.Len(t, w.changed, 3)
	require.ElementsMatch(t, ids("Person", "ada", "x", "y"), w.changed[0])
	require.ElementsMatch(t, ids("Person", "ada", "x", "y", "z"), w.changed[1])
	require.ElementsMatch(t, ids("Person", "ada", "x", "z"), w.changed[2])
	require.IsIncreasing(t, w.changed[1])
}

func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.put(person("Ada"))
	req := api.RegistryPut{DryRun: true, RequestID: "r", Entries: []api.RegistryEntry{person("Ada"), person("Bob"), person("ada", "x")}[1:]}
	r, err := w.Put(t.Context(), "g", req)
	require.NoError(t, err)
	require.Equal(t, api.RegistryPutReply{Revision: 1, Added: 1, Updated: 1, Touched: 3, DryRun: true}, r)
	require.Len(t, w.all(), 1)
	req.DryRun = false
	r, err = w.Put(t.Context(), "g", req)
	require.NoError(t, err)
	require.Equal(t, api.RegistryPutReply{Revision: 2, Added: 1, Updated: 1, Touched: 3}, r, "a dry run takes no request id")
	r, err = w.Put(t.Context(), "unmade", api.RegistryPut{DryRun: true, Entries: []api.RegistryEntry{person("Ada")}})
	require.NoError(t, err)
	require.Equal(t, 1, r.Added)
	_, made := w.st.Graph("unmade", false)
	require.False(t, made)
}

// The same request twice does one thing, also after a restart.
func TestRequestID(t *testing.T) {
	w := newWorld(t)
	req := api.RegistryPut{RequestID: "one", Entries: []api.RegistryEntry{person("Ada", "x")}}
	first, err := w.Put(t.Context(), "g", req)
	require.NoError(t, err)
	w.put(person("Ada"))
	require.NoError(t, w.st.Close())
	w.open()
	again, err := w.Put(t.Context(), "g", req)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Empty(t, w.all()[0].Aliases)
	require.Len(t, w.changed, 2)
	req.Entries[0].Note = "n"
	_, err = w.Put(t.Context(), "g", req)
	require.ErrorContains(t, err, "another body")
	gone := api.RegistryDelete{Type: "Person", Name: "Ada", RequestID: "two"}
	for range 2 {
		r, err := w.Delete(t.Context(), "g", gone)
		require.NoError(t, err)
		require.EqualValues(t, 3, r.Revision)
		require.Equal(t, "Ada", r.Entry.Name)
	}
	require.Empty(t, w.all())
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	w.put(api.RegistryEntry{Type: "Person", Name: "Ada", Aliases: []string{"x"}, ExternalID: "1"})
	for _, req := range []api.RegistryDelete{{Type: "Person", Name: "x"}, {Type: "Person", ExternalID: "2"}, {Type: "Organization", Name: "Ada"}} {
		_, err := w.Delete(t.Context(), "g", req)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "entry_not_found", e.Code, "%+v", req)
	}
	for _, req := range []api.RegistryDelete{{Name: "Ada"}, {Type: "Person"}, {Type: "Person", Name: "a", ExternalID: "1"}} {
		_, err := w.Delete(t.Context(), "g", req)
		require.ErrorContains(t, err, "", "%+v", req)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "bad_value", e.Code, "%+v", req)
	}
	r, err := w.Delete(t.Context(), "g", api.RegistryDelete{Type: "person", ExternalID: "1"})
	require.NoError(t, err)
	require.Equal(t, 2, r.Touched)
	require.Empty(t, w.all())
	w.put(api.RegistryEntry{Type: "Person", Name: "Bob", ExternalID: "1"})
}

func TestList(t *testing.T) {
	w := newWorld(t)
	w.put(person("Ada", "adeline", "Zed"), person("Bob", "Ad"), person("Cyd"), api.RegistryEntry{Type: "Organization", Name: "Adams"},
		api.RegistryEntry{Type: "SportsTeam", Name: "Ada"}, person("Gone", "ada too"))
	_, err := w.Delete(t.Context(), "g", api.RegistryDelete{Type: "Person", Name: "Gone"})
	require.NoError(t, err)
	for _, c := range []struct {
		req  api.RegistryList
		want string
	}{
		{api.RegistryList{}, "Organization Adams, Person Ada, Person Bob, Person Cyd, SportsTeam Ada"},
		{api.RegistryList{Type: "person"}, "Person Ada, Person Bob, Person Cyd"},
		{api.RegistryList{Q: "AD"}, "Organization Adams, Person Bob, Person Ada, SportsTeam Ada"},
		{api.RegistryList{Type: "Person", Q: "ada"}, "Person Ada"},
		{api.RegistryList{Q: "z"}, "Person Ada"},
		{api.RegistryList{Q: "nobody"}, ""},
		{api.RegistryList{Type: "Widget"}, ""},
	} {
		for _, limit := range []int{0, 1, 2, 3} {
			var got []string
			req := c.req
			req.Limit = limit
			for range 20 {
				r, err := w.List(t.Context(), "g", req)
				require.NoError(t, err)
				require.Equal(t, 5, r.Total)
				if limit > 0 {
					require.LessOrEqual(t, len(r.Entries), limit)
				}
				for _, x := range r.Entries {
					got = append(got, x.Type+" "+x.Name)
				}
				if req.Cursor = r.Next; r.Next == "" {
					break
				}
			}
			require.Equal(t, c.want, strings.Join(got, ", "), "%+v", req)
		}
	}
	for _, req := range []api.RegistryList{{Limit: -1}, {Limit: 1001}, {Cursor: "x"}, {Cursor: "eHg"}, {Type: "9"}} {
		_, err := w.List(t.Context(), "g", req)
		var e *api.Error
		require.ErrorAs(t, err, &e, "%+v", req)
		require.Equal(t, 400, e.Status)
	}
}

// Two stores have one fingerprint exactly if they were told the same.
func TestFingerprints(t *testing.T) {
	seen := map[string]string{}
	for what, do := range map[string]func(w *world){
		"one":         func(w *world) { w.put(person("Ada", "x")) },
		"other alias": func(w *world) { w.put(person("Ada", "y")) },
		"two":         func(w *world) { w.put(person("Ada", "x")); w.put(person("Bob")) },
		"two at once": func(w *world) { w.put(person("Ada", "x"), person("Bob")) },
		"and one gone": func(w *world) {
			w.put(person("Ada", "x"))
			_, _ = w.Delete(t.Context(), "g", api.RegistryDelete{Type: "Person", Name: "Ada"})
		},
	} {
		var fps [2]string
		for i := range fps {
			w := newWorld(t)
			do(w)
			_, fps[i], _ = Revision(w.st, "g")
		}
		require.Equal(t, fps[0], fps[1], what)
		require.Len(t, fps[0], 16)
		require.Empty(t, seen[fps[0]], what)
		seen[fps[0]] = what
	}
}

// Large entries give short pages and short answers, not replies that no message holds.
func TestRepliesAreBounded(t *testing.T) {
	w := newWorld(t)
	wide := func(s string, n int) string { return s + strings.Repeat("<", 190) + fmt.Sprint(n) }
	var names []api.RegistryName
	for n := range 30 {
		e := person(wide("n", n))
		for a := range 100 {
			e.Aliases = append(e.Aliases, wide("a", 100*n+a))
		}
		w.put(e)
		for a := range 33 {
			names = append(names, api.RegistryName{Label: "Person", Key: wide("a", 100*n+a)})
		}
	}
	seen, cursor := 0, ""
	for pages := 1; ; pages++ {
		r, err := w.List(t.Context(), "g", api.RegistryList{Limit: 1000, Cursor: cursor})
		require.NoError(t, err)
		require.NotEmpty(t, r.Entries)
		seen += len(r.Entries)
		if cursor = r.Next; cursor == "" {
			require.Greater(t, pages, 3)
			break
		}
	}
	require.Equal(t, 30, seen)
	r, err := w.Lookup(t.Context(), "g", api.RegistryLookup{Revision: 99, Names: names})
	require.NoError(t, err)
	require.Less(t, r.Answered, len(names))
	require.Len(t, r.Found, r.Answered)
	for _, req := range []api.RegistryLookup{{Names: names}, {Revision: 1, Names: make([]api.RegistryName, 1001)}, {Revision: 1, Names: []api.RegistryName{{Label: "Person"}}},
		{Revision: 1, Names: []api.RegistryName{{Label: "Person", Key: "a\x00b"}}}} {
		_, err := w.Lookup(t.Context(), "g", req)
		require.Error(t, err)
	}
}

// Changes at the same time give each its revision, and lose nothing.
func TestAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	w.OnChangeOff()
	const each = 25
	var wg sync.WaitGroup
	errs := make(chan error, 4*each)
	for k := range 4 {
		wg.Go(func() {
			for i := range each {
				_, err := w.Put(context.Background(), "g", api.RegistryPut{Entries: []api.RegistryEntry{person(fmt.Sprint("p", k, " ", i), "shared")}})
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	seen := map[uint64]bool{}
	for _, x := range w.all() {
		seen[x.Revision] = true
	}
	require.Len(t, seen, 4*each)
	require.Equal(t, "100", w.look(4*each, "Person", "shared"))
	require.Equal(t, "40", w.look(40, "Person", "shared"))
}

// OnChangeOff stops the test's own notes, which are not for several goroutines.
func (w *world) OnChangeOff() { w.opt.OnChange = nil }

func TestTenThousand(t *testing.T) {
	w := newWorld(t)
	start := time.Now()
	for b := range 10 {
		var list []api.RegistryEntry
		for i := range 1000 {
			n := 1000*b + i
			list = append(list, api.RegistryEntry{Type: "Organization", Name: fmt.Sprintf("Company %d Ltd", n), Aliases: []string{fmt.Sprint("C", n), fmt.Sprint("Co ", n)}, ExternalID: fmt.Sprint("E", n)})
		}
		require.Equal(t, 1000, w.put(list...).Added)
	}
	took := time.Since(start)
	names := make([]api.RegistryName, 1000)
	for i := range names {
		names[i] = api.RegistryName{Label: "Organization", Key: fmt.Sprint("c", 7*i)}
	}
	start = time.Now()
	r, err := w.Lookup(t.Context(), "g", api.RegistryLookup{Revision: 10, Names: names})
	require.NoError(t, err)
	require.Len(t, r.Found, 1000)
	require.Equal(t, "company 6993 ltd", r.Found[999].Key)
	t.Logf("put 10,000 in %s, looked 1,000 up in %s", took, time.Since(start))
	require.Less(t, took, 30*time.Second)
}
