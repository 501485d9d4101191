package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// graceful is how long a process may take from SIGTERM to its end.
const graceful = 10 * time.Second

// terminate sends SIGTERM and returns the exit code and the time it took.
func terminate(t *testing.T, p *process) (code int, took time.Duration) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(3 * graceful):
		require.Fail(t, "did not stop")
	}
	return p.cmd.ProcessState.ExitCode(), time.Since(begin)
}

// goroutines of a process, as /metrics says.
func goroutines(t *testing.T, http string) int {
	t.Helper()
	_, body := get(t, "http://"+http+"/metrics")
	m := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindStringSubmatch(body)
	require.NotNil(t, m, body)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// TestNothingIsLeft: after many jobs, reads and a roll-back the process has no more goroutines than before them, ends with 0 soon after
// SIGTERM, and its store closes without an iterator that somebody forgot: an error of Close would be the exit code 1 (see
// TestAnErrorAtTheEndIsTheExitCode).
func TestNothingIsLeft(t *testing.T) {
	http := freeAddress(t)
	c := allInOne(t, "--http.listen", http)
	exercise := func(round int) {
		for v := range 3 {
			c.add("default", peopleAt(100, 10*round+v)...)
		}
		c.await("default", c.publish("default", map[string]any{"documents": []any{map[string]any{"key": "x", "text": "y", "format": "z"}}}), api.JobRolledBack)
		c.remove("default", "d001")
		x := c.rows("default")
		for _, e := range x.entities[:20] {
			ask[api.EntityReply](c, "default", "query.entity", api.EntityGet{ID: e.ID})
			ask[api.Subgraph](c, "default", "query.neighbors", api.Neighbors{ID: e.ID, Depth: 3})
			ask[api.SearchReply](c, "default", "query.search", api.Search{Q: e.Name})
		}
		c.groups("default")
		c.sound("default")
	}
	exercise(0) // what is made once is made now
	before := goroutines(t, http)
	for round := 1; round < 4; round++ {
		exercise(round)
	}
	// Idle connections of this test's own requests come and go; a leak of one a job, document or request would be dozens.
	testkit.Await(t, fmt.Sprintf("no more than %d goroutines", before+4), func() bool { return goroutines(t, http) <= before+4 })

	p := c.procs["factmill"][0]
	code, took := terminate(t, p)
	require.Zero(t, code, p.output())
	require.Less(t, took, graceful)
	require.NotRegexp(t, `(?i)leak|panic|level=ERROR`, p.output())
}

// TestStoppingInTheMiddle: a running job and clients that wait for it do not hold up the end, and the next start finishes the job.
func TestStoppingInTheMiddle(t *testing.T) {
	c := allInOne(t)
	job := c.publish("default", map[string]any{"documents": peopleAt(400, 1)})
	waited := make(chan error, 1)
	go func() {
		var s api.JobStatus
		waited <- c.conn.Request(t.Context(), "factmill.default.jobs.get", api.JobGet{Job: "j999", Wait: "50s"}, &s)
	}()
	waits := c.publish("default", map[string]any{"documents": peopleAt(10, 2), "hold": true})
	go func() {
		var s api.JobStatus
		waited <- c.conn.Request(t.Context(), "factmill.default.jobs.get", api.JobGet{Job: job, Wait: "50s"}, &s)
	}()
	p := c.procs["factmill"][0]
	code, took := terminate(t, p)
	t.Logf("stopped after %s", took.Round(time.Millisecond))
	require.Zero(t, code, p.output())
	require.Less(t, took, graceful)
	for range 2 {
		_ = testkit.Receive(t, "the answer, or that the server is gone", waited)
	}
	c.conn.Close()
	c.up()
	require.Equal(t, 400, c.await("default", job, api.JobCommitted).Documents.Added)
	c.await("default", waits, api.JobHeld)
	c.sound("default")
}

// holder waits until the file that names who holds the data directory is complete, and reads it.
func (c *cluster) holder() (said struct {
	PID int    `json:"pid"`
	URL string `json:"url"`
}) {
	c.t.Helper()
	testkit.Await(c.t, "the file up.json", func() bool {
		b, err := os.ReadFile(filepath.Join(c.dir, "up.json"))
		return err == nil && json.Unmarshal(b, &said) == nil && said.URL != ""
	})
	return said
}

// TestAnErrorAtTheEndIsTheExitCode: what goes wrong while everything is closed is not lost. The file that names the holder of the
// directory cannot be removed when it has become a directory with something in it.
func TestAnErrorAtTheEndIsTheExitCode(t *testing.T) {
	c := allInOne(t)
	said := c.holder()
	p := c.procs["factmill"][0]
	require.Equal(t, p.cmd.Process.Pid, said.PID)
	require.Equal(t, c.url, said.URL)
	require.NoError(t, os.Remove(filepath.Join(c.dir, "up.json")))
	write(t, c.dir, "up.json/x", "")
	code, _ := terminate(t, p)
	require.Equal(t, 1, code)
	require.Contains(t, p.output(), "up.json")
	require.Equal(t, 1, strings.Count(p.output(), "factmill: "), p.output())
}
