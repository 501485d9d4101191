package query

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

const testSchema = `
name: test
entities:
  Agent: Who acts.
  Person:
    parents: [Agent]
    description: A human being.
    properties:
      born: integer
      title: {type: string, merge: newest}
      score: {type: float, merge: most_confident}
      langs: {type: string, merge: all}
  Organization: {parents: [Agent], description: A company.}
  Location: A place.
relations:
  WORKS_FOR: {patterns: ["Person->Organization"], description: Employment., properties: {since: integer}}
  LOCATED_IN: {patterns: ["Organization->Location"], description: Where.}
  MARRIED_TO: {patterns: ["Person->Person"], symmetric: true, description: Marriage.}
  KNOWS: {patterns: ["Person->Person"], self: true, description: Acquaintance.}
`

// one is a Schemas with one schema for every graph.
type one struct{ s *schema.Schema }

func (o one) Schema(string, uint64) (*schema.Schema, error) { return o.s, nil }

func mustSchema(tb testing.TB) *schema.Schema {
	tb.Helper()
	s, err := schema.Parse([]byte(testSchema), "test", nil)
	require.NoError(tb, err)
	return s
}

// desk is a store with its queries.
type desk struct {
	tb testing.TB
	st *store.Store
	q  *Queries
	s  *schema.Schema
	at int64
}

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	return newDeskWith(tb, store.Options{Dir: tb.TempDir()})
}

func newDeskWith(tb testing.TB, o store.Options) *desk {
	tb.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.CacheBytes, o.MemTableBytes, o.Now = 8<<20, 4<<20, func() time.Time { return at }
	st, err := store.Open(context.Background(), o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, st.Close()) })
	_, ok := st.Graph(g, true)
	require.True(tb, ok)
	s := mustSchema(tb)
	return &desk{tb: tb, st: st, q: New(st, one{s}), s: s}
}

// commit applies documents in one commit and returns its sequence.
func (d *desk) commit(docs ...*doc) uint64 {
	d.tb.Helper()
	txn, err := d.st.Begin(context.Background(), g)
	require.NoError(d.tb, err)
	for _, x := range docs {
		d.at++
		_, err := txn.Apply(context.Background(), x.change(d.s, d.at))
		require.NoError(d.tb, err)
	}
	done, err := txn.Finish(context.Background(), nil)
	require.NoError(d.tb, err)
	return done.Seq
}

// doc is a document under construction; its chunks are its paragraphs. Mistakes of a test show as a refused change.
type doc struct {
	c      store.DocChange
	refs   map[string]int
	chunks map[int]*graph.ChunkAssertions
}

func newDoc(key, text string) *doc {
	d := &doc{refs: map[string]int{}, chunks: map[int]*graph.ChunkAssertions{}}
	d.c = store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: key, Title: strings.ToUpper(key)}, Text: text, ContentHash: fingerprint.ContentHash(text),
		SchemaFP: "s1", SchemaName: "test", SchemaVersion: "1", SchemaRevision: 1, ChunkerFP: "c1", ExtractionFP: "x1", Job: "j1"}
	at := 0
	for _, p := range strings.Split(text, "\n\n") {
		if p != "" {
			d.c.Chunks = append(d.c.Chunks, graph.Chunk{Start: at, End: at + len(p), Content: "text", Tokens: len(strings.Fields(p))})
		}
		at += len(p) + 2
	}
	return d
}

func deleted(key string) *doc {
	return &doc{c: store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: key}, Job: "j1"}}
}

func (d *doc) change(s *schema.Schema, at int64) store.DocChange {
	d.c.Order = graph.Order{Time: at, Seq: uint64(at)}
	d.c.Symmetric = func(t string) bool { r, _ := s.Relation(t); return r.Symmetric }
	d.c.Assertions.Chunks = nil
	for i := range d.c.Chunks {
		if c := d.chunks[i]; c != nil {
			d.c.Assertions.Chunks = append(d.c.Assertions.Chunks, *c)
		}
	}
	return d.c
}

func (d *doc) meta(set func(m *graph.Meta)) *doc { set(&d.c.Meta); return d }

// find is the n-th place (from 0) of a text.
func (d *doc) find(s string, n int) (chunk, start, end int) {
	for range n + 1 {
		i := strings.Index(d.c.Text[end:], s)
		if i < 0 {
			return -1, 0, 0
		}
		start = end + i
		end = start + len(s)
	}
	for i, c := range d.c.Chunks {
		if start >= c.Start && end <= c.End {
			return i, start, end
		}
	}
	return -1, 0, 0
}

