package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// letters lists dead letters and quarantine records with the command line.
func (c *cluster) letters(args ...string) []api.DeadLetter {
	c.t.Helper()
	var r api.DeadListReply
	out := c.cli(0, append([]string{"dead-letters", "list", "--json"}, args...)...).stdout
	require.NoError(c.t, json.Unmarshal([]byte(out), &r))
	return r.Letters
}

func (c *cluster) awaitLetters(n int, args ...string) []api.DeadLetter {
	c.t.Helper()
	var out []api.DeadLetter
	testkit.Await(c.t, fmt.Sprintf("%d dead letters", n), func() bool { out = c.letters(args...); return len(out) == n })
	return out
}

// objects lists what is left in a bucket, be it only a marker.
func (c *cluster) objects(bucket string) []string {
	c.t.Helper()
	b, err := c.conn.Bucket(c.t.Context(), bucket)
	require.NoError(c.t, err)
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	list, err := b.List(ctx, jetstream.ListObjectsShowDeleted())
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	require.NoError(c.t, err)
	var out []string
	for _, o := range list {
		if o.Name != "store" { // says whose the streams are, and has no bytes
			out = append(out, o.Name)
		}
	}
	return out
}

func (c *cluster) awaitEmpty(bucket string) {
	c.t.Helper()
	testkit.Await(c.t, "nothing left in "+bucket, func() bool { return c.objects(bucket) == nil })
}

