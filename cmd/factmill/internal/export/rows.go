// Package export turns the rows of query.export into files: JSON lines, GraphML, CSV, Cypher.
//
// The graph formats hold documents, chunks, entities and their relations as nodes and edges, named with the reserved labels of
// the schema language. They need the names and types of all attributes before the first node, so rows are spooled in
// temporary files: memory stays flat however large the graph is.
package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// Node of a graph format. Base is the label that all nodes of its kind share: Document, Chunk, Entity or Candidate.
type Node struct {
	ID     string         `json:"id"`
	Base   string         `json:"base"`
	Labels []string       `json:"labels"`
	Props  map[string]any `json:"props"`
}

// Edge of a graph format. Bases are those of its ends.
type Edge struct {
	ID         string         `json:"id"`
	Type       string         `json:"type"`
	Source     string         `json:"source"`
	SourceBase string         `json:"source_base"`
	Target     string         `json:"target"`
	TargetBase string         `json:"target_base"`
	Props      map[string]any `json:"props"`
}

// Bases of nodes.
const (
	BaseDocument  = "Document"
	BaseChunk     = "Chunk"
	BaseEntity    = "Entity"
	BaseCandidate = "Candidate"
)

// own attributes of nodes and edges; a property of the schema with such a name becomes property_<name>.
var own = map[string]bool{
	"id": true, "name": true, "type": true, "labels": true, "merge_key": true, "source": true, "target": true,
	"evidence": true, "evidence_count": true, "confidence": true, "mentions": true,
}

// propName is injective: what already starts like a renamed property is renamed too.
func propName(name string) string {
	if own[name] || strings.HasPrefix(name, "property_") {
		return "property_" + name
	}
	return name
}

// converter turns rows into nodes and edges. Rows come in the order of the export: edges refer to earlier nodes, or to
// entities, which come before every relation.
type converter struct {
	node func(Node) error
	edge func(Edge) error
	// prev is the last chunk of a document, for NEXT_CHUNK.
	prev, prevDoc string
	candidates    bool
}

func (c *converter) row(raw json.RawMessage) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("export row: %w", err)
	}
	var err error
	switch head.Kind {
	case "document":
		err = into(raw, c.document)
	case "chunk":
		err = into(raw, c.chunk)
	case "entity":
		err = into(raw, c.entity)
	case "relation":
		err = into(raw, c.relation)
	case "match":
		err = into(raw, c.match)
	case "candidate":
		if c.candidates {
			err = into(raw, c.candidate)
		}
	}
	if err != nil {
		return fmt.Errorf("export row of kind %s: %w", head.Kind, err)
	}
	return nil
}

func into[T any](raw json.RawMessage, f func(T) error) error {
	var v T
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // whole numbers beyond 2^53 stay what they are
	if err := d.Decode(&v); err != nil {
		return err
	}
	return f(v)
}

func (c *converter) document(d struct {
	graph.DocumentRow
	Text string `json:"text"`
}) error {
	return c.node(Node{ID: d.ID, Base: BaseDocument, Labels: []string{BaseDocument}, Props: set(map[string]any{
		"name": d.Key, "title": d.Title, "content_hash": d.ContentHash, "schema_fingerprint": d.SchemaFP,
		"published_at": d.PublishedAt, "content_date": d.ContentDate, "metadata": asJSON(d.Metadata, len(d.Metadata)),
		"scope": asJSON([]string(d.Scope), len(d.Scope)), "text": d.Text,
	})})
}

func (c *converter) chunk(k graph.ChunkRow) error {
	n := Node{ID: k.ID, Base: BaseChunk, Labels: []string{BaseChunk}, Props: set(map[string]any{
		"index": int64(k.Index), "start": int64(k.Start), "end": int64(k.End), "content": k.Content, "prefix": k.Prefix,
		"heading_path": asJSON(k.Heading, len(k.Heading)), "text": k.Text,
	})}
	if err := c.node(n); err != nil {
		return err
	}
	doc := cmp.Or(k.DocumentID, fingerprint.DocumentID(k.Document))
	if err := c.edge(link("HAS_PART", doc, BaseDocument, k.ID, BaseChunk, nil)); err != nil {
		return err
	}
	prev := c.prev
	if c.prevDoc != k.Document {
		prev = ""
	}
	c.prev, c.prevDoc = k.ID, k.Document
	if prev == "" {
		return nil
	}
	return c.edge(link("NEXT_CHUNK", prev, BaseChunk, k.ID, BaseChunk, nil))
}

func (c *converter) entity(e graph.EntityRow) error {
	props := set(map[string]any{"name": e.Name, "type": e.Type, "merge_key": e.MergeKey})
	for name, p := range e.Properties {
		props[propName(name)] = scalar(p.Value)
	}
	labels := e.Labels
	if len(labels) == 0 {
		labels = []string{e.Type}
	}
	if err := c.node(Node{ID: e.ID, Base: BaseEntity, Labels: append([]string{BaseEntity}, without(labels, BaseEntity)...), Props: props}); err != nil {
		return err
	}
	for _, m := range byChunk(e.Mentions) {
		edge := link("MENTIONED_IN", e.ID, BaseEntity, m[0].Chunk, BaseChunk, map[string]any{
			"mentions": asJSON(spans(m), 1), "confidence": best(m),
		})
		if err := c.edge(edge); err != nil {
			return err
		}
	}
	return nil
}

