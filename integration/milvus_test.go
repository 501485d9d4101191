package integration

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer"
)

// mirrored are jobs whose names link: the same ones over every route.
var mirrored = struct {
	schema string
	jobs   [][]map[string]any
}{
	schemaOf(map[string][]string{"Person": {"Charles Babbage", "Babbage Charles", "Ada Lovelace", "Lovelace Ada", "Grace Hopper"}}),
	[][]map[string]any{
		{doc("a", "We met Charles Babbage there."), doc("b", "They know Ada Lovelace well.")},
		{doc("c", "We met Babbage Charles again."), doc("d", "She is Lovelace Ada by name."), doc("e", "Nobody saw Grace Hopper today.")},
		{doc("f", "Once more Babbage Charles came.")},
	},
}

// overNative is the export of the first n of them, by a committer without Milvus.
func overNative(t *testing.T, n int) string {
	t.Helper()
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", mirrored.schema)
	for _, docs := range mirrored.jobs[:n] {
		f.run("g", map[string]any{"documents": docs})
	}
	return f.exported("g", 0)
}

// facts is an export without what is found behind the commits.
func facts(t *testing.T, export string) exported {
	t.Helper()
	x := parseExport(t, export)
	x.matches = nil
	return x
}

// vectorsOf is where the vectors of a graph are.
func (c *cluster) vectorsOf(graph string) api.VectorsReply {
	c.t.Helper()
	r := ask[api.VectorsReply](c, graph, "vectors.status", nil)
	require.NotNil(c.t, r.Copy)
	require.Equal(c.t, r.Seq-r.Copy.Position, r.Copy.Behind)
	return r
}

// current waits until the copy is not behind.
func (c *cluster) current(graph string) (r api.VectorsReply) {
	c.t.Helper()
	testkit.AwaitFor(c.t, time.Minute, "the copy to catch up", func() bool {
		r = c.vectorsOf(graph)
		return r.Copy.Behind == 0 && r.Copy.Error == ""
	})
	return r
}

// ended waits until a job has ended, whatever hinders its links.
func (c *cluster) ended(graph, job string) (s api.JobStatus) {
	c.t.Helper()
	testkit.AwaitFor(c.t, time.Minute, "the end of job "+job, func() bool {
		s = ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: job})
		return api.Ended(s.State)
	})
	require.Equal(c.t, api.JobCommitted, s.State, s.Reason)
	return s
}

// hindered waits until a job says what its links wait for.
func (c *cluster) hindered(graph, job string) (s api.JobStatus) {
	c.t.Helper()
	testkit.AwaitFor(c.t, time.Minute, "job "+job+" to say what hinders its links", func() bool {
		s = ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: job})
		return len(s.Progress) > 0 && s.Progress[0].Why != ""
	})
	require.Equal(c.t, api.StageLinker, s.Progress[0].Stage)
	require.Positive(c.t, s.Progress[0].Waiting)
	return s
}

// finds demands that an entity is the best hit of a search.
func (c *cluster) finds(g, name string, modes ...string) {
	c.t.Helper()
	for _, mode := range modes {
		r := ask[api.SearchReply](c, g, "query.search", api.Search{Q: name, Mode: mode, Kinds: []string{"entity"}, Raw: true})
		require.NotEmpty(c.t, r.Hits, "%s by %s", name, mode)
		require.Equal(c.t, name, loose[graph.EntityRow](c.t, string(r.Hits[0].Row)).Name, mode)
	}
}

// holds demands that the copy has what the graph has, each once.
func (m *milvus) holds(t *testing.T, x exported) {
	t.Helper()
	var want []string
	for _, e := range x.entities {
		want = append(want, "e"+e.ID)
	}
	require.Equal(t, sorted(want), m.count("e"))
	require.Len(t, m.count("c"), len(x.chunks))
}

var allModes = []string{"lexical", "vector", "hybrid"}

