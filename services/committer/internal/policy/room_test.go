package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/candidates"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

const types = `
name: t
version: "7"
entities:
  Person: {properties: {born: {type: date, sensitive: true}, hobby: string}}
  Ship: {properties: {born: date}}
  Tool: {}
relations: {WORKS_FOR: 'Person->Person'}
`

// room is a follower over a store in memory, with a schema that it can change. Nothing runs by itself.
type room struct {
	*Follower
	t     testing.TB
	fs    *vfs.MemFS
	st    *store.Store
	desk  *candidates.Desk
	sch   *schema.Schema
	rev   uint64
	order int64
	told  int
	// decides is asked before each request of the follower; an error of it is the answer.
	decides func(req api.CandidatesDecide) error
	// asked are the requests of the follower that were answered.
	asked []api.CandidatesDecide
}

func (r *room) Schema(string, uint64) (*schema.Schema, error) { return r.sch, nil }

func (r *room) Revision(graph string) (uint64, error) {
	if graph != g {
		return 0, nil
	}
	return r.rev, nil
}

func (r *room) DecideBy(ctx context.Context, name string, req api.CandidatesDecide, ruling candidates.Ruling) (api.DecideReply, error) {
	if r.decides != nil {
		if err := r.decides(req); err != nil {
			return api.DecideReply{}, err
		}
	}
	reply, err := r.desk.DecideBy(ctx, name, req, ruling)
	if err == nil {
		r.asked = append(r.asked, req)
	}
	return reply, err
}

func newRoom(t testing.TB) *room {
	t.Helper()
	r := &room{t: t, fs: vfs.NewMem()}
	r.put("")
	r.open()
	t.Cleanup(func() { require.NoError(t, r.st.Close()) })
	return r
}

// open opens the store, as after a restart.
func (r *room) open() {
	r.t.Helper()
	var err error
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := func() time.Time { return clock }
	r.st, err = store.Open(context.Background(), store.Options{Dir: "data", FS: r.fs, Now: now,
		FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }, CacheBytes: 64 << 20, MemTableBytes: 1 << 20})
	require.NoError(r.t, err)
	r.st.Graph(g, true)
	r.desk = candidates.New(candidates.Deps{Store: r.st, Operations: operations.New(r.st), Schemas: r, Now: now, Committed: func(string) { r.told++ }})
	r.Follower, err = New(Config{Page: 3}, Deps{Store: r.st, Schemas: r, Desk: r})
	require.NoError(r.t, err)
}

// put makes a review section the active one.
func (r *room) put(review string) {
	r.t.Helper()
	var err error
	text := types
	if review != "" {
		text += "review: " + review
	}
	r.sch, err = schema.Parse([]byte(text), "t.yaml", nil)
	require.NoError(r.t, err)
	r.rev++
}

// through lets the follower do all that there is to do, and says how many steps it took.
func (r *room) through() (steps int) {
	r.t.Helper()
	r.mu.Lock()
	f := r.of(g)
	r.mu.Unlock()
	for {
		seq := r.seq()
		_, more, err := r.step(context.Background(), g, f)
		require.NoError(r.t, err)
		if more {
			steps++
		} else if seq == r.seq() {
			return steps
		}
	}
}

// read is a document as it was read: mentions "Label:Name" and candidates "0.44 entity Label text", "0.5 relation LABEL source > target",
// "0.5 property Holder.name holder = value"; "/reason" behind the confidence is its reason.
func (r *room) read(doc string, items ...string) uint64 {
	return r.reads(graph.Meta{Key: doc, ID: fingerprint.DocumentID(doc)}, items...)
}

