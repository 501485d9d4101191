package query

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

func scope(labels ...string) *api.Within { return &api.Within{Scope: labels} }

func TestWithinHidesWhatOnlyOthersSay(t *testing.T) {
	d := newDesk(t)
	a := newDoc("open", "Ada worked for Acme Ltd. Acme is old.").mention("Person:Ada Lovelace", "Ada").say(acme).mention(acme, "Acme").
		relate("WORKS_FOR", ada, acme, "Ada worked for Acme Ltd.").meta(func(m *graph.Meta) { m.Scope = graph.Scope{"public"} })
	b := newDoc("closed", "Ada Lovelace, the Countess, knew Charles Babbage. Ada Lovelace has the title Enchantress and was born in 1815. Acme Ltd sits in London. Charles Babbage worked for Acme Ltd.").
		say(ada, charles, acme, london).mention(ada, "Countess").relate("KNOWS", ada, charles, "knew Charles Babbage").
		relate("WORKS_FOR", charles, acme, "Charles Babbage worked for Acme Ltd.").relate("WORKS_FOR", ada, acme, "Acme Ltd sits in London").
		property(ada, "title", "Enchantress", "Enchantress", 0.9).meta(func(m *graph.Meta) { m.Scope = graph.Scope{"secret"} })
	d.commit(a, b)
	ctx, w := t.Context(), scope("public")

	e, err := d.q.Entity(ctx, g, api.EntityGet{ID: entID(ada), Within: w})
	require.NoError(t, err)
	require.Equal(t, "Ada", e.Entity.Name, "the full name is said outside alone")
	require.Equal(t, "ada", e.Entity.MergeKey)
	require.Equal(t, []int{1, 1}, []int{e.Entity.MentionsTotal, e.Entity.DocumentsTotal})
	require.Empty(t, e.Entity.Properties)
	require.Equal(t, 1, e.RelationsTotal)
	require.Len(t, e.Relations, 1)
	require.Equal(t, []string{"Ada", "Acme Ltd"}, []string{e.Relations[0].SourceName, e.Relations[0].TargetName})
	require.Len(t, e.Relations[0].Evidence, 1)

	for _, name := range []string{"Countess", "Ada Lovelace", "Charles Babbage", "No Body"} {
		_, err := d.q.Entity(ctx, g, api.EntityGet{Name: name, Within: w})
		require.EqualError(t, err, fmt.Sprintf("no entity is named %q", name))
		_, err = d.q.Entity(ctx, g, api.EntityGet{Type: "Person", Name: name, Within: w})
		require.EqualError(t, err, fmt.Sprintf("no Person is named %q", name))
	}
	for _, id := range []string{entID(charles), entID("Person:No Body")} {
		_, err := d.q.Entity(ctx, g, api.EntityGet{ID: id, Within: w})
		require.EqualError(t, err, fmt.Sprintf("no entity has the id %q", id))
		_, err = d.q.Evidence(ctx, g, api.EvidenceGet{ID: id, History: true, Within: w})
		require.EqualError(t, err, fmt.Sprintf("no entity or relation has the id %q", id))
	}
	for _, key := range []string{"closed", "nowhere"} {
		_, err := d.q.Document(ctx, g, api.DocumentGet{Key: key, Text: true, Within: w})
		require.EqualError(t, err, fmt.Sprintf("no document has the key %q", key))
	}
	p, err := d.q.Path(ctx, g, api.Path{From: entID(ada), To: entID(acme), RelationTypes: []string{"KNOWS", "WORKS_FOR"}, Within: w})
	require.NoError(t, err)
	require.Len(t, p.Edges, 1)
	r, err := d.q.RelationTypes(ctx, g, api.RelationTypesGet{Within: w})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"WORKS_FOR": 1}, r.Types)

	_, err = d.q.Document(ctx, g, api.DocumentGet{Key: "open", Items: true, Within: w})
	requireRefused(t, err, 400, "bad_value")
	s, err := d.q.Search(ctx, g, api.Search{Q: "Enchantress", Within: w})
	require.NoError(t, err)
	require.Empty(t, s.Hits)
	require.Equal(t, nothingInside, s.Outside)
	s, err = d.q.Search(ctx, g, api.Search{Q: "Acme", Filters: api.Filters{Documents: []string{"closed"}}, Within: w})
	require.NoError(t, err)
	require.Empty(t, s.Hits)
	require.Equal(t, nothingInside, s.Outside)
	s, err = d.q.Search(ctx, g, api.Search{Q: "Acme Ada", Within: w})
	require.NoError(t, err)
	require.NotEmpty(t, s.Hits)
	require.Empty(t, s.Outside)
	require.Equal(t, 0.016393, s.Hits[0].Score, "scores say ranks only")
}

