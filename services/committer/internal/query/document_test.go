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
)

func TestDocument(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	seq := d.commit(a, b)
	got, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Text: true, Items: true})
	require.NoError(t, err)
	chunk := func(i int) graph.ChunkRow {
		c := a.c.Chunks[i]
		return graph.ChunkRow{Content: "text", Document: "ada", DocumentID: fingerprint.DocumentID("ada"), Start: c.Start, End: c.End, Heading: []string{},
			ID: a.chunkID(i), Index: i, Kind: "chunk", Text: a.c.Text[c.Start:c.End]}
	}
	item := func(kind, outcome, label, text string, confidence float64, i, start, end int, rule string) api.ItemRow {
		return api.ItemRow{Kind: kind, Outcome: outcome, Label: label, Text: text, Confidence: confidence, Chunk: a.chunkID(i), Start: start, End: end, Extractor: "rules", Rule: rule}
	}
	relation := item("relation", "fact", "WORKS_FOR", "Ada Lovelace worked for Acme Ltd.", 0.8, 0, 0, 33, "")
	relation.SourceText, relation.TargetText = "Ada Lovelace", "Acme Ltd"
	born := item("property", "fact", "born", "1815", 0.7, 1, 77, 81, "")
	born.SourceText = "Ada Lovelace"
	odd := item("entity", "candidate", "Mineral", "Quuxite", 0.6, 1, 83, 90, "")
	odd.Reasons, odd.State = []string{"undeclared_label"}, "pending"
	require.Equal(t, api.DocumentReply{Seq: seq, State: "open", Revision: 1, SchemaName: "test", SchemaVersion: "1", SchemaRevision: 1, Version: 1,
		Document: graph.DocumentRow{ChunkerFP: "c1", ContentHash: a.c.ContentHash, ExtractionFP: "x1", ID: fingerprint.DocumentID("ada"), Key: "ada",
			Kind: "document", Metadata: map[string]any{}, SchemaFP: "s1", Title: "ADA"},
		Versions: []api.VersionRow{{Version: 1, ContentHash: a.c.ContentHash, FromSeq: 1, FromTime: "2026-01-02T03:04:05Z", Job: "j1"}},
		Chunks:   []graph.ChunkRow{chunk(0), chunk(1)}, Text: a.c.Text,
		Items: &api.DocumentItems{Dropped: []graph.Dropped{}, Items: []api.ItemRow{
			item("entity", "fact", "Person", "Ada Lovelace", 0.9, 0, 0, 12, "name"), relation, item("entity", "fact", "Organization", "Acme Ltd", 0.9, 0, 24, 32, "name"),
			item("entity", "fact", "Person", "Ada Lovelace", 0.9, 1, 52, 64, "name"), born, odd,
		}}}, got)
}

func TestDocumentVersions(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	d.commit(newDoc("ada", "Ada Lovelace left."))
	d.commit(deleted("ada"))
	last, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Text: true})
	require.NoError(t, err)
	require.Equal(t, "deleted", last.State)
	require.Equal(t, 2, last.Version)
	require.Empty(t, last.Text, "what it said is asked for by the version")
	require.Empty(t, last.Chunks)
	require.Len(t, last.Versions, 2)
	named, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Version: 2, Text: true})
	require.NoError(t, err)
	require.Equal(t, "Ada Lovelace left.", named.Text)
	require.Nil(t, named.Items)
	require.Len(t, named.Chunks, 1)
	require.Equal(t, uint64(2), last.Versions[0].ClosedSeq)
	require.Equal(t, uint64(3), last.Versions[1].ClosedSeq)
	first, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Version: 1, Text: true, Items: true})
	require.NoError(t, err)
	require.Equal(t, a.c.Text, first.Text)
	require.Equal(t, a.c.ContentHash, first.Document.ContentHash)
	// Pending candidates go with the version; its facts stay readable.
	require.Len(t, first.Items.Items, 5)
	for _, i := range first.Items.Items {
		require.Equal(t, "fact", i.Outcome)
	}
	_, err = d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Version: 3})
	requireRefused(t, err, 404, "version_not_found")
	_, err = d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Version: -1})
	requireRefused(t, err, 400, "bad_value")
	_, err = d.q.Document(t.Context(), g, api.DocumentGet{})
	requireRefused(t, err, 400, "bad_value")
	_, err = d.q.Document(t.Context(), g, api.DocumentGet{Key: "other"})
	requireRefused(t, err, 404, "document_not_found")
}

