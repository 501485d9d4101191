package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor"
)

// fixed serves one schema as revision 1 of every graph, or an error.
type fixed struct {
	schema *schema.Schema
	err    error
}

func (f fixed) Get(context.Context, string, uint64) (*schema.Schema, error) { return f.schema, f.err }

func job(s *schema.Schema) events.Job {
	set := settings.Default()
	return events.Job{
		Graph: "default", ID: "j1", Attempt: 1, Op: events.OpAdd, SchemaRevision: 1, SchemaFP: s.Fingerprint(),
		ChunkerFP: set.ChunkerFingerprint(), ExtractionFP: set.ExtractionFingerprint(s), Settings: set, ErrorPolicy: events.PolicyRaise,
	}
}

func stage(t testing.TB, s *schema.Schema) *extractor.Stage {
	t.Helper()
	st, err := extractor.NewStage(extractor.Config{}, app.Deps{}, fixed{schema: s})
	require.NoError(t, err)
	return st
}

// chunked is a document whose chunks are the given texts, one after the other.
func chunked(s *schema.Schema, texts ...string) *events.Chunked {
	e := &events.Chunked{Job: job(s), Doc: events.DocRef{Key: "doc", Token: fingerprint.Token("doc"), Source: "s"}}
	for _, t := range texts {
		e.Chunks = append(e.Chunks, graph.Chunk{Start: len(e.Text), End: len(e.Text) + len(t), Content: "text"})
		e.Text += t
	}
	return e
}

func handle(t *testing.T, st *extractor.Stage, e *events.Chunked) *events.Extracted {
	t.Helper()
	out, err := st.Handle(t.Context(), bus.Delivery{Event: e})
	require.NoError(t, err)
	require.Len(t, out, 1)
	return out[0].(*events.Extracted)
}

func TestHandleGivesDocumentOffsets(t *testing.T) {
	e := chunked(schema.Default(), "It was a cold year.\n\n", "Ada Lovelace worked for Acme Ltd.")
	got := handle(t, stage(t, schema.Default()), e)
	want := graph.Extraction{Chunks: []graph.ChunkItems{{
		Index: 1,
		Entities: []graph.EntityItem{
			{Type: "Person", Name: "Ada Lovelace", Start: 21, End: 33, Confidence: 0.9, Extractor: "rules", Rule: "given name and surname"},
			{Type: "Organization", Name: "Acme Ltd", Start: 45, End: 53, Confidence: 0.95, Extractor: "rules", Rule: "suffix"},
		},
		Relations: []graph.RelationItem{{
			Type: "WORKS_FOR", Source: 0, Target: 1, Start: 21, End: 54, Confidence: 0.9, Extractor: "rules", Rule: "phrase: ~work|serve for",
		}},
	}}, Dropped: []graph.Dropped{}}
	require.Equal(t, want, got.Extraction)
	require.Equal(t, events.ExtractionStats{Processed: 2, Entities: 2, Relations: 1}, got.Stats)
	require.Equal(t, fingerprint.DocumentID("doc"), got.DocID)
	require.Equal(t, "factmill.default.doc.extracted.j1."+e.Doc.Token, got.Where().String())
}

func TestShortFormAcrossChunks(t *testing.T) {
	got := handle(t, stage(t, schema.Default()), chunked(schema.Default(), "Lovelace wrote notes.\n\n", "Ada Lovelace worked for Acme Ltd."))
	first := got.Extraction.Chunks[0].Entities[0]
	require.Equal(t, graph.EntityItem{
		Type: "Person", Name: "Lovelace", Of: "Ada Lovelace", Start: 0, End: 8, Confidence: 0.75, Extractor: "rules", Rule: "surname",
	}, first)
}

func TestNoCandidatesCountsOnly(t *testing.T) {
	e := chunked(schema.Default(), "The LARCH comet was found by Fenwick Instruments.")
	with := handle(t, stage(t, schema.Default()), e)
	require.Equal(t, "Comet", with.Extraction.Chunks[0].Candidates[0].Label)
	require.Equal(t, []string{graph.ReasonUndeclaredLabel}, with.Extraction.Chunks[0].Candidates[0].Reasons)
	e.Job.NoCandidates = true
	without := handle(t, stage(t, schema.Default()), e)
	require.Empty(t, without.Extraction.Chunks[0].Candidates)
	require.Equal(t, 1, with.Extraction.Dropped[0].Candidates)
	with.Extraction.Dropped[0].Candidates = 0
	require.Equal(t, with.Extraction.Dropped, without.Extraction.Dropped)
	require.Equal(t, []int{1, 1, 0}, []int{without.Stats.Undecided, without.Stats.Reasons, without.Stats.Discarded})
	require.Equal(t, []graph.Dropped{{Kind: "entity", Label: "Comet", Reason: graph.ReasonUndeclaredLabel, Count: 1, Sample: "LARCH"}}, without.Extraction.Dropped)
}

