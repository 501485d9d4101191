package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

// stages are the services with a binary of their own, in the order of the pipeline.
var stages = []string{"loader", "chunker", "extractor", "resolver", "committer", "reviewer"}

// ackWait of all tests here.
const ackWait = "2s"

var (
	buildOnce sync.Once
	buildDir  string
	errBuild  error
)

// TestMain removes the binaries that the tests built. The process may be a NATS server of a cluster instead.
func TestMain(m *testing.M) {
	testkit.ServeNode()
	code := m.Run()
	if buildDir != "" {
		_ = os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// binary builds every binary once and returns the path of one: "factmill" or a service.
func binary(t testing.TB, name string) string {
	t.Helper()
	buildOnce.Do(func() {
		if buildDir, errBuild = os.MkdirTemp("", "factmill-bin-"); errBuild != nil {
			return
		}
		args := []string{"build", "-o", buildDir + string(filepath.Separator), "./cmd/factmill"}
		for _, s := range stages {
			args = append(args, "./services/"+s+"/cmd/"+s)
		}
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			errBuild = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, errBuild)
	return filepath.Join(buildDir, name)
}

// process is a running binary.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error // of Wait; valid after done
}

// spawn starts a binary; its log is shown when the test fails, and it is killed at the test's end if it still runs.
func spawn(t testing.TB, env []string, name string, args ...string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	p := &process{name: name, cmd: exec.Command(binary(t, name), args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(cleanEnv(t), env...)
	require.NoError(t, p.cmd.Start())
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("--- log of %s %v\n%s", name, args, p.output())
		}
		_ = log.Close()
	})
	return p
}

// cleanEnv is the environment without anything of Factmill's, and with directories of the test's own.
func cleanEnv(t testing.TB) []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "FACTMILL_") && !strings.HasPrefix(kv, "XDG_") {
			out = append(out, kv)
		}
	}
	return append(out, "XDG_DATA_HOME="+filepath.Join(os.TempDir(), "factmill-none-"+fmt.Sprint(os.Getpid())))
}

func (p *process) output() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	const most = 20_000
	if len(b) > most {
		b = append([]byte("…\n"), b[len(b)-most:]...)
	}
	return string(b)
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends a process by SIGTERM and waits.
func (p *process) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		require.Fail(t, "did not stop", p.name)
	}
}

// runs says whether a process has not ended.
func (p *process) runs() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// cluster is a running Factmill in one of its shapes.
type cluster struct {
	t     testing.TB
	url   string
	conn  *bus.Conn
	dir   string // of the committer
	procs map[string][]*process
	nats  *embedded.Server
	nodes *testkit.NATSCluster // instead of nats
	// access is who may connect to nats: every service with a key of its own, and the tests' client as anybody.
	access *embedded.Access
	keys   string // directory of the services' seeds
	// streams is the directory of nats.
	streams string
	args    []string // of every process
}

// allInOne starts `factmill up`.
func allInOne(t testing.TB, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), procs: map[string][]*process{}}
	c.up(args...)
	return c
}

func (c *cluster) up(args ...string) {
	c.t.Helper()
	addr := freeAddress(c.t)
	all := append([]string{"up", "--data", c.dir, "--listen", addr, "--bus.ack_wait", ackWait}, args...)
	c.procs["factmill"] = []*process{spawn(c.t, nil, "factmill", all...)}
	c.url = "nats://" + addr
	c.connect()
	c.ready(stages...)
}

// sixProcesses starts a separate NATS server and n replicas of each service (one committer).
func sixProcesses(t testing.TB, n int, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), procs: map[string][]*process{}, streams: t.TempDir(), args: args}
	c.access, c.keys = testkit.Access(t), t.TempDir()
	for name, key := range c.access.Keys {
		require.NoError(t, os.WriteFile(filepath.Join(c.keys, name), []byte(key.Seed), 0o600))
	}
	c.nats = testkit.Server(t, embedded.Options{Dir: c.streams, Listen: "127.0.0.1:0", Access: c.access})
	c.url = c.nats.ClientURL()
	c.connect()
	require.NoError(t, bus.EnsureAll(t.Context(), c.conn.JS, testkit.Table()))
	c.fleet(n)
	return c
}

// fleet starts n replicas of each service, of the committer one.
func (c *cluster) fleet(n int) {
	c.t.Helper()
	for _, s := range stages {
		replicas := n
		if s == "committer" {
			replicas = 1
		}
		for range replicas {
			c.start(s)
		}
	}
	c.ready(stages...)
}

// start starts one more process of a service.
func (c *cluster) start(service string, args ...string) *process {
	return c.startWith(service, nil, args...)
}

