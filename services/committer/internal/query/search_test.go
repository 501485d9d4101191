package query

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// found lists hits as "kind name", chunks as "chunk document#index".
func found(t *testing.T, r api.SearchReply) []string {
	t.Helper()
	out := []string{}
	for _, h := range r.Hits {
		var row struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			SourceName string `json:"source_name"`
			TargetName string `json:"target_name"`
			Key        string `json:"document"`
			ID         string `json:"id"`
			Index      int    `json:"index"`
		}
		require.NoError(t, json.Unmarshal(h.Row, &row))
		require.Equal(t, h.ID, row.ID)
		switch h.Kind {
		case "entity":
			out = append(out, "entity "+row.Name)
		case "relation":
			out = append(out, "relation "+row.SourceName+" "+row.Type+" "+row.TargetName)
		case "chunk":
			out = append(out, fmt.Sprintf("chunk %s#%d", row.Key, row.Index))
		}
	}
	return out
}

func TestSearch(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	seq := d.commit(a, b)
	for _, c := range []struct {
		name string
		req  api.Search
		want []string
	}{
		{"whole name", api.Search{Q: "acme ltd", Kinds: []string{"entity"}}, []string{"entity Acme Ltd"}},
		{"beginning", api.Search{Q: "charl", Kinds: []string{"entity"}}, []string{"entity Charles Babbage"}},
		{"word of a name", api.Search{Q: "lovelace", Kinds: []string{"entity"}}, []string{"entity Ada Lovelace"}},
		{"words in any order", api.Search{Q: "Babbage, Charles!", Kinds: []string{"entity"}}, []string{"entity Charles Babbage"}},
		{"relation by its quote", api.Search{Q: "who sits in London", Kinds: []string{"relation"}}, []string{"relation Acme Ltd LOCATED_IN London"}},
		{"chunks, best first", api.Search{Q: "Ada born", Kinds: []string{"chunk"}}, []string{"chunk ada#1", "chunk ada#0", "chunk bab#0"}},
		{"plural and case", api.Search{Q: "NOTE", Kinds: []string{"chunk"}}, []string{"chunk ada#0"}},
		{"limit", api.Search{Q: "Ada", Limit: 1, Kinds: []string{"chunk"}}, []string{"chunk ada#0"}},
		{"document filter", api.Search{Q: "ada", Kinds: []string{"chunk"}, Filters: api.Filters{Documents: []string{"bab"}}}, []string{"chunk bab#0"}},
		{"scope filter", api.Search{Q: "london", Kinds: []string{"entity", "chunk"}, Filters: api.Filters{Scope: []string{"private", "public"}}}, []string{"entity London", "chunk bab#0"}},
		{"scope filter admits nothing", api.Search{Q: "london", Filters: api.Filters{Scope: []string{"private"}}}, []string{}},
		{"metadata filter", api.Search{Q: "ada", Kinds: []string{"chunk"}, Filters: api.Filters{Metadata: map[string]any{"lang": "en", "tags": "y"}}}, []string{"chunk bab#0"}},
		{"metadata differs", api.Search{Q: "ada", Filters: api.Filters{Metadata: map[string]any{"lang": "fr"}}}, []string{}},
		{"label of entities", api.Search{Q: "london acme", Kinds: []string{"entity"}, Filters: api.Filters{Labels: []string{"Agent"}}}, []string{"entity Acme Ltd"}},
		{"label of relations", api.Search{Q: "ada lovelace", Kinds: []string{"relation"}, Filters: api.Filters{Labels: []string{"knows"}}}, []string{"relation Charles Babbage KNOWS Ada Lovelace"}},
		{"label of chunks", api.Search{Q: "ada", Kinds: []string{"chunk"}, Filters: api.Filters{Labels: []string{"Location"}}}, []string{"chunk bab#0"}},
		{"a candidate is only text", api.Search{Q: "Quuxite"}, []string{"chunk ada#1"}},
		{"nothing", api.Search{Q: "zebra"}, []string{}},
		{"no words", api.Search{Q: "???"}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.q.Search(t.Context(), g, c.req)
			require.NoError(t, err)
			require.Equal(t, seq, got.Seq)
			require.Equal(t, c.want, found(t, got))
			for i, h := range got.Hits {
				require.Positive(t, h.Score)
				require.NotEmpty(t, h.Snippet)
				if i > 0 {
					require.LessOrEqual(t, h.Score, got.Hits[i-1].Score)
				}
			}
		})
	}
	all, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace", Mode: "lexical", Offsets: "utf16"})
	require.NoError(t, err)
	require.Equal(t, "entity Ada Lovelace", found(t, all)[0])
	require.Greater(t, len(all.Hits), 4)

	for _, req := range []api.Search{{}, {Q: " "}, {Q: "x", Mode: "vector", AsOf: 1}, {Q: "x", Mode: "vector", Kinds: []string{"relation"}}, {Q: "x", Mode: "fuzzy"}, {Q: "x", Kinds: []string{"candidate"}}, {Q: "x", Limit: 101},
		{Q: strings.Repeat("x", maxQuery+1)}, {Q: "x", Filters: api.Filters{Labels: make([]string, maxFilter+1)}}} {
		_, err := d.q.Search(t.Context(), g, req)
		requireRefused(t, err, 400, "bad_value")
	}
}