// A document counts by what it is now, also for what it said before.
func TestWithinLooksAtScopesOfNow(t *testing.T) {
	d := newDesk(t)
	said := func(scope string) *doc {
		return newDoc("x", "Ada Lovelace worked for Acme Ltd.").say(ada, acme).relate("WORKS_FOR", ada, acme, "Ada Lovelace worked for Acme Ltd.").
			meta(func(m *graph.Meta) { m.Scope = graph.Scope{scope} })
	}
	first := d.commit(said("public"))
	_, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), Within: scope("public")})
	require.NoError(t, err)
	x := said("secret")
	x.c.Decision = graph.MetadataOnly
	d.commit(x)
	for _, asOf := range []uint64{0, first} {
		_, err = d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), AsOf: asOf, Within: scope("public")})
		requireRefused(t, err, 404, "entity_not_found")
		_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: entID(ada), AsOf: asOf, History: true, Within: scope("public")})
		requireRefused(t, err, 404, "entity_not_found")
		s, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada", AsOf: asOf, Within: scope("public")})
		require.NoError(t, err)
		require.Empty(t, s.Hits)
	}
}

func TestWithinLabels(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	w := &api.Within{Labels: []string{"Person"}}
	e, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), Within: w})
	require.NoError(t, err)
	require.Len(t, e.Relations, 1, "WORKS_FOR ends outside")
	require.Equal(t, "KNOWS", e.Relations[0].Type)
	_, err = d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(acme), Within: w})
	requireRefused(t, err, 404, "entity_not_found")
	p, err := d.q.Path(t.Context(), g, api.Path{From: entID(ada), To: entID(charles), Within: w})
	require.NoError(t, err)
	require.Len(t, p.Edges, 1)
	s, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace Acme London worked", Within: w})
	require.NoError(t, err)
	for _, h := range s.Hits {
		require.NotEqual(t, "chunk", h.Kind, "labels alone let no running text through")
		if h.Kind == "entity" {
			require.NotContains(t, h.Snippet, "Acme")
		}
	}
	_, err = d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Text: true, Within: w})
	requireRefused(t, err, 404, "document_not_found")
	types, err := d.q.RelationTypes(t.Context(), g, api.RelationTypesGet{Within: w})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"KNOWS": 1}, types.Types)
	// Types below count, and documents that are named too show their text.
	w = &api.Within{Labels: []string{"Agent"}, Documents: []string{"ada"}}
	e, err = d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(acme), Within: w})
	require.NoError(t, err)
	require.Equal(t, 1, e.RelationsTotal)
	doc, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Text: true, Within: w})
	require.NoError(t, err)
	require.Contains(t, doc.Text, "Quuxite")
}

