package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// Every line of the data files is used: no type, section or phrase is misspelt.
func TestDataFiles(t *testing.T) {
	rs := compile(schema.Default())
	for _, l := range lines("words.txt") {
		if l[0] == '[' {
			require.NotZero(t, sections[strings.Trim(l, "[]")], l)
		}
	}
	for _, l := range lines("heads.txt") {
		head, _, ok := strings.Cut(l, ":")
		require.True(t, ok, l)
		name, where, _ := strings.Cut(head, " ")
		if name != "thing" && name != "made" {
			require.NotZero(t, rs.builtin[name], l)
			require.Contains(t, []string{"in", "near", "suffix", "before"}, where, l)
		}
	}
	for _, l := range lines("verbs.txt") {
		require.Len(t, strings.Fields(l), 5, l)
	}
	phrases := 0
	for _, l := range lines("relations.txt") {
		if l[0] != '>' && l[0] != '<' {
			_, types, ok := strings.Cut(l, " : ")
			require.True(t, ok, l)
			requireTypes(t, rs, types)
			continue
		}
		phrases++
		p, err := rs.parsePhrase(l[1:], rs.verbs)
		require.NoError(t, err)
		require.True(t, p.confidence >= 0.7 && p.confidence <= 0.95, l)
		if at := strings.IndexByte(l, '['); at >= 0 {
			requireTypes(t, rs, strings.Trim(l[at:], "[]"))
		}
	}
	require.GreaterOrEqual(t, len(rs.phrases), phrases)
	for _, r := range rs.relations {
		require.True(t, r.declared, "the default schema has %s", r.label)
	}
}

func requireTypes(t *testing.T, rs *ruleset, text string) {
	t.Helper()
	for _, name := range strings.Fields(strings.NewReplacer(">", " ", "?", "", "!", "", "=", "").Replace(text)) {
		require.NotZero(t, rs.builtin[name], "%q in %q", name, text)
	}
}

func TestLemma(t *testing.T) {
	verbs := loadVerbs()
	for word, want := range map[string]string{
		"works": "work", "worked": "work", "studies": "study", "teaches": "teach", "wrote": "write", "advised": "advise", "managed": "manage",
		"mentored": "mentor", "carries": "carry", "created": "create", "in": "", "of": "",
	} {
		require.Equal(t, want, lemma(word, verbs), word)
	}
}

func TestDescribedNouns(t *testing.T) {
	for text, want := range map[string][]string{
		"A company, university or agency that people form.": {"company", "university", "agency"},
		"A human being, named or not":                       {"being"},
		"A place where telescopes stand.":                   {"place"},
		"":                                                  nil,
	} {
		got := describedNouns(text)
		require.Equal(t, want, got[:min(len(got), len(want))], text)
	}
}

func TestTablesAreSharedAndBounded(t *testing.T) {
	again, err := schema.Parse(schema.Default().Marshal(), "x.json", nil)
	require.NoError(t, err)
	require.Same(t, New(schema.Default()).rs, New(again).rs)
	for i := range cacheSize + 3 {
		s, err := schema.Parse([]byte(fmt.Sprintf("entities: {T%d: A thing.}", i)), "x.yaml", nil)
		require.NoError(t, err)
		New(s)
	}
	require.Len(t, cache.list, cacheSize)
}

// A document longer than a window: what was learnt before holds after.
func TestWindows(t *testing.T) {
	filler := strings.Repeat("nothing to see here at all. ", 2000)
	texts := []string{"Ada Lovelace worked for Acme Ltd. "}
	for len(texts) < 14 {
		texts = append(texts, filler)
	}
	texts = append(texts, "Lovelace left.")
	doc := extract.Document{Text: strings.Join(texts, "")}
	at := 0
	for _, x := range texts {
		doc.Chunks = append(doc.Chunks, graph.Chunk{Start: at, End: at + len(x)})
		at += len(x)
	}
	require.Greater(t, at, maxWindow)
	r, err := New(schema.Default()).Open(t.Context(), doc)
	require.NoError(t, err)
	defer r.Close()
	var last extract.Items
	for i := range doc.Chunks {
		last, err = r.Read(t.Context(), i)
		require.NoError(t, err)
	}
	require.Len(t, last.Entities, 1)
	require.Equal(t, "Ada Lovelace", last.Entities[0].Of)
	require.Greater(t, r.(*document).from, 0)
	_, err = r.Read(t.Context(), len(doc.Chunks))
	require.Error(t, err)
}
