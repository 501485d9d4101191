// Package reviewer is the review desk: it follows candidate events, keeps a read model of what waits for a person, and answers
// the review verbs. The committer owns all state; any number of reviewers run, and a queue group answers once.
package reviewer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/patch"
)

// Service is the reviewer.
type Service struct {
	cfg  Config
	conn *bus.Conn
	log  *slog.Logger
	desk *desk
	up   atomic.Bool

	metrics *metrics
	now     func() time.Time
}

// New makes a reviewer.
func New(cfg Config, deps app.Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	deps = deps.WithDefaults()
	d := newDesk(remote{deps.Conn})
	d.catchUp = cfg.CatchUp
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, conn: deps.Conn, log: deps.Log, desk: d, metrics: m, now: deps.Now}, nil
}

// Name implements app.Service.
func (s *Service) Name() string { return "reviewer" }

// Ready implements app.Service.
func (s *Service) Ready() error {
	if !s.up.Load() {
		return bus.ErrNotStarted
	}
	return nil
}

// Run follows the candidate events and answers the verbs until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.there(ctx); err != nil {
		return err
	}
	// A plain subscription does: events are numbered, and what is missed is read from the committer. It is answered while the stream
	// is away, and nothing has to be set up anew when that comes back.
	sub, err := s.conn.NC.Subscribe(events.Subject{Graph: "*", Kind: events.KindCandidate, Job: "*", Item: "*"}.String(), s.follow)
	if err != nil {
		return fmt.Errorf("follow candidate events: %w", err)
	}
	// Requests under way when the service stops still get what they wait for.
	loads, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.desk.base = loads
	watched := make(chan error, 1)
	go func() { watched <- s.watch(ctx); cancel() }()
	measured := make(chan struct{})
	go func() { defer close(measured); s.measure(ctx) }()
	defer func() { cancel(); <-measured }()
	s.up.Store(true)
	err = s.conn.Serve(ctx, bus.ServiceInfo{Name: "reviewer", Version: s.cfg.Version, Description: "what waits for a person"},
		apart(s.endpoints()), bus.ServeOptions{Nouns: []string{"review"}, Workers: s.cfg.Workers, Log: s.log})
	s.up.Store(false)
	cancel()
	stop()
	s.desk.loads.Wait()
	if e := sub.Unsubscribe(); e != nil && !errors.Is(e, nats.ErrConnectionClosed) {
		err = errors.Join(err, fmt.Errorf("follow candidate events: %w", e))
	}
	return errors.Join(err, <-watched)
}

// apart gives each verb that waits for the committer to commit or to check something workers of its own: nobody's list waits behind them.
func apart(endpoints []bus.Endpoint) []bus.Endpoint {
	for i := range endpoints {
		switch endpoints[i].Name {
		case "review-approve", "review-reject", "review-edit", "review-prune", "review-undo", "review-convert":
			endpoints[i].Workers = 16
		case "review-audit": // which may read the whole chain
			endpoints[i].Workers = 4
		}
	}
	return endpoints
}

// follow takes one candidate event.
func (s *Service) follow(m *nats.Msg) {
	e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
	if err != nil {
		s.log.Error("a candidate event cannot be read", "subject", m.Subject, "error", err)
		return
	}
	if c, ok := e.(*events.CandidateEvent); ok {
		s.desk.apply(c)
	}
}

func (s *Service) endpoints() []bus.Endpoint {
	verbs := map[string]func(context.Context, string, []byte) (any, error){
		"list": s.desk.list, "show": s.desk.show, "stats": s.desk.stats, "approve": s.desk.approve, "reject": s.desk.reject, "undo": s.desk.undo,
		"edit": s.desk.edit, "prune": s.desk.prune, "audit": s.desk.audit, "patch": s.desk.patch, "convert": s.desk.convert, "policy": s.desk.policy,
	}
	out := []bus.Endpoint{{Name: "query-candidates", Subject: events.Root + ".*.query.candidates", Handler: answer(s.desk.search)}}
	for _, name := range []string{"list", "show", "stats", "approve", "reject", "undo", "edit", "prune", "audit", "patch", "convert", "policy"} {
		limit := time.Duration(0)
		if name == "audit" || name == "convert" || name == "policy" { // which may read the whole chain or queue, or change much
			limit = time.Hour
		}
		out = append(out, bus.Endpoint{Name: "review-" + name, Subject: events.Root + ".*.review." + name, Limit: limit, Handler: answer(verbs[name])})
	}
	return out
}

func answer(fn func(context.Context, string, []byte) (any, error)) bus.VerbFunc {
	return func(ctx context.Context, graph string, body []byte, _ func(string) string) (any, *api.Error) {
		v, err := fn(ctx, graph, body)
		if err != nil {
			return nil, asError(err)
		}
		return v, nil
	}
}

// remote asks the committer over request-reply.
type remote struct{ conn *bus.Conn }

func verb(graph, v string) string { return events.Root + "." + graph + "." + v }

func (r remote) Seq(ctx context.Context, graph string) (reply api.SeqReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "query.seq"), nil, &reply)
	return reply, err
}

func (r remote) Records(ctx context.Context, graph string, req api.RecordsGet) (reply api.RecordsReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "query.records"), req, &reply)
	return reply, err
}

