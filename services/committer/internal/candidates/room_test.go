package candidates

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const rule = `{"name":"t","entities":[{"label":"Person"},{"label":"Organization"}],"relations":[{"label":"WORKS_FOR","patterns":[["Person","Organization"]]}]}`

// room is a desk over a store in memory, with a schema that it can change.
type room struct {
	*Desk
	t     testing.TB
	st    *store.Store
	rule  *schema.Schema
	now   time.Time
	told  atomic.Int64
	order int64
}

func (r *room) Schema(string, uint64) (*schema.Schema, error) { return r.rule, nil }

func open(t testing.TB, fs vfs.FS) *room {
	t.Helper()
	r := &room{t: t, now: clock}
	var err error
	r.st, err = store.Open(context.Background(), store.Options{Dir: "data", FS: fs, Now: func() time.Time { return r.now },
		FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }, CacheBytes: 64 << 20, MemTableBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.st.Close()) })
	r.st.Graph(g, true)
	r.rule, err = schema.Parse([]byte(rule), "t", nil)
	require.NoError(t, err)
	r.Desk = New(Deps{Store: r.st, Operations: operations.New(r.st), Schemas: r, Now: func() time.Time { return r.now }, Committed: func(string) { r.told.Add(1) }})
	return r
}

func newRoom(t testing.TB) *room { return open(t, vfs.NewMem()) }

// reading is a document as it was read: mentions "Label:Name" and candidates "entity Label text", "relation LABEL source > target",
// "property name holder = value"; a candidate may begin with "0.44 ", its confidence.
type reading struct {
	key   string
	items []string
	// made of the settings: another reading of the same text.
	extraction string
	text       string // "" is made of the items
	none       bool   // candidates: false
}

func (r *room) read(key string, items ...string) store.DocResult {
	return r.apply(reading{key: key, items: items})
}

func (r *room) apply(x reading) store.DocResult {
	r.t.Helper()
	r.order++
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: x.key, ID: fingerprint.DocumentID(x.key)}, SchemaFP: "s", SchemaName: "t", SchemaVersion: "1", SchemaRevision: 1,
		ChunkerFP: "c", ExtractionFP: "e" + x.extraction, Job: "job-" + x.key, Order: graph.Order{Time: r.order}, NoCandidates: x.none, Text: x.text}
	at := func(name string) (int, int) {
		if x.text != "" {
			i := strings.Index(x.text, name)
			require.GreaterOrEqual(r.t, i, 0, name)
			return i, i + len(name)
		}
		c.Text += "They say that "
		start := len(c.Text)
		c.Text += name + " grew.\n"
		return start, start + len(name)
	}
	var a graph.ChunkAssertions
	var ids []string // of the mentions' entities
	found := map[string]*graph.Candidate{}
	for _, it := range x.items {
		if label, name, ok := strings.Cut(it, ":"); ok && !strings.Contains(it, " ") || ok && strings.Index(it, ":") < strings.Index(it, " ") {
			e := graph.EntityRef{ID: entityID(it), Label: label, Key: fingerprint.Fold(name)}
			c.Assertions.Entities = append(c.Assertions.Entities, e)
			m := graph.Mention{Name: name, Confidence: 0.9, Extractor: "rules"}
			ids = append(ids, entityID(it))
			m.Start, m.End = at(name)
			a.Mentions = append(a.Mentions, m)
			continue
		}
		cand := candidate(it)
		cand.Start, cand.End = at(quoteOf(cand))
		if f := found[cand.Key]; f != nil {
			f.Count++
			f.Confidence = max(f.Confidence, cand.Confidence)
			continue
		}
		found[cand.Key] = &cand
	}
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range found {
			if !yield(k) {
				return
			}
		}
	}) {
		c.Assertions.Candidates = append(c.Assertions.Candidates, *found[k])
	}
	slices.SortFunc(c.Assertions.Entities, func(a, b graph.EntityRef) int { return strings.Compare(a.ID, b.ID) })
	for i := range a.Mentions {
		a.Mentions[i].Entity = slices.IndexFunc(c.Assertions.Entities, func(e graph.EntityRef) bool { return e.ID == ids[i] })
	}
	c.Chunks = []graph.Chunk{{End: len(c.Text), Content: "text", Tokens: 1}}
	if len(a.Mentions) > 0 {
		c.Assertions.Chunks = []graph.ChunkAssertions{a}
	}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	var res store.DocResult
	r.txn(func(txn *store.Txn) (err error) {
		res, err = txn.Apply(context.Background(), c)
		return err
	})
	return res
}

func entityID(name string) string {
	label, name, _ := strings.Cut(name, ":")
	return fingerprint.EntityID(label, fingerprint.Fold(name))
}

func quoteOf(c graph.Candidate) string {
	switch c.Kind {
	case graph.KindRelation:
		return c.SourceText + " and " + c.TargetText
	case graph.KindProperty:
		return c.SourceText + " is " + c.Text
	}
	return c.Text
}