func TestHandleRefuses(t *testing.T) {
	s := schema.Default()
	class := func(cfg extractor.Config, change func(*events.Chunked), sch fixed) *fault.Error {
		t.Helper()
		st, err := extractor.NewStage(cfg, app.Deps{}, sch)
		require.NoError(t, err)
		e := chunked(s, "Ada Lovelace worked for Acme Ltd.")
		change(e)
		_, err = st.Handle(t.Context(), bus.Delivery{Event: e})
		require.Error(t, err)
		return fault.Of(err)
	}
	none := func(*events.Chunked) {}
	good := fixed{schema: s}
	tests := []struct {
		name string
		got  *fault.Error
		want fault.Class
	}{
		{"another fingerprint", class(extractor.Config{}, func(e *events.Chunked) { e.Job.ExtractionFP = "x" }, good), fault.Unserved},
		{"a pinned mode", class(extractor.Config{Pinned: map[string]string{"extractor.mode": "llm"}}, none, good), fault.Unserved},
		{"a mode without its model", class(extractor.Config{}, func(e *events.Chunked) { e.Job.Settings.Extractor.Mode = "llm" }, good), fault.Permanent},
		{"a pinned setting", class(extractor.Config{Pinned: map[string]string{"extractor.floor": "0.2"}}, none, good), fault.Unserved},
		{"another schema", class(extractor.Config{}, func(e *events.Chunked) { e.Job.SchemaFP = "x" }, good), fault.Unserved},
		{"unreadable schema", class(extractor.Config{}, none, fixed{err: fmt.Errorf("x: %w", schemacache.ErrUnreadable)}), fault.Unserved},
		{"nobody answers", class(extractor.Config{}, none, fixed{err: errors.New("no responders")}), fault.Transient},
		{"the schema is refused", class(extractor.Config{}, none, fixed{err: &api.Error{Status: 404, Code: "schema_not_found"}}), fault.Transient},
		{"settings out of bounds", class(extractor.Config{}, func(e *events.Chunked) { e.Job.Settings.Extractor.Floor = 2 }, good), fault.Permanent},
		{"a chunk outside the text", class(extractor.Config{}, func(e *events.Chunked) { e.Chunks[0].End = 1000 }, good), fault.Permanent},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.got.Class, "%s: %v", tt.name, tt.got)
	}
	require.True(t, class(extractor.Config{}, none, fixed{err: errors.New("no responders")}).Pause)

	st := stage(t, s)
	_, err := st.Handle(t.Context(), bus.Delivery{Event: &events.Loaded{}})
	require.Equal(t, fault.Permanent, fault.Of(err).Class)
	_, err = extractor.NewStage(extractor.Config{Pinned: map[string]string{"extractor.floor": "much"}}, app.Deps{}, good)
	require.ErrorContains(t, err, "extractor.floor")
	require.ErrorIs(t, err, app.ErrConfig)
	_, err = extractor.NewStage(extractor.Config{ModelURL: "ftp://x"}, app.Deps{}, good)
	require.EqualError(t, err, `ollama.url is "ftp://x": it must be an http or https address`)
	require.ErrorIs(t, err, app.ErrConfig)
	_, err = extractor.NewStage(extractor.Config{Pinned: map[string]string{"chunker.size": "300"}}, app.Deps{}, good)
	require.NoError(t, err)
}

func TestCancelledIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := stage(t, schema.Default()).Handle(ctx, bus.Delivery{Event: chunked(schema.Default(), "Ada Lovelace worked for Acme Ltd.")})
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)
}

// The same document gives the same bytes, whatever was read before and beside it.
func TestDeterministic(t *testing.T) {
	e := chunkedText(3)
	st := stage(t, schema.Default())
	read := func() string {
		b, err := json.Marshal(handle(t, st, e))
		require.NoError(t, err)
		return string(b)
	}
	want := read()
	got := make(chan string, 8)
	for range cap(got) {
		go func() {
			_, _ = st.Handle(context.Background(), bus.Delivery{Event: chunked(schema.Default(), "The LARCH spectrograph. The ZEBU telescope is new. Ann Baker met Tom.")})
			out, err := st.Handle(context.Background(), bus.Delivery{Event: e})
			if err != nil {
				got <- err.Error()
				return
			}
			b, err := json.Marshal(out[0])
			got <- string(b) + fmt.Sprint(err)
		}()
	}
	for range cap(got) {
		require.Equal(t, want+"<nil>", <-got)
	}
}

func TestLimitMarksTheChunkIncomplete(t *testing.T) {
	var text strings.Builder
	for i := range 210 {
		fmt.Fprintf(&text, "Ann Q%c%cor works for Acme Ltd. ", 'a'+i%26, 'a'+i/26)
	}
	e := chunked(schema.Default(), text.String())
	got := handle(t, stage(t, schema.Default()), e)
	require.Equal(t, graph.Incomplete, got.Extraction.Chunks[0].State)
	require.Len(t, got.Extraction.Chunks[0].Entities, 200)
	require.Equal(t, 1, got.Stats.Incomplete)
}
