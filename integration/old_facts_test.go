package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/testkit"
)

// notFacts are the verbs that a reader may ask and that show no facts, or show other things by contract.
var notFacts = map[string]string{
	"query.candidates":       "what waits for review, marked so",
	"review.list":            "what waits for review, and what was decided",
	"review.show":            "as list",
	"review.stats":           "as list",
	"review.audit":           "what was decided, for ever",
	"review.patch":           "what was approved",
	"review.policy":          "what a policy would do with what waits",
	"jobs.get":               "what a job did, by name, removals too",
	"jobs.list":              "as get",
	"schema.get":             "the words that the schema names",
	"schema.history":         "as get",
	"registry.get":           "names that people declared",
	"registry.list":          "as get",
	"registry.lookup":        "as get",
	"dead-letters.list":      "work that failed",
	"dead-letters.show":      "as list",
	"settings.get":           "settings",
	"vectors.status":         "counts",
	"query.health":           "what is the matter with the service",
	"replica.entity":         "as query.entity, by the same code over a copy; so are the others of replica",
	"replica.search":         "as query.search",
	"replica.neighbors":      "as query.neighbors",
	"replica.path":           "as query.path",
	"replica.evidence":       "as query.evidence",
	"replica.document":       "as query.document",
	"replica.documents":      "as query.documents",
	"replica.entities":       "as query.entities",
	"replica.relations":      "as query.relations",
	"replica.stats":          "as query.stats",
	"replica.export":         "as query.export",
	"replica.verify":         "as query.verify",
	"replica.relation_types": "as query.relation_types",
}

// subject is what a reader asks about.
type subject struct {
	keys     []string // of documents
	ids      []string // of entities and relations
	entities []string // "Type:name"
	words    []string
}

// readings are requests that would show a subject if anything did, for each verb that shows facts.
func readings(s subject) map[string][]any {
	out := map[string][]any{
		"query.stats": {nil}, "query.seq": {nil}, "query.relation_types": {nil}, "query.verify": {map[string]any{"schema": true}},
		"query.documents": {map[string]any{}}, "query.entities": {map[string]any{"limit": 1000}}, "query.relations": {map[string]any{"limit": 1000}},
		"query.stored": {map[string]any{"keys": s.keys}}, "query.export": {map[string]any{"text": true}},
	}
	add := func(verb string, req map[string]any) { out[verb] = append(out[verb], req) }
	for _, k := range s.keys {
		add("query.document", map[string]any{"key": k, "text": true})
	}
	for _, id := range s.ids {
		for _, raw := range []bool{false, true} {
			add("query.entity", map[string]any{"id": id, "raw": raw})
		}
		add("query.neighbors", map[string]any{"id": id, "depth": 3})
		add("query.evidence", map[string]any{"id": id})
	}
	for i, e := range s.entities {
		typ, name, _ := strings.Cut(e, ":")
		for _, t := range []string{typ, ""} {
			add("query.entity", map[string]any{"type": t, "name": name})
			add("query.neighbors", map[string]any{"type": t, "name": name, "depth": 3})
		}
		for _, other := range s.entities[i+1:] {
			add("query.path", map[string]any{"from": e, "to": other, "max_depth": 8})
			add("query.path", map[string]any{"from": other, "to": e, "max_depth": 8})
		}
	}
	for _, q := range s.words {
		for _, mode := range []string{"lexical", "vector", "hybrid"} {
			for _, raw := range []bool{false, true} {
				add("query.search", map[string]any{"q": q, "mode": mode, "limit": 100, "raw": raw})
			}
		}
	}
	return out
}

// told is everything that a reader is told about a subject, by request. Each verb that readers may ask is asked, or stands in notFacts.
func (c *cluster) told(graph string, s subject) map[string]string {
	c.t.Helper()
	asks, out := readings(s), map[string]string{}
	for _, n := range rights.Verbs {
		for v := range n.Verbs {
			verb := n.Noun + "." + v
			if !rights.Reader.May(n.Noun, v) || notFacts[verb] != "" {
				continue
			}
			require.NotEmpty(c.t, asks[verb], "readers may ask %s: give requests for it in readings, or say in notFacts why not", verb)
			for _, req := range asks[verb] {
				var raw json.RawMessage
				err := c.conn.Request(c.t.Context(), "factmill."+graph+"."+verb, req, &raw)
				var no *api.Error
				if errors.As(err, &no) {
					require.Contains(c.t, []string{"entity_not_found", "document_not_found"}, no.Code, "%s: %s", verb, no.Message)
					raw, err = json.Marshal(no.Details)
				}
				require.NoError(c.t, err, verb)
				asked, err := json.Marshal(req)
				require.NoError(c.t, err)
				out[verb+" "+string(asked)] = string(raw)
			}
		}
	}
	return out
}

