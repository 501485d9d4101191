package held

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/graphs"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "g"

const guild = `{"name":"guild","entities":[{"label":"Person","properties":{"age":{"type":"integer"},"rank":{"enum":["master","clerk"]}}},{"label":"Guild"},{"label":"Place"}],
"relations":[{"label":"MEMBER_OF","patterns":[["Person","Guild"]],"properties":{"since":{"type":"integer"}}},{"label":"KNOWS","patterns":[["Person","Person"]]}],"review":{"stale":"review"}}`

// room is a desk over a machine and a store, with streams that nothing is in.
type room struct {
	*Desk
	t    *testing.T
	dir  string
	st   *store.Store
	m    *jobs.Machine
	gs   *graphs.Graphs
	stop context.CancelFunc
	done chan error
	seq  uint64

	mu   sync.Mutex
	now  time.Time
	held int // questions for messages in streams
}

func (r *room) DeleteEvent(context.Context, string, graph.Order) error       { return nil }
func (r *room) DeleteUploads(context.Context, []jobs.Ended) error            { return nil }
func (r *room) DeleteBodies(context.Context, string, string) error           { return nil }
func (r *room) PurgeJob(context.Context, string, string) error               { return nil }
func (r *room) Cost(context.Context, string, string) (int, int, error)       { return 0, 0, nil }
func (r *room) Pending(context.Context, string, string) (bool, error)        { return false, nil }
func (r *room) EventKept(context.Context, string, graph.Order) (bool, error) { return true, nil }
func (r *room) Holds(context.Context, string, string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held++
	return false, nil
}

func (r *room) clock() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.now }

func (r *room) add(d time.Duration) { r.mu.Lock(); defer r.mu.Unlock(); r.now = r.now.Add(d) }

func newRoom(t *testing.T, schema string) *room {
	r := &room{t: t, dir: t.TempDir(), now: time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)}
	r.open()
	t.Cleanup(r.close)
	_, err := r.gs.SchemaPut(t.Context(), g, api.SchemaPut{Schema: schema})
	require.NoError(t, err)
	return r
}

func (r *room) open() {
	var err error
	r.st, err = store.Open(r.t.Context(), store.Options{Dir: r.dir, Now: r.clock})
	require.NoError(r.t, err)
	r.gs = graphs.New(r.st, r.clock)
	r.m, err = jobs.New(r.st, r.gs, r, jobs.Config{Lease: 2 * time.Second, Log: slog.New(slog.DiscardHandler), Now: r.clock}, func(string) {})
	require.NoError(r.t, err)
	r.Desk = New(Deps{Store: r.st, Jobs: r.m, Schemas: r.gs, Operations: operations.New(r.st), Now: r.clock})
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.done = cancel, make(chan error, 1)
	m := r.m
	go func() { r.done <- m.Run(ctx) }()
}

func (r *room) close() {
	r.stop()
	require.NoError(r.t, <-r.done)
	require.NoError(r.t, r.st.Close())
}

func (r *room) restart() { r.close(); r.open() }