func TestCitations(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	works := relID("WORKS_FOR", ada, acme)
	quote := "Ada Lovelace worked for Acme Ltd."
	fact := api.EvidenceID(api.Cited{Fact: works, Chunk: a.chunkID(0), Start: 0, End: len(quote)})
	passage := api.EvidenceID(api.Cited{Chunk: b.chunkID(0), Start: 0, End: 34})
	born := strings.Index(a.c.Text, "1815")
	value := api.EvidenceID(api.Cited{Fact: entID(ada), Property: api.PropertyMark("born"), Chunk: a.chunkID(1), Start: born, End: born + 4})
	mention := api.EvidenceID(api.Cited{Fact: entID(charles), Chunk: b.chunkID(0), Start: 0, End: 15})
	elsewhere := api.EvidenceID(api.Cited{Fact: works, Chunk: a.chunkID(0), Start: 1, End: 9})
	unknown := api.EvidenceID(api.Cited{Chunk: fingerprint.U5("no chunk"), Start: 0, End: 9})
	ids := []string{fact, passage, value, mention, elsewhere, unknown, fact[:len(fact)-1], "ev_", "candidate|x"}
	states := func(w *api.Within) (out []string) {
		r, err := d.q.Citations(t.Context(), g, api.CitationsGet{IDs: ids, Within: w})
		require.NoError(t, err)
		for _, c := range r.Citations {
			out = append(out, c.Status)
			if c.Status != api.CitationOK {
				require.Equal(t, api.Citation{ID: c.ID, Status: c.Status, Why: c.Why}, c, "nothing is told of what is not ok")
			}
		}
		return out
	}
	require.Equal(t, []string{"ok", "ok", "ok", "ok", "superseded", "unavailable", "malformed", "malformed", "malformed"}, states(nil))
	r, err := d.q.Citations(t.Context(), g, api.CitationsGet{IDs: ids[:3]})
	require.NoError(t, err)
	require.Equal(t, quote, r.Citations[0].Quote)
	require.Equal(t, "Ada Lovelace worked for Acme Ltd. She wrote Notes.", r.Citations[0].Passage)
	require.Equal(t, "Acme Ltd", r.Citations[0].Relation.TargetName)
	require.Equal(t, "Charles Babbage knew Ada Lovelace.", r.Citations[1].Quote)
	require.Equal(t, []any{"born", int64(1815), "Ada Lovelace"}, []any{r.Citations[2].Property, r.Citations[2].Value, r.Citations[2].Entity.Name})

	require.Equal(t, []string{"unavailable", "ok", "unavailable", "ok"}, states(scope("public"))[:4])
	require.Equal(t, []string{"ok", "unavailable", "ok", "unavailable"}, states(&api.Within{Documents: []string{"ada"}})[:4])
	require.Equal(t, []string{"unavailable", "unavailable", "ok", "ok"}, states(&api.Within{Labels: []string{"Person"}})[:4], "a relation to what is outside; running text")

	d.commit(newDoc("ada", "Nobody is named here."))
	require.Equal(t, []string{"superseded", "ok", "superseded", "ok", "superseded"}, states(nil)[:5])
	d.commit(deleted("bab"), deleted("ada"))
	require.Equal(t, []string{"unavailable", "unavailable", "unavailable", "unavailable"}, states(nil)[:4])
}

// world is a random graph in which whatever a document says alone has its marker.
type world struct {
	docs   []*doc
	keys   []string
	scopes [][]string
	marks  []string
	ents   [][]string // by document
	quotes []string
}

func drawWorld(t *rapid.T) *world {
	w := &world{}
	for i := range rapid.IntRange(2, 5).Draw(t, "documents") {
		mark := fmt.Sprintf("zq%dxv", i)
		people := []string{"Person:Solo " + mark}
		for j := range 4 {
			if rapid.Bool().Draw(t, "shares") {
				people = append(people, fmt.Sprintf("Person:Shared %d", j))
			}
		}
		firm := rapid.SampledFrom([]string{"Organization:Firm " + mark, "Organization:Shared Firm"}).Draw(t, "firm")
		var text []string
		sentence := func(s string) string {
			s += " " + mark + "."
			text = append(text, s)
			return s
		}
		type rel struct{ kind, a, b, quote string }
		var rels []rel
		nick := ""
		for j, p := range people {
			rels = append(rels, rel{"WORKS_FOR", p, firm, sentence(fmt.Sprintf("%s works for %s", p[7:], firm[13:]))})
			if other := rapid.SampledFrom(people).Draw(t, "knows"); other != p {
				rels = append(rels, rel{"KNOWS", p, other, sentence(fmt.Sprintf("%s knows %s", p[7:], other[7:]))})
			}
			if j == len(people)-1 && rapid.Bool().Draw(t, "nick") {
				nick = "Nick " + mark
				sentence(nick + " is a name of " + p[7:])
			}
		}
		title := "Sir " + mark
		sentence(people[len(people)-1][7:] + " has the title " + title)
		d := newDoc("doc "+mark, strings.Join(text, rapid.SampledFrom([]string{" ", "\n\n"}).Draw(t, "between")))
		for _, p := range people {
			d.say(p)
		}
		d.say(firm)
		if nick != "" {
			d.mention(people[len(people)-1], nick)
		}
		for _, r := range rels {
			d.relate(r.kind, r.a, r.b, r.quote)
		}
		d.property(people[len(people)-1], "title", title, title, 0.9)
		sc := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"red", "blue"}), 0, 2, rapid.ID).Draw(t, "scope")
		d.meta(func(m *graph.Meta) { m.Title, m.Scope = "Title "+mark, graph.Scope(sc) })
		w.docs, w.keys, w.scopes, w.marks = append(w.docs, d), append(w.keys, "doc "+mark), append(w.scopes, sc), append(w.marks, mark)
		w.ents = append(w.ents, append(people, firm))
	}
	return w
}

