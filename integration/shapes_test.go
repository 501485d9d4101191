package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// ingestExample ingests the example corpus as a user does and returns the canonical export.
func (c *cluster) ingestExample() string {
	c.t.Helper()
	r := runIn(c.t, example(c.t), "", "ingest", "docs", "--schema", "schema.yaml", "--nats", c.url)
	require.Zero(c.t, r.code, r.stderr)
	c.sound("default")
	return c.export("default")
}

// TestBothShapesGiveTheSameGraph: one process, six processes, and three replicas of each stage.
func TestBothShapesGiveTheSameGraph(t *testing.T) {
	one := allInOne(t).ingestExample()
	require.Greater(t, strings.Count(one, "\n"), 500)
	six := sixProcesses(t, 1).ingestExample()
	require.Equal(t, one, six, "six processes")
	require.Equal(t, one, sixProcesses(t, 3).ingestExample(), "three replicas of each")
	want, err := os.ReadFile(filepath.Join(root, "examples", "observatories", "expected.jsonl"))
	require.NoError(t, err)
	require.Equal(t, string(want), one, "examples/observatories/expected.jsonl (make examples writes it anew)")
}

// TestContractOverNATS is what a user of the nats command types.
func TestContractOverNATS(t *testing.T) {
	c := allInOne(t)
	m, err := c.conn.NC.Request("factmill.default.ingest", []byte(`{"key":"a","text":"Ada Lovelace worked for Acme Ltd."}`), requestWait)
	require.NoError(t, err)
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	require.NoError(t, json.Unmarshal(m.Data, &ack))
	require.Equal(t, "FACTMILL_INGEST", ack.Stream)
	require.Equal(t, uint64(1), ack.Seq)

	s := c.await("default", "j1", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, s.Documents)

	e := ask[api.EntityReply](c, "default", "query.entity", map[string]any{"type": "Person", "name": "ada lovelace"})
	require.Equal(t, "Ada Lovelace", e.Entity.Name)
	require.Len(t, e.Relations, 1)
	require.Equal(t, "WORKS_FOR", e.Relations[0].Type)
	ev := e.Relations[0].Evidence[0]
	require.Equal(t, "a", ev.Document)
	require.Equal(t, "Ada Lovelace worked for Acme Ltd."[ev.Start:ev.End], ev.Quote)
	require.Contains(t, ev.Quote, "worked for")

	l := ask[api.ReviewListReply](c, "default", "review.list", map[string]any{})
	require.Empty(t, l.Groups)
	require.NotNil(t, l.Groups)

	names := map[string]bool{}
	for _, r := range c.ping() {
		names[r] = true
	}
	for _, s := range stages {
		require.True(t, names[s], "nats micro ls shows %s: %v", s, names)
	}

	require.Equal(t, 404, refused(c, "default", "jobs.get", map[string]any{"job": "j99"}).Status)
	require.Equal(t, "unknown_field", refused(c, "default", "jobs.get", map[string]any{"jobb": "j1"}).Code)
	require.Equal(t, "unknown_verb", refused(c, "default", "query.nope", map[string]any{}).Code)
	require.Equal(t, "entity_not_found", refused(c, "default", "query.entity", map[string]any{"type": "Person", "name": "nobody"}).Code)
	require.Equal(t, "bad_name", refused(c, "Default", "query.stats", map[string]any{}).Code)

	// Any other body is the text itself.
	m, err = c.conn.NC.Request("factmill.default.ingest", []byte(`Bob works at Acme.`), requestWait)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(m.Data, &ack))
	c.await("default", "j2", api.JobCommitted)
}
