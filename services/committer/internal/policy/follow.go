package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/candidates"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package: "p" → position; "w" key → nothing: a candidate that could not be approved for its ends.
const space = byte('Y')

var keyPosition = []byte("p")

// position is how far the policy of a graph got: through the candidate feed, or, where All is set, through all keys that wait.
type position struct {
	Mark string `json:"mark"` // of the rules
	Seq  uint64 `json:"seq"`  // commits up to it are done, or are part of All
	// Offset is where the next commit's page begins. A commit of several pages is gone through twice: entities first, then the rest (Late).
	Offset int  `json:"offset,omitempty"`
	Late   bool `json:"late,omitempty"`
	// All keys are gone through, those up to After are done.
	All   bool   `json:"all,omitempty"`
	After string `json:"after,omitempty"`
	// Again is in the position of a request that looks again at what could not be approved; none such is stored.
	Again bool `json:"again,omitempty"`
}

// Schemas are the schemas of graphs; revision 0 of one is the active one.
type Schemas interface {
	Schema(graph string, revision uint64) (*schema.Schema, error)
	// Revision is the active one; 0 for a graph that does not exist.
	Revision(graph string) (uint64, error)
}

// Desk decides about candidates.
type Desk interface {
	DecideBy(ctx context.Context, graph string, req api.CandidatesDecide, ruling candidates.Ruling) (api.DecideReply, error)
}

// Config of a Follower.
type Config struct {
	// Page is how many keys are looked at before the position is stored. Defaults to 500.
	Page int
	// RetryMin and RetryMax bound the pause after an error, which doubles. Default to 100 ms and 15 s.
	RetryMin, RetryMax time.Duration
	// After is time.After, for tests.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Page <= 0 {
		c.Page = 500
	}
	if c.RetryMin <= 0 {
		c.RetryMin = 100 * time.Millisecond
	}
	if c.RetryMax < c.RetryMin {
		c.RetryMax = max(15*time.Second, c.RetryMin)
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Deps of New; all but Metrics are required.
type Deps struct {
	Store   *store.Store
	Schemas Schemas
	Desk    Desk
	Metrics prometheus.Registerer
}

// Follower decides behind the commits of all graphs, one page of one graph at a time. Run must be running for anything to be decided.
type Follower struct {
	cfg     Config
	deps    Deps
	decided *prometheus.CounterVec

	wake     chan struct{}
	stopping chan struct{} // closed when Run stops: who waits then gets what there is

	mu     sync.Mutex
	dirty  map[string]bool       // graphs with news; guarded by mu
	graphs map[string]*following // guarded by mu
}

// following is one graph.
type following struct {
	// Of Run alone: at is nil until read; what could not be approved was looked at again at commit retried, up to the key next.
	at      *position
	retried uint64
	next    string

	// The rest is guarded by Follower.mu.
	revision uint64
	rules    *Rules
	done     uint64 // commits up to it are through
	err      error
	changed  chan struct{} // closed when done or err changes
}

// New makes a follower.
func New(cfg Config, deps Deps) (*Follower, error) {
	f := &Follower{cfg: cfg.withDefaults(), deps: deps, wake: make(chan struct{}, 1), stopping: make(chan struct{}), dirty: map[string]bool{}, graphs: map[string]*following{},
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "factmill_committer_policy_decided_total", Help: "Candidate keys that the policy decided."}, []string{"list"})}
	if deps.Metrics != nil {
		if err := deps.Metrics.Register(f.decided); err != nil {
			return nil, fmt.Errorf("register metrics of the policy: %w", err)
		}
	}
	return f, nil
}

// Notify tells that a graph was committed to, or has another schema. It never waits.
func (f *Follower) Notify(graph string) {
	f.mu.Lock()
	f.dirty[graph] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Follower) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Sorted(maps.Keys(f.dirty))
	clear(f.dirty)
	return out
}

// of is a graph's state. Callers hold mu.
func (f *Follower) of(graph string) *following {
	g := f.graphs[graph]
	if g == nil {
		g = &following{changed: make(chan struct{})}
		f.graphs[graph] = g
	}
	return g
}