func (w *world) drawWithin(t *rapid.T) *api.Within {
	out := &api.Within{}
	if rapid.Bool().Draw(t, "by scope") {
		out.Scope = []string{rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "inside")}
	}
	if rapid.Bool().Draw(t, "by key") || len(out.Scope) == 0 {
		out.Documents = rapid.SliceOfNDistinct(rapid.SampledFrom(w.keys), 1, len(w.keys), rapid.ID).Draw(t, "keys")
	}
	return out
}

func (w *world) inside(i int, in *api.Within) bool {
	return (len(in.Documents) == 0 || slices.Contains(in.Documents, w.keys[i])) &&
		(len(in.Scope) == 0 || slices.ContainsFunc(w.scopes[i], func(s string) bool { return slices.Contains(in.Scope, s) }))
}

// asks calls fn with every reply, or refusal, of a client that is limited and knows everything that there is.
func (w *world) asks(t *rapid.T, d *desk, in *api.Within, fn func(what string, reply any)) {
	ctx := t.Context()
	keep := func(what string, reply any, err error) {
		if err != nil {
			reply = err.Error()
		}
		fn(what, reply)
	}
	var ends, cites []string
	for i, x := range w.docs {
		for _, e := range w.ents[i] {
			if id := entID(e); !slices.Contains(ends, id) {
				ends = append(ends, id)
			}
		}
		for j := range x.c.Chunks {
			c := x.in(j)
			cites = append(cites, api.EvidenceID(api.Cited{Chunk: x.chunkID(c.Index), Start: x.c.Chunks[c.Index].Start, End: x.c.Chunks[c.Index].End}))
			for _, r := range c.Relations {
				cites = append(cites, api.EvidenceID(api.Cited{Fact: relationID(x.c.Assertions, r), Chunk: x.chunkID(c.Index), Start: r.Start, End: r.End}))
				rep, err := d.q.Evidence(ctx, g, api.EvidenceGet{ID: relationID(x.c.Assertions, r), History: true, Within: in})
				keep("evidence of a relation", rep, err)
			}
		}
		for _, as := range []bool{false, true} {
			rep, err := d.q.Document(ctx, g, api.DocumentGet{Key: w.keys[i], Text: as, Within: in})
			if err == nil && !w.inside(i, in) {
				t.Fatalf("document %d is outside %v", i, in)
			}
			if err == nil {
				keep("document", rep, nil)
			}
		}
		for _, q := range []string{w.marks[i], "Nick " + w.marks[i], "Shared works", "Sir " + w.marks[i]} {
			for _, f := range []api.Filters{{}, {Documents: []string{w.keys[i]}}, {Labels: []string{"Person"}}} {
				rep, err := d.q.Search(ctx, g, api.Search{Q: q, Limit: 50, Filters: f, Within: in})
				slices.SortFunc(rep.Hits, func(a, b api.Hit) int { return strings.Compare(a.Kind+a.ID, b.Kind+b.ID) })
				for i := range rep.Hits { // the order, also of the quotes of a relation, is by weights of the whole graph
					h := &rep.Hits[i]
					h.Score = 0
					var row struct{ Evidence []struct{ Quote string } }
					if h.Kind != hitRelation || json.Unmarshal(h.Row, &row) != nil || len(row.Evidence) < 2 {
						continue
					}
					if !slices.ContainsFunc(row.Evidence, func(e struct{ Quote string }) bool { return e.Quote == h.Snippet }) {
						t.Fatalf("search %q within %v: %q is no quote of %s", q, in, h.Snippet, h.Row)
					}
					h.Snippet, h.Matches = "", nil
				}
				keep("search", rep, err)
			}
			if rep, err := d.q.Entity(ctx, g, api.EntityGet{Name: q, Within: in}); err == nil {
				keep("entity by name", rep, nil)
			}
		}
	}
	for len(cites) > 0 {
		part := cites[:min(len(cites), api.MaxCitations)]
		cites = cites[len(part):]
		rep, err := d.q.Citations(ctx, g, api.CitationsGet{IDs: part, Within: in})
		keep("citations", rep, err)
	}
	for _, a := range ends {
		e, err := d.q.Entity(ctx, g, api.EntityGet{ID: a, Limit: 1000, Within: in})
		keep("entity", e, err)
		ev, err := d.q.Evidence(ctx, g, api.EvidenceGet{ID: a, History: true, Limit: 1000, Within: in})
		keep("evidence", ev, err)
		n, err := d.q.Neighbors(ctx, g, api.Neighbors{ID: a, Depth: 3, Limit: 1000, Within: in})
		keep("neighbors", n, err)
		p, err := d.q.Path(ctx, g, api.Path{From: a, To: ends[0], MaxDepth: 8, Within: in})
		keep("path", p, err)
	}
	docs, err := d.q.Documents(ctx, g, api.DocumentList{Limit: 1000, Within: in})
	keep("documents", docs, err)
	page, err := d.q.Documents(ctx, g, api.DocumentList{Limit: 1, Within: in})
	keep("documents with a cursor", decoded(page.Next), err)
	ents, err := d.q.Entities(ctx, g, api.EntityList{Limit: 1000, Within: in})
	keep("entities", ents, err)
	short, err := d.q.Entities(ctx, g, api.EntityList{Limit: 1, Within: in})
	keep("entities with a cursor", decoded(short.Next), err)
	rels, err := d.q.Relations(ctx, g, api.RelationList{Limit: 1000, Within: in})
	keep("relations", rels, err)
	types, err := d.q.RelationTypes(ctx, g, api.RelationTypesGet{Within: in})
	keep("relation types", types, err)
}

