package query

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// dated gives a document its dates.
func dated(d *doc, content, published string) *doc {
	return d.meta(func(m *graph.Meta) { m.ContentDate, m.PublishedAt = content, published })
}

// Dates admit documents, of what is found and of what is shown, in each mode alike.
func TestSearchFiltersByDate(t *testing.T) {
	d, n := newDesk(t), &near{}
	d.q.WithVectors(n)
	says := func(key string) *doc {
		return newDoc(key, "Ada Lovelace worked for Acme Ltd in "+key+".").say(ada).relate("WORKS_FOR", ada, acme, "Ada Lovelace worked for Acme Ltd")
	}
	docs := []*doc{
		dated(says("year"), "2024", "2020-01-01"), // the content's date counts
		dated(says("month"), "2024-05", ""),
		dated(says("day"), "", "2024-05-31"),
		dated(says("time"), "", "2024-06-01T01:30:00+02:00"), // 31 May in UTC
		dated(says("old"), "1999-12-31", ""),
		says("undated"),
	}
	d.commit(docs...)
	for _, x := range docs {
		n.doc(x)
	}
	for _, c := range []struct {
		since, until string
		want         string
	}{
		{"", "", "day month old time undated year"},
		{"2024", "2024", "day month time year"},
		{"2024-05-31", "", "day month time year"},
		{"2024-06", "", "year"}, // some part of the year is behind May
		{"", "1999", "old"},
		{"", "1999-12-30", ""},
		{"2024-05-31T23:30:00Z", "2024-05-31T23:30:00Z", "day month time year"},
		{"2024-05-31T23:30:01Z", "2024-05-31", "day month year"},
		{"2025", "", ""},
	} {
		for _, mode := range []string{"lexical", "vector", "hybrid"} {
			f := api.Filters{Since: c.since, Until: c.until}
			got, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace worked", Mode: mode, Kinds: []string{"chunk"}, Filters: f})
			require.NoError(t, err)
			var keys []string
			for _, h := range found(t, got) {
				keys = append(keys, strings.TrimSuffix(strings.TrimPrefix(h, "chunk "), "#0"))
			}
			slices.Sort(keys)
			require.Equal(t, c.want, strings.Join(keys, " "), "%s to %s, %s", c.since, c.until, mode)
			got, err = d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace", Mode: mode, Kinds: []string{"entity"}, Filters: f})
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, got.Hits)
				continue
			}
			var row graph.EntityRow
			decodeRow(t, string(got.Hits[0].Row), &row)
			require.Equal(t, len(strings.Fields(c.want)), row.DocumentsTotal, "%s to %s, %s", c.since, c.until, mode)
		}
	}
	for _, f := range []api.Filters{{Since: "May"}, {Until: "2024-13"}, {Since: "2024-05", Until: "2024-04"}, {RelationTypes: []string{""}}, {RelationTypes: make([]string, maxFilter+1)}} {
		_, err := d.q.Search(t.Context(), g, api.Search{Q: "ada", Filters: f})
		requireRefused(t, err, 400, "bad_value")
	}
}

