package chunker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/pkg/token"
)

func stage(t testing.TB, cfg Config) *Stage {
	t.Helper()
	s, err := NewStage(cfg, app.Deps{})
	require.NoError(t, err)
	return s
}

func loaded(text, markup string, p settings.Pipeline) *events.Loaded {
	text = fingerprint.Normalize(text)
	return &events.Loaded{
		Job: events.Job{Graph: "default", ID: "j1", Attempt: 1, Op: events.OpAdd, Settings: p, ChunkerFP: p.ChunkerFingerprint(), ErrorPolicy: events.PolicyRaise},
		Doc: events.DocRef{
			Key: "a", Token: fingerprint.Token("a"), Source: fingerprint.Token("src"), Sole: true, ContentHash: fingerprint.ContentHash(text),
		},
		Meta:     graph.Meta{Key: "a", ID: fingerprint.DocumentID("a"), Title: "A title", Metadata: map[string]any{"k": "v"}},
		Decision: graph.NewVersion, Base: 7, Text: text, Markup: markup,
	}
}

func handle(t testing.TB, s *Stage, in *events.Loaded) (*events.Chunked, *events.Staged) {
	t.Helper()
	out, err := s.Handle(t.Context(), bus.Delivery{Event: in})
	require.NoError(t, err)
	require.Len(t, out, 2)
	return out[0].(*events.Chunked), out[1].(*events.Staged)
}

func withSizes(size, minSize int) settings.Pipeline {
	p := settings.Default()
	p.Chunker = settings.Chunker{Size: size, MinSize: minSize}
	return p
}

func TestHandle(t *testing.T) {
	in := loaded("# Who\r\n\r\nAda met Charles.\r\n\r\n| a | b |\r\n|---|---|\r\n| 1 | 2 |\r\n", "markdown", settings.Default())
	chunked, staged := handle(t, stage(t, Config{}), in)
	chunks := []graph.Chunk{
		{Start: 0, End: 23, Heading: []string{"Who"}, Content: "text", Tokens: 6},
		{Start: 25, End: 54, Heading: []string{"Who"}, Content: "table", Tokens: 15},
	}
	require.Equal(t, &events.Chunked{Job: in.Job, Doc: in.Doc, Title: "A title", Text: in.Text, Chunks: chunks}, chunked)
	require.Equal(t, &events.Staged{
		Job: in.Job, Doc: in.Doc, Meta: in.Meta, Decision: graph.NewVersion, Base: 7, Text: in.Text, Chunks: chunks, Sections: 1, Tables: 1,
	}, staged)
	require.Equal(t, "factmill.default.doc.chunked.j1."+in.Doc.Token, chunked.Where().String())
	require.Equal(t, "factmill.default.doc.staged.j1."+in.Doc.Token, staged.Where().String())
}

func TestBlank(t *testing.T) {
	for _, text := range []string{"", " \n\t", strings.Repeat(" ", 100000)} {
		chunked, staged := handle(t, stage(t, Config{}), loaded(text, "plain", settings.Default()))
		require.Empty(t, chunked.Chunks)
		require.Empty(t, staged.Chunks)
		require.Zero(t, staged.Sections)
	}
}

func TestRefusals(t *testing.T) {
	ok := loaded("text", "plain", settings.Default())
	otherBuild := *ok
	otherBuild.Job.ChunkerFP = "0000000000000000"
	badSizes := loaded("text", "plain", withSizes(600, 600))
	for _, c := range []struct {
		name    string
		cfg     Config
		event   events.Event
		class   fault.Class
		code    string
		message string
	}{
		{"other build", Config{}, &otherBuild, fault.Unserved, "settings_differ", "job j1 of graph default has the chunker fingerprint 0000000000000000, this build makes " + ok.Job.ChunkerFP},
		{"pinned size", Config{Pinned: map[string]string{"chunker.size": "500"}}, ok, fault.Unserved, "settings_differ", "job j1 of graph default runs with chunker.size 600, this service was started with 500"},
		{"bad settings", Config{}, badSizes, fault.Permanent, "settings_invalid", "chunker.min_size is 600: it must be smaller than chunker.size (600)"},
		{"other event", Config{}, &events.Sealed{}, fault.Permanent, "wrong_event", "*events.Sealed"},
	} {
		out, err := stage(t, c.cfg).Handle(t.Context(), bus.Delivery{Event: c.event})
		require.Empty(t, out, c.name)
		require.Equal(t, c.class, fault.Of(err).Class, c.name)
		require.Equal(t, c.code, fault.Of(err).Code, c.name)
		require.ErrorContains(t, err, c.message, c.name)
	}

	gone, stop := context.WithCancel(t.Context())
	stop()
	_, err := stage(t, Config{}).Handle(gone, bus.Delivery{Event: ok})
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)
}

