package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/chunker"
	"github.com/factmill/factmill/services/committer"
	"github.com/factmill/factmill/services/extractor"
	"github.com/factmill/factmill/services/loader"
	"github.com/factmill/factmill/services/resolver"
	"github.com/factmill/factmill/services/reviewer"
)

// fleet is NATS and any number of replicas of the services, all inside the test: the very packages that the binaries are made
// of, over a real server and a real store, so that a round takes a fraction of a second.
type fleet struct {
	*cluster
	server *embedded.Server
	opt    fleetOptions

	mu      sync.Mutex
	members []*member // guarded by mu
	dying   sync.WaitGroup
}

// fleetOptions of newFleet; the zero value is one replica of each service.
type fleetOptions struct {
	// Replicas of each service but the committer. Defaults to 1.
	Replicas int
	// AckWait of every consumer. Defaults to testkit.AckWait.
	AckWait time.Duration
	// Lease of jobs. Defaults to a minute.
	Lease time.Duration
	// Extractor is the extractor's configuration.
	Extractor extractor.Config
	// Resolver is the resolver's configuration.
	Resolver resolver.Config
	// Committer is the committer's configuration; its directory and lease are the fleet's.
	Committer committer.Config
	// Roots of the loader.
	Roots []string
	// Fake replaces services by name.
	Fake map[string]func(app.Deps) (app.Service, error)
}

// member is one replica of a service.
type member struct {
	name   string
	conn   *bus.Conn
	reg    *prometheus.Registry
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run; valid after done
}

func newFleet(t testing.TB, opt fleetOptions) *fleet {
	t.Helper()
	opt.Replicas = max(opt.Replicas, 1)
	if opt.AckWait == 0 {
		opt.AckWait = testkit.AckWait
	}
	access := testkit.Access(t)
	s := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Access: access})
	f := &fleet{cluster: &cluster{t: t, dir: t.TempDir(), conn: testkit.Connect(t, s, "test"), access: access}, server: s, opt: opt}
	require.NoError(t, bus.EnsureAll(t.Context(), f.conn.JS, bus.NewTable(bus.TableOptions{AckWait: opt.AckWait})))
	t.Cleanup(f.stopAll)
	for _, name := range stages {
		n := opt.Replicas
		if name == "committer" {
			n = 1
		}
		for range n {
			f.add(name)
		}
	}
	f.ready(stages...)
	return f
}

// build makes a service as its binary does.
func (f *fleet) build(name string, deps app.Deps) (app.Service, error) {
	if fake := f.opt.Fake[name]; fake != nil {
		return fake(deps)
	}
	switch name {
	case "loader":
		return loader.New(loader.Config{Roots: f.opt.Roots}, deps)
	case "chunker":
		return chunker.New(chunker.Config{}, deps)
	case "extractor":
		return extractor.New(f.opt.Extractor, deps)
	case "resolver":
		return resolver.New(f.opt.Resolver, deps)
	case "committer":
		cfg := f.opt.Committer
		cfg.Dir, cfg.Lease = filepath.Join(f.dir, "store"), f.opt.Lease
		return committer.New(cfg, deps)
	case "reviewer":
		return reviewer.New(reviewer.Config{}, deps)
	default:
		return nil, fmt.Errorf("there is no service %q", name)
	}
}

// start starts a replica with a connection and a registry of its own.
func (f *fleet) start(name string) (*member, error) {
	conn, err := bus.Connect(context.Background(), f.access.As(name, bus.Options{InProcess: f.server, Name: name, Log: testkit.Quiet()}))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	m := &member{name: name, conn: conn, reg: prometheus.NewRegistry(), done: make(chan struct{})}
	s, err := f.build(name, app.Deps{Conn: conn, Log: testkit.Quiet(), Metrics: m.reg})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	f.watch(m)
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	go func() { m.err = s.Run(ctx); close(m.done) }() // ends with stop or crash
	return m, nil
}

// watch fails the test when a replica does what its user may not: as a process it would end.
func (f *fleet) watch(m *member) {
	f.dying.Go(func() {
		select {
		case err := <-m.conn.Failed():
			if errors.Is(err, nats.ErrPermissionViolation) {
				f.t.Errorf("%s: %v", m.name, err)
			}
		case <-m.done:
		}
	})
}