// Chunks rank by their best passage too, read under its headings and title; words of grammar find nothing by themselves.
func TestSearchRanksPassages(t *testing.T) {
	d := newDesk(t)
	filler := strings.Repeat("many other things were said there ", 10)
	head := func(x *doc, title string, heading ...string) *doc {
		x.c.Meta.Title, x.c.Chunks[0].Heading = title, heading
		return x
	}
	d.commit(
		head(newDoc("near", filler+"the comet hit the balcony "+filler+filler), "x"),
		head(newDoc("far", "a comet came "+filler+"onto a balcony it fell"), "x"),
		head(newDoc("titled", "Operated by a large consortium of people."), "Kestrel Ridge"),
		head(newDoc("headed", "Operated by a large consortium."), "x", "Sites", "Kestrel"),
		head(newDoc("bare", "Operated by a consortium."), "x"),
		head(newDoc("grammar", "Who is the one? Where is it?"), "x"))
	for q, want := range map[string][]string{
		"Where did the comet hit a balcony?":         {"chunk near#0", "chunk far#0"},
		"comet balcony":                              {"chunk near#0", "chunk far#0"},
		"consortium of Kestrel Ridge, operated how?": {"chunk titled#0", "chunk headed#0", "chunk bare#0"},
		"Who is the zebra?":                          {},
		"where is the":                               {"chunk grammar#0", "chunk near#0"},
	} {
		got, err := d.q.Search(t.Context(), g, api.Search{Q: q, Kinds: []string{"chunk"}})
		require.NoError(t, err)
		require.Equal(t, want, found(t, got), q)
	}
}

// What a filter shuts out is not shown either: neither mentions nor property values nor counts.
func TestSearchShowsOnlyWhatIsAdmitted(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	got, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace", Kinds: []string{"entity", "relation"}, Filters: api.Filters{Documents: []string{"bab"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"entity Ada Lovelace", "relation Charles Babbage KNOWS Ada Lovelace"}, found(t, got)[:2])
	var row graph.EntityRow
	require.NoError(t, json.Unmarshal(got.Hits[0].Row, &row))
	require.Empty(t, row.Properties)
	require.Equal(t, 1, row.MentionsTotal)
	require.Equal(t, 1, row.DocumentsTotal)
	require.Len(t, row.Mentions, 1)
	require.Equal(t, "bab", row.Mentions[0].Document)
	for _, h := range got.Hits {
		require.NotContains(t, string(h.Row), `"ada"`)
		require.NotContains(t, h.Snippet, "worked")
	}
}

func TestSearchIsOfOneSequence(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	first := d.commit(a, b)
	d.commit(newDoc("ada", "Zebras now."))
	now, err := d.q.Search(t.Context(), g, api.Search{Q: "notes wrote"})
	require.NoError(t, err)
	require.Empty(t, now.Hits)
	then, err := d.q.Search(t.Context(), g, api.Search{Q: "notes wrote", AsOf: first})
	require.NoError(t, err)
	require.Equal(t, []string{"chunk ada#0"}, found(t, then))
	future, err := d.q.Search(t.Context(), g, api.Search{Q: "zebra", AsOf: first})
	require.NoError(t, err)
	require.Empty(t, future.Hits)
}

func TestSearchCJK(t *testing.T) {
	d := newDesk(t)
	d.commit(newDoc("ja", "彼女は東京大学で働く。").say("Organization:東京大学"), newDoc("other", "京都は古い。"))
	got, err := d.q.Search(t.Context(), g, api.Search{Q: "東京"})
	require.NoError(t, err)
	require.Equal(t, []string{"entity 東京大学", "chunk ja#0"}, found(t, got))
}

// marked shows a snippet's matches in brackets.
func marked(text string, marks [][2]int) string {
	var b strings.Builder
	at := 0
	for _, m := range marks {
		b.WriteString(text[at:m[0]] + "[" + text[m[0]:m[1]] + "]")
		at = m[1]
	}
	return b.String() + text[at:]
}

