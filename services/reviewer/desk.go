package reviewer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/coverage"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// Committer is what the desk asks the committer.
type Committer interface {
	Seq(ctx context.Context, graph string) (api.SeqReply, error)
	Records(ctx context.Context, graph string, req api.RecordsGet) (api.RecordsReply, error)
	Schema(ctx context.Context, graph string) (api.SchemaReply, error)
	Matches(ctx context.Context, graph string, req api.MatchesList) (api.MatchesReply, error)
	Match(ctx context.Context, graph string, req api.MatchGet) (api.MatchReply, error)
	Conflicts(ctx context.Context, graph string, req api.ConflictsList) (api.ConflictsReply, error)
	Conflict(ctx context.Context, graph string, req api.ConflictGet) (api.ConflictReply, error)
	Decide(ctx context.Context, graph string, req api.MatchDecide) (api.DecideReply, error)
	Stale(ctx context.Context, graph string, req api.StaleList) (api.StaleListReply, error)
	StaleFact(ctx context.Context, graph string, req api.StaleGet) (api.StaleReply, error)
	DecideStale(ctx context.Context, graph string, req api.StaleDecide) (api.DecideReply, error)
	DecideConflict(ctx context.Context, graph string, req api.ConflictDecide) (api.DecideReply, error)
	Held(ctx context.Context, graph string, req api.HeldList) (api.HeldListReply, error)
	HeldJob(ctx context.Context, graph string, req api.HeldGet) (api.HeldReply, error)
	DecideHeld(ctx context.Context, graph string, req api.HeldDecide) (api.DecideReply, error)
	Kinds(ctx context.Context, graph string, req api.CandidatesKinds) (api.CandidatesKindsReply, error)
	DecideCandidates(ctx context.Context, graph string, req api.CandidatesDecide) (api.DecideReply, error)
	CandidatePlan(ctx context.Context, graph string, req api.CandidatePlanGet) (api.CandidatePlan, error)
	EditCandidate(ctx context.Context, graph string, req api.ReviewEdit) (api.CandidateEdited, error)
	Patch(ctx context.Context, graph string, req api.CandidatesPatch) (patch.Patch, error)
	Convert(ctx context.Context, graph string, req api.ReviewConvert) (api.ConvertReport, error)
	Prune(ctx context.Context, graph string, req api.ReviewPrune) (api.ReviewPruneReply, error)
	UndoCandidate(ctx context.Context, graph string, req api.CandidatesUndo) (api.DecideReply, error)
	Audit(ctx context.Context, graph string, req api.ReviewAudit) (api.ReviewAuditReply, error)
	Policy(ctx context.Context, graph string, req api.ReviewPolicy) (api.ReviewPolicyReply, error)
}

// desk answers the review verbs out of one read model a graph. A graph's model is loaded when it is first asked for.
type desk struct {
	committer Committer
	// catchUp is how long a request waits for events that the committer has committed already.
	catchUp time.Duration

	mu     sync.Mutex
	graphs map[string]*state

	// Loads go on when the request that began them has ended, but not behind base.
	base  context.Context
	loads sync.WaitGroup
}

// state is one graph's model. moved is closed and renewed whenever the model changes.
type state struct {
	mu     sync.Mutex
	model  *model.Graph // nil until loaded, or when events were missed
	moved  chan struct{}
	load   *load                    // under way; nil when none is
	early  []*events.CandidateEvent // that passed while it was
	covers *coverage.Cache
}

func newDesk(c Committer) *desk {
	return &desk{committer: c, catchUp: 5 * time.Second, graphs: map[string]*state{}, base: context.Background()}
}

func (d *desk) state(graph string) *state {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.graphs[graph]
	if s == nil {
		s = &state{moved: make(chan struct{}), covers: coverage.NewCache()}
		d.graphs[graph] = s
	}
	return s
}

// maxEarly events wait for a load that is under way; more of them start it anew.
const maxEarly = 10_000