// rules are those of the active schema.
func (f *Follower) rules(graph string) (*Rules, error) {
	revision, err := f.deps.Schemas.Revision(graph)
	if err != nil {
		return nil, err
	}
	if revision == 0 { // no such graph: nothing is kept of it
		s, err := f.deps.Schemas.Schema(graph, 0)
		if err != nil {
			return nil, err
		}
		return NewRules(s), nil
	}
	f.mu.Lock()
	g := f.of(graph)
	r := g.rules
	if g.revision != revision {
		r = nil
	}
	f.mu.Unlock()
	if r != nil {
		return r, nil
	}
	s, err := f.deps.Schemas.Schema(graph, revision)
	if err != nil {
		return nil, err
	}
	r = NewRules(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	g.rules, g.revision = r, revision
	return r, nil
}

// Run decides until ctx is done; it may be called once. Errors are logged, and tried again; only a store that is broken or closed ends it.
func (f *Follower) Run(ctx context.Context) error {
	stop := sync.OnceFunc(func() { close(f.stopping) })
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	for _, g := range f.deps.Store.Graphs() {
		f.Notify(g)
	}
	pause := f.cfg.RetryMin
	failed := map[string]bool{}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			again = nil
			for g := range failed {
				f.Notify(g)
			}
		case <-f.wake:
		}
		for _, graph := range f.take() {
			err := f.turn(ctx, graph)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, store.ErrBroken), errors.Is(err, store.ErrClosed):
				return fmt.Errorf("policy of graph %s: %w", graph, err)
			case err == nil:
				delete(failed, graph)
				if len(failed) == 0 {
					pause = f.cfg.RetryMin
				}
				continue
			}
			f.cfg.Log.Warn("the policy is behind", "graph", graph, "error", err, "again_in", pause)
			failed[graph] = true
			if again == nil {
				again = f.cfg.After(pause/2 + rand.N(pause/2+1))
				pause = min(2*pause, f.cfg.RetryMax)
			}
		}
	}
}

// turn is a graph's: one page, then it queues again while more is left.
func (f *Follower) turn(ctx context.Context, graph string) error {
	f.mu.Lock()
	g := f.of(graph)
	f.mu.Unlock()
	head, more, err := f.step(ctx, graph, g)
	if err != nil {
		g.at = nil
	}
	f.mu.Lock()
	if g.err = err; err == nil && !more {
		g.done = head
	}
	close(g.changed)
	g.changed = make(chan struct{})
	f.mu.Unlock()
	if more {
		f.Notify(graph)
	}
	return err
}

// step decides one page; without more, commits up to head are through.
func (f *Follower) step(ctx context.Context, graph string, g *following) (head uint64, more bool, err error) {
	rules, err := f.rules(graph)
	if err != nil {
		return 0, false, err
	}
	head, err = f.deps.Store.Seq(graph)
	if errors.Is(err, store.ErrNoGraph) {
		return 0, false, nil
	}
	if err != nil || !rules.Decide() {
		return head, false, err
	}
	if g.at == nil {
		g.at = &position{}
		b, err := f.deps.Store.Get(graph, space, keyPosition)
		if err != nil {
			return head, false, err
		}
		if b != nil {
			if err := json.Unmarshal(b, g.at); err != nil {
				return head, false, fmt.Errorf("%w: the position of the policy: %w", store.ErrCorrupt, err)
			}
		}
	}
	at := *g.at
	if at.Mark != rules.mark {
		at = position{Mark: rules.mark, Seq: head, All: true}
	}
	keys, next, err := f.page(ctx, graph, at)
	if errors.Is(err, store.ErrFeedGone) {
		at = position{Mark: rules.mark, Seq: head, All: true}
		keys, next, err = f.page(ctx, graph, at)
	}
	if err == nil && next == at {
		err = f.again(ctx, graph, rules, g, head)
		return head, false, err
	}
	if err != nil {
		return head, false, err
	}
	batches, err := f.batches(ctx, graph, rules, keys, nil)
	if err != nil {
		return head, false, err
	}
	blocked, err := f.decide(ctx, graph, rules, at, batches)
	if err != nil {
		return head, false, err
	}
	b, err := json.Marshal(next)
	if err != nil {
		return head, false, err
	}
	ops := []store.Op{{Graph: graph, Space: space, Key: keyPosition, Value: b}}
	if at.All && at.After == "" {
		ops = append(ops, store.Op{Graph: graph, Space: space, Key: waitingKey(""), DeletePrefix: true})
	}
	for _, k := range blocked {
		ops = append(ops, store.Op{Graph: graph, Space: space, Key: waitingKey(k), Value: []byte{1}})
	}
	if err := f.deps.Store.Write(ctx, ops, false); err != nil {
		return head, false, err
	}
	g.at = &next
	return head, true, nil
}

// page is the keys to look at from a position, and the position behind them, which is the same when there are none.
func (f *Follower) page(ctx context.Context, graph string, at position) (keys []string, next position, err error) {
	if at.All {
		sn, err := f.deps.Store.Snapshot(graph, 0)
		if err != nil {
			return nil, at, err
		}
		keys, err = waiting(ctx, sn, at.After, f.cfg.Page)
		if err = errors.Join(err, sn.Close()); err != nil {
			return nil, at, err
		}
		if len(keys) < f.cfg.Page {
			return keys, position{Mark: at.Mark, Seq: at.Seq}, nil
		}
		next = at
		next.After = keys[len(keys)-1]
		return keys, next, nil
	}
	p, err := f.deps.Store.CandidateFeed(ctx, graph, at.Seq, at.Offset, f.cfg.Page)
	if err != nil || p.Seq == 0 {
		return nil, at, err
	}
	whole := at.Offset == 0 && p.Next == 0 && !at.Late
	for _, k := range p.Keys {
		if whole || isEntity(k) != at.Late {
			keys = append(keys, k)
		}
	}
	next = position{Mark: at.Mark, Seq: p.Seq}
	switch {
	case p.Next > 0:
		next.Seq, next.Offset, next.Late = at.Seq, p.Next, at.Late
	case !whole && !at.Late:
		next.Seq, next.Late = at.Seq, true
	}
	return keys, next, nil
}

