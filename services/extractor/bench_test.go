package extractor_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/token"
)

// benchText is about 100 tokens of plain prose.
const benchText = `Dr. Mara Quill, chief engineer at Orrin Instruments GmbH, joined the University of Halden in 2003. She wrote the book
"Quiet Machines" with Tom Baker, and the two of them have since worked on several smaller instruments that nobody had asked for.
The village of Orrin lies in Norway, a long way from the nearest railway. Skyloom depends on Tidemark, which was released in May 2019 and
has been kept up by volunteers ever since. Acme Ltd, which employs Bob Stone, acquired Globex Corp in 2011. The weather was bad
that year, so the workshop opened late and few visitors came. `

// chunkedText is a document of n chunks of about 600 tokens.
func chunkedText(n int) *events.Chunked {
	one := strings.Repeat(benchText, 6)
	e := &events.Chunked{Job: job(schema.Default()), Doc: events.DocRef{Key: "bench", Token: "t"}}
	for i := range n {
		e.Chunks = append(e.Chunks, graph.Chunk{Start: i * len(one), End: (i + 1) * len(one), Content: "text"})
	}
	e.Text = strings.Repeat(one, n)
	return e
}

// chunkTokens is what a chunk has by default.
const chunkTokens = 600

// proseDocuments is documents of some chunks of about 600 tokens each, made of the texts of the development set, so that names, verbs and
// sentences are as many and as different as in prose.
func proseDocuments(tb testing.TB, chunks int) (docs []*events.Chunked, bytes int) {
	tb.Helper()
	files, err := filepath.Glob("testdata/dev/*.jsonl")
	require.NoError(tb, err)
	var texts []string
	for _, file := range files {
		for _, it := range readDev(tb, file) {
			texts = append(texts, it.Text)
		}
	}
	var b strings.Builder
	tokens := 0
	e := &events.Chunked{Job: job(schema.Default()), Doc: events.DocRef{Key: "bench", Token: "t"}}
	start := 0
	for _, text := range texts {
		b.WriteString(text)
		b.WriteString("\n\n")
		tokens += token.Count(text)
		if tokens < chunkTokens {
			continue
		}
		e.Chunks = append(e.Chunks, graph.Chunk{Start: start, End: b.Len(), Content: "text"})
		start, tokens = b.Len(), 0
		if len(e.Chunks) == chunks {
			e.Text = b.String()
			docs, bytes = append(docs, e), bytes+b.Len()
			e = &events.Chunked{Job: job(schema.Default()), Doc: events.DocRef{Key: "bench", Token: "t"}}
			b.Reset()
			start = 0
		}
	}
	require.NotEmpty(tb, docs)
	return docs, bytes
}

// BenchmarkHandle reports chunks of 600 tokens of varied prose a second, under the default schema, on GOMAXPROCS cores: -cpu 2 is the
// number that the specification asks for.
func BenchmarkHandle(b *testing.B) {
	const chunks = 3
	docs, bytes := proseDocuments(b, chunks)
	s := stage(b, schema.Default())
	b.SetBytes(int64(bytes / len(docs)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Handle(context.Background(), bus.Delivery{Event: docs[i%len(docs)]}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(chunks*b.N)/b.Elapsed().Seconds(), "chunks/s")
}