// text is a document of sentences: "Lin MEMBER_OF Guild", "Lin KNOWS Mo", "Lin is 30", or words that say nothing. Guild and Orva are guilds.
func assertions(text string) graph.Assertions {
	var a graph.Assertions
	c := graph.ChunkAssertions{}
	place := map[string]int{}
	entity := func(name string, at int) int {
		label := "Person"
		if name == "Guild" || name == "Orva" {
			label = "Guild"
		}
		id := fingerprint.EntityID(label, fingerprint.Fold(name))
		n, ok := place[id]
		if !ok {
			n = len(a.Entities)
			place[id] = n
			a.Entities = append(a.Entities, graph.EntityRef{ID: id, Label: label, Key: fingerprint.Fold(name)})
		}
		c.Mentions = append(c.Mentions, graph.Mention{Entity: n, Name: name, Start: at, End: at + len(name), Confidence: 0.9, Extractor: "rules"})
		return n
	}
	at := 0
	for line := range strings.SplitSeq(text, "\n") {
		w := strings.Fields(line)
		switch {
		case len(w) == 3 && w[1] == "is":
			v := int64(0)
			for _, d := range w[2] {
				v = v*10 + int64(d-'0')
			}
			c.Properties = append(c.Properties, graph.PropertyA{Entity: entity(w[0], at), Name: "age", Value: v, Start: at, End: at + len(line), Confidence: 0.8, Extractor: "rules"})
		case len(w) == 3 && strings.ToUpper(w[1]) == w[1]:
			s := entity(w[0], at)
			o := entity(w[2], at+len(w[0])+len(w[1])+2)
			c.Relations = append(c.Relations, graph.RelationA{Type: w[1], Source: s, Target: o, Start: at, End: at + len(line), Confidence: 0.8, Extractor: "rules"})
		case len(w) == 2 && w[0] == "Perhaps":
			a.Candidates = append(a.Candidates, graph.Candidate{Key: "entity|ship|" + strings.ToLower(w[1]), Kind: "entity", Label: "Ship", Text: w[1], Confidence: 0.5, Count: 1,
				Reasons: []string{"undeclared_label"}, Start: at + 8, End: at + len(line), Extractor: "rules"})
		}
		at += len(line) + 1
	}
	a.Chunks = []graph.ChunkAssertions{c}
	return a
}

// doc is a document of a job: its key and lines. No lines delete it.
type doc struct {
	key   string
	lines []string
	scope string
}

func says(key string, lines ...string) doc { return doc{key: key, lines: lines} }

// job opens a job and sends its documents and its seal.
func (r *room) job(id string, hold bool, docs ...doc) events.Job {
	r.t.Helper()
	return r.opened(id, func(o *api.JobOpen) { o.Hold = hold }, docs...)
}

func (r *room) opened(id string, change func(*api.JobOpen), docs ...doc) events.Job {
	r.t.Helper()
	r.seq++
	req := api.JobOpen{Job: id, Digest: "digest of " + id, At: graph.Order{Time: int64(r.seq), Seq: r.seq}, Op: events.OpAdd,
		ErrorPolicy: events.PolicyRaise, Atomic: events.AtomicJob, Candidates: true}
	if len(docs) > 0 && docs[0].lines == nil {
		req.Op = events.OpDelete
	}
	change(&req)
	o, err := r.m.Open(r.t.Context(), g, req)
	require.NoError(r.t, err)
	seal := &events.Sealed{Job: o.Job}
	for _, d := range docs {
		r.send(r.events(o.Job, d, 0)...)
		seal.Sources = append(seal.Sources, fingerprint.Token(d.key))
	}
	r.send(seal)
	return o.Job
}

func (r *room) events(job events.Job, d doc, try int) []events.Event {
	text := strings.Join(d.lines, "\n")
	ref := events.DocRef{Key: d.key, Token: fingerprint.Token(d.key), Source: fingerprint.Token(d.key), Sole: true, ContentHash: fingerprint.ContentHash(text), Try: try}
	meta := graph.Meta{Key: d.key, ID: fingerprint.DocumentID(d.key), Title: d.key}
	if d.scope != "" {
		meta.Scope = graph.Scope{d.scope}
	}
	if d.lines == nil {
		return []events.Event{&events.Staged{Job: job, Doc: ref, Meta: meta, Decision: graph.Delete}}
	}
	return []events.Event{
		&events.Staged{Job: job, Doc: ref, Meta: meta, Decision: graph.NewVersion, Text: text, Chunks: []graph.Chunk{{End: len(text), Content: "text"}}},
		&events.Resolved{Job: job, Doc: ref, Assertions: assertions(text), Extraction: events.ExtractionStats{Processed: 1}},
	}
}