// Relation types admit relations, what stands in them and what states them, in each mode alike; an end of a label admits a relation.
func TestSearchFiltersByRelationType(t *testing.T) {
	d, n := vectorDesk(t)
	lone := newDoc("lone", "Ada Lovelace and Acme Ltd in London, and Ada Lonely.").say(ada, acme, london, "Person:Ada Lonely")
	d.commit(lone)
	n.doc(lone)
	for _, c := range []struct {
		name, mode string
		q          string
		kinds      string
		f          api.Filters
		want       []string
	}{
		{"relations", "lexical", "ada lovelace acme", "relation", api.Filters{RelationTypes: []string{"works for"}}, []string{"relation Ada Lovelace WORKS_FOR Acme Ltd"}},
		{"several", "lexical", "london", "relation", api.Filters{RelationTypes: []string{"KNOWS", "LOCATED_IN"}}, []string{"relation Acme Ltd LOCATED_IN London"}},
		{"none", "lexical", "ada", "", api.Filters{RelationTypes: []string{"MARRIED_TO"}}, []string{}},
		{"unknown", "lexical", "ada", "", api.Filters{RelationTypes: []string{"LIKES"}}, []string{}},
		{"chunks", "lexical", "ada acme", "chunk", api.Filters{RelationTypes: []string{"KNOWS"}}, []string{"chunk bab#0"}},
		{"chunks by vector", "vector", "ada acme", "chunk", api.Filters{RelationTypes: []string{"KNOWS"}}, []string{"chunk bab#0"}},
		{"entities", "lexical", "ada", "entity", api.Filters{RelationTypes: []string{"KNOWS"}}, []string{"entity Ada Lovelace"}},
		{"entities by vector", "vector", "ada lonely", "entity", api.Filters{RelationTypes: []string{"KNOWS"}, Labels: []string{"Person"}}, []string{"entity Ada Lovelace", "entity Charles Babbage"}},
		{"hybrid", "hybrid", "ada lovelace", "", api.Filters{RelationTypes: []string{"WORKS_FOR"}, Documents: []string{"ada"}},
			[]string{"chunk ada#0", "entity Ada Lovelace", "relation Ada Lovelace WORKS_FOR Acme Ltd"}},
		{"stated by an admitted document", "lexical", "ada", "entity", api.Filters{RelationTypes: []string{"KNOWS"}, Documents: []string{"ada", "lone"}}, []string{}},
		{"ends of a label", "lexical", "acme ltd sits in london", "relation", api.Filters{Labels: []string{"Location"}}, []string{"relation Acme Ltd LOCATED_IN London"}},
		{"ends of a label and a type", "lexical", "ada lovelace acme", "relation", api.Filters{Labels: []string{"Organization"}, RelationTypes: []string{"WORKS_FOR", "KNOWS"}},
			[]string{"relation Ada Lovelace WORKS_FOR Acme Ltd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := api.Search{Q: c.q, Mode: c.mode, Filters: c.f, Limit: 20}
			if c.kinds != "" {
				req.Kinds = []string{c.kinds}
			}
			got, err := d.q.Search(t.Context(), g, req)
			require.NoError(t, err)
			if c.mode != "lexical" {
				hits := found(t, got)
				slices.Sort(hits)
				if c.mode == "hybrid" {
					hits = slices.DeleteFunc(hits, func(h string) bool { return h == "entity Acme Ltd" }) // which hash takes for near
				}
				require.Equal(t, c.want, hits)
				return
			}
			require.Equal(t, c.want, found(t, got))
		})
	}
}

// What the filters admit is found however far behind others it stands: those that are named by their places, the others within bounds that
// a reply tells of.
func TestSearchLooksBehindWhatFiltersLeaveOut(t *testing.T) {
	d := newDesk(t)
	var docs []*doc
	for i := range 600 {
		docs = append(docs, newDoc(fmt.Sprintf("d%03d", i), "Comet comet comet."))
	}
	last := dated(newDoc("last", "A comet, said Ada Lovelace, among many other words that stand here."), "2024", "").say(ada)
	d.commit(append(docs, last)...)
	for name, f := range map[string]api.Filters{"document": {Documents: []string{"last"}}, "label": {Labels: []string{"Person"}}, "date": {Since: "2024"}} {
		got, err := d.q.Search(t.Context(), g, api.Search{Q: "comet", Filters: f, Limit: 1, Kinds: []string{"chunk"}})
		require.NoError(t, err)
		require.Equal(t, []string{"chunk last#0"}, found(t, got), name)
		require.False(t, got.Incomplete)
	}
	d.commit(deleted("last"))
	got, err := d.q.Search(t.Context(), g, api.Search{Q: "comet", Filters: api.Filters{Documents: []string{"last"}}})
	require.NoError(t, err)
	require.Empty(t, got.Hits)
}

// declared is Aliases over entries by label.
type declared map[string][]api.RegistryEntry