func (r *room) reads(meta graph.Meta, items ...string) uint64 {
	r.t.Helper()
	r.order++
	c := store.DocChange{Decision: graph.NewVersion, Meta: meta, SchemaFP: "s", SchemaName: "t", SchemaVersion: "1", SchemaRevision: 1,
		ChunkerFP: "c", ExtractionFP: "ee" + meta.Key, Job: "job-" + meta.Key, Order: graph.Order{Time: r.order}, Text: fmt.Sprintf("Reading %d.\n", r.order)}
	at := func(name string) (int, int) {
		start := len(c.Text)
		c.Text += name + " grew.\n"
		return start, start + len(name)
	}
	var a graph.ChunkAssertions
	for _, it := range items {
		if label, name, ok := strings.Cut(it, ":"); ok {
			e := graph.EntityRef{ID: fingerprint.EntityID(label, fingerprint.Fold(name)), Label: label, Key: fingerprint.Fold(name)}
			m := graph.Mention{Entity: len(c.Assertions.Entities), Name: name, Confidence: 0.9, Extractor: "rules"}
			m.Start, m.End = at(name)
			c.Assertions.Entities = append(c.Assertions.Entities, e)
			a.Mentions = append(a.Mentions, m)
			continue
		}
		x := candidate(it)
		x.Start, x.End = at(x.Text)
		c.Assertions.Candidates = append(c.Assertions.Candidates, x)
	}
	slices.SortFunc(c.Assertions.Candidates, func(a, b graph.Candidate) int { return strings.Compare(a.Key, b.Key) })
	c.Chunks = []graph.Chunk{{End: len(c.Text), Content: "text", Tokens: 1}}
	if len(a.Mentions) > 0 {
		c.Assertions.Chunks = []graph.ChunkAssertions{a}
	}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	return r.apply(c)
}

func (r *room) apply(c store.DocChange) uint64 {
	r.t.Helper()
	txn, err := r.st.Begin(context.Background(), g)
	require.NoError(r.t, err)
	_, err = txn.Apply(context.Background(), c)
	require.NoError(r.t, err)
	done, err := txn.Finish(context.Background(), nil)
	require.NoError(r.t, err)
	return done.Seq
}

func candidate(it string) graph.Candidate {
	c := graph.Candidate{Count: 1, Extractor: "rules", Assertion: "explicit"}
	confidence, it, _ := strings.Cut(it, " ")
	confidence, reason, given := strings.Cut(confidence, "/")
	if _, err := fmt.Sscanf(confidence, "%f", &c.Confidence); err != nil {
		panic(err)
	}
	if c.Reasons = []string{graph.ReasonUndeclaredLabel}; given {
		c.Reasons = []string{reason}
	}
	kind, rest, _ := strings.Cut(it, " ")
	label, rest, _ := strings.Cut(rest, " ")
	c.Kind, c.Label, c.Text = kind, label, rest
	switch kind {
	case graph.KindRelation:
		c.SourceText, c.TargetText, _ = strings.Cut(rest, " > ")
		c.Key = fingerprint.RelationKey(c.Label, c.SourceText, c.TargetText)
	case graph.KindProperty:
		c.SourceLabel, c.Label, _ = strings.Cut(label, ".")
		c.SourceText, c.Text, _ = strings.Cut(rest, " = ")
		c.Key = fingerprint.PropertyKey(c.Label, c.SourceText, c.Text)
	default:
		c.Key = fingerprint.EntityKey(c.Label, c.Text)
	}
	return c
}

// states are "key state" of all records and, without records, of decided keys, each once, in order.
func (r *room) states() (out []string) {
	r.t.Helper()
	sn, err := r.st.Snapshot(g, 0)
	require.NoError(r.t, err)
	require.NoError(r.t, sn.CandidateAll(store.CandidateCursor{}, func(c store.CandidateRecord) error {
		out = append(out, c.Key+" "+c.State)
		return nil
	}))
	require.NoError(r.t, sn.Close())
	slices.Sort(out)
	return slices.Compact(out)
}

// state is that of a key: its record's; "" without one.
func (r *room) state(key string) string {
	for _, s := range r.states() {
		if k, state, _ := cut(s); k == key {
			return state
		}
	}
	return ""
}

func cut(s string) (key, state string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	return s[:i], s[i+1:], true
}

// records are the audit records, the oldest first; the chain is checked.
func (r *room) records() []events.Audit {
	r.t.Helper()
	trail := audit.Trail{Store: r.st, Graph: g}
	_, err := trail.Verify(context.Background(), func(p api.Problem) { require.Fail(r.t, "a problem", "%+v", p) })
	require.NoError(r.t, err)
	out, next, err := trail.List(context.Background(), audit.Filter{}, 0, 10_000)
	require.NoError(r.t, err)
	require.Zero(r.t, next)
	slices.Reverse(out)
	return out
}

func (r *room) seq() uint64 {
	seq, err := r.st.Seq(g)
	require.NoError(r.t, err)
	return seq
}

func (r *room) try(req api.ReviewPolicy) api.ReviewPolicyReply {
	r.t.Helper()
	seq := r.seq()
	reply, err := r.Try(context.Background(), g, req)
	require.NoError(r.t, err)
	require.Equal(r.t, seq, r.seq(), "nothing is committed")
	return reply
}
