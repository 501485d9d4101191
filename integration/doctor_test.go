package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

type diagnosis struct {
	OK        bool
	Checked   []string
	Unchecked []string
	Findings  []struct{ Code, Severity, What, Why, Mend string }
}

// codes of the findings, sorted, each once.
func (d diagnosis) codes() []string {
	out := []string{}
	for _, f := range d.Findings {
		out = append(out, f.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// named is the finding of a code.
func (d diagnosis) named(t *testing.T, code string) string {
	t.Helper()
	for _, f := range d.Findings {
		if f.Code == code {
			require.NotEmpty(t, f.Why)
			require.NotEmpty(t, f.Mend)
			return f.What + " | " + f.Mend
		}
	}
	require.Fail(t, "not found", "%s: %+v", code, d)
	return ""
}

func doctor(t *testing.T, code int, args ...string) (d diagnosis) {
	t.Helper()
	r := run(t, "", append([]string{"doctor", "--json", "--watch", "1s", "--bus.ack_wait", ackWait}, args...)...)
	require.Equal(t, code, r.code, "%s\n%s", r.stdout, r.stderr)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &d), r.stdout)
	return d
}

// sick asks until a fault is named.
func (c *cluster) sick(t *testing.T, want string, args ...string) (d diagnosis) {
	t.Helper()
	testkit.AwaitFor(t, 60*time.Second, "the doctor to find "+want, func() bool {
		r := run(t, "", append([]string{"doctor", "--json", "--watch", "1s", "--bus.ack_wait", ackWait, "--nats", c.url}, args...)...)
		d = diagnosis{}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &d), r.stdout+r.stderr)
		if !slices.Contains(d.codes(), want) {
			return false
		}
		require.Equal(t, 1, r.code)
		return true
	})
	return d
}

// healthy demands that nothing is found and all is looked at.
func (c *cluster) healthy(t *testing.T) {
	t.Helper()
	var d diagnosis
	defer func() {
		if !d.OK {
			t.Logf("%+v", d)
		}
	}()
	testkit.AwaitFor(t, 20*time.Second, "nothing to find", func() bool {
		r := run(t, "", "doctor", "--json", "--watch", "1s", "--bus.ack_wait", ackWait, "--nats", c.url)
		d = diagnosis{}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &d), r.stdout+r.stderr)
		return r.code == 0
	})
	require.True(t, d.OK)
	require.Empty(t, d.Findings)
	require.Empty(t, d.Unchecked)
	require.Len(t, d.Checked, 13)
}

