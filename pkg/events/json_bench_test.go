package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/settings"
)

// dense is the events of one document of 4 KB that is full of facts: 26 entities, 58 mentions, 29 relations, 8 properties.
func dense() []Event {
	const entities, mentions, relations, properties = 26, 58, 29, 8
	j := Job{Graph: "default", ID: "load-2024-05", Attempt: 1, Op: OpAdd, SchemaRevision: 3, SchemaFP: "db44256019904a52", ChunkerFP: "0123456789abcdef",
		ExtractionFP: "fedcba9876543210", Settings: settings.Default(), ErrorPolicy: PolicyRaise, At: graph.Order{Time: 1700000000123456789, Seq: 4242}}
	d := DocRef{Key: "corpus/doc-000123.md", Token: "zksr2jvkxa3cfmjhuvp5wvja", Source: "q2sr2jvkxa3cfmjhuvp5wvja", ContentHash: "c0ffee00c0ffee00c0ffee00c0ffee00"}
	m := graph.Meta{Key: d.Key, ID: "0f8fad5b-d9cb-469f-a165-70867728950e", Title: "Notes on Acme", Format: "markdown", Metadata: map[string]any{"team": "a", "year": 1999.0}}
	text := strings.Repeat("Ada Lovelace worked for Acme Analytical Engines Ltd. in London.\nShe met Charles Babbage & others there.\n\n", 40)
	name := func(i int) string { return fmt.Sprintf("Person%02d Lovelace%02d", i, i) }
	label := func(i int) string { return []string{"Person", "Organization", "Place"}[i%3] }
	relation := func(i int) string { return []string{"WORKS_FOR", "LOCATED_IN", "FOUNDED"}[i%3] }
	var chunks []graph.Chunk
	var a graph.Assertions
	var x graph.Extraction
	for i := range entities {
		a.Entities = append(a.Entities, graph.EntityRef{ID: fmt.Sprintf("%08x-1111-5222-8333-444444444444", i*7919), Label: label(i), Key: strings.ToLower(name(i))})
	}
	const parts = 2
	for c := range parts {
		chunks = append(chunks, graph.Chunk{Start: c * 2000, End: c*2000 + 2000, Heading: []string{"Lives", "Work"}, Content: "text", Tokens: 480})
		ca, ci := graph.ChunkAssertions{Index: c}, graph.ChunkItems{Index: c}
		for i := c; i < mentions; i += parts {
			ca.Mentions = append(ca.Mentions, graph.Mention{Entity: i % entities, Name: name(i % entities), Start: i * 60, End: i*60 + 21, Confidence: 0.95, Extractor: "rules", Rule: "given-name"})
			ci.Entities = append(ci.Entities, graph.EntityItem{Type: label(i), Name: name(i % entities), Start: i * 60, End: i*60 + 21, Confidence: 0.95, Extractor: "rules", Rule: "given-name"})
		}
		for i := c; i < relations; i += parts {
			ca.Relations = append(ca.Relations, graph.RelationA{Type: relation(i), Source: i % entities, Target: (i + 5) % entities, Start: i * 90, End: i*90 + 64, Confidence: 0.8725, Extractor: "rules", Rule: "verb-object"})
			ci.Relations = append(ci.Relations, graph.RelationItem{Type: relation(i), Source: i % entities, Target: (i + 5) % 29, Start: i * 90, End: i*90 + 64, Confidence: 0.8725, Extractor: "rules", Rule: "verb-object"})
		}
		for i := c; i < properties; i += parts {
			ca.Properties = append(ca.Properties, graph.PropertyA{Entity: i, Name: "founded", Value: 1833.0, Start: i * 40, End: i*40 + 4, Confidence: 0.9, Extractor: "rules"})
		}
		a.Chunks, x.Chunks = append(a.Chunks, ca), append(x.Chunks, ci)
	}
	stats := ExtractionStats{Processed: parts, Entities: entities, Relations: relations, Properties: properties}
	return []Event{
		&Loaded{Job: j, Doc: d, Meta: m, Decision: graph.NewVersion, Text: text, Markup: "markdown"},
		&Chunked{Job: j, Doc: d, Title: m.Title, Text: text, Chunks: chunks},
		&Staged{Job: j, Doc: d, Meta: m, Decision: graph.NewVersion, Text: text, Chunks: chunks, Sections: 2},
		&Extracted{Job: j, Doc: d, DocID: m.ID, Extraction: x, Stats: stats},
		&Resolved{Job: j, Doc: d, Assertions: a, Extraction: stats, Resolution: ResolutionStats{Exact: mentions}},
	}
}

// eachDense runs ours and encoding/json on each event, and on all of a document.
func eachDense(b *testing.B, ours, std func(b *testing.B, e Event, body []byte)) {
	all := dense()
	bodies := make([][]byte, len(all))
	for i, e := range all {
		var err error
		if bodies[i], err = json.Marshal(e); err != nil {
			b.Fatal(err)
		}
	}
	for _, how := range []struct {
		name string
		run  func(b *testing.B, e Event, body []byte)
	}{{"ours", ours}, {"std", std}} {
		for i, e := range all {
			b.Run(e.Where().Kind+"/"+how.name, func(b *testing.B) {
				b.SetBytes(int64(len(bodies[i])))
				b.ReportAllocs()
				for b.Loop() {
					how.run(b, e, bodies[i])
				}
			})
		}
		b.Run("document/"+how.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i, e := range all {
					how.run(b, e, bodies[i])
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	eachDense(b, func(b *testing.B, e Event, body []byte) {
		if _, err := Decode(e.Where().String(), "", body); err != nil {
			b.Fatal(err)
		}
	}, func(b *testing.B, e Event, body []byte) {
		if err := json.Unmarshal(body, empty(e.Where().Kind)); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	eachDense(b, func(b *testing.B, e Event, _ []byte) {
		if _, err := Encode(e); err != nil {
			b.Fatal(err)
		}
	}, func(b *testing.B, e Event, _ []byte) {
		if _, err := json.Marshal(e); err != nil {
			b.Fatal(err)
		}
	})
}

// What a document's events are is read and written without encoding/json.
func TestDenseEventsTakeThePath(t *testing.T) {
	for _, e := range dense() {
		b, ok := write(e)
		if !ok {
			t.Fatalf("%s is not written", e.Where())
		}
		back := empty(e.Where().Kind)
		if !read(b, back) || !reflect.DeepEqual(e, back) {
			t.Fatalf("%s is not read", e.Where())
		}
	}
}