func TestPinned(t *testing.T) {
	same := Config{Pinned: map[string]string{"chunker.size": " 600 ", "resolver.top_k": "3"}}
	handle(t, stage(t, same), loaded("text", "plain", settings.Default()))
	for pinned, message := range map[string]string{
		"chunker.sice": `pinned setting "chunker.sice" is unknown`,
		"chunker.size": `pinned settings: chunker.size: "big" is not a whole number`,
	} {
		_, err := NewStage(Config{Pinned: map[string]string{pinned: "big"}}, app.Deps{})
		require.ErrorContains(t, err, message)
	}
	_, err := New(Config{Pinned: map[string]string{"chunker.min_size": "600"}}, app.Deps{})
	require.ErrorContains(t, err, "chunker.min_size is 600")
}

// The cases of faults that users of such systems reported; MANIFEST.tsv says what must hold.
func TestCases(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("testdata", "cases", "MANIFEST.tsv"))
	require.NoError(t, err)
	all := func(*testing.T, *events.Loaded, []graph.Chunk) {} // what whole requires
	cases := map[string]func(t *testing.T, in *events.Loaded, chunks []graph.Chunk){
		"empty.txt": none, "blank.txt": none, "spaces.txt": all,
		"unbroken.txt": func(t *testing.T, _ *events.Loaded, chunks []graph.Chunk) { require.Greater(t, len(chunks), 1) },
		"table_in.md": func(t *testing.T, in *events.Loaded, chunks []graph.Chunk) {
			require.True(t, slices.ContainsFunc(chunks, func(c graph.Chunk) bool {
				s := in.Text[c.Start:c.End]
				return strings.Contains(s, "Ann") && strings.Contains(s, "CEO")
			}))
		},
		"long_table.md": func(t *testing.T, in *events.Loaded, chunks []graph.Chunk) {
			require.Greater(t, len(chunks), 1)
			captions := 0
			for i, c := range chunks {
				body := in.Text[c.Start:c.End]
				shown := c.Prefix + body
				require.Equal(t, 1, strings.Count(shown, "| name | role |\n|---|---|\n"), "chunk %d", i)
				require.Equal(t, 1, strings.Count(shown, "Table 1: staff"), "chunk %d", i)
				require.Equal(t, "table", c.Content)
				captions += strings.Count(body, "Table 1: staff")
			}
			require.Equal(t, 1, captions, "the caption's bytes belong to one chunk")
		},
		"headings_only.md": func(t *testing.T, _ *events.Loaded, chunks []graph.Chunk) {
			require.Equal(t, []graph.Chunk{{Start: 0, End: 8, Heading: []string{"A"}, Content: "heading", Tokens: 4}}, chunks)
		},
		"lf.txt": all, "crlf.txt": all, "emoji.txt": all, "braces.txt": all, "injection.txt": all, "nofacts.txt": all,
		"a/readme.md": all, "b/readme.md": all, "bom.txt": all, "nobom.txt": all,
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		require.Contains(t, string(manifest), "docs/"+name+"\t")
		raw, err := os.ReadFile(filepath.Join("testdata", "cases", "docs", filepath.FromSlash(name)))
		require.NoError(t, err)
		markup := "plain"
		if strings.HasSuffix(name, ".md") {
			markup = "markdown"
		}
		for _, sizes := range [][2]int{{600, 150}, {64, 16}} {
			t.Run(fmt.Sprintf("%s/%d", name, sizes[0]), func(t *testing.T) {
				in := loaded(string(raw), markup, withSizes(sizes[0], sizes[1]))
				chunked, staged := handle(t, stage(t, Config{}), in)
				require.Equal(t, chunked.Chunks, staged.Chunks)
				whole(t, in.Text, chunked.Chunks, sizes[0])
				if name == "unbroken.txt" && sizes[0] == 600 {
					return // 418 tokens: under the cap
				}
				cases[name](t, in, chunked.Chunks)
			})
		}
	}
}