// silent demands that nothing of what readers are told has one of the marks.
func silent(t testing.TB, told map[string]string, marks []string, when string) {
	t.Helper()
	for asked, reply := range told {
		for _, m := range marks {
			require.NotContains(t, strings.ToLower(reply), strings.ToLower(m), "%s: %s", when, asked)
		}
	}
}

// speaking counts the requests of a verb that are told one of the marks.
func speaking(told map[string]string, verb string, marks []string) (n int) {
	for asked, reply := range told {
		for _, m := range marks {
			if strings.HasPrefix(asked, verb+" ") && strings.Contains(strings.ToLower(reply), strings.ToLower(m)) {
				n++
				break
			}
		}
	}
	return n
}

const quill = `
name: quill
entities: {Person: {properties: {born: integer}}, Organization: {}}
relations: {WORKS_FOR: {patterns: ["Person->Organization"]}}
review: {stale: %s}
rules:
  entities:
    Person: {names: [Quillan, Mo]}
    Organization: {names: [Quorra, Orva]}
  relations:
    WORKS_FOR: {phrases: ["works for"]}
`

// Once a document says something no more, or is no more, or a person withdrew what it said, no reader is told of it by any verb, words and
// vectors alike; who asks for history is.
func TestWhatIsGoneIsShownToNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	const old, new = "Quillan works for Quorra. The quillfeather is blue.", "Mo works for Orva. The sky is grey."
	entity := func(label, name string) string { return fingerprint.EntityID(label, name) }
	works := fingerprint.RelationID("WORKS_FOR", entity("Person", "quillan"), entity("Organization", "quorra"), false)
	s := subject{keys: []string{"doc-1"}, ids: []string{entity("Person", "quillan"), entity("Organization", "quorra"), works},
		entities: []string{"Person:Quillan", "Organization:Quorra", "Person:Mo", "Organization:Orva"},
		words:    []string{"Quillan", "who works for Quorra?", "quillfeather", "qillan", "quilfeather is blue"}}
	marks := append([]string{"quillan", "quorra", "quillfeather"}, s.ids...)
	gone := map[string]func(g string){
		"update": func(g string) { f.run(g, map[string]any{"documents": []any{doc("doc-1", new)}}) },
		"delete": func(g string) { f.remove(g, "doc-1") },
		"withdrawal": func(g string) {
			f.run(g, map[string]any{"documents": []any{doc("doc-1", new)}})
			kept := f.told(g, s)
			require.Positive(t, speaking(kept, "query.relations", marks), "it waits, and is a fact until somebody decides")
			silent(t, map[string]string{"": kept[`query.search {"limit":100,"mode":"lexical","q":"quillfeather","raw":false}`]}, []string{"quillfeather"}, "its text is gone")
			f.decideStale(g, "approve")
		},
	}
	for what, end := range gone {
		g := what
		policy := "withdraw"
		if what == "withdrawal" {
			policy = "review"
		}
		f.putSchema(g, fmt.Sprintf(quill, policy))
		first := f.settled(g, f.publish(g, map[string]any{"documents": []any{doc("doc-1", old), doc("doc-2", new)}}))
		testkit.Await(t, "the vectors of "+g, func() bool {
			r := ask[api.SearchReply](f.cluster, g, "query.search", api.Search{Q: "qillan", Mode: "vector", Kinds: []string{"entity"}})
			return len(r.Hits) > 0
		})
		before := f.told(g, s)
		for _, verb := range []string{"query.search", "query.entity", "query.neighbors", "query.path", "query.evidence", "query.document", "query.entities", "query.relations", "query.export"} {
			require.Positive(t, speaking(before, verb, marks), "%s shows it while it is there", verb)
		}
		end(g)
		silent(t, f.told(g, s), marks, what+", at once")
		testkit.Await(t, "the vectors of "+g, func() bool {
			return ask[api.VectorsReply](f.cluster, g, "vectors.status", nil).Behind == 0
		})
		silent(t, f.told(g, s), marks, what)

		// By history on request.
		require.Equal(t, "Quillan works for Quorra.", ask[api.EvidenceReply](f.cluster, g, "query.evidence", api.EvidenceGet{ID: works, History: true}).Evidence[0].Quote)
		require.Equal(t, old, f.documentAt(g, map[string]any{"key": "doc-1", "version": 1, "text": true}).Text)
		was := ask[api.SearchReply](f.cluster, g, "query.search", api.Search{Q: "quillfeather", AsOf: first.CommitSeq})
		require.Contains(t, was.Hits[0].Snippet, "quillfeather")
		require.Equal(t, first.CommitSeq, was.Seq)
		then := ask[api.EntityReply](f.cluster, g, "query.entity", api.EntityGet{Type: "Person", Name: "Quillan", AsOf: first.CommitSeq})
		require.Equal(t, works, then.Relations[0].ID)
		for _, mode := range []string{"vector", "hybrid"} {
			require.Equal(t, "bad_value", refused(f.cluster, g, "query.search", api.Search{Q: "quillan", Mode: mode, AsOf: first.CommitSeq}).Code)
		}
		f.sound(g)
	}
}