// Milvus is the route and stops while a job is read, or while the job's vectors are sent: the job commits, its facts are those of the native route,
// the copy says how far it is behind; when Milvus is there again, it has everything once, and the export is that of the native route to the byte.
func TestMilvusStopsInMidJob(t *testing.T) {
	want := overNative(t, 2)
	for _, when := range []string{"read", "sent"} {
		t.Run(when, func(t *testing.T) {
			m := newMilvus(t)
			f := newFleet(t, fleetOptions{Committer: committer.Config{Route: committer.RouteMilvus, MilvusAddress: m.addr}})
			f.putSchema("g", mirrored.schema)
			f.run("g", map[string]any{"documents": mirrored.jobs[0]})
			first := f.current("g")
			m.holds(t, parseExport(t, f.exported("g", 0)))

			var job string
			if when == "read" {
				i := slices.IndexFunc(f.list(), func(x *member) bool { return x.name == "resolver" })
				require.NoError(t, f.list()[i].stop())
				job = f.publish("g", map[string]any{"documents": mirrored.jobs[1]})
				testkit.Await(t, "documents before the resolver", func() bool { return f.messages(bus.StreamExtracted) == 3 })
				m.stop()
				require.NoError(t, f.replace(i, false))
			} else {
				var once sync.Once
				stopped := make(chan struct{})
				m.hook(func(op string) error {
					if op == "upsert" {
						once.Do(func() { m.stop(); close(stopped) })
						return lost()
					}
					return nil
				}, nil)
				job = f.publish("g", map[string]any{"documents": mirrored.jobs[1]})
				<-stopped
				m.hook(nil, nil)
			}
			f.ended("g", job)
			require.Equal(t, facts(t, want), facts(t, f.exported("g", 0)), "commits go on")
			s := f.hindered("g", job)
			require.Contains(t, s.Progress[0].Why, "milvus")
			at := f.vectorsOf("g")
			require.Equal(t, []uint64{first.Seq + 1, first.Seq, 1}, []uint64{at.Seq, at.Copy.Position, at.Copy.Behind})
			require.NotEmpty(t, at.Copy.Error)
			require.Zero(t, at.Behind, "the native vectors are not held up")
			lag, _ := f.value("committer", "factmill_committer_vectors_lag_commits", "sink=milvus")
			require.Equal(t, 1.0, lag)
			f.finds("g", "Grace Hopper", allModes...)

			m.start()
			f.settled("g", job)
			f.current("g")
			require.Equal(t, want, f.exported("g", 0))
			m.holds(t, parseExport(t, want))
			testkit.Await(t, "the metric", func() bool {
				lag, _ = f.value("committer", "factmill_committer_vectors_lag_commits", "sink=milvus")
				return lag == 0
			})
			f.finds("g", "Grace Hopper", allModes...)
			f.sound("g")
			f.noDeadLetters()
		})
	}
}

// paused is a clock that stands still until it is moved, and the pauses that wait for it.
type paused struct {
	mu    sync.Mutex
	now   time.Time
	ends  map[chan time.Time]time.Time
	last  chan time.Time // the one that was asked for last: others may have been given up
	asked atomic.Int64
}

func (p *paused) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *paused) After(d time.Duration) <-chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan time.Time, 1)
	p.ends[c], p.last = p.now.Add(d), c
	p.asked.Add(1)
	return c
}

// move ends the pauses that are over after d more, and says whether the last one is among them.
func (p *paused) move(d time.Duration) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
	for c, at := range p.ends {
		if !at.After(p.now) {
			c <- p.now
			delete(p.ends, c)
			last = last || c == p.last
		}
	}
	return last
}