func (r *room) send(evs ...events.Event) {
	r.t.Helper()
	var in []bus.Delivery
	for _, e := range evs {
		b, err := events.Encode(e)
		require.NoError(r.t, err)
		back, err := events.Decode(e.Where().String(), "", b)
		require.NoError(r.t, err)
		in = append(in, bus.Delivery{Event: back, Body: b})
	}
	for _, x := range r.m.HandleBatch(r.t.Context(), in) {
		require.NoError(r.t, x.Err)
	}
}

func (r *room) wait(job, state string) api.JobStatus {
	r.t.Helper()
	s, err := r.m.Wait(r.t.Context(), g, job, 10*time.Second, func(s api.JobStatus) bool { return s.State == state })
	require.NoError(r.t, err)
	require.Equal(r.t, state, s.State, s.Reason)
	return s
}

// commit runs a job to its end.
func (r *room) commit(id string, docs ...doc) {
	r.t.Helper()
	r.job(id, false, docs...)
	r.wait(id, api.JobCommitted)
}

func (r *room) hold(id string, docs ...doc) api.HeldReply {
	r.t.Helper()
	r.job(id, true, docs...)
	r.wait(id, api.JobHeld)
	return r.get(id)
}

func (r *room) get(id string) api.HeldReply {
	r.t.Helper()
	x, err := r.Get(r.t.Context(), g, api.HeldGet{ID: id})
	require.NoError(r.t, err)
	return x
}

func (r *room) decide(req api.HeldDecide) api.DecideReply {
	r.t.Helper()
	req.Actor = "eva"
	reply, err := r.Decide(r.t.Context(), g, req)
	require.NoError(r.t, err)
	return reply
}

// refused is the error of a decision, after which nothing is committed.
func (r *room) refused(req api.HeldDecide) *api.Error {
	r.t.Helper()
	before, err := r.st.Seq(g)
	require.NoError(r.t, err)
	if req.Actor == "" {
		req.Actor = "eva"
	}
	_, err = r.Decide(r.t.Context(), g, req)
	var e *api.Error
	require.ErrorAs(r.t, err, &e)
	after, err := r.st.Seq(g)
	require.NoError(r.t, err)
	require.Equal(r.t, before, after, "nothing was written")
	return e
}

func (r *room) records(job string) []events.Audit {
	r.t.Helper()
	list, err := audit.Trail{Store: r.st, Graph: g}.Of(api.JobKey(job))
	require.NoError(r.t, err)
	return list
}

// relations are those of the graph, in words, and how many documents state each.
func (r *room) relations() map[string]int {
	r.t.Helper()
	out := map[string]int{}
	sn, err := r.st.Snapshot(g, 0)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, sn.Close()) }()
	name := func(id string) string {
		f, _, err := sn.Entity(id)
		require.NoError(r.t, err)
		return f.Display()
	}
	require.NoError(r.t, sn.RelationsAll("", func(f store.RelationFold) error {
		out[name(f.Source)+" "+f.Type+" "+name(f.Target)] = f.Documents
		return nil
	}))
	return out
}

func (r *room) sound() {
	r.t.Helper()
	v, err := r.st.Verify(r.t.Context(), g, nil)
	require.NoError(r.t, err)
	require.Empty(r.t, v.Problems)
	_, err = audit.Trail{Store: r.st, Graph: g}.Verify(r.t.Context(), func(p api.Problem) { require.Fail(r.t, "a problem", "%+v", p) })
	require.NoError(r.t, err)
}

// item is the staged item that says something.
func (r *room) item(x api.HeldReply, kind, label, text string) string {
	r.t.Helper()
	for _, d := range x.Job.Documents {
		for _, it := range d.Items {
			if it.Kind == kind && it.Label == label && (it.Text == text || it.Source+" "+it.Target == text || it.Source == text) {
				return it.Item
			}
		}
	}
	require.Fail(r.t, "no such item", "%s %s %s in %+v", kind, label, text, x.Job.Documents)
	return ""
}