func TestSnippet(t *testing.T) {
	words := map[string]float64{"needle": 2, "here": 1}
	long := strings.Repeat("filler words go on ", 40) + "the needle\nlies here " + strings.Repeat("and more filler ", 40)
	got := snippet(long, words)
	require.Contains(t, got.text, "the needle lies here")
	require.Contains(t, marked(got.text, got.marks), "the [needle] lies [here]")
	require.True(t, strings.HasPrefix(got.text, "…") && strings.HasSuffix(got.text, "…"))
	require.Less(t, len(got.text), snippetBytes+20)
	require.Equal(t, snip{text: "short text"}, snippet("short text", map[string]float64{"none": 1}))
	for text, want := range map[string]string{
		" \n Needles  needle,\u00a0HERE! ":         "[Needles] [needle], [HERE]!",
		"needle [needle] «needle» *here*":          "[needle] [[needle]] «[needle]» *[here]*", // what looks like a mark is text
		"Nëedle n\u00e9\u00e9dle heres thereheres": "[Nëedle] [néédle] [heres] thereheres",
	} {
		got := snippet(text, words)
		require.Equal(t, want, marked(got.text, got.marks))
	}
	got = snippet("東京都の", map[string]float64{"東京": 1, "京都": 1})
	require.Equal(t, "[東京都]の", marked(got.text, got.marks))
	whole := around("ab  cd ef", 1, 6, [][2]int{{1, 6}})
	require.Equal(t, "a[b cd] ef", marked(whole.text, whole.marks))
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"needle", "東京", "😀", "x\n", " ", "été", "longlonglonglonglonglonglonglonglonglonglong"}), 0, 200).Draw(t, "words")
		text := strings.Join(words, rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
		got := snippet(text, map[string]float64{"needle": 1, "東京": 2})
		if !utf8.ValidString(got.text) || len(got.text) > 2*snippetBytes {
			t.Fatalf("%q of %q", got.text, text)
		}
		at := 0
		for _, m := range got.marks {
			if m[0] < at || m[1] <= m[0] || m[1] > len(got.text) || !utf8.ValidString(got.text[m[0]:m[1]]) {
				t.Fatalf("%v of %q", got.marks, got.text)
			}
			if at = m[1] + 1; !strings.ContainsAny(got.text[m[0]:m[1]], "needl東京") {
				t.Fatalf("%q is marked in %q", got.text[m[0]:m[1]], got.text)
			}
		}
	})
}

// Matches are counted in the unit of the request; an entity is marked by the query's words around its first mention, else by that mention.
func TestSearchMarksWhatMatched(t *testing.T) {
	d := newDesk(t)
	d.commit(newDoc("a", "Žofie Čapková, née 😀, met Ada Lovelace.").say("Person:Žofie Čapková", ada).
		relate("KNOWS", ada, "Person:Žofie Čapková", "😀, met Ada Lovelace."))
	for _, c := range []struct {
		q, kind, unit string
		want          []string // parts of the snippet
	}{
		{"capkova ada", "chunk", "", []string{"Čapková", "Ada"}},
		{"capkova ada", "chunk", "runes", []string{"Čapková", "Ada"}},
		{"met lovelace", "relation", "utf16", []string{"met", "Lovelace"}},
		{"zofie", "entity", "utf16", []string{"Žofie"}},
		{"ada love", "entity", "", []string{"Ada"}},
		{"lovel", "entity", "", nil},
		{"a", "entity", "", []string{"Ada Lovelace"}}, // begins the name
	} {
		got, err := d.q.Search(t.Context(), g, api.Search{Q: c.q, Kinds: []string{c.kind}, Offsets: c.unit, Limit: 1})
		require.NoError(t, err)
		if c.want == nil {
			require.Empty(t, got.Hits)
			continue
		}
		units := map[string]func(string) int{"": func(s string) int { return len(s) }, "runes": utf8.RuneCountInString,
			"utf16": func(s string) int { return len(utf16.Encode([]rune(s))) }}[c.unit]
		h := got.Hits[0]
		var want []api.Match
		for _, w := range c.want {
			at := strings.Index(h.Snippet, w)
			require.GreaterOrEqual(t, at, 0, h.Snippet)
			want = append(want, api.Match{Start: units(h.Snippet[:at]), End: units(h.Snippet[:at+len(w)])})
		}
		require.Equal(t, want, h.Matches, "%s: %s", c.q, h.Snippet)
	}
}

func TestRuler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "東", "😀", strings.Repeat("x", 1023), strings.Repeat("é", 511), "\n"}), 0, 40).Draw(t, "parts")
		text := strings.Join(parts, "")
		runes, units := newRuler(text, unitRunes), newRuler(text, unitUTF16)
		check := func(i int) {
			if got, want := runes.at(i), utf8.RuneCountInString(text[:i]); got != want {
				t.Fatalf("runes before %d: %d, not %d", i, got, want)
			}
			if got, want := units.at(i), len(utf16.Encode([]rune(text[:i]))); got != want {
				t.Fatalf("utf16 before %d: %d, not %d", i, got, want)
			}
		}
		for range 20 {
			i := rapid.IntRange(0, len(text)).Draw(t, "offset")
			for i < len(text) && !utf8.RuneStart(text[i]) {
				i++
			}
			check(i)
		}
		check(len(text))
	})
}

func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "\"", "<", "é", "😀", "\n", "\u2028", "\x01", "\\", "â"})).Draw(t, "text"), "")
		room := rapid.IntRange(2, 60).Draw(t, "room")
		n := fits(s, room)
		if b, _ := json.Marshal(s[:n]); len(b) > room || !utf8.ValidString(s[:n]) {
			t.Fatalf("%s has %d bytes: room was %d", b, len(b), room)
		}
		if b, _ := json.Marshal(s); len(b) > textCost(s) {
			t.Fatalf("%q costs %d, counted %d", s, len(b), textCost(s))
		}
	})
}