// A copy beside the native route is away for a minute: no commit, link or search waits for it, it is asked a few times, not often, and it has
// everything soon after Milvus is back. The minute is that of a clock which the test moves.
func TestMilvusStopsForAMinute(t *testing.T) {
	want := overNative(t, 3)
	m := newMilvus(t)
	clock := &paused{now: time.Now(), ends: map[chan time.Time]time.Time{}}
	dir := t.TempDir()
	build := func(deps app.Deps) (app.Service, error) {
		deps.Now = clock.Now
		return committer.New(committer.Config{Dir: dir, MilvusAddress: m.addr, After: clock.After}, deps)
	}
	f := newFleet(t, fleetOptions{Fake: map[string]func(app.Deps) (app.Service, error){"committer": build}})
	f.putSchema("g", mirrored.schema)
	f.run("g", map[string]any{"documents": mirrored.jobs[0]})
	first := f.current("g")
	sent := m.sent()
	m.stop()
	for _, docs := range mirrored.jobs[1:] {
		f.run("g", map[string]any{"documents": docs}) // and its links
	}
	require.Equal(t, want, f.exported("g", 0))

	// tries is how often the copy was tried in vain.
	tries := func() int { return f.counter("factmill_committer_vectors_retries_total", "sink=milvus") }
	testkit.AwaitFor(t, time.Minute, "the first try in vain", func() bool { return tries() > 0 })
	for second := range 60 {
		before := clock.asked.Load()
		if clock.move(time.Second) {
			testkit.AwaitFor(t, time.Minute, "the next pause", func() bool { return clock.asked.Load() > before })
		}
		if second%20 == 0 {
			f.finds("g", "Grace Hopper", allModes...)
		}
	}
	require.Greater(t, tries(), 4)
	require.Less(t, tries(), 20, "the pause doubles")
	at := f.vectorsOf("g")
	require.Equal(t, first.Seq, at.Copy.Position)
	require.Equal(t, at.Seq-first.Seq, at.Copy.Behind)
	require.GreaterOrEqual(t, at.Copy.Behind, uint64(2))
	require.Contains(t, at.Copy.Error, "refused")
	lag, _ := f.value("committer", "factmill_committer_vectors_lag_commits", "sink=milvus")
	require.Equal(t, float64(at.Copy.Behind), lag)

	m.start()
	for range 45 { // 30 s of the follower's and 15 s of the connection's
		clock.move(time.Second)
	}
	f.current("g")
	m.holds(t, parseExport(t, want))
	for id, n := range m.sent() {
		require.Equal(t, 1, n, id)
		require.Zero(t, sent[id], "%s was there", id)
	}
	require.Equal(t, want, f.exported("g", 0))
}

// Milvus is the route and does not come back: commits go on, the lag is said with its number, searches find what is committed, the links that are
// missing are said to be missing, the process starts and ends without waiting, and the other route finds those links.
func TestMilvusStopsForGood(t *testing.T) {
	want := overNative(t, 3)
	m := newMilvus(t)
	args := []string{"--vectors.route", committer.RouteMilvus, "--milvus.address", m.addr}
	c := allInOne(t, args...)
	c.putSchema("default", mirrored.schema)
	c.await("default", c.publish("default", map[string]any{"documents": mirrored.jobs[0]}), api.JobCommitted)
	first := c.current("default")
	m.stop()
	var jobs []string
	for i, docs := range mirrored.jobs[1:] {
		jobs = append(jobs, c.publish("default", map[string]any{"documents": docs}))
		c.ended("default", jobs[i])
		require.Contains(t, c.hindered("default", jobs[i]).Progress[0].Why, "milvus")
	}
	require.Equal(t, facts(t, want), facts(t, c.export("default")))
	at := c.vectorsOf("default")
	require.Equal(t, []uint64{first.Seq, 2}, []uint64{at.Copy.Position, at.Copy.Behind})
	require.Contains(t, c.cli(0, "reembed", "--status").stdout, fmt.Sprintf("copy in Milvus: up to commit %d, 2 commits behind\n", first.Seq))
	said := c.sick(t, "milvus_behind", args...).named(t, "milvus_behind")
	require.Contains(t, said, "the copy in Milvus is 2 commits behind")
	require.Contains(t, said, "start Milvus at "+m.addr)
	require.Contains(t, c.cli(0, "jobs", "show", jobs[1]).stdout, "milvus")
	c.finds("default", "Grace Hopper", allModes...)
	for _, mode := range allModes {
		require.Contains(t, c.cli(0, "search", "Grace Hopper", "--mode", mode).stdout, "Grace Hopper  (Person)", mode)
	}

	c.the("factmill").stop(t)
	c.up(args...)
	require.Contains(t, c.hindered("default", jobs[1]).Progress[0].Why, "milvus")
	c.finds("default", "Grace Hopper", allModes...)
	job := c.publish("default", map[string]any{"documents": mirrored.jobs[2], "force": true})
	c.ended("default", job)
	require.GreaterOrEqual(t, c.vectorsOf("default").Copy.Behind, uint64(2))
	c.the("factmill").stop(t)

	c.up() // without Milvus
	c.settled("default", job)
	require.Equal(t, want, c.export("default"))
	c.sound("default")
}