// apply takes a candidate event from the stream. Graphs that nobody asked for are not kept.
func (d *desk) apply(e *events.CandidateEvent) {
	d.mu.Lock()
	s := d.graphs[e.Graph]
	d.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.model == nil:
		if s.load != nil && len(s.early) < maxEarly {
			s.early = append(s.early, e)
		}
		return
	case !s.model.Apply(e):
		s.model = nil // events were missed: the next request loads anew
	}
	close(s.moved)
	s.moved = make(chan struct{})
}

// forget drops every model: events may have been missed, and the next request loads what the committer stores.
func (d *desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.graphs {
		s.mu.Lock()
		s.model = nil
		close(s.moved)
		s.moved = make(chan struct{})
		s.mu.Unlock()
	}
}

// at brings the graph's model to the committer's sequence and calls fn with it, locked. fn sees whole commits only: a model that
// is ahead of what the committer said may hold a part of the next commit's events, so the committer is asked again.
func (d *desk) at(ctx context.Context, graph string, fn func(*model.Graph)) error {
	want, err := d.committer.Seq(ctx, graph)
	if err != nil {
		return err
	}
	s := d.state(graph)
	limit := time.NewTimer(d.catchUp)
	defer limit.Stop()
	for {
		s.mu.Lock()
		m, moved := s.model, s.moved
		if m != nil && m.No == want.No {
			m.Seq, m.Approved, m.Rejected = max(m.Seq, want.Seq), want.Approved, want.Rejected
			fn(m)
			s.mu.Unlock()
			return nil
		}
		ahead := m != nil && m.No > want.No
		s.mu.Unlock()
		if m == nil {
			if err := d.loaded(ctx, graph, s, want.No); err != nil {
				return err
			}
			continue
		}
		if ahead {
			if want, err = d.ahead(ctx, graph, s, m); err != nil {
				return err
			}
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			// The stream is behind or lost its tail: what the committer stores is the truth.
			s.mu.Lock()
			s.model = nil
			s.mu.Unlock()
			limit.Reset(d.catchUp)
		}
	}
}

