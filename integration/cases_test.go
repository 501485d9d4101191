package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/token"
)

// cases is the directory of small inputs of kinds that broke others.
func cases(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "cases"))
	require.NoError(t, err)
	return dir
}

// loaded is one document of the cases after the whole pipeline.
type loaded struct {
	t      *testing.T
	text   string
	row    graph.DocumentRow
	chunks []graph.ChunkRow
	facts  []string // "Type name" of entities it mentions, and "Source TYPE Target"
}

func (l loaded) whole() string {
	var b strings.Builder
	for _, c := range l.chunks {
		b.WriteString(c.Prefix + c.Text + "\n")
	}
	return b.String()
}

// tokens of a chunk as a model is given it.
func tokens(c graph.ChunkRow) int { return token.Count(c.Prefix + c.Text) }

// checks says for each document of the cases what must hold after the pipeline, with the manifest's words next to it.
var checks = map[string]func(l loaded){
	"html_nocharset.html": func(l loaded) { require.Contains(l.t, l.text, "Привет, Zoë works at Größe GmbH.") },
	"utf16le.txt":         func(l loaded) { require.Equal(l.t, "서울의 Acme 회사", strings.TrimPrefix(l.text, "\ufeff")) },
	"bom.txt": func(l loaded) {
		require.Equal(l.t, "Alice works at Acme.", l.text)
		require.Equal(l.t, fingerprint.ContentHash("Alice works at Acme."), l.row.ContentHash)
		require.Equal(l.t, []string{"Alice WORKS_FOR Acme", "Organization Acme", "Person Alice"}, l.facts)
	},
	"nobom.txt": func(l loaded) {
		require.Equal(l.t, fingerprint.ContentHash("Alice works at Acme."), l.row.ContentHash)
		require.Equal(l.t, []string{"Alice WORKS_FOR Acme", "Organization Acme", "Person Alice"}, l.facts)
	},
	"empty.txt": func(l loaded) { require.Empty(l.t, l.text); require.Empty(l.t, l.chunks) },
	"blank.txt": func(l loaded) { require.Empty(l.t, strings.TrimSpace(l.text)); require.Empty(l.t, l.chunks) },
	"thead_only.html": func(l loaded) {
		require.Contains(l.t, l.whole(), "Name")
		require.Contains(l.t, l.whole(), "Role")
	},
	"table_in.md": func(l loaded) {
		require.True(l.t, slices.ContainsFunc(l.chunks, func(c graph.ChunkRow) bool {
			return strings.Contains(c.Text, "Ann") && strings.Contains(c.Text, "CEO")
		}), l.whole())
		require.Contains(l.t, l.whole(), "Before")
		require.Contains(l.t, l.whole(), "After")
	},
	"a/readme.md": func(l loaded) { require.Equal(l.t, "# A\nAlice leads Apollo.\n", l.text) },
	"b/readme.md": func(l loaded) { require.Equal(l.t, "# B\nBob leads Borealis.\n", l.text) },
	"spaces.txt": func(l loaded) {
		require.NotEmpty(l.t, l.chunks)
		for _, c := range l.chunks {
			require.NotEmpty(l.t, strings.TrimSpace(c.Text))
		}
	},
	"unbroken.txt": func(l loaded) {
		require.Greater(l.t, len(l.chunks), 1)
		joined := ""
		for _, c := range l.chunks {
			require.LessOrEqual(l.t, tokens(c), caseSize)
			joined += c.Text
		}
		require.Equal(l.t, strings.ReplaceAll(strings.TrimSpace(l.text), " ", ""), strings.ReplaceAll(joined, " ", ""))
	},
	"long_table.md": func(l loaded) {
		captions := 0
		for _, c := range l.chunks {
			shown := c.Prefix + c.Text
			require.Contains(l.t, shown, "| name | role |\n|---|---|\n")
			require.LessOrEqual(l.t, tokens(c), caseSize)
			captions += strings.Count(c.Text, "Table 1: staff")
		}
		require.Greater(l.t, len(l.chunks), 5)
		require.Equal(l.t, 1, captions, "the caption belongs to one chunk")
		for i := range 100 {
			row := fmt.Sprintf("| Person%d | Role%d |", i, i)
			require.Equal(l.t, strings.Count(l.text, row), strings.Count(l.whole(), row), row)
		}
	},
	"headings_only.md": func(l loaded) { require.NotEmpty(l.t, l.chunks) },
	"lf.txt": func(l loaded) {
		require.Equal(l.t, "Acme hired Ann.\nAnn lives in Paris.\nBob left.\nCarol stays.\nDan joined Acme.\n", l.text)
	},
	"crlf.txt": func(l loaded) {
		require.Equal(l.t, "Acme hired Ann.\nAnn lives in Paris.\nBob left.\nCarol stays.\nDan joined Acme.\n", l.text)
	},
	"emoji.txt": func(l loaded) { require.Contains(l.t, l.text, "👨‍👩‍👧 met Zoë") },
	"braces.txt": func(l loaded) {
		require.Equal(l.t, "Rule {w14 w15} says {{.Foo}} and %s %d for `Acme`.", l.chunks[0].Text)
	},
	"injection.txt": func(l loaded) {
		for _, f := range l.facts {
			require.False(l.t, strings.HasPrefix(f, "Mallory ") || strings.HasSuffix(f, " Mallory"), "%q: no relation of Mallory", f)
		}
	},
	"nofacts.txt": func(l loaded) { require.Empty(l.t, l.facts) },
	"del_a.txt":   func(l loaded) { require.Contains(l.t, l.facts, "Alice WORKS_FOR Acme") },
	"del_b.txt":   func(l loaded) { require.Contains(l.t, l.facts, "Bob WORKS_FOR Acme") },
}