// The committer is killed when Milvus has an upsert and the position is not stored, and the answer to an upsert is lost, so that it is sent again:
// each vector is there, and counted, once.
func TestRedeliveredUpsertCountsOnce(t *testing.T) {
	want := parseExport(t, overNative(t, 1))
	m := newMilvus(t)
	args := []string{"--vectors.route", committer.RouteMilvus, "--milvus.address", m.addr}
	c := allInOne(t, args...)
	c.putSchema("default", mirrored.schema)
	has, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.hook(nil, func(op string) error {
		if op == "upsert" {
			once.Do(func() { close(has) })
			<-free
			return lost()
		}
		return nil
	})
	job := c.publish("default", map[string]any{"documents": mirrored.jobs[0]})
	<-has
	c.the("factmill").kill()
	m.hook(nil, nil)
	close(free)
	m.holds(t, want)
	require.Equal(t, []int{1}, slices.Compact(slices.Collect(maps.Values(m.sent()))))

	c.up(args...)
	c.settled("default", job)
	c.current("default")
	require.Equal(t, []int{1}, slices.Compact(slices.Collect(maps.Values(m.sent()))), "they came again")
	m.holds(t, want)

	// Of the next job the first answer is lost.
	var lose atomic.Bool
	lose.Store(true)
	m.hook(nil, func(op string) error {
		if op == "upsert" && lose.Swap(false) {
			return lost()
		}
		return nil
	})
	job = c.publish("default", map[string]any{"documents": mirrored.jobs[1]})
	c.settled("default", job)
	at := c.current("default")
	twice := 0
	for _, n := range m.sent() {
		twice = max(twice, n)
	}
	require.Equal(t, 2, twice)
	x := c.rows("default")
	m.holds(t, x)
	require.Equal(t, len(x.entities)+len(x.chunks), at.Vectors)
}

// A hit whose entity is gone is no candidate, and the hits behind it keep their own scores.
func TestDeletedEntityBehindAHit(t *testing.T) {
	m := newMilvus(t)
	f := newFleet(t, fleetOptions{Committer: committer.Config{Route: committer.RouteMilvus, MilvusAddress: m.addr}})
	native := newFleet(t, fleetOptions{})
	names := []string{"Charles Babbages", "Charles Babbage", "Babbage Charles"}
	schema := schemaOf(map[string][]string{"Person": slices.Clone(names)})
	docs := []map[string]any{doc("a", "We met "+names[0]+" there."), doc("b", "They saw "+names[1]+" here.")}
	for _, x := range []*fleet{f, native} {
		x.putSchema("g", schema)
		x.run("g", map[string]any{"documents": docs})
	}
	before := parseExport(t, f.exported("g", 0))
	require.Len(t, before.entities, 2)
	id := func(name string) string {
		return before.entities[slices.IndexFunc(before.entities, func(e graph.EntityRow) bool { return e.Name == name })].ID
	}
	gone := id(names[0])
	row := m.row("e" + gone)
	row.vector = m.row("e" + id(names[1])).vector // the nearest that there is to the third
	for _, x := range []*fleet{f, native} {
		x.remove("g", "a")
	}
	f.current("g")
	require.NotContains(t, m.count("e"), "e"+gone, "what is deleted leaves the copy")

	m.put("e"+gone, row) // a server that lost the deletion
	var searched atomic.Int64
	m.hook(func(op string) error {
		if op == "search" {
			searched.Add(1)
		}
		return nil
	}, nil)
	for _, x := range []*fleet{f, native} {
		x.run("g", map[string]any{"documents": []map[string]any{doc("c", "Who is "+names[2]+"?")}})
	}
	require.Positive(t, searched.Load(), "Milvus is asked")
	got := f.exported("g", 0)
	require.Equal(t, native.exported("g", 0), got)
	require.NotContains(t, got, gone)
	require.NotEmpty(t, parseExport(t, got).matches, "the hit behind it")
	for _, mode := range allModes {
		r := ask[api.SearchReply](f.cluster, "g", "query.search", api.Search{Q: names[0], Mode: mode, Kinds: []string{"entity"}, Raw: true})
		for _, h := range r.Hits {
			require.NotEqual(t, gone, h.ID, mode)
		}
	}
	f.sound("g")
}
