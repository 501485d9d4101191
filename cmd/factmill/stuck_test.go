package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// running is a command under way; its stderr can be waited for.
type running struct {
	t   *testing.T
	cmd *exec.Cmd
	out bytes.Buffer
	mu  sync.Mutex
	err strings.Builder // guarded by mu
	end chan struct{}   // closed at the end of stderr
}

func (p place) start(stdin io.Reader, args ...string) *running {
	p.t.Helper()
	r := &running{t: p.t, cmd: p.command(args...), end: make(chan struct{})}
	r.cmd.Stdin, r.cmd.Stdout = stdin, &r.out
	errOut, err := r.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, r.cmd.Start())
	p.t.Cleanup(func() { _ = r.cmd.Process.Kill() }) // it may have ended
	go func() {
		defer close(r.end)
		for s := bufio.NewScanner(errOut); s.Scan(); {
			r.mu.Lock()
			r.err.WriteString(s.Text() + "\n")
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err.String()
}

func (r *running) await(text string) {
	r.t.Helper()
	testkit.Await(r.t, "“"+text+"” on stderr", func() bool { return strings.Contains(r.said(), text) })
}

// interrupt ends the command as Ctrl-C does.
func (r *running) interrupt() result {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(os.Interrupt))
	<-r.end
	err := r.cmd.Wait()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		require.NoError(r.t, err)
	}
	return result{r.cmd.ProcessState.ExitCode(), r.out.String(), r.said()}
}

// stuck leaves a graph in which job j1 cannot be served, since it names another model than the server at model has, and returns the up
// that runs on it.
func stuck(t *testing.T, p place, model string) (url string, up *exec.Cmd) {
	t.Helper()
	url, up = p.up("--data", "g", "--ollama.url", model)
	conn, err := bus.Connect(t.Context(), bus.Options{URL: url, Name: "test", Log: testkit.Quiet()})
	require.NoError(t, err)
	defer conn.Close()
	ask := func(verb string, req any) {
		require.NoError(t, conn.Request(t.Context(), events.Root+".default."+verb, req, nil))
	}
	ask("settings.put", api.SettingsPut{Settings: map[string]string{
		"extractor.mode": "llm", "ollama.model": "fake:1", "ollama.model_digest": strings.Repeat("0", 64),
	}})
	_, err = conn.JS.Publish(t.Context(), events.Root+".default.ingest", []byte(`{"key":"a","text":"Ada Lovelace worked for Acme Ltd."}`))
	require.NoError(t, err)
	testkit.Await(t, "the job waits for the extractor", func() bool {
		var st api.JobStatus
		err := conn.Request(t.Context(), events.Root+".default.jobs.get", api.JobGet{Job: "j1"}, &st)
		return err == nil && strings.HasPrefix(st.Next, "the extractor")
	})
	return url, up
}

const unserved = `the job names fake:1 with the digest 000000000000, the model server has bbbbbbbbbbbb: give the server that model back`

// A job that no service can work on stands still alone: it is said why, and everything else goes on.
func TestAStuckJobHindersNobody(t *testing.T) {
	p := newPlace(t)
	model := testkit.NewModel(t, testkit.ModelOptions{Digest: strings.Repeat("b", 64)}).URL()
	url, up := stuck(t, p, model)

	// At a server: the progress says what the job waits for; an interrupt leaves it, and says how to come back to it.
	w := p.start(nil, "jobs", "watch", "j1", "--nats", url)
	w.await("job j1 waits for the extractor and the resolver, for 1 documents")
	r := w.interrupt()
	require.Equal(t, exitFailed, r.code)
	require.True(t, strings.HasSuffix(r.err, "factmill: interrupted: job j1 goes on without this command; factmill jobs watch j1 --nats "+url+
		" waits for it, factmill jobs cancel j1 --nats "+url+" stops it\n"), r.err)
	require.NoError(t, up.Process.Kill())
	require.Error(t, up.Wait())

	// Embedded: what reads does not wait for it, and has nothing to say about it.
	began := time.Now()
	for _, args := range [][]string{{"stats"}, {"jobs", "list"}, {"search", "ada"}, {"review", "list"}, {"settings", "get"}} {
		r := p.run("", append(args, "--data", "g", "--ollama.url", model)...)
		require.Equal(t, exitDone, r.code, r.err)
		require.Empty(t, r.err)
	}
	require.Less(t, time.Since(began), 30*time.Second)
	w = p.start(nil, "jobs", "watch", "j1", "--data", "g", "--ollama.url", model)
	w.await("job j1 waits for the extractor and the resolver, for 1 documents")
	w.await("the extractor is not ready: extractor on FACTMILL_CHUNKED: ")
	w.await(unserved)
	r = w.interrupt()
	require.True(t, strings.HasSuffix(r.err, "factmill: interrupted: job j1 is taken up when something works on "+filepath.Join(p.home, "g")+
		" next; factmill jobs watch j1 --data g waits for it\n"), r.err)

	// A new job of another mode commits beside the one that stands.
	reads[api.SettingsReply](t, p.run("", "settings", "put", "extractor.mode=rules", "--data", "g", "--ollama.url", model, "--json"))
	r = p.run("Grace Hopper works for Acme Ltd.", "ingest", "-", "--key", "b", "--data", "g", "--ollama.url", model, "--json")
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, reads[api.JobStatus](t, r).Documents)

	st := reads[api.JobStatus](t, p.run("", "jobs", "cancel", "j1", "--data", "g", "--ollama.url", model, "--json"))
	require.Equal(t, api.JobRolledBack, st.State)
	// What was cancelled may still lie in a queue for a moment, and the extractor say so; the next job commits all the same.
	require.Equal(t, exitDone, p.run("Ada.", "ingest", "-", "--key", "c", "--data", "g").code)
}