// ahead asks the committer again how far it is. Events follow their commit, so a model that is still ahead is of another history (the
// store was restored) and is loaded anew.
func (d *desk) ahead(ctx context.Context, graph string, s *state, m *model.Graph) (api.SeqReply, error) {
	s.mu.Lock()
	no := m.No
	s.mu.Unlock()
	want, err := d.committer.Seq(ctx, graph)
	if err != nil {
		return want, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model == m && no > want.No {
		s.model = nil
	}
	return want, nil
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	replyBudget  = 700 << 10
)

func (d *desk) list(ctx context.Context, graph string, body []byte) (any, error) {
	var req api.ReviewList
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	limit := defaultLimit
	if req.Limit != nil {
		limit = *req.Limit
	}
	if limit < 0 || limit > maxLimit {
		return nil, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", limit, maxLimit)
	}
	if req.Skip < 0 || req.MinCount < 0 {
		return nil, api.Errorf(400, "bad_value", "skip and min_count must not be negative")
	}
	f, err := d.filter(ctx, graph, req)
	if err != nil {
		return nil, err
	}
	var after *model.Place
	if req.Cursor != "" {
		if after, err = parseCursor(req.Cursor); err != nil {
			return nil, err
		}
	}
	var p page
	switch asked := asksFor(req.Kinds); asked {
	case candidates:
		p, err = d.candidates(ctx, graph, f, after, req.Skip, limit)
	default:
		p, err = d.skipping(req.Skip, after, limit, func(after *model.Place, limit int) (page, error) {
			return d.several(ctx, graph, asked, f, after, limit)
		})
	}
	if err != nil {
		return nil, err
	}
	reply := api.ReviewListReply{Seq: p.seq, Groups: p.groups, Total: p.total}
	if p.next != nil {
		reply.Next = cursor(*p.next)
	}
	return reply, nil
}

// candidates is a page of candidate groups.
func (d *desk) candidates(ctx context.Context, graph string, f model.Filter, after *model.Place, skip, limit int) (p page, err error) {
	err = d.at(ctx, graph, func(m *model.Graph) {
		p.seq = m.Seq
		p.groups, p.next, p.total = m.List(f, after, skip, limit, groupSize, replyBudget)
	})
	return p, err
}

func (d *desk) filter(ctx context.Context, graph string, req api.ReviewList) (model.Filter, error) {
	f := model.Filter{Label: schema.FoldLabel(req.Label), MinCount: req.MinCount, MinScore: req.MinScore, State: api.StatePending, Kinds: map[string]bool{}}
	if math.IsNaN(req.MinScore) || req.MinScore < 0 || req.MinScore > 1 {
		return f, api.Errorf(400, "bad_value", "min_score is %v: it must be between 0 and 1", req.MinScore)
	}
	for _, k := range req.Kinds {
		switch k {
		case "entity", "relation", "property", "match", "stale", "conflict", "job":
			f.Kinds[k] = true
		default:
			return f, api.Errorf(400, "bad_value", "kind is %q: it must be entity, relation, property, match, stale, conflict or job", k)
		}
	}
	if len(req.State) > 0 {
		var st *string
		if err := json.Unmarshal(req.State, &st); err != nil {
			return f, api.Errorf(400, "bad_value", "state must be pending, approved, rejected, null, or active for matches")
		}
		f.State = ""
		if st != nil {
			switch *st {
			case api.StatePending, api.StateApproved, api.StateRejected:
				f.State = *st
			case api.StateActive:
				if f.State = *st; !f.Kinds[api.KindMatch] {
					return f, api.Errorf(400, "bad_value", "state is active: only a match can be, ask for the kind match")
				}
			default:
				return f, api.Errorf(400, "bad_value", "state is %q: it must be pending, approved, rejected, null, or active for matches", *st)
			}
		}
	}
	active, err := d.committer.Schema(ctx, graph)
	if err != nil {
		return f, err
	}
	covers, err := d.state(graph).covers.Of(active)
	if err != nil {
		return f, err
	}
	f.Covered = covers.Group
	hide, err := coverage.Chosen(req.Schema, covers)
	if err != nil {
		return f, err
	}
	if hide != nil && !req.IncludeCovered {
		f.Hide = func(g api.Group) bool { return g.State == api.StatePending && hide.Group(g) }
	}
	if hide != nil {
		f.Covered = hide.Group
	}
	return f, nil
}

func cursor(p model.Place) string {
	b, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (*model.Place, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	var p model.Place
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return nil, api.Errorf(400, "bad_value", "the cursor is not one of ours")
	}
	return &p, nil
}

func (d *desk) stats(ctx context.Context, graph string, body []byte) (any, error) {
	var req struct{}
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	var reply api.ReviewStatsReply
	if err := d.at(ctx, graph, func(m *model.Graph) { reply = m.Stats() }); err != nil {
		return nil, err
	}
	counts, err := d.committer.Matches(ctx, graph, api.MatchesList{})
	if err != nil {
		return nil, err
	}
	conflicts, err := d.committer.Conflicts(ctx, graph, api.ConflictsList{})
	if err != nil {
		return nil, err
	}
	stale, err := d.committer.Stale(ctx, graph, api.StaleList{})
	if err != nil {
		return nil, err
	}
	held, err := d.committer.Held(ctx, graph, api.HeldList{})
	reply.Matches, reply.Conflicts, reply.Stale, reply.Jobs = counts.States, conflicts.Reasons, stale.Waiting, held.Waiting
	return reply, err
}

func (d *desk) show(ctx context.Context, graph string, body []byte) (any, error) {
	var req api.ReviewShow
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	if (req.ID == "") == (req.Key == "") {
		return nil, api.Errorf(400, "bad_value", "give either id or key")
	}
	if strings.HasPrefix(req.Key, "job|") {
		return d.heldJob(ctx, graph, api.HeldGet{Key: req.Key, Document: req.Document})
	}
	if strings.HasPrefix(req.Key, "stale|") {
		return d.staleFact(ctx, graph, api.StaleGet{Key: req.Key})
	}
	if strings.HasPrefix(req.Key, "match|") {
		return d.match(ctx, graph, api.MatchGet{Key: req.Key})
	}
	if strings.HasPrefix(req.Key, "conflict|") {
		return d.conflict(ctx, graph, api.ConflictGet{Key: req.Key})
	}
	reply, err := d.candidate(ctx, graph, req.ID, req.Key)
	if none := (*api.Error)(nil); req.ID != "" && errors.As(err, &none) && none.Code == "candidate_not_found" {
		m, merr := d.match(ctx, graph, api.MatchGet{ID: req.ID})
		if !errors.As(merr, &none) || none.Code != "match_not_found" {
			return m, merr
		}
		x, xerr := d.conflict(ctx, graph, api.ConflictGet{ID: req.ID})
		if !errors.As(xerr, &none) || none.Code != "conflict_not_found" {
			return x, xerr
		}
		f, ferr := d.staleFact(ctx, graph, api.StaleGet{ID: req.ID})
		if !errors.As(ferr, &none) || none.Code != "stale_not_found" {
			return f, ferr
		}
		if id, herr := d.isHeld(ctx, graph, []string{req.ID}); herr != nil || id != "" {
			return d.heldJob(ctx, graph, api.HeldGet{ID: req.ID, Document: req.Document})
		}
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// candidate shows one candidate whole, by the id of a record or its key.
func (d *desk) candidate(ctx context.Context, graph, id, key string) (reply api.ReviewShowReply, err error) {
	found := false
	reply = api.ReviewShowReply{Evidence: []api.Surrounded{}, OtherSources: []api.SourceQuote{}, History: []events.Audit{}}
	err = d.at(ctx, graph, func(m *model.Graph) {
		if id != "" {
			key = m.Find(id)
		}
		reply.Seq = m.Seq
		reply.Item, found = m.Group(key)
	})
	if err != nil {
		return reply, err
	}
	if !found {
		return reply, api.Errorf(404, "candidate_not_found", "graph %s has no candidate, match, conflict or stale fact %.120s%.120s", graph, id, key)
	}
	page, err := d.committer.Records(ctx, graph, api.RecordsGet{Key: key, First: reply.Item.Sample.Document})
	if err != nil {
		return reply, err
	}
	reply.Revision, reply.Records = reply.Item.Revision, fitting(page.Records, recordsBudget)
	fillEvidence(&reply)
	said, err := d.committer.Audit(ctx, graph, api.ReviewAudit{Item: key, Limit: &maxHistory})
	if err != nil {
		return reply, err
	}
	reply.History = fitting(said.Records, historyBudget)
	if reply.Item.State == api.StateRejected {
		return reply, nil
	}
	p, err := d.committer.CandidatePlan(ctx, graph, api.CandidatePlanGet{Key: key})
	reply.Planned = p.Planned
	return reply, err
}

// maxHistory is how many decisions about a candidate are shown.
var maxHistory = 50

// Bytes of what a candidate is shown with. What a record says is said once more by its evidence.
const (
	recordsBudget = 320 << 10
	historyBudget = 200 << 10
)

// fitting are the first of a list, as many as fit.
func fitting[T any](list []T, budget int) []T {
	for i := range list {
		b, err := json.Marshal(list[i])
		if budget -= len(b) + len(","); err != nil || budget < 0 && i > 0 {
			return list[:i]
		}
	}
	return list
}

// fillEvidence shows the first document's sighting with its surroundings, and the others as quotes.
func fillEvidence(reply *api.ReviewShowReply) {
	for _, r := range reply.Records {
		if r.Document != reply.Item.Sample.Document {
			reply.OtherSources = append(reply.OtherSources, api.SourceQuote{Document: r.Document, Chunk: r.ChunkID, Quote: r.Quote})
			continue
		}
		e := api.Surrounded{Before: r.Before, After: r.After}
		e.Document, e.Chunk, e.Start, e.End, e.Quote = r.Document, r.ChunkID, r.Start, r.End, r.Quote
		e.Confidence, e.Assertion = r.Confidence, r.Assertion
		if e.Assertion == "" {
			e.Assertion = "explicit"
		}
		reply.Evidence = append(reply.Evidence, e)
	}
}

// asError makes any error an answer.
func asError(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return api.Errorf(503, "not_ready", "the review desk could not catch up with the committer in time")
	}
	return api.Errorf(500, "internal", "%v", err)
}