func (r declared) Labels(string) ([]string, error) {
	var out []string
	for l := range r {
		out = append(out, l)
	}
	slices.Sort(out)
	return out, nil
}

func (r declared) Named(_, label, key string) (out []api.RegistryEntry, err error) {
	for _, e := range r[label] {
		if slices.ContainsFunc(append([]string{e.Name}, e.Aliases...), func(n string) bool { return fingerprint.Fold(n) == key }) {
			out = append(out, e)
		}
	}
	return out, nil
}

// An entity is found by names that only its mentions have, and by those that were declared, alone or within a question.
func TestSearchByAlias(t *testing.T) {
	d := newDesk(t)
	x := newDoc("a", "International Business Machines, or IBM for short, pays Ada Lovelace.").say(ada)
	x.mention("Organization:International Business Machines", "International Business Machines").mention("Organization:International Business Machines", "IBM")
	d.commit(x)
	search := func(q string, labels ...string) []string {
		t.Helper()
		got, err := d.q.Search(t.Context(), g, api.Search{Q: q, Kinds: []string{"entity"}, Filters: api.Filters{Labels: labels}})
		require.NoError(t, err)
		return found(t, got)
	}
	ibm := []string{"entity International Business Machines"}
	require.Equal(t, ibm, search("ibm"))
	require.Equal(t, ibm, search("Who founded IBM?"))
	require.Empty(t, search("Big Blue"))
	d.q.WithAliases(declared{
		"Organization": {{Name: "International Business Machines", Aliases: []string{"Big Blue", "The Blue Inc."}}, {Name: "Nowhere Ltd", Aliases: []string{"big blue"}}},
		"Person":       {{Name: "Ada Lovelace", Aliases: []string{"The Enchantress of Number"}}},
	})
	for _, q := range []string{"Big Blue", "  BIG  blue", "Who founded Big Blue?", "(big blue)", "what did the blue inc. buy", "the Blue Inc"} {
		if q == "the Blue Inc" { // without its dot it is another name
			require.Empty(t, search(q))
			continue
		}
		require.Equal(t, ibm, search(q), q)
	}
	require.Empty(t, search("enchantress"), "part of an alias is none")
	require.Equal(t, []string{"entity Ada Lovelace"}, search("The Enchantress of Number"))
	require.Empty(t, search("Big Blue", "Person"))
	require.Empty(t, search("what of the"), "words of grammar are no alias")
}

// A relation that a decision hides, since its end has too many, is found no more than neighbors and path find it.
func TestSearchLeavesOutHiddenRelations(t *testing.T) {
	d := newDesk(t)
	const spec = `LOCATED_IN: {patterns: ["Organization->Location"], description: Where.`
	s, err := schema.Parse([]byte(strings.Replace(testSchema, spec, spec+" , cardinality: {max_per_source: 1}", 1)), "test", nil)
	require.NoError(t, err)
	d.s, d.q = s, New(d.st, one{s})
	d.commit(newDoc("a", "Acme Ltd sits in London. Acme Ltd sits in Paris.").say(acme, london, "Location:Paris").
		relate("LOCATED_IN", acme, london, "Acme Ltd sits in London.").relate("LOCATED_IN", acme, "Location:Paris", "Acme Ltd sits in Paris."))
	search := func() []string {
		got, err := d.q.Search(t.Context(), g, api.Search{Q: "Acme Ltd sits", Kinds: []string{"relation"}})
		require.NoError(t, err)
		hits := found(t, got)
		slices.Sort(hits)
		return hits
	}
	require.Equal(t, []string{"relation Acme Ltd LOCATED_IN London", "relation Acme Ltd LOCATED_IN Paris"}, search())
	d.rule(entID(acme), store.DegreeProperty("LOCATED_IN", store.SideOut), then(nil, store.RuleReject, keyOf(store.PropertyFold{Value: relID("LOCATED_IN", acme, london)})))
	require.Equal(t, []string{"relation Acme Ltd LOCATED_IN Paris"}, search())
}