func (r remote) Schema(ctx context.Context, graph string) (reply api.SchemaReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "schema.get"), nil, &reply)
	return reply, err
}

func (r remote) Matches(ctx context.Context, graph string, req api.MatchesList) (reply api.MatchesReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "matches.list"), req, &reply)
	return reply, err
}

func (r remote) Match(ctx context.Context, graph string, req api.MatchGet) (reply api.MatchReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "matches.get"), req, &reply)
	return reply, err
}

func (r remote) Kinds(ctx context.Context, graph string, req api.CandidatesKinds) (reply api.CandidatesKindsReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "candidates.kinds"), req, &reply)
	return reply, err
}

func (r remote) Patch(ctx context.Context, graph string, req api.CandidatesPatch) (reply patch.Patch, err error) {
	err = r.conn.Request(ctx, verb(graph, "candidates.patch"), req, &reply)
	return reply, err
}

// Audit may check the whole chain, which takes its time.
func (r remote) Audit(ctx context.Context, graph string, req api.ReviewAudit) (reply api.ReviewAuditReply, err error) {
	ask := r.conn.Consult
	if req.Verify {
		ask = r.conn.Request
	}
	err = ask(ctx, verb(graph, "decisions.list"), req, &reply)
	return reply, err
}

func (r remote) Decide(ctx context.Context, graph string, req api.MatchDecide) (reply api.DecideReply, err error) {
	err = r.patiently(ctx, graph, "matches.decide", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) DecideConflict(ctx context.Context, graph string, req api.ConflictDecide) (reply api.DecideReply, err error) {
	err = r.patiently(ctx, graph, "conflicts.decide", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) DecideCandidates(ctx context.Context, graph string, req api.CandidatesDecide) (reply api.DecideReply, err error) {
	err = r.patiently(ctx, graph, "candidates.decide", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) CandidatePlan(ctx context.Context, graph string, req api.CandidatePlanGet) (reply api.CandidatePlan, err error) {
	err = r.conn.Consult(ctx, verb(graph, "candidates.plan"), req, &reply)
	return reply, err
}

func (r remote) EditCandidate(ctx context.Context, graph string, req api.ReviewEdit) (reply api.CandidateEdited, err error) {
	err = r.patiently(ctx, graph, "candidates.edit", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) Prune(ctx context.Context, graph string, req api.ReviewPrune) (reply api.ReviewPruneReply, err error) {
	err = r.patiently(ctx, graph, "candidates.prune", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) Stale(ctx context.Context, graph string, req api.StaleList) (reply api.StaleListReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "stale.list"), req, &reply)
	return reply, err
}

func (r remote) StaleFact(ctx context.Context, graph string, req api.StaleGet) (reply api.StaleReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "stale.get"), req, &reply)
	return reply, err
}

func (r remote) DecideStale(ctx context.Context, graph string, req api.StaleDecide) (reply api.DecideReply, err error) {
	err = r.patiently(ctx, graph, "stale.decide", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) Held(ctx context.Context, graph string, req api.HeldList) (reply api.HeldListReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "held.list"), req, &reply)
	return reply, err
}

// HeldJob applies the job to see what it does, which takes its time.
func (r remote) HeldJob(ctx context.Context, graph string, req api.HeldGet) (reply api.HeldReply, err error) {
	err = r.conn.Request(ctx, verb(graph, "held.get"), req, &reply)
	return reply, err
}

func (r remote) DecideHeld(ctx context.Context, graph string, req api.HeldDecide) (reply api.DecideReply, err error) {
	err = r.patiently(ctx, graph, "held.decide", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) Convert(ctx context.Context, graph string, req api.ReviewConvert) (reply api.ConvertReport, err error) {
	err = r.patiently(ctx, graph, "candidates.convert", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) UndoCandidate(ctx context.Context, graph string, req api.CandidatesUndo) (reply api.DecideReply, err error) {
	err = r.patiently(ctx, graph, "candidates.undo", &req.RequestID, &req, &reply)
	return reply, err
}

func (r remote) Conflicts(ctx context.Context, graph string, req api.ConflictsList) (reply api.ConflictsReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "conflicts.list"), req, &reply)
	return reply, err
}

func (r remote) Conflict(ctx context.Context, graph string, req api.ConflictGet) (reply api.ConflictReply, err error) {
	err = r.conn.Consult(ctx, verb(graph, "conflicts.get"), req, &reply)
	return reply, err
}

// patience of one attempt to have a decision taken.
const patience = 10 * time.Second

// patiently asks until the caller has waited long enough: a committer that was killed with the question in its hands never answers, one
// that commits a large job answers late, and a request that has an id is harmless to ask again.
func (r remote) patiently(ctx context.Context, graph, name string, id *string, req, reply any) error {
	if *id == "" {
		*id = rand.Text()
	}
	for {
		attempt, stop := context.WithTimeout(ctx, patience)
		err := r.conn.Request(attempt, verb(graph, name), req, reply)
		late := attempt.Err() != nil
		stop()
		if err == nil || !late || ctx.Err() != nil {
			return err
		}
	}
}
