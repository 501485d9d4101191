package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// question is one thing that a reader asks of the graph. Its reply names the sequence at which it is true.
type question struct {
	verb string
	req  any
}

// questions cover every verb that shows facts, candidates or documents.
func questions() []question {
	return []question{
		{"query.stats", nil},
		{"query.seq", nil},
		{"query.relation_types", nil},
		{"query.entity", map[string]any{"type": "Person", "name": "Ada Abbott"}},
		{"query.neighbors", map[string]any{"type": "Person", "name": "Ada Abbott", "depth": 2}},
		{"query.search", map[string]any{"q": "Abbott roof", "limit": 50}},
		{"query.document", map[string]any{"key": "d000", "text": true, "items": true}},
		{"review.list", map[string]any{"state": nil, "limit": 1000}},
		{"review.stats", nil},
		{exportQuestion, nil},
	}
}

// visible asks one question with a connection of its own and returns sequence and reply. A refusal (404 of what is not there
// yet) is a reply as well; it names no sequence.
func visible(ctx context.Context, conn *bus.Conn, graph string, q question) (seq uint64, reply string, err error) {
	var raw json.RawMessage
	if err := conn.Request(ctx, "factmill."+graph+"."+q.verb, q.req, &raw); err != nil {
		return 0, "", fmt.Errorf("%s: %w", q.verb, err)
	}
	var s struct {
		Seq uint64 `json:"seq"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return 0, "", fmt.Errorf("%s: %w", q.verb, err)
	}
	return s.Seq, string(raw), nil
}

// pages reads the canonical export page by page, and returns the sequence that the first page pinned.
func pages(ctx context.Context, conn *bus.Conn, graph string) (seq uint64, text string, err error) {
	var b strings.Builder
	var rows api.ExportRows
	req := api.Export{Canonical: true}
	for {
		var page api.ExportReply
		if err := conn.Request(ctx, "factmill."+graph+".query.export", req, &page); err != nil {
			return 0, "", fmt.Errorf("query.export: %w", err)
		}
		if seq == 0 {
			seq = page.Seq
		}
		if page.Seq != seq {
			return 0, "", fmt.Errorf("a page of the export is of sequence %d, the first was of %d", page.Seq, seq)
		}
		for _, r := range rows.Add(page) {
			b.Write(r)
			b.WriteByte('\n')
		}
		if page.Next == "" {
			return seq, b.String(), nil
		}
		req.Cursor = page.Next
	}
}

// seen is what readers saw: by question, sequence and reply how often.
type seen struct {
	mu     sync.Mutex
	counts map[string]map[uint64]map[string]int
	err    error
}

func (s *seen) add(what string, seq uint64, reply string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	if s.counts[what] == nil {
		s.counts[what] = map[uint64]map[string]int{}
	}
	if s.counts[what][seq] == nil {
		s.counts[what][seq] = map[string]int{}
	}
	s.counts[what][seq][reply]++
}

// exportQuestion is the canonical export, which takes several requests.
const exportQuestion = "query.export"

// one asks one question and keeps the reply.
func (s *seen) one(ctx context.Context, conn *bus.Conn, graph string, q question) {
	var seq uint64
	var reply string
	var err error
	if q.verb == exportQuestion {
		seq, reply, err = pages(ctx, conn, graph)
	} else {
		seq, reply, err = visible(ctx, conn, graph, q)
	}
	s.add(q.verb, seq, reply, err)
}

// readers poll until stop is called, each question as fast as it is answered, over a connection of its own. Each was then asked at
// least once more after stop.
func readers(c *cluster, graph string) (*seen, func()) {
	s := &seen{counts: map[string]map[uint64]map[string]int{}}
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for _, q := range questions() {
		conn, err := bus.Connect(c.t.Context(), bus.Options{URL: c.url, Name: "reader", Log: testkit.Quiet()})
		require.NoError(c.t, err)
		wg.Go(func() {
			defer conn.Close()
			for last := false; !last; {
				last = stopped.Load()
				s.one(c.t.Context(), conn, graph, q)
			}
		})
	}
	return s, func() { stopped.Store(true); wg.Wait() }
}

// check demands that every question was answered with the old graph or the new one: one reply at each of the two sequences.
func (s *seen) check(t testing.TB, sequences ...uint64) {
	t.Helper()
	require.NoError(t, s.err)
	require.Len(t, s.counts, len(questions()))
	for what, bySeq := range s.counts {
		polls := 0
		for seq, replies := range bySeq {
			require.Contains(t, sequences, seq, "%s answered at a sequence that no commit made", what)
			if len(replies) > 1 {
				var all []string
				for r := range replies {
					all = append(all, r)
				}
				require.Equal(t, all[0], all[1], "%s has two answers at sequence %d", what, seq)
			}
			for _, n := range replies {
				polls += n
			}
		}
		t.Logf("%-26s %d polls, %d sequences", what, polls, len(bySeq))
	}
}

// least is how often the question was asked that was asked least.
func (s *seen) least() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.counts) < len(questions()) {
		return 0
	}
	least := -1
	for _, bySeq := range s.counts {
		n := 0
		for _, replies := range bySeq {
			for _, x := range replies {
				n += x
			}
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return least
}

// narrow knows people and firms only, so that places become candidates: entities, relations and assertions that are not admitted.
const narrow = `
name: narrow
entities: {Person: A human being., Organization: A company.}
relations: {WORKS_FOR: "Person->Organization"}
`

// peopleAt is documents that state facts about known people; version changes what they say.
func peopleAt(n, version int) []map[string]any {
	var docs []map[string]any
	for i := range n {
		firm := firms[(i+version)%len(firms)]
		text := fmt.Sprintf("%s works for %s. Rain fell on the roof in year %d. %s is located in %s. %s might work for %s.",
			person(i), firm, version, firm, cities[(i+version)%len(cities)], person(i+1), firms[(i+3)%len(firms)])
		docs = append(docs, doc(fmt.Sprintf("d%03d", i), text))
	}
	return docs
}

// TestNothingIsVisibleBeforeTheCommit holds a job in the middle, with every document staged at the committer and none resolved,
// and demands that every read shows the old graph to the byte; then lets it go on while readers poll through its commit.
func TestNothingIsVisibleBeforeTheCommit(t *testing.T) {
	c := sixProcesses(t, 1)
	ask[api.SchemaReply](c, "default", "schema.put", api.SchemaPut{Schema: narrow})
	old := c.add("default", peopleAt(20, 0)...)
	require.Positive(t, old.Stages.Extraction.CandidatesWritten)

	c.the("resolver").signal(t, syscall.SIGSTOP)
	resolver := c.the("resolver").cmd.Process
	job := c.publish("default", map[string]any{"documents": peopleAt(200, 1)})
	testkit.AwaitFor(t, testkit.Patience*3, "every document is staged", func() bool {
		for _, p := range c.status("default", job).Progress {
			if p.Stage == "chunker" && p.Done == 200 {
				return true
			}
		}
		return false
	})
	held, stop := readers(c, "default")
	testkit.Await(t, "every question was asked", func() bool { return held.least() >= 5 })
	stop()
	require.Equal(t, api.JobPending, c.status("default", job).State)
	held.check(t, old.CommitSeq)

	through, stop := readers(c, "default")
	require.NoError(t, resolver.Signal(syscall.SIGCONT))
	s := c.await("default", job, api.JobCommitted)
	stop()
	require.Equal(t, old.CommitSeq+1, s.CommitSeq)
	require.Equal(t, api.DocumentCounts{Total: 200, Added: 180, Updated: 20}, s.Documents)
	through.check(t, old.CommitSeq, s.CommitSeq)
	for what, bySeq := range held.counts {
		for reply := range bySeq[old.CommitSeq] {
			if old := through.counts[what][old.CommitSeq]; len(old) > 0 {
				require.Contains(t, old, reply, "%s: the old graph is the same while the job is held and while it ends", what)
			}
			require.NotContains(t, through.counts[what][s.CommitSeq], reply, "%s shows the new graph after the commit", what)
		}
		require.Len(t, through.counts[what][s.CommitSeq], 1, "%s was asked after the commit", what)
	}
	c.sound("default")
}

// TestReadersSeeWholeJobs polls through many commits in a row: what is read at one sequence is the same for every reader at every
// time.
func TestReadersSeeWholeJobs(t *testing.T) {
	c := allInOne(t)
	const jobs = 25
	ask[api.SchemaReply](c, "default", "schema.put", api.SchemaPut{Schema: narrow})
	sequences := []uint64{c.add("default", peopleAt(40, 0)...).CommitSeq}
	saw, stop := readers(c, "default")
	for v := 1; v <= jobs; v++ {
		sequences = append(sequences, c.add("default", peopleAt(40, v)...).CommitSeq)
	}
	stop()
	saw.check(t, sequences...)
	c.sound("default")
}

// TestARolledBackJobWasNeverVisible: a job that fails after most of its documents are staged leaves every read as it was.
func TestARolledBackJobWasNeverVisible(t *testing.T) {
	c := allInOne(t)
	old := c.add("default", peopleAt(20, 0)...)
	saw, stop := readers(c, "default")
	docs := append(peopleAt(150, 1), map[string]any{"key": "bad", "text": "x", "format": "nonsense"})
	job := c.publish("default", map[string]any{"documents": docs})
	s := c.await("default", job, api.JobRolledBack)
	stop()
	require.Contains(t, s.Reason, "unsupported_format")
	require.Zero(t, s.CommitSeq)
	saw.check(t, old.CommitSeq)
	require.Equal(t, 20, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)
	c.sound("default")
}
