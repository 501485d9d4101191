//go:build proof

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/pkg/testkit"
)

// The story that the crash and fault tests tell: a small corpus over shared entities, and what happens to it. Each step is one
// document event and one job of that name, in any graph.
const (
	stepBase   = "base"   // twelve documents, two of them rows of a table
	stepChange = "change" // new, updated, re-dated and unchanged documents, and the table with a changed and a new row
	stepDelete = "delete" // one document goes
	stepFail   = "fail"   // one of its documents cannot be read: under raise nothing of it commits
)

var story = []string{stepBase, stepChange, stepDelete, stepFail}

const (
	ferry  = "The ferry line Northern Crossings was founded in 1921. Greta Holm worked for Northern Crossings in Port Marrow. The vessel Sea Lark belongs to Northern Crossings."
	canal  = "Tobias Renn worked for Harbour Trust. Harbour Trust is located in Port Marrow. The sluice Old Gate was rebuilt in 1954."
	survey = "Greta Holm wrote the report Tides of the Marrow. Tobias Renn took part in the Marrow Survey."
)

// table is the story's CSV source: each row is a document.
func table(rows ...string) string { return "name,employer,town\n" + strings.Join(rows, "\n") + "\n" }

// tell is the document event of a step.
func tell(step string) map[string]any {
	e := map[string]any{"job": step}
	switch step {
	case stepBase:
		e["documents"] = []any{
			inline("ferry", ferry), inline("canal", canal), inline("survey", survey),
			inline("mill", "Ines Vale worked for Vale Mills. Vale Mills owns Mill Farm. Vale Mills is located in Lower Sarn."),
			inline("bridge", "Harbour Trust owns the Sarn Bridge. Tobias Renn was born in 1899. The Sarn Bridge is located in Lower Sarn."),
			inline("museum", "Ines Vale worked for the Marrow Museum. The Marrow Museum is located in Port Marrow."),
			inline("yard", "Northern Crossings bought Sarn Yard in 1930. Sarn Yard is located in Lower Sarn. Greta Holm led Sarn Yard."),
			inline("school", "Tobias Renn studied at Sarn School. Sarn School is located in Lower Sarn.", "published_at", "1961-04-02"),
			inline("paper", "# The Marrow Post\n\nInes Vale wrote for the Marrow Post.\n\n## Owners\n\nHarbour Trust owns the Marrow Post.\n", "format", "markdown"),
			inline("lamp", "Vale Mills supplies lamp oil to Northern Crossings. Greta Holm works for Vale Mills."),
			inline("staff", table("Ines Vale,Vale Mills,Lower Sarn", "Greta Holm,Northern Crossings,Port Marrow"), "format", "csv"),
		}
	case stepChange:
		e["documents"] = []any{
			inline("canal", "Tobias Renn worked for Harbour Trust. Ines Vale worked for Harbour Trust. Harbour Trust is located in Lower Sarn."),
			inline("survey", survey+" Ines Vale took part in the Marrow Survey."),
			inline("school", "Tobias Renn studied at Sarn School. Sarn School is located in Lower Sarn.", "published_at", "1962-05-03"),
			inline("ferry", ferry),
			inline("press", "Greta Holm worked for the Marrow Post. The Marrow Post is located in Port Marrow."),
			inline("choir", "Ines Vale founded the Sarn Choir in 1948. The Sarn Choir is located in Lower Sarn."),
			inline("dock", "Northern Crossings owns Long Dock. Long Dock is located in Port Marrow. The vessel Sea Lark lay at Long Dock."),
			inline("staff", table("Ines Vale,Vale Mills,Lower Sarn", "Greta Holm,Harbour Trust,Port Marrow", "Tobias Renn,Harbour Trust,Port Marrow"), "format", "csv"),
		}
	case stepDelete:
		e["op"], e["key"] = "delete", "lamp"
	case stepFail:
		e["documents"] = []any{
			inline("ferry", "Northern Crossings was sold to Harbour Trust."), inline("broken", "{\"name\": ", "format", "json"),
			inline("extra", "Tobias Renn worked for Sarn Yard."),
		}
	}
	return e
}

// endOf is the state in which a step's job ends.
func endOf(step string) string {
	if step == stepFail {
		return api.JobRolledBack
	}
	return api.JobCommitted
}

// tellAll runs steps one after the other and waits for the end of each.
func (c *cluster) tellAll(graph string, steps ...string) {
	c.t.Helper()
	for _, s := range steps {
		c.publish(graph, tell(s))
		c.await(graph, s, endOf(s))
	}
}

// account is everything that a graph shows of its story, without what may differ between two runs: times, trace ids, the
// graph's name.
type account struct {
	export string
	seq    api.SeqReply
	jobs   map[string]string // by job: its status
	kept   map[string]string // by message id: subject and body of every kept event
	stored int               // kept events before any were thrown out as doubles
}