// poison publishes a message that the chunker cannot read.
func (c *cluster) poisonIn(job string) {
	c.t.Helper()
	_, err := c.conn.JS.PublishMsg(c.t.Context(), &nats.Msg{
		Subject: "factmill.default.doc.loaded." + job + ".poison", Data: []byte(`{"job":{"graph":"default"`),
		Header: nats.Header{events.HeaderSchema: {"doc.loaded/1"}, "traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
	})
	require.NoError(c.t, err)
}

func TestDeadLetters(t *testing.T) {
	c := allInOne(t)
	require.Contains(t, c.cli(0, "dead-letters", "list").stdout, "nothing here")
	c.poisonIn("byhand")
	c.add("default", doc("a", "Ada Lovelace worked for Acme Ltd.")) // the stage goes on

	l := c.awaitLetters(1)[0]
	require.Equal(t, api.DeadLetter{
		ID: "1", Kind: "dead", Stage: "chunker", Job: "byhand", Code: "undecodable", Reason: "decode doc.loaded: unexpected end of JSON input", At: l.At,
		TraceID: "0af7651916cd43dd8448eb211c80319c", Event: "doc.loaded", Subject: "factmill.default.doc.loaded.byhand.poison", Stream: "FACTMILL_LOADED",
		Seq: 1, Attempts: 1, Size: 25,
	}, l)
	require.Empty(t, c.letters("--stage", "loader"))
	require.Empty(t, c.letters("--kind", "quarantine"))
	require.Len(t, c.letters("--stage", "chunker", "--job", "byhand", "--code", "undecodable"), 1)
	require.Empty(t, c.letters("--graph", "other"))

	text := c.cli(0, "dead-letters", "show", "1").stdout
	for _, want := range []string{"dead letter 1", "undecodable", "0af7651916cd43dd8448eb211c80319c", "Factmill-Schema: doc.loaded/1",
		"it cannot be read: decode doc.loaded", `{"job":{"graph":"default"`} {
		require.Contains(t, text, want)
	}
	r := c.cli(1, "dead-letters", "replay", "1")
	require.Contains(t, r.stderr, "the message cannot be read (decode doc.loaded: unexpected end of JSON input); ingest the document again, and drop this (not_replayable)")
	require.Equal(t, "dead_letter_not_found", refused(c, "other", "dead-letters.show", map[string]any{"id": "1"}).Code)
	require.Equal(t, "unknown_verb", refused(c, "default", "dead-letters.purge", map[string]any{}).Code)
	require.Equal(t, "unknown_field", refused(c, "default", "dead-letters.list", map[string]any{"stages": "x"}).Code)

	// In a job that still waits, even such a message goes back on its stream: a newer version may read it.
	job := ask[api.JobOpenReply](c, "default", "jobs.open", api.JobOpen{Job: "waits", Digest: "d", Op: "add", ErrorPolicy: "skip", Atomic: "job", Candidates: true})
	require.Equal(t, api.JobPending, job.State)
	c.poisonIn("waits")
	require.Equal(t, "2", c.awaitLetters(1, "--job", "waits")[0].ID)
	require.Contains(t, c.cli(0, "dead-letters", "replay", "2").stdout, "republished")
	require.Equal(t, "3", c.awaitLetters(1, "--job", "waits")[0].ID, "this version parks it again")

	require.Contains(t, c.cli(4, "dead-letters", "drop", "1", "99").stdout, "dropped 1")
	require.Contains(t, c.cli(0, "dead-letters", "drop", "--all", "--stage", "chunker").stdout, "dropped 1")
	require.Empty(t, c.letters())
	require.Contains(t, c.cli(1, "dead-letters", "drop", "1").stderr, "dead_letter_not_found")

	// jobs.cancel answers a repeated request as it did before.
	cancel := api.JobCancel{Job: "waits", Reason: "done with it", RequestID: "cancel-1"}
	first := ask[api.JobStatus](c, "default", "jobs.cancel", cancel)
	require.Equal(t, api.JobRolledBack, first.State)
	require.Equal(t, first, ask[api.JobStatus](c, "default", "jobs.cancel", cancel))
	cancel.Reason = "another"
	require.Equal(t, "operation_reused", refused(c, "default", "jobs.cancel", cancel).Code)
	require.Equal(t, "job_ended", refused(c, "default", "jobs.cancel", api.JobCancel{Job: "waits"}).Code)
}

// 200 files, one of which nobody can read: the policy decides, and the uploads go with their job.
func TestOneUnreadableFileOf200(t *testing.T) {
	c := allInOne(t)
	dir := t.TempDir()
	for i := range 199 {
		write(t, dir, fmt.Sprintf("docs/%03d.txt", i), fmt.Sprintf("Person%c Smith works at Acme Ltd. Note %d.", 'A'+i%26, i))
	}
	const bytes = "\x00\x01binary\xff"
	write(t, dir, "docs/sensor.dat", bytes)
	ingest := func(graph, policy string) (result, api.JobStatus) {
		r := runIn(t, dir, "", "ingest", "docs", "--error-policy", policy, "--graph", graph, "--json", "--nats", c.url)
		var s api.JobStatus
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &s), r.stderr)
		return r, s
	}
	r, s := ingest("raises", "raise")
	require.Equal(t, []any{1, api.JobRolledBack}, []any{r.code, s.State}, r.stderr)
	require.Zero(t, ask[api.StatsReply](c, "raises", "query.stats", map[string]any{}).Documents)
	c.awaitEmpty(bus.BucketUploads)

	r, s = ingest("skips", "skip")
	require.Equal(t, []any{4, api.DocumentCounts{Total: 200, Added: 199, Skipped: 1}}, []any{r.code, s.Documents}, r.stderr)
	require.Equal(t, 199, ask[api.StatsReply](c, "skips", "query.stats", map[string]any{}).Documents)
	require.Empty(t, c.letters("--graph", "skips"))
	c.awaitEmpty(bus.BucketBodies)

	r, s = ingest("puts_aside", "quarantine")
	require.Equal(t, []any{4, api.DocumentCounts{Total: 200, Added: 199, Quarantined: 1}}, []any{r.code, s.Documents}, r.stderr)
	require.Equal(t, []int{1, 0}, []int{s.Stages.Ingestion.Quarantined, s.Stages.Ingestion.QuarantinedItems})
	f := s.Stages.Ingestion.Failures
	require.Equal(t, []any{1, "docs/sensor.dat", "unsupported_format"}, []any{f.Total, f.List[0].Item, f.List[0].Code})
	require.Regexp(t, "^[0-9a-f]{32}$", f.List[0].TraceID)
	c.awaitEmpty(bus.BucketUploads)

	in := []string{"--graph", "puts_aside"}
	l := c.letters(in...)
	require.Len(t, l, 1)
	require.Equal(t, api.DeadLetter{
		ID: "q1-1", Kind: "quarantine", Stage: "loader", Job: s.Job, JobState: api.JobCommitted, Key: "docs/sensor.dat", Code: "unsupported_format",
		Reason: f.List[0].Message, TraceID: f.List[0].TraceID, At: l[0].At, Event: "doc.found", Body: l[0].Body,
	}, l[0])
	text := c.cli(0, append(in, "dead-letters", "list")...).stdout
	require.Contains(t, text, "docs/sensor.dat")
	require.Contains(t, text, `format "dat" is not read`)
	saved := filepath.Join(dir, "saved.dat")
	c.cli(0, append(in, "dead-letters", "show", "q1-1", "--output", saved)...)
	got, err := os.ReadFile(saved)
	require.NoError(t, err)
	require.Equal(t, bytes, string(got))
	require.Contains(t, c.cli(2, append(in, "dead-letters", "show", "q1-1", "--output", saved)...).stderr, "exists already")

	// Nothing has changed, so a replay fails again, and loses nothing.
	r = c.cli(1, append(in, "dead-letters", "replay", "q1-1")...)
	require.Contains(t, r.stdout, "unsupported_format")
	l = c.letters(in...)
	require.Equal(t, api.JobRolledBack, l[0].Replay.State)
	require.Len(t, c.objects(bus.BucketBodies), 1)
	c.awaitEmpty(bus.BucketUploads)
	c.cli(0, append(in, "dead-letters", "drop", "q1-1")...)
	require.Empty(t, c.letters(in...))
	c.awaitEmpty(bus.BucketBodies)
	c.sound("puts_aside")
}