func none(t *testing.T, _ *events.Loaded, chunks []graph.Chunk) { require.Empty(t, chunks) }

// whole requires that the chunks are slices in order, under the cap, and hold all of the text but white space.
func whole(t require.TestingT, text string, chunks []graph.Chunk, size int) {
	var kept strings.Builder
	at := 0
	for _, c := range chunks {
		require.GreaterOrEqual(t, c.Start, at)
		at = c.End
		body := text[c.Start:c.End]
		require.NotEmpty(t, strings.TrimFunc(body, unicode.IsSpace))
		require.LessOrEqual(t, c.Tokens, size)
		require.Equal(t, token.Count(c.Prefix)+token.Count(body), c.Tokens)
		kept.WriteString(body)
	}
	squash := func(s string) string { return strings.Join(strings.FieldsFunc(s, unicode.IsSpace), "") }
	require.Equal(t, squash(text), squash(kept.String()))
}

// CRLF, CR and LF give one document: line ends are normalised before anything is cut, and offsets are of that text.
func TestLineEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{"# A", "Ada 👩‍👧 met Zoë.", "你好。", "", "- item", "| a | b |", "|---|---|", "é e\u0301 \u00a0"})).Draw(rt, "lines")
		s := stage(t, Config{})
		var first []graph.Chunk
		for i, end := range []string{"\n", "\r\n", "\r"} {
			in := loaded(strings.Join(lines, end), "markdown", withSizes(20, 5))
			chunked, _ := handle(t, s, in)
			whole(rt, in.Text, chunked.Chunks, 20)
			if i == 0 {
				first = chunked.Chunks
			}
			require.Equal(rt, first, chunked.Chunks)
		}
	})
}

func TestEventsSurviveTheWire(t *testing.T) {
	chunked, staged := handle(t, stage(t, Config{}), loaded("# A\n\ntext\n", "markdown", settings.Default()))
	for _, e := range []events.Event{chunked, staged} {
		b, err := events.Encode(e)
		require.NoError(t, err)
		back, err := events.Decode(e.Where().String(), events.SchemaName(e.Where().Kind), b)
		require.NoError(t, err)
		require.Equal(t, e, back)
	}
	var raw map[string]any
	b, err := events.Encode(chunked)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &raw))
	require.Equal(t, []any{map[string]any{"s": 0.0, "e": 9.0, "heading": []any{"A"}, "content": "text", "tokens": 3.0}}, raw["chunks"])
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 { // two in one process share them
		s, err := NewStage(Config{}, app.Deps{Metrics: reg})
		require.NoError(t, err)
		handle(t, s, loaded("# A\n", "markdown", settings.Default()))
		handle(t, s, loaded("", "plain", settings.Default()))
	}
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP factmill_chunker_blank_documents_total Documents without a chunk.
# TYPE factmill_chunker_blank_documents_total counter
factmill_chunker_blank_documents_total 2
# HELP factmill_chunker_chunks_total Chunks by what they hold.
# TYPE factmill_chunker_chunks_total counter
factmill_chunker_chunks_total{content="heading"} 2
# HELP factmill_chunker_text_bytes_total Bytes of text that were cut.
# TYPE factmill_chunker_text_bytes_total counter
factmill_chunker_text_bytes_total 8
`)))
}

func BenchmarkHandle(b *testing.B) {
	var sb strings.Builder
	for i := 0; sb.Len() < 4096; i++ {
		fmt.Fprintf(&sb, "## Section %d\n\nAda Lovelace worked with Charles Babbage in London, and wrote the first program. She was born in 1815.\n\n"+
			"- one item of the list\n- another one\n\nThe engine was never built; its plans, however, were studied for years.\n\n", i)
	}
	s := stage(b, Config{})
	in := loaded(sb.String()[:4096], "markdown", settings.Default())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Handle(b.Context(), bus.Delivery{Event: in}); err != nil {
			b.Fatal(err)
		}
	}
}