// account waits until no message of any job is under way and looks at everything.
func (c *cluster) account(graph string) account {
	c.t.Helper()
	c.quiet()
	a := account{export: c.export(graph), seq: ask[api.SeqReply](c, graph, "query.seq", nil), jobs: map[string]string{}, kept: map[string]string{}}
	for _, j := range ask[api.JobListReply](c, graph, "jobs.list", api.JobList{}).Jobs {
		require.NotContains(c.t, a.jobs, j.Job, "a job is listed once")
		c.said(bus.StreamJobs, events.Subject{Graph: graph, Kind: "job." + j.State, Job: j.Job}, 1)
		if d := j.Documents; d.Added+d.Updated+d.Deleted > 0 && j.State == api.JobCommitted {
			c.said(bus.StreamChanges, events.Subject{Graph: graph, Kind: events.KindChange, Job: fmt.Sprint(j.CommitSeq)}, 1)
		}
		a.jobs[j.Job] = timeless(c.t, ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: j.Job}))
	}
	c.said(bus.StreamCandidates, events.Subject{Graph: graph, Kind: events.KindCandidate, Job: "*", Item: "*"}, a.seq.No)
	for _, stream := range []string{bus.StreamJobs, bus.StreamCandidates, bus.StreamChanges, bus.StreamDead} {
		for _, m := range c.read(stream, events.Root+"."+graph+".>") {
			a.stored++
			id := strings.TrimPrefix(m.Headers().Get(events.HeaderMsgID), graph)
			a.kept[id] = strings.Replace(m.Subject(), "."+graph+".", ".*.", 1) + " " + timelessEvent(c.t, m)
		}
	}
	return a
}

// quiet waits until no stage has or gets a message and no document event is left. A message may lie in a queue and not be in the
// way: one that its consumer takes for acknowledged after the server was killed.
func (c *cluster) quiet() {
	c.t.Helper()
	for _, k := range testkit.Table().Consumers {
		testkit.Await(c.t, "nothing for "+k.Config.Durable+" on "+k.Stream, func() bool {
			i := c.consumer(k.Stream, k.Config.Durable)
			return i.NumAckPending == 0 && i.NumPending == 0
		})
	}
	testkit.Await(c.t, "the document events of all jobs to be deleted", func() bool { return c.messages(bus.StreamIngest) == 0 })
}

// said waits until a kept stream holds at least n messages of a subject: the outbox publishes them soon after a commit.
func (c *cluster) said(stream string, subject events.Subject, n uint64) {
	c.t.Helper()
	s, err := c.conn.JS.Stream(c.t.Context(), stream)
	require.NoError(c.t, err)
	testkit.Await(c.t, fmt.Sprintf("%d events %s", n, subject), func() bool {
		i, err := s.Info(c.t.Context(), jetstream.WithSubjectFilter(subject.String()))
		require.NoError(c.t, err)
		var have uint64
		for _, m := range i.State.Subjects {
			have += m
		}
		return have >= n
	})
}

// pending is how many messages of a stream's consumer are delivered and not acknowledged, and how many wait.
func (c *cluster) pending(stream, durable string) (held, waiting int) {
	c.t.Helper()
	i := c.consumer(stream, durable)
	return i.NumAckPending, int(i.NumPending)
}

func (c *cluster) consumer(stream, durable string) *jetstream.ConsumerInfo {
	c.t.Helper()
	cons, err := c.conn.JS.Consumer(c.t.Context(), stream, durable)
	require.NoError(c.t, err)
	return cons.CachedInfo()
}

// read reads everything that lies on a subject of a kept stream.
func (c *cluster) read(stream, subject string) (out []jetstream.Msg) {
	c.t.Helper()
	ctx := c.t.Context()
	cons, err := c.conn.JS.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: subject, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: 5 * time.Second,
	})
	require.NoError(c.t, err)
	n := int(cons.CachedInfo().NumPending)
	if n == 0 {
		return nil
	}
	testkit.Await(c.t, "the consumer's leader hears, in a cluster", func() bool {
		batch, err := cons.Fetch(n-len(out), jetstream.FetchMaxWait(10*time.Second))
		require.NoError(c.t, err)
		for m := range batch.Messages() {
			out = append(out, m)
		}
		if err := batch.Error(); !errors.Is(err, nats.ErrNoResponders) {
			require.NoError(c.t, err)
		}
		return len(out) == n
	})
	require.Len(c.t, out, n)
	return out
}