// A bad row puts its whole file aside; when the file is mended, a replay brings it in, even after a restart.
func TestReplayOfAMendedFile(t *testing.T) {
	dir := t.TempDir()
	c := allInOne(t, "--loader.roots", dir)
	write(t, dir, "in/good.txt", "Ada Lovelace worked for Acme Ltd.")
	rows := write(t, dir, "in/rows.csv", "id,text\n1,Bob works at Acme.\n2\n3,Carol works at Acme.\n")
	write(t, dir, "in/noise.dat", "noise")
	job := c.publish("default", map[string]any{"sources": []string{"in"}, "error_policy": "quarantine", "job": "load"})
	s := c.await("default", job, api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 3, Added: 1, Quarantined: 2}, s.Documents)
	require.Equal(t, 3, s.Stages.Ingestion.QuarantinedItems, "the rows of the file that was put aside")

	l := c.letters("--kind", "quarantine", "--job", "load")
	require.Len(t, l, 2)
	require.Equal(t, []any{"in/noise.dat", "unsupported_format", 0}, []any{l[0].Key, l[0].Code, l[0].Items})
	require.Equal(t, []any{"in/rows.csv", "bad_record", 3}, []any{l[1].Key, l[1].Code, l[1].Items})
	require.Contains(t, l[1].Reason, "line 3")
	body, err := c.conn.GetBody(t.Context(), "default", l[1].Body, 0)
	require.NoError(t, err)
	e, err := events.Decode("factmill.default.doc.found.load."+c.tokenOf(body), "", body)
	require.NoError(t, err)
	require.Equal(t, "in/rows.csv", e.(*events.Found).Source.Path)
	require.Contains(t, c.cli(1, "dead-letters", "show", l[1].ID, "--output", filepath.Join(dir, "x")).stderr, "the file in/rows.csv, as the loader sees it")

	require.NoError(t, os.WriteFile(rows, []byte("id,text\n1,Bob works at Acme.\n2,Dora works at Acme.\n3,Carol works at Acme.\n"), 0o644))
	c.procs["factmill"][0].kill()
	c.up("--loader.roots", dir)
	var r struct {
		Replayed []api.Replayed           `json:"replayed"`
		Jobs     map[string]api.JobStatus `json:"jobs"`
	}
	require.NoError(t, json.Unmarshal([]byte(c.cli(0, "dead-letters", "replay", l[1].ID, "--json").stdout), &r))
	require.Len(t, r.Replayed, 1)
	require.Equal(t, "new_job", r.Replayed[0].How)
	require.True(t, strings.HasPrefix(r.Replayed[0].Job, "replay-"))
	require.Equal(t, api.DocumentCounts{Total: 3, Added: 3}, r.Jobs[r.Replayed[0].Job].Documents)
	require.Equal(t, "in/rows.csv#2", ask[api.DocumentReply](c, "default", "query.document", map[string]any{"key": "in/rows.csv#2"}).Document.Key)

	l = c.letters()
	require.Len(t, l, 1)
	require.Equal(t, "in/noise.dat", l[0].Key)
	r2 := c.cli(1, "dead-letters", "replay", "--all", "--kind", "quarantine")
	require.Contains(t, r2.stderr, "none was brought through")
	require.Contains(t, c.cli(0, "dead-letters", "drop", "--all", "--job", "load").stdout, "dropped 1")
	c.awaitEmpty(bus.BucketBodies)
	c.sound("default")
}

// tokenOf is the token of a found event's source.
func (c *cluster) tokenOf(body []byte) string {
	c.t.Helper()
	var e events.Found
	require.NoError(c.t, json.Unmarshal(body, &e))
	return e.Source.Token
}

// A replayed version never overwrites what came after it.
func TestReplayKeepsTheOrderOfVersions(t *testing.T) {
	c := allInOne(t)
	c.add("default", doc("k", "Ada works at Acme."))
	newest := c.export("default")
	old := events.Loaded{Text: "Ada works at Initech.", Markup: "plain"}
	old.Job = events.Job{Graph: "default", ID: "early", Attempt: 1}
	old.Job.At.Time = 1_500_000_000_000_000_000
	old.Doc.Key, old.Doc.Token, old.Meta.Key = "k", "ktoken", "k"
	body, err := events.Encode(&old)
	require.NoError(t, err)
	require.NoError(t, c.conn.Publish(t.Context(), &events.Dead{
		Graph: "default", Stage: "chunker", Job: "early", Doc: "ktoken", Item: "k", Subject: old.Where().String(), Stream: bus.StreamLoaded, Seq: 7,
		Code: "panic", Error: "boom", Body: body, Headers: map[string]string{},
	}))
	c.cli(0, "dead-letters", "replay", "1")
	require.Empty(t, c.letters())
	require.Equal(t, newest, c.export("default"))
	require.Equal(t, 1, ask[api.JobListReply](c, "default", "jobs.list", map[string]any{"limit": 1}).Jobs[0].Documents.Superseded)
}