// waiting are at most limit keys behind a key, in order, that have records which wait.
func waiting(ctx context.Context, sn *store.Snapshot, after string, limit int) (keys []string, err error) {
	last := after
	err = sn.CandidateRows("", after, func(r store.CandidateRow) error {
		if r.State != api.StatePending || r.Key == last {
			return ctx.Err()
		}
		last = r.Key
		if keys = append(keys, r.Key); len(keys) == limit {
			return store.ErrStop
		}
		return ctx.Err()
	})
	return keys, err
}

// batches are what of the keys the policy decides, by the rule that does. choose (nil: all) admits them.
func (f *Follower) batches(ctx context.Context, graph string, rules *Rules, keys []string, choose func(rd reading, key string, o Outcome) (bool, error)) (out []*batch, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	sn, err := f.deps.Store.Snapshot(graph, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	rd := f.reading(ctx, graph, sn)
	for _, k := range keys {
		o, err := rules.look(rd, k, nil)
		if err != nil {
			return nil, err
		}
		ok := o.decides()
		if choose != nil {
			if ok, err = choose(rd, k, o); err != nil {
				return nil, err
			}
		}
		if ok {
			out = gather(out, k, o)
		}
	}
	return out, nil
}

// decide takes the decisions, each rule's in one request, whose id is made of what it is about. It returns the keys that could not be
// approved for their ends.
func (f *Follower) decide(ctx context.Context, graph string, rules *Rules, at position, batches []*batch) (blocked []string, err error) {
	for _, b := range batches {
		skipped, err := f.batch(ctx, graph, rules, at, b)
		if err != nil {
			return nil, err
		}
		for _, k := range b.keys {
			if strings.HasPrefix(skipped[k], endpoint) {
				blocked = append(blocked, k)
			}
		}
	}
	return blocked, nil
}

func (f *Follower) reading(ctx context.Context, graph string, sn *store.Snapshot) reading {
	return reading{ctx: ctx, sn: sn, trail: audit.Trail{Store: f.deps.Store, Graph: graph}}
}

// batch decides the keys of one rule; those that another verdict is about by now are left alone.
func (f *Follower) batch(ctx context.Context, graph string, rules *Rules, at position, b *batch) (skipped map[string]string, err error) {
	slices.Sort(b.keys)
	req := api.CandidatesDecide{Keys: b.keys, Decision: api.DecideReject, Actor: api.ActorPolicy, Reason: rules.reason(b.verdict, b.index)}
	if b.verdict == schema.VerdictAccept {
		req.Decision = api.DecideApprove
	}
	about, err := json.Marshal([]any{at, b.verdict, b.index, b.keys})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(about)
	req.RequestID = "policy-" + hex.EncodeToString(sum[:16])
	reply, err := f.deps.Desk.DecideBy(ctx, graph, req, func(sn *store.Snapshot, key string) (*events.AuditPolicy, error) {
		now, err := f.rules(graph)
		if err != nil || now.mark != rules.mark {
			return nil, err
		}
		o, err := now.look(f.reading(ctx, graph, sn), key, nil)
		if err != nil || !o.decides() || o.Verdict != b.verdict || o.first() != b.index {
			return nil, err
		}
		return now.record(o), nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Reason, err)
	}
	if n := reply.Outcome.ChangedTotal; n > 0 {
		f.decided.WithLabelValues(string(b.verdict)).Add(float64(n))
		f.cfg.Log.Info("the policy decided", "graph", graph, "rule", req.Reason, "keys", n)
	}
	return reply.Outcome.Skipped, nil
}

// Wait returns when the policy of a graph decided what commits up to seq brought, when something hinders that, when the follower stops, or
// when ctx is done. A graph whose policy decides nothing is never waited for.
func (f *Follower) Wait(ctx context.Context, graph string, seq uint64) error {
	for {
		rules, err := f.rules(graph)
		if err != nil || !rules.Decide() {
			return err
		}
		f.mu.Lock()
		g := f.of(graph)
		done, err, changed := g.done, g.err, g.changed
		f.mu.Unlock()
		if err != nil || done >= seq {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.stopping:
			return nil
		case <-changed:
		}
	}
}