// An interrupt before the job was handed over says that there is none.
func TestEarlyInterrupt(t *testing.T) {
	p := newPlace(t)
	// The text is more than a pipe holds and has no end: when it is written, the command reads.
	early := func(args ...string) result {
		stdin, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		defer stdin.Close()
		c := p.start(stdin, args...)
		_, err = w.Write(bytes.Repeat([]byte("Ada "), 1<<18))
		require.NoError(t, err)
		return c.interrupt()
	}
	require.Equal(t, result{exitFailed, "", "factmill: interrupted: nothing was ingested\n"}, early("ingest", "-", "--data", "g"))
	require.Equal(t, api.Error{Code: "failed", Message: "interrupted: nothing was ingested"}, failure(t, early("ingest", "-", "--data", "g", "--json")))
	require.NoDirExists(t, filepath.Join(p.home, "g"))
}

// After a restart the services find each other without a warning, in lines that name their service once; every one of them is the
// build that runs.
func TestUpLogsAndVersions(t *testing.T) {
	p := newPlace(t)
	cmd := p.start(nil, "up", "--data", "g", "--listen", "127.0.0.1:0", "--log.level", "debug")
	var url string
	testkit.Await(t, "the address", func() bool {
		b, err := os.ReadFile(filepath.Join(p.home, "g", "up.json"))
		var u struct {
			URL      string `json:"url"`
			Starting bool   `json:"starting"`
		}
		if err != nil || json.Unmarshal(b, &u) != nil {
			return false
		}
		url = u.URL
		return url != "" && !u.Starting
	})
	conn, err := bus.Connect(t.Context(), bus.Options{URL: url, Name: "test", Log: testkit.Quiet()})
	require.NoError(t, err)
	for _, s := range append(serviceNames(), "jobs") {
		if s == "replica" { // up has none
			continue
		}
		var health bus.Health
		require.NoError(t, conn.Request(t.Context(), bus.HealthSubject(s), nil, &health))
		require.Equal(t, bus.Health{Service: s, Version: "1.2.3", Ready: true}, health)
	}
	conn.Close()
	reads[api.JobStatus](t, p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--json", "--nats", url))
	require.NoError(t, cmd.cmd.Process.Signal(syscall.SIGTERM))
	<-cmd.end
	require.NoError(t, cmd.cmd.Wait())
	for _, line := range strings.Split(cmd.said(), "\n") {
		require.LessOrEqual(t, strings.Count(line, " service="), 1, line)
		require.NotContains(t, line, "level=WARN")
	}
	require.Contains(t, cmd.said(), " service=")
}

// Commands on a directory whose last process was killed log nothing: what is repeated at a start is no news. -v shows the rest.
func TestRestartIsQuiet(t *testing.T) {
	p := newPlace(t)
	url, up := p.up("--data", "g", "--bus.ack_wait", "1s")
	for range 3 {
		r := p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--no-wait", "--nats", url)
		require.Equal(t, exitDone, r.code, r.err)
	}
	require.NoError(t, up.Process.Kill())
	require.Error(t, up.Wait())
	for _, args := range [][]string{{"stats"}, {"jobs", "watch", "j3"}, {"jobs", "list"}} {
		r := p.run("", append(args, "--data", "g", "--bus.ack_wait", "1s")...)
		require.Equal(t, exitDone, r.code, r.err)
		require.NotContains(t, r.err, "level=", "%v", args)
	}
	r := p.run("", "delete", "none", "--data", "g", "-vvv")
	require.Equal(t, exitDone, r.code)
	require.Contains(t, r.err, "level=DEBUG msg=\"embedded NATS\"")
}
