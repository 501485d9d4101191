package extractor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
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

// BenchmarkHandle reports chunks of 600 tokens a second on one core.
func BenchmarkHandle(b *testing.B) {
	const chunks = 2 // a document of about 7 KB
	s := stage(b, schema.Default())
	in := bus.Delivery{Event: chunkedText(chunks)}
	b.SetBytes(int64(len(chunkedText(chunks).Text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Handle(context.Background(), in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(chunks*b.N)/b.Elapsed().Seconds(), "chunks/s")
}