// decoded is what a cursor says to whoever takes it apart.
func decoded(cursor string) string {
	for _, verb := range []string{verbDocuments, verbEntities} {
		var at listAt
		if decodeCursor(verb, cursor, &at) == nil {
			return fmt.Sprint(at)
		}
	}
	return ""
}

// What a limited client is told is what a graph of the documents inside alone would tell it, and has no marker of the others.
func TestWithinProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		in := w.drawWithin(rt)
		whole, part := newDesk(t), newDesk(t)
		whole.commit(w.docs...)
		var inside []*doc
		for i, d := range w.docs {
			if w.inside(i, in) {
				inside = append(inside, d)
			}
		}
		part.commit(inside...)
		var got, want []string
		w.asks(rt, whole, in, func(what string, reply any) {
			b, err := json.Marshal(reply)
			require.NoError(rt, err)
			for i, mark := range w.marks {
				if !w.inside(i, in) && strings.Contains(string(b), mark) {
					rt.Fatalf("%s within %v tells of document %d: %s", what, in, i, b)
				}
			}
			got = append(got, what+" "+string(b))
		})
		w.asks(rt, part, in, func(what string, reply any) {
			b, err := json.Marshal(reply)
			require.NoError(rt, err)
			want = append(want, what+" "+string(b))
		})
		require.Equal(rt, len(want), len(got))
		for i := range want {
			if want[i] != got[i] {
				rt.Fatalf("within %v: a graph of what is inside alone says\n%s\nnot\n%s", in, want[i], got[i])
			}
		}
	})
}

// What only a name outside links is not linked, nor is that it waits for a person.
func TestWithinClusters(t *testing.T) {
	d := newDesk(t)
	public := func(m *graph.Meta) { m.Scope = graph.Scope{"public"} }
	d.commit(newDoc("a", "Ann Lee sat down. Ann B. Lee sat up.").say("Person:Ann Lee", "Person:Ann B. Lee").meta(public), newDoc("b", "A. Lee and Zoe Lee stood.").say("Person:A. Lee", "Person:Zoe Lee"))
	d.link("Person:Ann Lee ~ Person:A. Lee | initials 0.9 active", "Person:A. Lee ~ Person:Ann B. Lee | initials 0.9 active", "Person:Ann Lee ~ Person:Zoe Lee | cosine 0.7 unclear")
	whole, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID("Person:Ann Lee")})
	require.NoError(t, err)
	require.Len(t, whole.Cluster.Members, 3)
	require.Equal(t, 1, whole.UnclearTotal)
	got, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID("Person:Ann Lee"), Within: scope("public")})
	require.NoError(t, err)
	require.Nil(t, got.Cluster)
	require.Zero(t, got.UnclearTotal)
	s, err := d.q.Search(t.Context(), g, api.Search{Q: "Lee", Kinds: []string{"entity"}, Within: scope("public")})
	require.NoError(t, err)
	require.Len(t, s.Hits, 2)
	for _, h := range s.Hits {
		require.Nil(t, h.Cluster)
	}
}