func candidate(it string) graph.Candidate {
	c := graph.Candidate{Confidence: 0.5, Count: 1, Reasons: []string{graph.ReasonUndeclaredLabel}, Extractor: "rules"}
	if _, err := fmt.Sscanf(it, "%f ", &c.Confidence); err == nil {
		_, it, _ = strings.Cut(it, " ")
	} else {
		c.Confidence = 0.5
	}
	kind, rest, _ := strings.Cut(it, " ")
	label, rest, _ := strings.Cut(rest, " ")
	c.Kind, c.Label = kind, strings.ReplaceAll(label, "␠", " ")
	switch kind {
	case graph.KindRelation:
		c.SourceText, c.TargetText, _ = strings.Cut(rest, " > ")
		c.Key = fingerprint.RelationKey(c.Label, c.SourceText, c.TargetText)
		c.Text = quoteOf(c)
	case graph.KindProperty:
		c.SourceText, c.Text, _ = strings.Cut(rest, " = ")
		c.Key = fingerprint.PropertyKey(c.Label, c.SourceText, c.Text)
		c.Reasons = []string{graph.ReasonUndeclaredProperty}
	default:
		c.Text = rest
		c.Key = fingerprint.EntityKey(c.Label, c.Text)
	}
	return c
}

func (r *room) remove(doc string) {
	r.order++
	r.txn(func(txn *store.Txn) error {
		_, err := txn.Apply(context.Background(), store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: doc}, Order: graph.Order{Time: r.order}})
		return err
	})
}

func (r *room) txn(fn func(*store.Txn) error) {
	r.t.Helper()
	txn, err := r.st.Begin(context.Background(), g)
	require.NoError(r.t, err)
	require.NoError(r.t, fn(txn))
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(r.t, err)
}

func (r *room) decide(req api.CandidatesDecide) api.DecideReply {
	r.t.Helper()
	if req.Actor == "" {
		req.Actor = "eva"
	}
	reply, err := r.Decide(context.Background(), g, req)
	require.NoError(r.t, err)
	return reply
}

func (r *room) approve(keys ...string) api.DecideReply {
	r.t.Helper()
	return r.decide(api.CandidatesDecide{Keys: keys, Decision: "approve"})
}

func (r *room) reject(keys ...string) api.DecideReply {
	r.t.Helper()
	return r.decide(api.CandidatesDecide{Keys: keys, Decision: "reject"})
}

// refused is the status and code of an error, after which nothing is committed.
func (r *room) refused(fn func() error) string {
	r.t.Helper()
	seq, err := r.st.Seq(g)
	require.NoError(r.t, err)
	err = fn()
	var e *api.Error
	require.ErrorAs(r.t, err, &e)
	after, err := r.st.Seq(g)
	require.NoError(r.t, err)
	require.Equal(r.t, seq, after, "nothing is committed")
	return fmt.Sprintf("%d %s", e.Status, e.Code)
}

func (r *room) snapshot(fn func(sn *store.Snapshot)) {
	r.t.Helper()
	sn, err := r.st.Snapshot(g, 0)
	require.NoError(r.t, err)
	fn(sn)
	require.NoError(r.t, sn.Close())
}

// records are "key document state count", in order; an edited one ends with its label and text.
func (r *room) records() []string {
	r.t.Helper()
	out := []string{}
	r.snapshot(func(sn *store.Snapshot) {
		require.NoError(r.t, sn.CandidateAll(store.CandidateCursor{}, func(c store.CandidateRecord) error {
			d, _, err := sn.Doc(c.DocID)
			line := fmt.Sprintf("%s %s %s %d", c.Key, d.Meta.Key, c.State, c.Count)
			if c.Edited != nil {
				line += fmt.Sprintf(" edited %s %s", c.Label, c.Text)
			}
			out = append(out, line)
			return err
		}))
	})
	slices.Sort(out)
	return out
}

// record is that of a key in a document.
func (r *room) record(doc, key string) (c store.CandidateRecord) {
	r.t.Helper()
	r.snapshot(func(sn *store.Snapshot) {
		var ok bool
		var err error
		c, ok, err = sn.Candidate(fingerprint.DocumentID(doc), key)
		require.NoError(r.t, err)
		require.True(r.t, ok, "%s of %s", key, doc)
	})
	return c
}

// told are the candidate events that wait to be published, "verb key document", in order; they are numbered without gaps.
func (r *room) events() (verbs []string, trail []events.Audit) {
	r.t.Helper()
	rows, err := r.st.Outbox(g, 0, 100_000)
	require.NoError(r.t, err)
	prev, no := "", uint64(0)
	for _, row := range rows {
		e, err := row.Event()
		require.NoError(r.t, err)
		switch e := e.(type) {
		case *events.CandidateEvent:
			no++
			require.Equal(r.t, no, e.No)
			for _, it := range e.Items {
				verbs = append(verbs, fmt.Sprintf("%s %s %s", e.Verb, it.Key, it.Document))
			}
		case *events.Audit:
			again, err := e.Sealed(uint64(len(trail)+1), prev)
			require.NoError(r.t, err)
			require.Equal(r.t, again, *e, "numbered and chained")
			prev = e.Record
			trail = append(trail, *e)
		}
	}
	return verbs, trail
}

func (r *room) verified() {
	r.t.Helper()
	v, err := r.st.Verify(context.Background(), g, nil)
	require.NoError(r.t, err)
	require.Empty(r.t, v.Problems)
	_, err = audit.Trail{Store: r.st, Graph: g}.Verify(context.Background(), func(p api.Problem) { require.Fail(r.t, "a problem", "%+v", p) })
	require.NoError(r.t, err)
}