func (d *doc) in(chunk int) *graph.ChunkAssertions {
	if d.chunks[chunk] == nil {
		d.chunks[chunk] = &graph.ChunkAssertions{Index: chunk}
	}
	return d.chunks[chunk]
}

// ref names an entity as "Label:name".
func (d *doc) ref(e string) int {
	label, name, _ := strings.Cut(e, ":")
	key := fingerprint.Fold(name)
	k := label + ":" + key
	if _, ok := d.refs[k]; !ok {
		d.refs[k] = len(d.c.Assertions.Entities)
		d.c.Assertions.Entities = append(d.c.Assertions.Entities, graph.EntityRef{ID: fingerprint.EntityID(label, key), Label: label, Key: key})
	}
	return d.refs[k]
}

// mention puts every place of a name.
func (d *doc) mention(e, name string) *doc {
	for n := 0; ; n++ {
		chunk, start, _ := d.find(name, n)
		if chunk < 0 {
			return d
		}
		d.mentionAt(e, name, chunk, start)
	}
}

func (d *doc) mentionAt(e, name string, chunk, start int) *doc {
	c := d.in(chunk)
	c.Mentions = append(c.Mentions, graph.Mention{Entity: d.ref(e), Name: name, Start: start, End: start + len(name), Confidence: 0.9, Extractor: "rules", Rule: "name"})
	return d
}

// say mentions entities by their own names.
func (d *doc) say(entities ...string) *doc {
	for _, e := range entities {
		_, name, _ := strings.Cut(e, ":")
		d.mention(e, name)
	}
	return d
}

func (d *doc) relate(relType, source, target, quote string) *doc {
	return d.relateWith(graph.RelationA{Type: relType, Confidence: 0.8, Extractor: "rules"}, source, target, quote)
}

func (d *doc) relateWith(r graph.RelationA, source, target, quote string) *doc {
	chunk, start, end := d.find(quote, 0)
	r.Source, r.Target, r.Start, r.End = d.ref(source), d.ref(target), start, end
	c := d.in(chunk)
	c.Relations = append(c.Relations, r)
	return d
}

func (d *doc) property(e, name string, value any, quote string, confidence float64) *doc {
	chunk, start, end := d.find(quote, 0)
	c := d.in(chunk)
	c.Properties = append(c.Properties, graph.PropertyA{Entity: d.ref(e), Name: name, Value: value, Start: start, End: end, Confidence: confidence, Extractor: "rules"})
	return d
}

func (d *doc) candidate(label, text string) *doc {
	chunk, start, end := d.find(text, 0)
	d.c.Assertions.Candidates = append(d.c.Assertions.Candidates, graph.Candidate{Key: fingerprint.EntityKey(label, text), Kind: graph.KindEntity, Label: label,
		Text: text, Confidence: 0.6, Reasons: []string{graph.ReasonUndeclaredLabel}, Count: 1, Chunk: chunk, Start: start, End: end, Extractor: "rules"})
	return d
}

func entID(e string) string {
	label, name, _ := strings.Cut(e, ":")
	return fingerprint.EntityID(label, fingerprint.Fold(name))
}

func relID(relType, source, target string) string {
	return fingerprint.RelationID(relType, entID(source), entID(target), false)
}

func (d *doc) chunkID(i int) string {
	return fingerprint.ChunkID(fingerprint.DocumentID(d.c.Meta.Key), d.c.ContentHash, d.c.ChunkerFP, i)
}

const (
	ada     = "Person:Ada Lovelace"
	charles = "Person:Charles Babbage"
	acme    = "Organization:Acme Ltd"
	london  = "Location:London"
)

// corpus is two documents: ada has two chunks.
func corpus() (a, b *doc) {
	a = newDoc("ada", "Ada Lovelace worked for Acme Ltd. She wrote Notes.\n\nAda Lovelace was born in 1815. Quuxite is odd.").
		say(ada, acme).relate("WORKS_FOR", ada, acme, "Ada Lovelace worked for Acme Ltd.").
		property(ada, "born", int64(1815), "1815", 0.7).candidate("Mineral", "Quuxite")
	b = newDoc("bab", "Charles Babbage knew Ada Lovelace. Acme Ltd sits in London.").
		say(ada, charles, acme, london).relate("KNOWS", charles, ada, "Charles Babbage knew Ada Lovelace.").
		relate("LOCATED_IN", acme, london, "Acme Ltd sits in London.").
		meta(func(m *graph.Meta) {
			m.Scope = graph.Scope{"public"}
			m.Metadata = map[string]any{"lang": "en", "tags": []any{"x", "y"}}
		})
	return a, b
}
