package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

func caseFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases", "docs", name))
	require.NoError(t, err)
	return string(b)
}

// TestCasesThroughThePipeline ingests every document case at once and looks at what its manifest says.
func TestCasesThroughThePipeline(t *testing.T) {
	c := allInOne(t)
	dir, err := filepath.Abs(filepath.Join("testdata", "cases"))
	require.NoError(t, err)
	r := runIn(t, dir, "", "ingest", "docs", "--error-policy", "skip", "--json", "--nats", c.url)
	require.Equal(t, 4, r.code, r.stderr)
	var s api.JobStatus
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &s))
	require.Equal(t, api.JobCommitted, s.State)
	require.Equal(t, 1, s.Documents.Skipped)
	require.Equal(t, "docs/bad_cp1252.txt", s.Stages.Ingestion.List[0].Item)
	require.Equal(t, "bad_encoding", s.Stages.Ingestion.List[0].Code)
	c.sound("default")

	doc := func(name string) api.DocumentReply {
		return ask[api.DocumentReply](c, "default", "query.document", map[string]any{"key": "docs/" + name, "text": true, "items": true})
	}
	for _, name := range []string{"html_nocharset.html", "utf16le.txt", "thead_only.html", "table_in.md", "spaces.txt", "unbroken.txt", "long_table.md",
		"headings_only.md", "lf.txt", "crlf.txt", "emoji.txt", "braces.txt", "injection.txt", "nofacts.txt", "empty.txt", "blank.txt"} {
		d := doc(name)
		require.Equal(t, "open", d.State, name)
		for _, ch := range d.Chunks {
			require.Equal(t, ch.Text, d.Text[ch.Start:ch.End], name)
			require.NotEmpty(t, strings.TrimSpace(ch.Text), name)
		}
	}
	require.Contains(t, doc("html_nocharset.html").Text, "Привет, Zoë works at Größe GmbH.")
	require.Equal(t, "서울의 Acme 회사", strings.TrimSpace(doc("utf16le.txt").Text))
	require.Empty(t, doc("empty.txt").Chunks)
	require.Empty(t, doc("blank.txt").Chunks)
	require.Contains(t, doc("thead_only.html").Text, "Name")
	require.Contains(t, doc("thead_only.html").Text, "Role")
	require.NotEmpty(t, doc("headings_only.md").Chunks)
	require.Contains(t, joined(doc("table_in.md")), "Ann")
	require.Contains(t, joined(doc("table_in.md")), "CEO")
	require.Contains(t, doc("braces.txt").Text, "{{.Foo}} and %s %d")
	require.Equal(t, doc("bom.txt").Document.ContentHash, doc("nobom.txt").Document.ContentHash)
	require.NotEqual(t, doc("a/readme.md").Document.ID, doc("b/readme.md").Document.ID)

	for _, ch := range doc("long_table.md").Chunks {
		whole := ch.Prefix + ch.Text
		require.Contains(t, whole, "| name | role |")
		require.Contains(t, whole, "|---|---|")
		require.LessOrEqual(t, strings.Count(whole, "Table 1: staff"), 1)
	}
	for _, it := range doc("injection.txt").Items.Items {
		require.False(t, it.Outcome == "fact" && (it.Kind != "entity" || it.Label != "Person") && strings.Contains(it.Text+it.SourceText+it.TargetText, "Mallory"), "%+v", it)
	}
	require.Equal(t, []string{}, facts(doc("nofacts.txt")))
	emoji := doc("emoji.txt")
	for _, it := range emoji.Items.Items {
		require.Contains(t, strings.Join(strings.Fields(emoji.Text[it.Start:it.End]), " "), strings.Fields(it.Text)[0], "%+v", it)
	}
	require.NotEmpty(t, facts(emoji))
}

func joined(d api.DocumentReply) string {
	var b strings.Builder
	for _, ch := range d.Chunks {
		b.WriteString(ch.Text + "\n")
	}
	return b.String()
}

func facts(d api.DocumentReply) []string {
	out := []string{}
	for _, it := range d.Items.Items {
		if it.Outcome == "fact" {
			out = append(out, it.Kind+" "+it.Label+" "+it.Text)
		}
	}
	return out
}

// TestDeletionCase is the scenario of the two employees of Acme.
func TestDeletionCase(t *testing.T) {
	c := allInOne(t)
	put := func(key, file string) {
		c.await("default", c.publish("default", map[string]any{"key": key, "text": caseFile(t, file)}), api.JobCommitted)
	}
	del := func(key string) api.JobStatus {
		return c.await("default", c.publish("default", map[string]any{"op": "delete", "key": key}), api.JobCommitted)
	}
	put("a", "del_a.txt")
	onlyA := c.export("default")
	put("b", "del_b.txt")
	both := c.export("default")
	acme := func() api.EntityReply {
		return ask[api.EntityReply](c, "default", "query.entity", map[string]any{"type": "Organization", "name": "Acme"})
	}
	require.Equal(t, 2, acme().RelationsTotal)

	s := del("a")
	require.Equal(t, 1, s.Documents.Deleted)
	require.Equal(t, 1, s.Stages.Storage.EntitiesRemoved)
	require.Equal(t, "entity_not_found", refused(c, "default", "query.entity", map[string]any{"type": "Person", "name": "Alice"}).Code)
	e := acme()
	require.Equal(t, 1, e.RelationsTotal)
	require.Len(t, e.Entity.Evidence, 1)
	require.Equal(t, "b", e.Entity.Evidence[0].Document)
	c.sound("default")

	del("b")
	require.Empty(t, c.export("default"), "nothing is left")
	c.sound("default")
	again := del("b")
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, again.Documents)

	put("a", "del_a.txt")
	require.Equal(t, onlyA, c.export("default"))
	put("b", "del_b.txt")
	require.Equal(t, both, c.export("default"))
}

// TestNamesCase: names that are the same are one entity, the others are not.
func TestNamesCase(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "cases", "names.json"))
	require.NoError(t, err)
	var names struct {
		Same      [][2]string `json:"same"`
		Different [][2]string `json:"different"`
		Linked    [][2]string `json:"linked_not_merged"`
	}
	require.NoError(t, json.Unmarshal(b, &names))
	require.NotEmpty(t, names.Same)
	id := func(s string) string { return fingerprint.EntityID("Organization", fingerprint.Fold(s)) }
	for _, p := range names.Same {
		require.Equal(t, id(p[0]), id(p[1]), "%q and %q", p[0], p[1])
	}
	for _, p := range append(names.Different, names.Linked...) {
		require.NotEqual(t, id(p[0]), id(p[1]), "%q and %q", p[0], p[1])
	}
	// Through the pipeline: two spellings of one name in two documents are one entity with two mentions.
	c := allInOne(t)
	c.await("default", c.publish("default", map[string]any{"documents": []map[string]any{
		{"key": "one", "text": "Alice works at Acme Ltd."}, {"key": "two", "text": "Bob works at ＡＣＭＥ  Ltd."},
	}}), api.JobCommitted)
	e := ask[api.EntityReply](c, "default", "query.entity", map[string]any{"type": "Organization", "name": "acme ltd"})
	require.Equal(t, 2, e.Entity.DocumentsTotal)
}