// stop ends a replica as SIGTERM does. It may say that it was told to stop while it started.
func (m *member) stop() error {
	m.cancel()
	<-m.done
	m.conn.Close()
	if errors.Is(m.err, context.Canceled) {
		return nil
	}
	return m.err
}

// crash cuts a replica off: no ack, hand-back or reply of it gets through any more. What it does then it does for nobody; a stage
// is not waited for. The committer's store is closed first, since its lock is this process's: real kills are another test's.
func (f *fleet) crash(m *member) {
	m.conn.NC.Close()
	end := func() {
		m.cancel()
		<-m.done // an error: it lost its connection
		m.conn.Close()
	}
	if m.name == "committer" {
		end()
		return
	}
	f.dying.Go(end)
}

func (f *fleet) add(name string) {
	f.t.Helper()
	m, err := f.start(name)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, m)
}

// replace ends one replica, by a stop or a crash, and starts another of the same service.
func (f *fleet) replace(i int, crash bool) error {
	f.mu.Lock()
	m := f.members[i]
	f.mu.Unlock()
	if crash {
		f.crash(m)
	} else if err := m.stop(); err != nil {
		return fmt.Errorf("stop %s: %w", m.name, err)
	}
	next, err := f.start(m.name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[i] = next
	return nil
}

// restart restarts every replica of a service.
func (f *fleet) restart(name string) {
	f.t.Helper()
	for i, m := range f.list() {
		if m.name == name {
			require.NoError(f.t, f.replace(i, false))
		}
	}
	f.ready(name)
}

func (f *fleet) list() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*member(nil), f.members...)
}