func (c *cluster) startWith(service string, env []string, args ...string) *process {
	c.t.Helper()
	all := append([]string{"--nats.url", c.url, "--bus.ack_wait", ackWait, "--loader.roots", string(filepath.Separator)}, append(slices.Clone(c.args), args...)...)
	if c.keys != "" {
		all = append(all, "--nats.nkey", filepath.Join(c.keys, service))
	}
	if service == "committer" {
		all = append(all, "--data", c.dir)
	}
	p := spawn(c.t, env, service, all...)
	c.procs[service] = append(c.procs[service], p)
	return p
}

// the is the one running process of a service.
func (c *cluster) the(service string) *process {
	c.t.Helper()
	all := c.procs[service]
	require.NotEmpty(c.t, all)
	return all[len(all)-1]
}

func (c *cluster) connect() {
	c.t.Helper()
	testkit.AwaitFor(c.t, 30*time.Second, "NATS at "+c.url, func() bool {
		conn, err := bus.Connect(context.Background(), bus.Options{URL: c.url, Name: "test", Log: testkit.Quiet(), Timeout: time.Second})
		if err != nil {
			return false
		}
		c.conn = conn
		return true
	})
	c.t.Cleanup(c.conn.Close)
}

// ready waits until each of the services answers.
func (c *cluster) ready(services ...string) {
	c.t.Helper()
	if slices.Contains(services, "committer") {
		services = append(slices.Clone(services), "jobs") // the committer's other desk
	}
	for _, s := range services {
		testkit.AwaitFor(c.t, 60*time.Second, s+" answers", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return c.conn.Request(ctx, bus.HealthSubject(s), nil, nil) == nil
		})
	}
}

// messages that a stream holds.
func (c *cluster) messages(stream string) uint64 {
	c.t.Helper()
	s, err := c.conn.JS.Stream(c.t.Context(), stream)
	require.NoError(c.t, err)
	return s.CachedInfo().State.Msgs
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// ask sends a request to factmill.<graph>.<verb>.
func ask[R any](c *cluster, graph, verb string, req any) R {
	c.t.Helper()
	var r R
	require.NoError(c.t, c.conn.Request(c.t.Context(), "factmill."+graph+"."+verb, req, &r), verb)
	return r
}

// refused sends a request that must be refused.
func refused(c *cluster, graph, verb string, req any) *api.Error {
	c.t.Helper()
	err := c.conn.Request(c.t.Context(), "factmill."+graph+"."+verb, req, nil)
	var e *api.Error
	require.True(c.t, errors.As(err, &e), "%s: %v", verb, err)
	return e
}

// publish sends a document event and returns its job.
func (c *cluster) publish(graph string, event map[string]any) string {
	c.t.Helper()
	b, err := json.Marshal(event)
	require.NoError(c.t, err)
	seq, err := c.conn.Ingest(c.t.Context(), graph, b, nil)
	require.NoError(c.t, err)
	if j, ok := event["job"].(string); ok {
		return j
	}
	return fmt.Sprintf("j%d", seq)
}

// await waits for the end of a job and demands a state.
func (c *cluster) await(graph, job, state string) api.JobStatus {
	c.t.Helper()
	var s api.JobStatus
	deadline := time.Now().Add(3 * time.Minute)
	for {
		s = ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: job, Wait: "5s"})
		if through(s) || s.State == api.JobHeld || time.Now().After(deadline) {
			break
		}
	}
	require.Equal(c.t, state, s.State, "job %s: %s %+v", job, s.Reason, s.Stages.Ingestion)
	return s
}

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// run runs the factmill command.
func run(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	return runIn(t, "", stdin, args...)
}

// runIn runs the factmill command in a directory.
func runIn(t testing.TB, dir, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary(t, "factmill"), args...)
	cmd.Dir = dir
	cmd.Env = cleanEnv(t)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// cli runs the factmill command against the cluster and demands an exit code.
func (c *cluster) cli(code int, args ...string) result {
	c.t.Helper()
	r := run(c.t, "", append(args, "--nats", c.url)...)
	require.Equal(c.t, code, r.code, "factmill %v\n%s\n%s", args, r.stdout, r.stderr)
	return r
}

// export is the canonical export of a graph.
func (c *cluster) export(graph string) string {
	c.t.Helper()
	return c.cli(0, "export", "--canonical", "--graph", graph).stdout
}

// sound demands that verify finds nothing.
func (c *cluster) sound(graph string) {
	c.t.Helper()
	r := ask[api.VerifyReply](c, graph, "query.verify", nil)
	require.Empty(c.t, r.Problems)
	require.NotZero(c.t, r.Keys)
}

// example is the directory of the corpus that the demo shows: docs, schema.yaml, expected.jsonl.
func example(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "examples", "observatories"))
	require.NoError(t, err)
	return dir
}