func TestLargeDocumentComesInPages(t *testing.T) {
	d := newDesk(t)
	var text strings.Builder
	for i := range 900 {
		fmt.Fprintf(&text, "Paragraph %d of Ada Lovelace <says> \"東京\" and %s.\n\n", i, strings.Repeat("something 😀 else\n", 100))
	}
	x := newDoc("big", text.String()).say(ada)
	d.commit(x)
	var chunks []graph.ChunkRow
	var items []api.ItemRow
	got, req, pages := "", api.DocumentGet{Key: "big", Text: true, Items: true}, 0
	for {
		page, err := d.q.Document(t.Context(), g, req)
		require.NoError(t, err)
		require.Less(t, sizeOf(page), MaxReply)
		chunks = append(chunks, page.Chunks...)
		got += page.Text
		if page.Items != nil {
			items = append(items, page.Items.Items...)
		}
		pages++
		if page.Next == "" {
			break
		}
		req.Cursor = page.Next
		if pages == 2 { // later pages are of the sequence of the first
			d.commit(deleted("big"))
		}
	}
	require.Greater(t, pages, 4)
	require.Equal(t, x.c.Text, got)
	require.Len(t, items, 900)
	require.Len(t, chunks, 900)
	for i, c := range chunks {
		require.Equal(t, i, c.Index)
		require.Equal(t, x.c.Text[c.Start:c.End], c.Text)
	}
	for _, cursor := range []string{"zzz", encodeCursor(verbDocument, documentAt{Seq: 1, Version: 1, Chunks: -1}), encodeCursor(verbDocument, documentAt{Seq: 1, Text: -1}),
		encodeCursor(verbExport, exportAt{Seq: 1}), encodeCursor(verbDocument, documentAt{Seq: 1, Version: 1, Chunks: 900, Text: strings.Index(x.c.Text, "東") + 1})} {
		_, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "big", Text: true, Cursor: cursor})
		requireRefused(t, err, 400, "bad_value")
	}
}

func TestEvidence(t *testing.T) {
	d := newDesk(t)
	quote := "Ada Lovelace worked for Acme Ltd."
	var docs []*doc
	for i := range 7 {
		docs = append(docs, newDoc(fmt.Sprint("d", i), quote+"\n\nAgain: Ada Lovelace.").say(ada, acme).relate("WORKS_FOR", ada, acme, quote))
	}
	seq := d.commit(docs...)
	whole, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: entID(ada)})
	require.NoError(t, err)
	require.Equal(t, "entity", whole.Kind)
	require.Equal(t, 14, whole.Total)
	require.Len(t, whole.Evidence, 14)
	require.Empty(t, whole.Next)
	for i := 0; i < 14; i += 2 { // by document id, then place
		require.Equal(t, whole.Evidence[i].Document, whole.Evidence[i+1].Document)
		require.Equal(t, []int{0, 42}, []int{whole.Evidence[i].Start, whole.Evidence[i+1].Start})
		if i > 0 {
			require.Less(t, fingerprint.DocumentID(whole.Evidence[i-1].Document), fingerprint.DocumentID(whole.Evidence[i].Document))
		}
	}
	var pages []graph.Evidence
	req := api.EvidenceGet{ID: entID(ada), Limit: 3}
	for {
		page, err := d.q.Evidence(t.Context(), g, req)
		require.NoError(t, err)
		require.Equal(t, seq, page.Seq)
		pages = append(pages, page.Evidence...)
		if req.Cursor = page.Next; req.Cursor == "" {
			break
		}
		require.Len(t, page.Evidence, 3)
		if len(pages) == 3 {
			d.commit(deleted("d0"), deleted("d1"))
		}
	}
	require.Equal(t, whole.Evidence, pages)

	rel, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme), Offsets: "runes"})
	require.NoError(t, err)
	require.Equal(t, "relation", rel.Kind)
	require.Equal(t, 5, rel.Total)
	require.Len(t, rel.Evidence, 5)
	require.Equal(t, quote, rel.Evidence[0].Quote)
	then, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme), AsOf: seq})
	require.NoError(t, err)
	require.Len(t, then.Evidence, 7)

	_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: "nothing"})
	requireRefused(t, err, 404, "entity_not_found")
	_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{})
	requireRefused(t, err, 400, "bad_value")
	_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: entID(ada), Cursor: "x"})
	requireRefused(t, err, 400, "bad_value")
	_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: entID(ada), AsOf: 2, Cursor: encodeCursor(verbEvidence, evidenceAt{Seq: 1})})
	requireRefused(t, err, 400, "bad_value")
}

