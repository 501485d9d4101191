package query

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

func (d *desk) export(req api.Export) string {
	d.tb.Helper()
	var b bytes.Buffer
	require.NoError(d.tb, d.q.ExportTo(d.tb.Context(), g, req, &b))
	return b.String()
}

// pages puts an export together from its pages.
func (d *desk) pages(req api.Export) (string, int) {
	d.tb.Helper()
	var b strings.Builder
	var rows api.ExportRows
	n := 0
	for {
		page, err := d.q.Export(d.tb.Context(), g, req)
		require.NoError(d.tb, err)
		wire, err := json.Marshal(page)
		require.NoError(d.tb, err)
		require.Less(d.tb, len(wire), MaxReply)
		var read api.ExportReply
		require.NoError(d.tb, json.Unmarshal(wire, &read))
		for _, r := range rows.Add(read) {
			b.Write(r)
			b.WriteByte('\n')
		}
		n++
		if req.Cursor = page.Next; req.Cursor == "" {
			return b.String(), n
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// chunksOf is what the export keeps of a property's sources.
func chunksOf(s graph.Sources) graph.Sources {
	out := graph.Sources{}
	for _, e := range s {
		if c := (graph.Evidence{Chunk: e.Chunk}); !slices.ContainsFunc(out, func(x graph.Evidence) bool { return x.Chunk == c.Chunk }) {
			out = append(out, c)
		}
	}
	return out
}

func exportCorpus() []*doc {
	a, b := corpus()
	c := newDoc("c <&> \"ü\"", "Ada Lovelace wed Charles Babbage.").say(ada, charles).
		relateWith(graph.RelationA{Type: "MARRIED_TO", Confidence: 2.0 / 3, Extractor: "rules", Properties: map[string]any{"in": "London"}}, ada, charles, "Ada Lovelace wed Charles Babbage.").
		relateWith(graph.RelationA{Type: "MARRIED_TO", Confidence: 0.9, Extractor: "llm", Assertion: "explicit"}, charles, ada, "Ada Lovelace wed Charles Babbage.").
		property(ada, "born", int64(1816), "Ada Lovelace", 0.7).property(ada, "score", 0.123456789, "wed", 1.0/3).candidate("Mineral", "wed").
		meta(func(m *graph.Meta) {
			m.Metadata = map[string]any{"ratio": 1.23456789, "nested": map[string]any{"b": []any{1.00000049}, "a": true}}
			m.Scope = graph.Scope{"one", "two"}
			m.ContentDate, m.PublishedAt = "1843", "1843-10"
		})
	return []*doc{a, b, c}
}

func TestCanonicalExport(t *testing.T) {
	d := newDesk(t)
	d.commit(exportCorpus()...)
	got := d.export(api.Export{Canonical: true})
	golden(t, "canonical.jsonl", got)
	for _, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		sorted, err := json.Marshal(row)
		require.NoError(t, err)
		require.Equal(t, string(sorted), line, "keys are sorted at all depths")
	}
	paged, _ := d.pages(api.Export{Canonical: true})
	require.Equal(t, got, paged)
}

func TestFullExport(t *testing.T) {
	d := newDesk(t)
	d.commit(exportCorpus()...)
	got := d.export(api.Export{Text: true, Candidates: true})
	golden(t, "full.jsonl", got)
	paged, _ := d.pages(api.Export{Text: true, Candidates: true})
	require.Equal(t, got, paged)
	without := d.export(api.Export{})
	require.NotContains(t, without, `"candidate`)
	require.NotContains(t, without, `"text":"Ada Lovelace worked for Acme Ltd. She wrote Notes.\n`)
}

// The same documents in other commits and another order, with a detour, give the same bytes.
func TestExportDoesNotKnowHistory(t *testing.T) {
	one := newDesk(t)
	one.commit(exportCorpus()...)
	two := newDesk(t)
	docs := exportCorpus()
	two.commit(newDoc("gone", "Ada Lovelace and Acme Ltd.").say(ada, acme).property(ada, "born", int64(1), "and", 0.99))
	two.commit(newDoc("ada", "Something else of London.").say(london).candidate("Odd", "Something"))
	for _, i := range []int{2, 0, 1} {
		two.commit(docs[i])
	}
	two.commit(deleted("gone"))
	require.Equal(t, one.export(api.Export{Canonical: true}), two.export(api.Export{Canonical: true}))
}

func TestExportOrder(t *testing.T) {
	d := newDesk(t)
	var docs []*doc
	for i := range 30 {
		text := fmt.Sprintf("Worker %d works for Acme Ltd.\n\nWorker %d likes Quux%d.", i, i, i%3)
		who := fmt.Sprintf("Person:Worker %d", i)
		docs = append(docs, newDoc(fmt.Sprintf("k%d", i), text).say(who, acme).relate("WORKS_FOR", who, acme, text[:strings.Index(text, "\n")]).candidate("Thing", fmt.Sprintf("Quux%d", i%3)))
	}
	d.commit(docs...)
	type row struct {
		Kind, ID, Key, Document string
		Index                   int
		Mentions                []graph.MentionRow
	}
	var rows []row
	for _, line := range strings.Split(strings.TrimSpace(d.export(api.Export{Canonical: true})), "\n") {
		var r row
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		rows = append(rows, r)
	}
	require.Len(t, rows, 30+60+31+30+30)
	kinds := []string{"document", "chunk", "entity", "relation", "match", "candidate", "decision"}
	place := func(r row) string {
		k := fmt.Sprintf("%d ", slices.Index(kinds, r.Kind))
		switch r.Kind {
		case "document":
			return k + r.Key
		case "chunk":
			return fmt.Sprintf("%s%s %09d", k, r.Document, r.Index)
		case "candidate":
			return k + r.Key + " " + r.Document
		}
		return k + r.ID
	}
	for i := 1; i < len(rows); i++ {
		require.Less(t, place(rows[i-1]), place(rows[i]))
	}
}

// A candidate key of many documents is written by document key, whether they are sorted in memory or walked; pages cut anywhere
// in it.
func TestCandidatesOfManyDocuments(t *testing.T) {
	d := newDesk(t)
	const n = 3500
	var docs []*doc
	for i := range n {
		x := newDoc(fmt.Sprintf("k%d", i), "Quuxite and Zorbium are odd.").candidate("Mineral", "Quuxite")
		if i%1000 == 0 {
			x.candidate("Mineral", "Zorbium")
		}
		docs = append(docs, x)
	}
	d.commit(docs...)
	d.decide("entity|mineral|zorbium", api.StateApproved)
	d.commit(newDoc("k1000", "Nothing odd."), deleted("k2000")) // approved records stay, their chunks are closed
	rows := func(export string) (keys []string) {
		for _, line := range strings.Split(strings.TrimSpace(export), "\n") {
			var r graph.CandidateRow
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			if r.Kind == "candidate" {
				keys = append(keys, r.Key+" "+r.Document)
			}
		}
		return keys
	}
	whole := d.export(api.Export{Canonical: true})
	got := rows(whole)
	require.Len(t, got, n-2+2)
	require.True(t, slices.IsSorted(got))
	require.Equal(t, []string{"entity|mineral|zorbium k0", "entity|mineral|zorbium k3000"}, got[n-2:])
	for _, most := range []int{1, n} {
		d.q.maxGroup = most
		require.True(t, whole == d.export(api.Export{Canonical: true}), "%d", most)
		paged, pages := d.pages(api.Export{Canonical: true})
		require.Greater(t, pages, 2)
		require.True(t, whole == paged, "%d", most)
	}
	// A cursor inside the key goes on behind its document.
	page, err := d.q.Export(t.Context(), g, api.Export{Canonical: true, Cursor: encodeCursor(verbExport, exportAt{Seq: 3, Phase: phaseCandidates, After: got[0][:strings.Index(got[0], " ")], Doc: "k998"})})
	require.NoError(t, err)
	require.Len(t, page.Rows, 1+2+1)
}

// Pages cut anywhere, also inside one row with 40,000 mentions, give the bytes of the file.
func TestExportPages(t *testing.T) {
	d := newDesk(t)
	var docs []*doc
	for i := range 400 {
		docs = append(docs, newDoc(fmt.Sprintf("d%d", i), strings.Repeat("Acme Ltd é. ", 100)+"A \"<quote>\" of Acme Ltd in London.").say(acme, london).
			relate("LOCATED_IN", acme, london, strings.Repeat("Acme Ltd é. ", 100)+"A \"<quote>\" of Acme Ltd in London.").
			property(acme, "motto", "A \"<quote>\"", "A \"<quote>\"", 0.7))
	}
	seq := d.commit(docs...)
	want := d.export(api.Export{Canonical: true})
	longest := 0
	for _, line := range strings.Split(want, "\n") {
		longest = max(longest, len(line))
	}
	require.Greater(t, longest, 3<<20)
	got, n := d.pages(api.Export{Canonical: true})
	require.Greater(t, n, 6)
	require.True(t, want == got, "pages differ from the file")
	d.commit(deleted("d1"))
	later, _ := d.pages(api.Export{Canonical: true, Seq: seq})
	require.True(t, want == later, "a pinned export moved")
	now, _ := d.pages(api.Export{Canonical: true})
	require.Less(t, len(now), len(want))

	page, err := d.q.Export(t.Context(), g, api.Export{Canonical: true, Seq: seq})
	require.NoError(t, err)
	require.Equal(t, 400+400+2+1, page.Total)
	for _, req := range []api.Export{{Cursor: "x"}, {Seq: seq + 1, Cursor: page.Next}, {Cursor: encodeCursor(verbExport, exportAt{Seq: seq, Phase: -1})},
		{Cursor: encodeCursor(verbExport, exportAt{Seq: seq, Phase: 1, Doc: fingerprint.DocumentID("d1"), Index: -1})}} {
		_, err := d.q.Export(t.Context(), g, req)
		requireRefused(t, err, 400, "bad_value")
	}
	_, err = d.q.Export(t.Context(), g, api.Export{Seq: 99})
	requireRefused(t, err, 404, "sequence_unknown")
}

// Every fact that entity and neighbors show is in the export, evidence included.
func TestExportHoldsWhatQueriesShow(t *testing.T) {
	d := newDesk(t)
	d.commit(exportCorpus()...)
	entities, relations := map[string]graph.EntityRow{}, map[string]graph.RelationRow{}
	for _, line := range strings.Split(strings.TrimSpace(d.export(api.Export{Canonical: true})), "\n") {
		var kind struct{ Kind string }
		require.NoError(t, json.Unmarshal([]byte(line), &kind))
		switch kind.Kind {
		case "entity":
			var r graph.EntityRow
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			entities[r.ID] = r
		case "relation":
			var r graph.RelationRow
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			relations[r.ID] = r
		}
	}
	require.Len(t, entities, 4)
	require.Len(t, relations, 4)
	asJSON := func(v any) string { b, err := json.Marshal(v); require.NoError(t, err); return string(b) }
	// The query's extras off, the rows are the export's.
	checkRelation := func(r graph.RelationRow) {
		want, ok := relations[r.ID]
		require.True(t, ok)
		r.SourceName, r.TargetName, r.EvidenceTotal = "", "", 0
		r.Evidence = slices.Clone(r.Evidence)
		for i := range r.Evidence {
			r.Evidence[i].Document = ""
		}
		require.Equal(t, asJSON(want), asJSON(r))
	}
	checkEntity := func(e graph.EntityRow, whole bool) {
		want, ok := entities[e.ID]
		require.True(t, ok)
		if whole {
			require.Len(t, want.Mentions, e.MentionsTotal)
		}
		e.Evidence, e.MentionsTotal, e.DocumentsTotal = nil, 0, 0
		e.Mentions = slices.Clone(e.Mentions)
		for i := range e.Mentions {
			e.Mentions[i].Document, e.Mentions[i].Quote = "", ""
			require.Contains(t, want.Mentions, e.Mentions[i])
		}
		if !whole {
			e.Mentions, want.Mentions = nil, nil
		}
		for k, p := range e.Properties {
			p.Evidence = chunksOf(p.Evidence)
			for i := range p.Others {
				p.Others[i].Evidence = chunksOf(p.Others[i].Evidence)
			}
			e.Properties[k] = p
		}
		if whole {
			require.Equal(t, asJSON(want), asJSON(e))
		}
	}
	for id := range entities {
		e, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: id})
		require.NoError(t, err)
		checkEntity(e.Entity, true)
		for _, r := range e.Relations {
			checkRelation(r)
		}
		n, err := d.q.Neighbors(t.Context(), g, api.Neighbors{ID: id, Depth: 5})
		require.NoError(t, err)
		require.Len(t, n.Edges, 4)
		for _, x := range n.Nodes {
			checkEntity(x, false)
		}
		for _, r := range n.Edges {
			checkRelation(r)
		}
	}
}
