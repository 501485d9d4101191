//go:build proof

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// crashCase is one row of the crash matrix: the process of a service kills itself at a point while it works on a step of the story.
type crashCase struct {
	service string // whose process, where each has its own
	point   string // name:n, the n-th time it is reached
	step    string
}

func (c crashCase) name() string { return strings.ReplaceAll(c.point, ":", "-") + " in " + c.step }

// crashMatrix has every service at each point of its way, and the committer at every step of a commit and of a roll-back. Where a
// stage handles many messages of a job it dies at the third, with others in its hands.
func crashMatrix() (out []crashCase) {
	for _, stage := range []struct{ service, runner, n string }{
		{"loader", "lister", "1"}, {"loader", "loader", "3"}, {"chunker", "chunker", "3"}, {"extractor", "extractor", "3"},
		{"resolver", "resolver", "3"}, {"committer", "committer", "1"},
	} {
		for _, at := range []string{"received", "computed", "published"} {
			out = append(out, crashCase{stage.service, stage.runner + "." + at + ":" + stage.n, stepChange})
		}
	}
	for _, c := range []crashCase{
		{"", "staged:2", stepChange}, {"", "before_commit:1", stepChange}, {"", "in_commit:1", stepChange}, {"", "after_commit:1", stepChange},
		// What the commit leaves to say is the first that has two halves.
		{"", "outbox_half:1", stepChange},
		{"", "staged:1", stepDelete}, {"", "in_commit:1", stepDelete}, {"", "after_commit:1", stepDelete},
		{"", "in_rollback:1", stepFail},
	} {
		out = append(out, crashCase{"committer", c.point, c.step})
	}
	return out
}

// crashLane runs rows of the matrix in one cluster, each in a graph of its own.
type crashLane struct {
	t *testing.T
	c *cluster
	// restart starts a service's process anew, armed or not.
	restart func(service string, env []string) *process
	running *process // of the last restart
	calm    account
	before  *crashResult // of the row before
}

type crashResult struct {
	graph string
	account
}

// newLane tells the story in an undisturbed graph, and the steps before the crash in the graph of every row.
func newLane(t *testing.T, c *cluster, cases []crashCase) *crashLane {
	l := &crashLane{t: t, c: c}
	c.tellAll("calm", story...)
	l.calm = c.account("calm")
	require.Len(t, l.calm.jobs, len(story))
	require.Equal(t, uint64(3), l.calm.seq.Seq)
	require.Greater(t, strings.Count(l.calm.export, "\n"), 60)
	t.Logf("undisturbed: %d rows exported, %d kept events, %d candidate events", strings.Count(l.calm.export, "\n"), l.calm.stored, l.calm.seq.No)
	for i, k := range cases {
		for _, s := range story {
			if s == k.step {
				break
			}
			if s != stepFail && k.step != stepFail || s == stepBase {
				c.publish(graphOf(i), tell(s))
				c.await(graphOf(i), s, endOf(s))
			}
		}
	}
	return l
}

func graphOf(i int) string { return fmt.Sprintf("crash%d", i) }

// run crashes one row and demands that the job ends as the undisturbed one.
func (l *crashLane) run(t *testing.T, i int, k crashCase) {
	l.c.t = t
	defer func() { l.c.t = l.t }()
	g, begin := graphOf(i), time.Now()
	env, mark := armed(t, k.point)
	p := l.fresh(k.service, env)
	l.unchanged()
	l.c.publish(g, tell(k.step))
	dies(t, p, mark)
	crashed := time.Since(begin)
	l.fresh(k.service, nil)
	l.c.await(g, k.step, endOf(k.step))
	ended := time.Since(begin)
	for _, s := range story {
		if s != stepBase && s != k.step && !l.told(g, s) {
			l.c.publish(g, tell(s))
			l.c.await(g, s, endOf(s))
		}
	}
	a := l.c.account(g)
	a.same(t, l.calm)
	l.c.sound(g)
	l.before = &crashResult{g, a}
	t.Logf("%s reached (mark written), process killed by signal 9 after %s; restarted: job %s %s at %s; export, %d jobs, %d kept events as undisturbed; verify clean",
		k.point, crashed.Round(time.Millisecond), k.step, endOf(k.step), ended.Round(time.Millisecond), len(a.jobs), a.stored)
}

func (l *crashLane) told(graph, step string) bool {
	for _, j := range ask[api.JobListReply](l.c, graph, "jobs.list", api.JobList{}).Jobs {
		if j.Job == step {
			return true
		}
	}
	return false
}

// fresh ends the service's process, if it runs, and starts it anew. Processes belong to the lane, not to the row.
func (l *crashLane) fresh(service string, env []string) *process {
	t := l.c.t
	l.c.t = l.t
	defer func() { l.c.t = t }()
	return l.restart(service, env)
}

// unchanged looks at the row before once more: its process was restarted a second time meanwhile, and that changed nothing.
func (l *crashLane) unchanged() {
	if l.before == nil {
		return
	}
	b := l.before
	l.before = nil
	again := l.c.account(b.graph)
	require.Equal(l.c.t, b.account, again, "a second restart changes nothing")
	l.c.sound(b.graph)
}

// TestCrashMatrixSixProcesses kills each service of six processes at each point.
func TestCrashMatrixSixProcesses(t *testing.T) {
	t.Parallel()
	cases := crashMatrix()
	c := sixProcesses(t, 1)
	l := newLane(t, c, cases)
	l.restart = func(service string, env []string) *process {
		if p := c.the(service); p.runs() {
			p.stop(t)
			require.NoError(t, p.err, "a stop ends with code 0")
		}
		p := c.startWith(service, env)
		c.ready(service)
		return p
	}
	l.all(cases)
}

// TestCrashMatrixAllInOne kills the all-in-one, with its NATS server, at each point.
func TestCrashMatrixAllInOne(t *testing.T) {
	t.Parallel()
	cases := crashMatrix()
	c := allInOne(t)
	l := newLane(t, c, cases)
	l.restart = func(_ string, env []string) *process {
		if p := c.the("factmill"); p.runs() {
			p.stop(t)
			require.NoError(t, p.err, "a stop ends with code 0")
		}
		return c.again(env)
	}
	l.all(cases)
}

func (l *crashLane) all(cases []crashCase) {
	for i, k := range cases {
		l.t.Run(k.name(), func(t *testing.T) { l.run(t, i, k) })
	}
	if l.before != nil {
		l.fresh("committer", nil)
		l.unchanged()
	}
	for i := range cases {
		require.Equal(l.t, l.calm.export, l.c.export(graphOf(i)), "every graph at the end")
	}
}