// caseSize is a chunk size in which the long documents of the cases do not fit.
const caseSize = 64

// TestCases takes every document of the cases through the pipeline as one job.
func TestCases(t *testing.T) {
	c := allInOne(t)
	ask[api.SettingsReply](c, "default", "settings.put", api.SettingsPut{Settings: map[string]string{"chunker.size": fmt.Sprint(caseSize)}})
	docs := filepath.Join(cases(t), "docs")
	r := runIn(t, docs, "", "ingest", ".", "--nats", c.url, "--json")
	require.Equal(t, 1, r.code, "a typed failure rolls the job back under raise")
	s := loose[api.JobStatus](t, r.stdout)
	require.Contains(t, s.Reason, "bad_encoding")
	require.Contains(t, s.Reason, "bad_cp1252.txt")

	r = runIn(t, docs, "", "ingest", ".", "--error-policy", "skip", "--nats", c.url, "--json")
	require.Equal(t, 4, r.code, r.stderr)
	s = loose[api.JobStatus](t, r.stdout)
	require.Equal(t, api.DocumentCounts{Total: len(checks) + 1, Added: len(checks), Skipped: 1}, s.Documents, "the batch goes on")
	require.Equal(t, "bad_encoding", s.Stages.Ingestion.List[0].Code)
	require.Equal(t, "bad_cp1252.txt", s.Stages.Ingestion.List[0].Item)

	x := c.rows("default")
	c.sound("default")
	c.slices("default", x)
	byKey := map[string]*loaded{}
	for _, d := range x.documents {
		byKey[d.Key] = &loaded{row: d, text: c.document("default", d.Key, "").Text, facts: []string{}}
	}
	owner := map[string]string{}
	for _, ch := range x.chunks {
		owner[ch.ID] = ch.Document
		l := byKey[ch.Document]
		l.chunks = append(l.chunks, ch)
		require.Equal(t, l.text[ch.Start:ch.End], ch.Text)
	}
	factsOf(x, func(chunk, fact string) {
		if l := byKey[owner[chunk]]; !slices.Contains(l.facts, fact) {
			l.facts = append(l.facts, fact)
		}
	})
	for key, check := range checks {
		t.Run(key, func(t *testing.T) {
			l := byKey[key]
			require.NotNil(t, l)
			slices.Sort(l.facts)
			l.t = t
			check(*l)
		})
	}
	require.NotEqual(t, byKey["a/readme.md"].row.ID, byKey["b/readme.md"].row.ID)
	require.Equal(t, byKey["lf.txt"].row.ContentHash, byKey["crlf.txt"].row.ContentHash)
	for _, e := range x.entities {
		if e.Name == "Mallory" {
			require.Empty(t, e.Properties)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(cases(t), "MANIFEST.tsv"))
	require.NoError(t, err)
	for line := range strings.Lines(string(manifest)) {
		name, _, _ := strings.Cut(line, "\t")
		if key, ok := strings.CutPrefix(name, "docs/"); ok && key != "bad_cp1252.txt" {
			require.Contains(t, checks, key, "a case that no check looks at")
		}
	}
}

// factsOf tells each mention and each piece of evidence of a relation, with the chunk that says it.
func factsOf(x exported, fn func(chunk, fact string)) {
	names := map[string]string{}
	for _, e := range x.entities {
		names[e.ID] = e.Name
		for _, m := range e.Mentions {
			fn(m.Chunk, e.Type+" "+e.Name)
		}
	}
	for _, r := range x.relations {
		for _, ev := range r.Evidence {
			fn(ev.Chunk, names[r.Source]+" "+r.Type+" "+names[r.Target])
		}
	}
}

// TestDeleteAndComeBack is the deletion scenario of the cases: what another document states stays with that document's evidence alone,
// and the graph after a re-add is the first one to the byte.
func TestDeleteAndComeBack(t *testing.T) {
	c := allInOne(t)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(cases(t), "docs", name))
		require.NoError(t, err)
		return string(b)
	}
	a, b := doc("A", read("del_a.txt")), doc("B", read("del_b.txt"))
	empty := c.export("default")
	require.Empty(t, empty)
	c.add("default", a)
	onlyA := c.export("default")
	c.add("default", b)
	both := c.export("default")
	x := parseExport(t, both)
	require.Equal(t, []string{"Organization Acme", "Person Alice", "Person Bob"}, sorted(x.names()))
	require.Len(t, x.relations, 2)

	s := c.remove("default", "A")
	require.Equal(t, 1, s.Documents.Deleted)
	require.Contains(t, strings.Join(s.Removed, "\n"), "Alice")
	x = c.rows("default")
	require.Equal(t, []string{"Organization Acme", "Person Bob"}, sorted(x.names()))
	require.Equal(t, "entity_not_found", refused(c, "default", "query.entity", map[string]any{"type": "Person", "name": "Alice"}).Code)
	require.Len(t, x.relations, 1)
	require.Len(t, x.documents, 1)
	require.Len(t, x.chunks, 1)
	acme := ask[api.EntityReply](c, "default", "query.entity", map[string]any{"type": "Organization", "name": "Acme"})
	require.Len(t, acme.Relations, 1)
	require.Equal(t, "Bob", acme.Relations[0].SourceName)
	for _, e := range append(acme.Entity.Evidence, acme.Relations[0].Evidence...) {
		require.Equal(t, "B", e.Document)
		require.Equal(t, x.chunks[0].ID, e.Chunk)
	}
	hits := ask[api.SearchReply](c, "default", "query.search", map[string]any{"q": "Alice"})
	require.Empty(t, hits.Hits)
	c.sound("default")

	// What is left is what a graph is that never knew A.
	fresh := allInOne(t)
	fresh.add("default", b)
	onlyB := fresh.export("default")
	require.Equal(t, onlyB, c.export("default"))

	c.remove("default", "B")
	require.Equal(t, empty, c.export("default"))
	stats := ask[api.StatsReply](c, "default", "query.stats", nil)
	require.Zero(t, stats.Documents+stats.Chunks+stats.Entities+stats.Relations+stats.Mentions+stats.Candidates)
	c.sound("default")

	c.add("default", a)
	require.Equal(t, onlyA, c.export("default"))
	c.add("default", b)
	require.Equal(t, both, c.export("default"))
	c.sound("default")
}