func TestEvidenceHistory(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	again := newDoc("ada", "Later, Ada Lovelace worked for Acme Ltd.").say(ada, acme).relate("WORKS_FOR", ada, acme, "Ada Lovelace worked for Acme Ltd.")
	d.commit(again)
	now, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme)})
	require.NoError(t, err)
	require.Len(t, now.Evidence, 1)
	require.Zero(t, now.Evidence[0].Version)
	past, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme), History: true})
	require.NoError(t, err)
	require.Equal(t, []graph.Evidence{
		{Assertion: "explicit", Chunk: a.chunkID(0), ClosedSeq: 2, Confidence: 0.8, Document: "ada", Start: 0, End: 33, Extractors: []string{"rules"}, Quote: "Ada Lovelace worked for Acme Ltd.", Version: 1},
		{Assertion: "explicit", Chunk: again.chunkID(0), Confidence: 0.8, Document: "ada", Start: 7, End: 40, Extractors: []string{"rules"}, Quote: "Ada Lovelace worked for Acme Ltd.", Version: 2},
	}, past.Evidence)
	require.Equal(t, 1, past.Total)

	// Documents that no longer say it count in history, and so does a fact that is gone.
	d.commit(deleted("ada"))
	_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme)})
	requireRefused(t, err, 404, "entity_not_found")
	gone, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme), History: true})
	require.NoError(t, err)
	want := slices.Clone(past.Evidence)
	want[1].ClosedSeq = 3
	require.Equal(t, want, gone.Evidence)
	require.Equal(t, "relation", gone.Kind)
	require.Zero(t, gone.Total)
	d.commit(deleted("bab"))
	people, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: entID(charles), History: true})
	require.NoError(t, err)
	require.Equal(t, "entity", people.Kind)
	require.Equal(t, []graph.Evidence{{Assertion: "explicit", Chunk: b.chunkID(0), ClosedSeq: 4, Confidence: 0.9, Document: "bab", Start: 0, End: 15,
		Extractors: []string{"rules"}, Quote: "Charles Babbage", Version: 1}}, people.Evidence)
	then, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme), History: true, AsOf: 2})
	require.NoError(t, err)
	require.Equal(t, past.Evidence, then.Evidence)
	_, err = d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: entID("Person:Nobody"), History: true})
	requireRefused(t, err, 404, "entity_not_found")
}

// What only an earlier reading of a version found is history too; what the last reading found counts once.
func TestEvidenceHistoryOfReadings(t *testing.T) {
	d := newDesk(t)
	text := "Ada Lovelace worked for Acme Ltd. Ada Lovelace left Acme Ltd."
	const first, second = "Ada Lovelace worked for Acme Ltd.", "Ada Lovelace left Acme Ltd."
	read := func(quotes ...string) *doc {
		x := newDoc("a", text).say(ada, acme)
		for _, q := range quotes {
			x.relate("WORKS_FOR", ada, acme, q)
		}
		return x
	}
	d.commit(read(first, second))
	d.commit(read(first))
	d.commit(newDoc("b", second).say(ada, acme).relate("WORKS_FOR", ada, acme, second))
	d.commit(read())
	all := []string{}
	req := api.EvidenceGet{ID: relID("WORKS_FOR", ada, acme), History: true, Limit: 1}
	for {
		page, err := d.q.Evidence(t.Context(), g, req)
		require.NoError(t, err)
		require.Equal(t, 1, page.Total)
		for _, e := range page.Evidence {
			all = append(all, fmt.Sprintf("%s v%d %s %d", e.Document, e.Version, e.Quote, e.ClosedSeq))
		}
		if req.Cursor = page.Next; req.Cursor == "" {
			break
		}
		d.commit(deleted("b")) // later pages are of the sequence of the first
	}
	want := []string{"a v1 " + first + " 4", "a v1 " + second + " 2", "b v1 " + second + " 0"}
	if fingerprint.DocumentID("b") < fingerprint.DocumentID("a") {
		want = []string{want[2], want[0], want[1]}
	}
	require.Equal(t, want, all)
}