// stopAll ends every replica.
func (f *fleet) stopAll() {
	defer f.dying.Wait()
	for _, m := range f.list() {
		if err := m.stop(); err != nil {
			f.t.Errorf("stop %s: %v", m.name, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = nil
}

// counter adds a metric up over the replicas that run now, over all its labels.
func (f *fleet) counter(name string, labels ...string) int {
	f.t.Helper()
	total := 0.0
	for _, m := range f.list() {
		families, err := m.reg.Gather()
		require.NoError(f.t, err)
		for _, fam := range families {
			if fam.GetName() != name {
				continue
			}
			for _, x := range fam.GetMetric() {
				var have []string
				for _, l := range x.GetLabel() {
					have = append(have, l.GetName()+"="+l.GetValue())
				}
				if subset(labels, have) {
					total += x.GetCounter().GetValue()
				}
			}
		}
	}
	return int(total)
}

func subset(want, have []string) bool {
	for _, w := range want {
		found := false
		for _, h := range have {
			found = found || w == h
		}
		if !found {
			return false
		}
	}
	return true
}

// extracted is how many chunks extractors read so far.
func (f *fleet) extracted() int { return f.counter("factmill_extractor_chunks_total") }

// exported is the canonical export of a graph at a sequence (0: now), asked page by page without the command.
func (f *fleet) exported(graph string, seq uint64) string {
	f.t.Helper()
	var out, row strings.Builder
	req := api.Export{Canonical: true, Seq: seq}
	for {
		page := ask[api.ExportReply](f.cluster, graph, "query.export", req)
		for _, r := range page.Rows {
			out.Write(r)
			out.WriteByte('\n')
		}
		if page.Part != "" {
			row.WriteString(page.Part)
			if page.Last {
				out.WriteString(row.String())
				out.WriteByte('\n')
				row.Reset()
			}
		}
		if page.Next == "" {
			return out.String()
		}
		req.Cursor = page.Next
	}
}

// run publishes an event and waits until its job is committed.
func (f *fleet) run(graph string, event map[string]any) api.JobStatus {
	f.t.Helper()
	return f.await(graph, f.publish(graph, event), api.JobCommitted)
}

// through says whether a job has ended and nothing more comes of it, whatever hindered its links for a moment.
func through(s api.JobStatus) bool {
	return api.Ended(s.State) && !slices.ContainsFunc(s.Progress, func(p api.Progress) bool { return p.Stage == api.StageLinker })
}

// settled waits until a job has ended and its names are compared.
func (c *cluster) settled(graph, job string) (s api.JobStatus) {
	c.t.Helper()
	testkit.AwaitFor(c.t, time.Minute, "the end of job "+job, func() bool {
		s = ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: job, Wait: "5s"})
		return through(s)
	})
	return s
}

// putSchema makes a schema the graph's active one.
func (c *cluster) putSchema(graph, text string) {
	c.t.Helper()
	ask[api.SchemaReply](c, graph, "schema.put", api.SchemaPut{Schema: text, Name: "test"})
}

// putSettings changes pipeline settings of the graph.
func (c *cluster) putSettings(graph string, kv map[string]string) {
	c.t.Helper()
	ask[api.SettingsReply](c, graph, "settings.put", api.SettingsPut{Settings: kv})
}

// stored is what the decision table is asked about a key.
func (c *cluster) stored(g, key string) graph.Stored {
	c.t.Helper()
	return ask[api.StoredReply](c, g, "query.stored", api.StoredGet{Keys: []string{key}}).Stored[0]
}

// documentAt is a document as query.document shows it.
func (f *fleet) documentAt(graph string, req map[string]any) api.DocumentReply {
	f.t.Helper()
	return ask[api.DocumentReply](f.cluster, graph, "query.document", req)
}

// seeds are the seeds of a random test: n of them, or as many as FACTMILL_SEEDS says; a number after "@" is the first one.
func seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	first := uint64(time.Now().UnixNano())
	if s := os.Getenv("FACTMILL_SEEDS"); s != "" {
		count, at, fixed := strings.Cut(s, "@")
		v, err := strconv.Atoi(count)
		require.NoError(t, err, "FACTMILL_SEEDS is a count, or count@first")
		n = v
		if fixed {
			first, err = strconv.ParseUint(at, 10, 64)
			require.NoError(t, err, "FACTMILL_SEEDS is a count, or count@first")
		}
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// random is a source of its own for a purpose of a seed, so that one goroutine's draws do not move another's.
func random(seed uint64, purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(purpose) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// committed waits for the end of jobs while services come and go, and demands that all committed.
func (c *cluster) committed(graph string, jobs []string) []api.JobStatus {
	c.t.Helper()
	out := make([]api.JobStatus, len(jobs))
	for i, job := range jobs {
		out[i] = c.outcome(graph, job, through)
		require.Equal(c.t, api.JobCommitted, out[i].State, "job %s of %s: %s", job, graph, out[i].Reason)
	}
	return out
}

// outcome waits until a job is as it shall be, over whatever falls meanwhile.
func (c *cluster) outcome(graph, job string, done func(api.JobStatus) bool) (s api.JobStatus) {
	c.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !done(s) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		var now api.JobStatus
		err := c.conn.Request(ctx, "factmill."+graph+".jobs.get", api.JobGet{Job: job, Wait: "5s"}, &now)
		cancel()
		var refused *api.Error
		if err != nil && !(errors.As(err, &refused) && refused.Status == 503) {
			require.NoError(c.t, err)
		}
		s = now
		if time.Now().After(deadline) {
			require.Fail(c.t, "a job does not end", "%s of %s: %+v\n%s", job, graph, s, c.waiting())
		}
	}
	return s
}

// waiting lists the messages that lie between the stages.
func (c *cluster) waiting() string {
	c.t.Helper()
	var b strings.Builder
	for _, spec := range bus.NewTable(bus.TableOptions{}).Consumers {
		s, err := c.conn.JS.Stream(c.t.Context(), spec.Stream)
		require.NoError(c.t, err)
		info, err := s.Info(c.t.Context(), jetstream.WithSubjectFilter(">"))
		require.NoError(c.t, err)
		cons, err := s.Consumer(c.t.Context(), spec.Config.Durable)
		require.NoError(c.t, err)
		ci := cons.CachedInfo()
		fmt.Fprintf(&b, "%s: %d messages, %d not acknowledged, %d to deliver, %v\n", spec.Stream, info.State.Msgs, ci.NumAckPending, ci.NumPending, info.State.Subjects)
	}
	return b.String()
}

// noDeadLetters demands that nothing was parked.
func (c *cluster) noDeadLetters() {
	c.t.Helper()
	s, err := c.conn.JS.Stream(c.t.Context(), bus.StreamDead)
	require.NoError(c.t, err)
	info, err := s.Info(c.t.Context())
	require.NoError(c.t, err)
	if info.State.Msgs > 0 {
		m, err := s.GetMsg(c.t.Context(), info.State.FirstSeq)
		require.NoError(c.t, err)
		require.Zero(c.t, info.State.Msgs, "parked: %s", m.Data)
	}
}