// TestDoctorOnTheAllInOne: nothing is wrong with a healthy one, also while it is empty; then what can go wrong around it.
func TestDoctorOnTheAllInOne(t *testing.T) {
	c := allInOne(t)
	c.healthy(t)
	c.run("default", map[string]any{"key": "a", "text": "Ada Lovelace worked for Acme Ltd."})
	c.healthy(t)
	require.Contains(t, c.cli(0, "doctor", "--watch", "1s", "--bus.ack_wait", ackWait).stdout, "nothing is wrong at nats://")

	require.Contains(t, doctor(t, 1, "--nats", c.url, "-g", "defualt").named(t, "no_such_graph"), "there is no graph defualt here: nothing was ever put into it (1 graph is there)")
	d := doctor(t, 3, "--data", c.dir)
	require.Contains(t, d.named(t, "data_in_use"), "factmill doctor --nats "+c.url)
	d = doctor(t, 3, "--nats", "nats://"+freeAddress(t))
	require.Contains(t, d.named(t, "nats_unreachable"), "factmill up")
	d = doctor(t, 3) // no default directory
	require.Contains(t, d.named(t, "nothing_there"), "factmill up")

	// A graph that needs a model which nobody serves, and then one that the server does not have.
	away := "http://" + freeAddress(t)
	c.putSettings("default", map[string]string{"extractor.mode": "hybrid", "ollama.model": "other:1"})
	d = doctor(t, 1, "--nats", c.url, "--ollama.url", away)
	require.Equal(t, []string{"model_away"}, d.codes())
	m := testkit.NewModel(t, testkit.ModelOptions{})
	d = doctor(t, 1, "--nats", c.url, "--ollama.url", m.URL())
	require.Contains(t, d.named(t, "model_away"), "ollama pull other:1")
	c.putSettings("default", map[string]string{"ollama.model": "fake:1"})
	doctor(t, 0, "--nats", c.url, "--ollama.url", m.URL())
	c.putSettings("default", map[string]string{"extractor.mode": "rules"})

	// What waits for people, and what was put aside.
	c.await("default", c.publish("default", map[string]any{"key": "h", "text": "Bob Miller worked for Orva.", "hold": true}), api.JobHeld)
	require.Contains(t, c.sick(t, "jobs_held").named(t, "jobs_held"), "1 job is held, the oldest for")
	c.cli(0, "jobs", "cancel", "j2")
	_, err := c.conn.JS.Publish(t.Context(), "factmill.default.doc.extracted.j.d", []byte("no JSON"))
	require.NoError(t, err)
	require.Contains(t, c.sick(t, "dead_letters").named(t, "dead_letters"), "1 message is parked as dead letters | factmill dead-letters list --nats "+c.url)
	c.cli(0, "dead-letters", "drop", c.awaitLetters(1)[0].ID)

	// The store's room, and a server that listens to everybody.
	c.the("factmill").stop(t)
	d = doctor(t, 0, "--data", c.dir)
	require.Empty(t, d.Unchecked)
	c.conn.Close()
	c.up("--store.reserve", "1000000000000000000", "--loader.roots", string(filepath.Separator))
	require.Contains(t, c.sick(t, "no_space").named(t, "no_space"), "store.reserve is 1000000000000000000")
	c.the("factmill").stop(t)
	c.conn.Close()
	c.up("--loader.roots", string(filepath.Separator))
	file := filepath.Join(t.TempDir(), "x.dat")
	require.NoError(t, os.WriteFile(file, []byte{0, 1, 2}, 0o600))
	c.await("default", c.publish("default", map[string]any{"sources": []string{file}, "error_policy": "quarantine"}), api.JobCommitted)
	require.Contains(t, c.sick(t, "quarantine").named(t, "quarantine"), "dead-letters list --kind quarantine")

	_, port, _ := strings.Cut(freeAddress(t), ":")
	open := spawn(t, nil, "factmill", "up", "--data", t.TempDir(), "--listen", "0.0.0.0:"+port, "--bus.ack_wait", ackWait)
	o := &cluster{t: t, url: "nats://127.0.0.1:" + port, procs: map[string][]*process{"factmill": {open}}}
	o.connect()
	o.ready(stages...)
	require.Equal(t, []string{"listens_without_auth", "listens_without_tls"}, doctor(t, 1, "--nats", o.url).codes())
}