// TestNames: names that fold to the same are one entity, others never are, whichever document says them. A list of names in the schema
// lets the extractor read every one of them.
func TestNames(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(cases(t), "names.json"))
	require.NoError(t, err)
	var pairs struct {
		Same      [][2]string `json:"same"`
		Different [][2]string `json:"different"`
		Linked    [][2]string `json:"linked_not_merged"`
	}
	require.NoError(t, json.Unmarshal(raw, &pairs))
	require.NotEmpty(t, pairs.Same)
	c := allInOne(t)
	// Each pair has a graph of its own, so that no other pair's names are in the way.
	entities := func(g string, pair [2]string) []graph.EntityRow {
		t.Helper()
		bare := sorted([]string{strings.Trim(pair[0], "\"“”"), strings.Trim(pair[1], "\"“”")})
		names, err := json.Marshal(slices.Compact(bare))
		require.NoError(t, err)
		ask[api.SchemaReply](c, g, "schema.put", api.SchemaPut{Schema: `{"entities":{"Term":"A word."},"relations":{},"rules":{"entities":{"Term":{"names":` + string(names) + `}}}}`})
		c.add(g, doc("one", "We looked at "+pair[0]+" today."), doc("two", "They know "+pair[1]+" well."))
		c.sound(g)
		x := c.rows(g)
		c.slices(g, x)
		return x.entities
	}
	for i, p := range pairs.Same {
		e := entities(fmt.Sprintf("same-%d", i), p)
		require.Len(t, e, 1, "%q and %q are one", p[0], p[1])
		require.Len(t, e[0].Mentions, 2)
		require.Equal(t, fingerprint.Fold(p[0]), fingerprint.Fold(p[1]))
		require.Contains(t, fingerprint.Fold(p[0]), e[0].MergeKey)
		require.Equal(t, fingerprint.EntityID("Term", e[0].MergeKey), e[0].ID)
	}
	for i, p := range append(pairs.Different, pairs.Linked...) {
		e := entities(fmt.Sprintf("different-%d", i), p)
		require.Len(t, e, 2, "%q and %q are two", p[0], p[1])
		require.Len(t, e[0].Mentions, 1, "%q", p)
		require.Len(t, e[1].Mentions, 1, "%q", p)
		require.Equal(t, sorted([]string{fingerprint.Fold(p[0]), fingerprint.Fold(p[1])}), sorted([]string{e[0].MergeKey, e[1].MergeKey}))
	}
}
