package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/testkit"
)

// way is the spans from a document's event to its commit.
var way = []string{"loader list", "loader fetch", "chunker chunk", "extractor extract", "resolver resolve", "committer stage doc.resolved", "committer commit"}

// traced finds the one trace of a document that was committed, and walks from its commit to its root. publisher is the span that the
// root lies under; empty: none.
func traced(t *testing.T, out *testkit.Collector, key, publisher string) (trace string) {
	t.Helper()
	return tracedFrom(t, out, key, publisher, way)
}

func tracedFrom(t *testing.T, out *testkit.Collector, key, publisher string, way []string) (trace string) {
	t.Helper()
	token := fingerprint.Token(key)
	var commit *testkit.Span
	testkit.AwaitFor(t, 20*time.Second, "the commit span of "+key, func() bool {
		commit = nil
		for _, s := range out.Spans() {
			if s.Name == "committer commit" && s.Attributes["factmill.doc"] == token {
				commit = &s
			}
		}
		return commit != nil
	})
	var names []string
	byID := map[string]testkit.Span{}
	testkit.AwaitFor(t, 20*time.Second, "the whole way of "+key, func() bool {
		clear(byID)
		for _, s := range out.Spans() {
			byID[s.ID] = s
			if s.Attributes["factmill.doc"] == token {
				require.Equal(t, commit.Trace, s.Trace, "%s: %s is in another trace than the commit", key, s.Name)
			}
		}
		names = nil
		s, ok := *commit, true
		for ok && len(names) < 20 {
			names = append([]string{s.Name}, names...)
			require.Equal(t, commit.Trace, s.Trace)
			require.Contains(t, s.Name, s.Service+" ")
			require.LessOrEqual(t, s.BeganNano, s.EndedNano)
			if s.Parent == publisher {
				return true
			}
			s, ok = byID[s.Parent]
		}
		return false
	})
	require.Equal(t, way, names, key)
	return commit.Trace
}

// TestOneTraceADocument over both shapes: from its event to its commit, each document is in one trace.
func TestOneTraceADocument(t *testing.T) {
	for _, shape := range []string{"one process", "six processes"} {
		t.Run(shape, func(t *testing.T) {
			out := testkit.NewCollector(t)
			var c *cluster
			if shape == "one process" {
				c = allInOne(t, "--tracing.endpoint", out.URL, "--loader.roots", string(filepath.Separator))
			} else {
				c = sixProcesses(t, 2, "--tracing.endpoint", out.URL)
			}
			// A publisher's own traceparent is the parent.
			const theirs, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
			_, err := c.conn.Ingest(t.Context(), "default", []byte(`{"job":"theirs","key":"t","text":"Ada Lovelace worked for Acme Ltd."}`),
				map[string]string{"traceparent": "00-" + theirs + "-" + span + "-01"})
			require.NoError(t, err)
			c.await("default", "theirs", api.JobCommitted)
			require.Equal(t, theirs, traced(t, out, "t", span))

			// One document: its trace begins with its event. Several: each has its own.
			c.await("default", c.publish("default", map[string]any{"key": "alone", "text": "Bob Miller worked for Acme Ltd."}), api.JobCommitted)
			dir := t.TempDir()
			var keys []string
			for _, n := range []string{"a.txt", "b.txt", "c.txt"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("Grace Hopper of "+n+" worked for Acme Ltd."), 0o600))
				keys = append(keys, filepath.Join(dir, n))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "d.dat"), []byte{0, 1, 2, 3}, 0o600))
			s := c.await("default", c.publish("default", map[string]any{"job": "many", "sources": []string{dir}, "error_policy": "skip"}), api.JobCommitted)
			require.Equal(t, 3, s.Documents.Added, s)
			traces := []string{theirs, traced(t, out, "alone", "")}
			for _, k := range keys {
				traces = append(traces, traced(t, out, k, ""))
			}
			slices.Sort(traces)
			require.Len(t, slices.Compact(traces), 5, "each document has a trace of its own")

			// So have the records of one file; the first has that of its event.
			table := filepath.Join(t.TempDir(), "r.csv")
			require.NoError(t, os.WriteFile(table, []byte("id,text\n1,Ada worked for Orva.\n2,Bob worked for Orva.\n3,Lin worked for Orva.\n"), 0o600))
			require.Equal(t, 3, c.await("default", c.publish("default", map[string]any{"sources": []string{table}}), api.JobCommitted).Documents.Added)
			records := append(traces, traced(t, out, table+"#1", ""), tracedFrom(t, out, table+"#2", "", way[1:]), tracedFrom(t, out, table+"#3", "", way[1:]))
			slices.Sort(records)
			require.Len(t, slices.Compact(records), 8)

			// The trace of what failed is the one that its failure names.
			require.Len(t, s.Stages.Ingestion.Failures.List, 1)
			f := s.Stages.Ingestion.Failures.List[0]
			require.NotContains(t, traces, f.TraceID)
			failed := slices.IndexFunc(out.Spans(), func(s testkit.Span) bool { return s.Trace == f.TraceID && s.Name == "loader fetch" })
			testkit.AwaitFor(t, 20*time.Second, "the span of the failure", func() bool {
				failed = slices.IndexFunc(out.Spans(), func(s testkit.Span) bool { return s.Trace == f.TraceID && s.Name == "loader fetch" })
				return failed >= 0
			})
			require.Equal(t, f.Code, out.Spans()[failed].Attributes["factmill.code"])
			require.True(t, out.Spans()[failed].Failed)

			// No text of a document is in a span.
			b, err := json.Marshal(out.Spans())
			require.NoError(t, err)
			require.NotContains(t, string(b), "Lovelace")
			require.NotContains(t, string(b), "Hopper")
		})
	}
}

// TestTraceOfAHeldJob: what was staged before a kill -9 of everything is committed in the trace that it came in, and model calls are spans
// below the extractor's.
func TestTraceOfAHeldJob(t *testing.T) {
	out := testkit.NewCollector(t)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: bySubject(map[string]string{"Ada": `{"entities":[{"type":"Person","text":"Ada Lovelace"}],"relations":[]}`})})
	args := []string{"--tracing.endpoint", out.URL, "--extractor.mode", "llm", "--ollama.model", "fake:1", "--ollama.url", m.URL()}
	c := allInOne(t, args...)
	job := c.publish("default", map[string]any{"key": "k", "text": "Ada Lovelace worked for Acme Ltd.", "hold": true})
	c.await("default", job, api.JobHeld)
	var staged testkit.Span
	testkit.AwaitFor(t, 20*time.Second, "the span of the staging, and that of the model call", func() bool {
		asked := false
		for _, s := range out.Spans() {
			if s.Name == "committer stage doc.resolved" {
				staged = s
			}
			asked = asked || s.Name == "model call"
		}
		return staged.ID != "" && asked
	})
	all := out.Spans()
	call := all[slices.IndexFunc(all, func(s testkit.Span) bool { return s.Name == "model call" })]
	require.Equal(t, staged.Trace, call.Trace)
	require.Equal(t, "extractor extract", all[slices.IndexFunc(all, func(s testkit.Span) bool { return s.ID == call.Parent })].Name)
	c.the("factmill").kill()
	c.up(args...)
	show := ask[struct {
		Fingerprint string `json:"fingerprint"`
	}](c, "default", "review.show", map[string]any{"key": "job|" + job})
	ask[api.DecideReply](c, "default", "review.approve", api.ReviewDecide{Keys: []string{"job|" + job}, Decision: "accept", Actor: "eva", Fingerprint: show.Fingerprint})
	require.Equal(t, staged.Trace, traced(t, out, "k", ""))
}
