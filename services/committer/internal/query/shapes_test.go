package query

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// object is a JSON object with numbers as they were written.
type object = map[string]any

func toObject(t *testing.T, v any) object {
	t.Helper()
	b, ok := v.([]byte)
	if !ok {
		var err error
		b, err = json.Marshal(v)
		require.NoError(t, err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var o object
	require.NoError(t, d.Decode(&o))
	return o
}

// keysOf is an object's keys, sorted.
func keysOf(t *testing.T, v any) string {
	t.Helper()
	o, ok := v.(object)
	require.True(t, ok, "%v is no object", v)
	return strings.Join(slices.Sorted(maps.Keys(o)), " ")
}

// each calls fn with every object of a list, of which there must be some.
func each(t *testing.T, list any, fn func(o object)) {
	t.Helper()
	l, ok := list.([]any)
	require.True(t, ok, "%v is no list", list)
	require.NotEmpty(t, l)
	for _, x := range l {
		o, ok := x.(object)
		require.True(t, ok, "%v is no object", x)
		fn(o)
	}
}

// numbers calls fn with every number at any depth.
func numbers(v any, fn func(json.Number)) {
	switch x := v.(type) {
	case json.Number:
		fn(x)
	case []any:
		for _, y := range x {
			numbers(y, fn)
		}
	case object:
		for _, y := range x {
			numbers(y, fn)
		}
	}
}

// decide commits a decision on a candidate key.
func (d *desk) decide(key, state string) {
	d.tb.Helper()
	txn, err := d.st.Begin(d.tb.Context(), g)
	require.NoError(d.tb, err)
	_, err = txn.Decide(d.tb.Context(), key, state)
	require.NoError(d.tb, err)
	_, err = txn.Finish(d.tb.Context(), nil)
	require.NoError(d.tb, err)
}

// The rows of the canonical export have the fields of the contract and no others, whatever became of the candidates.
func TestCanonicalRowsAreTheContracts(t *testing.T) {
	d := newDesk(t)
	docs := exportCorpus()
	docs[1].candidate("Planet", "London").candidate("Verb", "knew")
	d.commit(docs...)
	d.decide("entity|planet|london", api.StateApproved)
	d.decide("entity|verb|knew", api.StateRejected)
	want := map[string]string{
		"document":  "chunker_fingerprint content_date content_hash extraction_fingerprint id key kind metadata published_at schema_fingerprint scope title",
		"chunk":     "content document end heading_path id index kind prefix start text",
		"entity":    "id kind labels mentions merge_key name properties type",
		"relation":  "evidence id kind properties source target type",
		"candidate": "candidate_kind chunk confidence count document end key kind label reasons source_entity source_text start target_entity target_text text",
		"decision":  "key kind state",
	}
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(d.export(api.Export{Canonical: true})), "\n") {
		row := toObject(t, []byte(line))
		kind, _ := row["kind"].(string)
		seen[kind]++
		require.Equal(t, want[kind], keysOf(t, row))
		numbers(row, func(n json.Number) {
			_, digits, _ := strings.Cut(n.String(), ".")
			require.LessOrEqual(t, len(digits), 6, line)
		})
		switch kind {
		case "chunk", "candidate":
			require.Contains(t, []string{"ada", "bab", docs[2].c.Meta.Key}, row["document"])
		case "entity":
			each(t, row["mentions"], func(m object) { require.Equal(t, "chunk confidence end start", keysOf(t, m)) })
			for _, p := range row["properties"].(object) {
				require.Equal(t, "evidence others value", keysOf(t, p))
				for _, c := range p.(object)["evidence"].([]any) {
					require.IsType(t, "", c)
				}
				for _, o := range p.(object)["others"].([]any) {
					require.Equal(t, "evidence value", keysOf(t, o))
				}
			}
		case "relation":
			each(t, row["evidence"], func(e object) {
				require.Equal(t, "assertion chunk confidence end extractors quote start", keysOf(t, e))
			})
		}
	}
	require.Equal(t, map[string]int{"document": 3, "chunk": 4, "entity": 4, "relation": 4, "candidate": 3, "decision": 2}, seen)
	require.Contains(t, d.export(api.Export{Canonical: true}), `"key":"entity|planet|london","kind":"candidate"`)
	require.NotContains(t, d.export(api.Export{Canonical: true}), `"key":"entity|verb|knew","kind":"candidate"`)
}

const (
	evidenceKeys = "assertion chunk confidence document end extractors quote start"
	entityKeys   = "documents_total evidence id kind labels mentions mentions_total merge_key name properties type"
	relationKeys = "evidence evidence_total id kind properties source source_name target target_name type"
	chunkKeys    = "content document document_id end heading_path id index kind prefix start text"
)

// replies checks the rows of replies against the texts they come from.
type replies struct {
	t     *testing.T
	texts map[string]string // by document key
}

func (r replies) evidence(list any) {
	each(r.t, list, func(e object) {
		require.Equal(r.t, evidenceKeys, keysOf(r.t, e))
		start, err := e["start"].(json.Number).Int64()
		require.NoError(r.t, err)
		end, err := e["end"].(json.Number).Int64()
		require.NoError(r.t, err)
		text, ok := r.texts[e["document"].(string)]
		require.True(r.t, ok, "%v is a document's key", e["document"])
		require.Equal(r.t, text[start:end], e["quote"])
	})
}

func (r replies) entity(o object) {
	require.Equal(r.t, entityKeys, keysOf(r.t, o))
	r.evidence(o["evidence"])
	each(r.t, o["mentions"], func(m object) {
		require.Equal(r.t, "chunk confidence document end quote start", keysOf(r.t, m))
	})
	for _, p := range o["properties"].(object) {
		require.Equal(r.t, "evidence others value", keysOf(r.t, p))
		r.evidence(p.(object)["evidence"])
		for _, x := range p.(object)["others"].([]any) {
			require.Equal(r.t, "evidence value", keysOf(r.t, x))
			r.evidence(x.(object)["evidence"])
		}
	}
}

func (r replies) relation(o object) {
	require.Equal(r.t, relationKeys, keysOf(r.t, o))
	r.evidence(o["evidence"])
}

// Every fact in a reply has its evidence in full, and replies have the fields of the contract.
func TestRepliesAreTheContracts(t *testing.T) {
	d := newDesk(t)
	r := replies{t, map[string]string{}}
	docs := exportCorpus()
	for _, x := range docs {
		r.texts[x.c.Meta.Key] = x.c.Text
	}
	d.commit(docs...)
	ask := func(v any, err error) object {
		t.Helper()
		require.NoError(t, err)
		return toObject(t, v)
	}

	got, err := d.q.Entity(t.Context(), g, api.EntityGet{Type: "Person", Name: "Ada Lovelace"})
	o := ask(got, err)
	require.Equal(t, "entity relations relations_total seq", keysOf(t, o))
	r.entity(o["entity"].(object))
	require.Len(t, o["entity"].(object)["properties"], 2)
	require.NotEmpty(t, o["entity"].(object)["properties"].(object)["born"].(object)["others"])
	each(t, o["relations"], r.relation)

	for _, sub := range []func() (api.Subgraph, error){
		func() (api.Subgraph, error) {
			return d.q.Neighbors(t.Context(), g, api.Neighbors{ID: entID(acme), Depth: 3})
		},
		func() (api.Subgraph, error) {
			return d.q.Path(t.Context(), g, api.Path{From: "Charles Babbage", To: "London"})
		},
	} {
		s, err := sub()
		o = ask(s, err)
		require.Equal(t, "edges nodes seq", keysOf(t, o))
		each(t, o["nodes"], r.entity)
		each(t, o["edges"], r.relation)
	}

	hits, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace", Limit: 50})
	o = ask(hits, err)
	require.Equal(t, "hits seq", keysOf(t, o))
	kinds := map[any]int{}
	each(t, o["hits"], func(h object) {
		require.Equal(t, "id kind matches row score snippet", keysOf(t, h))
		kinds[h["kind"]]++
		row := h["row"].(object)
		require.Equal(t, h["id"], row["id"])
		switch h["kind"] {
		case "entity":
			r.entity(row)
		case "relation":
			r.relation(row)
		default:
			require.Equal(t, chunkKeys, keysOf(t, row))
			require.Contains(t, r.texts, row["document"])
		}
	})
	require.Equal(t, map[any]int{"entity": 1, "relation": 3, "chunk": 4}, kinds)

	for _, id := range []string{entID(ada), relID("WORKS_FOR", ada, acme)} {
		ev, err := d.q.Evidence(t.Context(), g, api.EvidenceGet{ID: id})
		o = ask(ev, err)
		require.Equal(t, "evidence id kind seq total", keysOf(t, o))
		r.evidence(o["evidence"])
	}

	doc, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada", Text: true, Items: true})
	o = ask(doc, err)
	require.Equal(t, "chunks document items revision schema_name schema_revision schema_version seq state text version versions", keysOf(t, o))
	each(t, o["chunks"], func(c object) { require.Equal(t, chunkKeys, keysOf(t, c)) })

	stats, err := d.q.Stats(t.Context(), g)
	require.Equal(t, "candidate_no candidates chunks documents entities entities_by_type graph matches mentions relations relations_by_type schema schema_fingerprint seq",
		keysOf(t, ask(stats, err)))
	types, err := d.q.RelationTypes(t.Context(), g, api.RelationTypesGet{})
	require.Equal(t, "relation_types seq", keysOf(t, ask(types, err)))
}

// A property without room for evidence is left out and counted.
func TestPropertiesThatDoNotFit(t *testing.T) {
	d := newDesk(t)
	quote := strings.Repeat("very long ", 4000) + "quote"
	x := newDoc("a", "Ada Lovelace. "+quote)
	x.say(ada)
	for _, p := range []string{"born", "score", "title"} {
		x.property(ada, p, p, quote, 0.7)
	}
	d.commit(x)
	err := d.q.with(t.Context(), g, 0, "", func(v *view) error {
		e, _, err := v.sn.Entity(entID(ada))
		require.NoError(t, err)
		b := budget(100 << 10)
		row, ok, err := v.entityRow(e, 5, &b)
		require.True(t, ok)
		require.Len(t, row.Properties, 2)
		require.Equal(t, 3, row.PropertiesTotal)
		for _, p := range row.Properties {
			require.Equal(t, graph.Sources{{Assertion: "explicit", Chunk: x.chunkID(0), Confidence: 0.7, Document: "a", Start: 14, End: 14 + len(quote),
				Extractors: []string{"rules"}, Quote: quote}}, p.Evidence)
		}
		return err
	})
	require.NoError(t, err)
}