func byChunk(in []graph.MentionRow) [][]graph.MentionRow {
	at := map[string]int{}
	var out [][]graph.MentionRow
	for _, m := range in {
		i, ok := at[m.Chunk]
		if !ok {
			i = len(out)
			at[m.Chunk], out = i, append(out, nil)
		}
		out[i] = append(out[i], m)
	}
	return out
}

func spans(in []graph.MentionRow) [][2]int {
	var out [][2]int
	for _, m := range in {
		out = append(out, [2]int{m.Start, m.End})
	}
	return out
}

func best(in []graph.MentionRow) float64 {
	c := 0.0
	for _, m := range in {
		c = max(c, m.Confidence)
	}
	return c
}

func (c *converter) relation(r graph.RelationRow) error {
	props := map[string]any{"evidence": asJSON(r.Evidence, 1), "evidence_count": int64(len(r.Evidence))}
	conf := 0.0
	for _, e := range r.Evidence {
		conf = max(conf, e.Confidence)
	}
	props["confidence"] = conf
	for name, v := range r.Properties {
		props[propName(name)] = relationValue(v)
	}
	return c.edge(Edge{ID: r.ID, Type: r.Type, Source: r.Source, SourceBase: BaseEntity, Target: r.Target, TargetBase: BaseEntity, Props: props})
}

// relationValue takes the value out of a property row, where it is one.
func relationValue(v any) any {
	if m, ok := v.(map[string]any); ok {
		if x, has := m["value"]; has {
			return scalar(x)
		}
	}
	return scalar(v)
}

func (c *converter) match(m struct {
	ID     string  `json:"id"`
	A      string  `json:"a"`
	B      string  `json:"b"`
	Method string  `json:"method"`
	Score  float64 `json:"score"`
	State  string  `json:"state"`
}) error {
	return c.edge(Edge{ID: m.ID, Type: "MATCHES", Source: m.A, SourceBase: BaseEntity, Target: m.B, TargetBase: BaseEntity,
		Props: map[string]any{"method": m.Method, "score": m.Score, "state": m.State}})
}

func (c *converter) candidate(k struct {
	graph.CandidateRow
	ID    string `json:"id"`
	State string `json:"state"`
}) error {
	id := k.ID
	if id == "" {
		id = "candidate:" + k.Document + ":" + k.Key
	}
	n := Node{ID: id, Base: BaseCandidate, Labels: []string{BaseCandidate}, Props: set(map[string]any{
		"name": k.Text, "type": k.CandidateKind, "label": k.Label, "key": k.Key, "document": k.Document, "state": k.State,
		"source_text": k.SourceText, "target_text": k.TargetText, "count": int64(k.Count), "confidence": k.Confidence,
		"reasons": asJSON(k.Reasons, len(k.Reasons)), "start": int64(k.Start), "end": int64(k.End),
	})}
	if err := c.node(n); err != nil {
		return err
	}
	for _, e := range []struct{ kind, to, base string }{
		{"EVIDENCED_BY", k.Chunk, BaseChunk}, {"SOURCE", k.SourceEntity, BaseEntity}, {"TARGET", k.TargetEntity, BaseEntity},
	} {
		if e.to == "" {
			continue
		}
		if err := c.edge(link(e.kind, id, BaseCandidate, e.to, e.base, nil)); err != nil {
			return err
		}
	}
	return nil
}

func link(kind, from, fromBase, to, toBase string, props map[string]any) Edge {
	return Edge{ID: kind + ":" + from + ":" + to, Type: kind, Source: from, SourceBase: fromBase, Target: to, TargetBase: toBase, Props: props}
}

// set drops empty texts: an absent attribute and an empty one say the same.
func set(m map[string]any) map[string]any {
	for k, v := range m {
		if v == "" {
			delete(m, k)
		}
	}
	return m
}

// asJSON writes lists and maps, which the graph formats have no type for, as one text; empty for n 0.
func asJSON(v any, n int) string {
	if n == 0 {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil { // came out of JSON
		return ""
	}
	return string(b)
}

// scalar keeps strings, numbers and booleans of decoded JSON; whole numbers become int64, lists and maps one text of JSON.
func scalar(v any) any {
	switch x := v.(type) {
	case nil:
		return ""
	case string, bool, int64:
		return x
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		if f, err := x.Float64(); err == nil {
			return f
		}
		return x.String()
	}
	return asJSON(v, 1)
}

func without(in []string, drop string) []string {
	var out []string
	for _, s := range in {
		if s != drop {
			out = append(out, s)
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