// TestDoctorOnSixProcesses causes each fault of a fleet.
func TestDoctorOnSixProcesses(t *testing.T) {
	c := sixProcesses(t, 1)
	c.healthy(t)

	// A service that is gone, and one that does not answer.
	c.the("chunker").kill()
	d := c.sick(t, "service_missing")
	require.Equal(t, "no chunker is running | factmill serve chunker --nats "+c.url, d.named(t, "service_missing"))
	job := c.publish("default", map[string]any{"key": "a", "text": "Ada Lovelace worked for Acme Ltd."})
	require.Contains(t, c.sick(t, "consumer_stalled").named(t, "consumer_stalled"), "1 message waits before the chunker (FACTMILL_LOADED/chunker) and nobody asks for them")
	c.start("chunker")
	c.await("default", job, api.JobCommitted)

	// A user who may not look, and a store that does not have what was announced.
	require.Contains(t, c.sick(t, "not_checked", "--nkey", filepath.Join(c.keys, "chunker"), "--timeout", "2s").named(t, "not_checked"), "nats, streams, services, store, commits could not be looked at")
	_, err := c.conn.JS.Publish(t.Context(), "factmill.default.change.99", []byte("{}"))
	require.NoError(t, err)
	require.Contains(t, c.sick(t, "store_behind").named(t, "store_behind"), "the committer's store is at commit 1 of graph default, and commit 99 was announced")
	_, err = c.conn.JS.Publish(t.Context(), "factmill.default.change.1", []byte("{}"))
	require.NoError(t, err)
	c.the("resolver").signal(t, syscall.SIGSTOP)
	require.Contains(t, c.sick(t, "service_silent").named(t, "service_silent"), "the resolver does not answer")
	require.NoError(t, c.the("resolver").cmd.Process.Signal(syscall.SIGCONT))
	c.healthy(t)

	// A consumer that is stopped.
	_, err = c.conn.JS.PauseConsumer(t.Context(), bus.StreamChunked, bus.DurableExtractor, time.Now().Add(time.Hour))
	require.NoError(t, err)
	job = c.publish("default", map[string]any{"key": "b", "text": "Bob Miller worked for Acme Ltd."})
	d = c.sick(t, "consumer_paused")
	require.Contains(t, d.named(t, "consumer_paused"), "nats consumer resume FACTMILL_CHUNKED extractor")
	_, err = c.conn.JS.ResumeConsumer(t.Context(), bus.StreamChunked, bus.DurableExtractor)
	require.NoError(t, err)
	c.await("default", job, api.JobCommitted)

	// Another version.
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-ldflags", "-X main.version=v9.9.9", "-o", filepath.Join(dir, "chunker"), "./services/chunker/cmd/chunker")
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	require.NoError(t, err, string(b))
	other := exec.CommandContext(t.Context(), filepath.Join(dir, "chunker"), "--nats.url", c.url, "--bus.ack_wait", ackWait)
	other.Env = cleanEnv(t)
	require.NoError(t, other.Start())
	require.Contains(t, c.sick(t, "versions_differ").named(t, "versions_differ"), "chunker 9.9.9")
	require.NoError(t, other.Process.Kill())
	_ = other.Wait() // killed

	// A copy in Milvus that is away.
	c.the("committer").stop(t)
	milvus := freeAddress(t)
	c.start("committer", "--milvus.address", milvus)
	c.ready("committer")
	c.run("default", map[string]any{"key": "c", "text": "Grace Hopper worked for Acme Ltd."})
	require.Contains(t, c.sick(t, "milvus_behind", "--milvus.address", milvus).named(t, "milvus_behind"), "start Milvus at "+milvus)
	c.the("committer").stop(t)
	c.start("committer")
	c.ready("committer")

	// Streams that are not as provisioned.
	require.NoError(t, c.conn.JS.DeleteConsumer(t.Context(), bus.StreamExtracted, bus.DurableResolver))
	require.NoError(t, c.conn.JS.DeleteStream(t.Context(), bus.StreamReplies))
	d = c.sick(t, "stream_differs")
	var gone []string
	for _, f := range d.Findings {
		if f.Code == "stream_differs" {
			gone = append(gone, f.What)
			require.Equal(t, "factmill provision --apply --nats "+c.url, f.Mend)
		}
	}
	require.Equal(t, []string{"stream FACTMILL_REPLIES does not exist", "consumer FACTMILL_EXTRACTED/resolver does not exist"}, gone)
	c.cli(0, "provision", "--apply", "--bus.ack_wait", ackWait)

	// The committer alone: everything that it would be asked is not checked, and that is said.
	c.the("committer").stop(t)
	d = c.sick(t, "service_missing")
	require.Contains(t, d.Unchecked, "store: no committer answers")
	follow := spawn(t, nil, "factmill", "serve", "replica", "--data", t.TempDir(), "--nats", c.url, "--nkey", c.keys, "--bus.ack_wait", ackWait)
	require.Contains(t, c.sick(t, "replica_not_ready").named(t, "replica_not_ready"), "a read replica is not ready: there is no copy yet: make the copy: no service answers factmill.default.feed.begin")
	r := run(t, "", "stats", "--replica", "--nats", c.url)
	require.Equal(t, 3, r.code)
	require.Contains(t, r.stderr, "this read replica has no copy yet: make the copy: no service answers factmill.default.feed.begin")
	follow.stop(t)

	c.nats.Shutdown(true)
	require.Equal(t, []string{"nats_unreachable"}, doctor(t, 3, "--nats", c.url).codes())
}

// run publishes an event and waits until its job is committed.
func (c *cluster) run(graph string, event map[string]any) api.JobStatus {
	c.t.Helper()
	return c.await(graph, c.publish(graph, event), api.JobCommitted)
}