// timeless is a job's status without what differs between two runs: times, and how far the others were when a job failed.
func timeless(t testing.TB, s api.JobStatus) string {
	t.Helper()
	if s.State == api.JobRolledBack {
		in := s.Stages.Ingestion.Failures
		s = api.JobStatus{Job: s.Job, Op: s.Op, State: s.State, Reason: s.Reason, Attempt: s.Attempt, Documents: api.DocumentCounts{Failed: s.Documents.Failed}}
		s.Stages.Ingestion.Failures = in
	}
	s.Graph, s.OpenedAt, s.EndedAt = "", "", ""
	s.Stages.Storage.Bytes = 0 // times and the graph's name are in them
	for i := range s.Stages.Extraction.Dropped {
		s.Stages.Extraction.Dropped[i].Sample = "" // the first that arrived
	}
	st := &s.Stages
	for _, f := range []*api.Failures{&st.Ingestion.Failures, &st.Chunking.Failures, &st.Extraction.Failures,
		&st.Escalation.Failures, &st.Resolution.Failures, &st.Merge.Failures, &st.Storage.Failures} {
		for i := range f.List {
			f.List[i].TraceID = ""
		}
	}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b)
}

func timelessEvent(t testing.TB, m jetstream.Msg) string {
	t.Helper()
	e, err := events.Decode(m.Subject(), m.Headers().Get(events.HeaderSchema), m.Data())
	require.NoError(t, err)
	switch e := e.(type) {
	case *events.JobState:
		e.Graph = ""
		if len(e.Status) > 0 {
			var s api.JobStatus
			require.NoError(t, json.Unmarshal(e.Status, &s))
			e.Status = json.RawMessage(timeless(t, s))
		}
	case *events.CandidateEvent:
		e.Graph = ""
		for i := range e.Items {
			e.Items[i].At = ""
		}
	case *events.Change:
		e.Graph = ""
	}
	b, err := json.Marshal(e)
	require.NoError(t, err)
	return string(b)
}

// same demands that a graph shows exactly what another showed, and that none of its kept events lies there twice.
func (a account) same(t testing.TB, want account) {
	t.Helper()
	require.Equal(t, want.jobs, a.jobs, "every job ended as in the undisturbed run, and counted once")
	require.Equal(t, want.export, a.export, "the canonical export")
	require.Equal(t, want.seq, a.seq, "the store's sequence and the number of candidate events")
	require.Equal(t, want.kept, a.kept, "the kept events")
	require.Equal(t, len(a.kept), a.stored, "no kept event twice")
}

// dies waits for the end of a process that kills itself at a failpoint, and demands the failpoint's mark.
func dies(t testing.TB, p *process, mark string) {
	t.Helper()
	testkit.AwaitFor(t, 30*time.Second, p.name+" reaches its failpoint", func() bool { return !p.runs() })
	require.FileExists(t, mark, "the failpoint was reached")
	require.Equal(t, syscall.SIGKILL, killedBy(t, p))
}

// killedBy is the signal that ended a process.
func killedBy(t testing.TB, p *process) syscall.Signal {
	t.Helper()
	<-p.done
	exit, ok := p.err.(*exec.ExitError)
	require.True(t, ok, "%s ended with %v", p.name, p.err)
	w, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, w.Signaled(), "%s exited with %d", p.name, w.ExitStatus())
	return w.Signal()
}

// armed is the environment of a process that kills itself at a point, and the mark that it leaves.
func armed(t testing.TB, point string) (env []string, mark string) {
	t.Helper()
	mark = filepath.Join(t.TempDir(), "reached")
	return []string{failpoint.Env + "=" + point + "@" + mark}, mark
}

// again starts the all-in-one once more on its directory.
func (c *cluster) again(env []string, args ...string) *process {
	c.t.Helper()
	if c.conn != nil {
		c.conn.Close()
	}
	addr := freeAddress(c.t)
	all := append([]string{"up", "--data", c.dir, "--listen", addr, "--bus.ack_wait", ackWait}, args...)
	p := spawn(c.t, env, "factmill", all...)
	c.procs["factmill"] = append(c.procs["factmill"], p)
	c.url = "nats://" + addr
	c.connect()
	c.ready(stages...)
	return p
}

// counted is the sum of a counter's series with a label in the metrics of a process that was started with --http.listen.
func counted(t testing.TB, p *process, name, label string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(p.metrics(t)) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			var v float64
			_, err := fmt.Sscanf(line[strings.LastIndexByte(line, ' ')+1:], "%g", &v)
			require.NoError(t, err, line)
			sum += int(v)
		}
	}
	return sum
}

// metrics of a process, from the address in its log.
func (p *process) metrics(t testing.TB) string {
	t.Helper()
	const said = "msg=health service="
	out := p.output()
	i := strings.Index(out, said)
	require.GreaterOrEqual(t, i, 0, "no health address in the log of %s", p.name)
	_, addr, ok := strings.Cut(out[i:], "address=")
	require.True(t, ok)
	addr, _, _ = strings.Cut(addr, "\n")
	status, body := get(t, "http://"+strings.TrimSpace(addr)+"/metrics")
	require.Equal(t, 200, status)
	return body
}

// elapsed waits until some time has passed since a moment: where nothing tells that a lease ran out.
func elapsed(t testing.TB, since time.Time, d time.Duration) {
	t.Helper()
	testkit.AwaitFor(t, d+10*time.Second, d.String()+" to pass", func() bool { return time.Since(since) >= d })
}
