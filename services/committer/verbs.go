package committer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/links"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// verb decodes a request strictly, takes who the connection is for its actor, calls fn, and makes any error an answer.
func verb[Q, R any](fn func(ctx context.Context, graph string, req Q) (R, error)) bus.VerbFunc {
	return func(ctx context.Context, graph string, body []byte, _ func(string) string) (any, *api.Error) {
		var req Q
		if e := bus.ReadSigned(ctx, body, &req); e != nil {
			return nil, e
		}
		r, err := fn(ctx, graph, req)
		if err != nil {
			return nil, asError(err)
		}
		return r, nil
	}
}

func asError(err error) *api.Error {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, store.ErrNoSpace):
		return api.Errorf(503, "no_space", "%v: free disk space, or lower store.reserve", err)
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrBroken), errors.Is(err, context.Canceled):
		return api.Errorf(503, "not_ready", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return api.Errorf(503, "not_ready", "the request took too long")
	default:
		return api.Errorf(500, "internal", "%v", err)
	}
}

// long lets a verb take much longer than the others: verify reads every key.
func long(e bus.Endpoint) bus.Endpoint {
	e.Limit = time.Hour
	return e
}

// waiting gives a verb workers of its own: it waits until the graph is free for another commit, and no read may wait behind it.
func waiting(e bus.Endpoint) bus.Endpoint {
	e.Workers = 16
	return e
}

func endpoint(noun, name string, h bus.VerbFunc) bus.Endpoint {
	return bus.Endpoint{Name: noun + "-" + name, Subject: events.Root + ".*." + noun + "." + name, Handler: h}
}

// none is a request without fields.
type none struct{}

// bare makes a verb without a request one that refuses any field.
func bare[R any](fn func(ctx context.Context, graph string) (R, error)) func(context.Context, string, none) (R, error) {
	return func(ctx context.Context, graph string, _ none) (R, error) { return fn(ctx, graph) }
}

func (s *Service) verify(ctx context.Context, graph string, req api.Verify) (api.VerifyReply, error) {
	r, err := s.st.Verify(ctx, graph, nil)
	if errors.Is(err, store.ErrNoGraph) {
		return api.VerifyReply{Checked: map[string]int{}, Problems: []api.Problem{}}, nil
	}
	if err != nil {
		return r, err
	}
	problem := func(p api.Problem) {
		if r.Total++; len(r.Problems) < store.MaxProblems {
			r.Problems = append(r.Problems, p)
		}
	}
	if r.Checked["audit"], err = (audit.Trail{Store: s.st, Graph: graph}).VerifyPublished(ctx, s.published, problem); err != nil {
		return r, err
	}
	r.Checked["link"], err = s.links.Verify(ctx, graph, problem)
	if errors.Is(err, links.ErrBehind) {
		r.Unchecked, err = append(r.Unchecked, err.Error()), nil
	}
	if err != nil || !req.Schema {
		return r, err
	}
	return r, s.query.SchemaProblems(ctx, graph, problem)
}

// matchGet shows a match with what a model said about it.
func (s *Service) matchGet(ctx context.Context, graph string, req api.MatchGet) (api.MatchReply, error) {
	r, err := s.matches.Get(ctx, graph, req)
	if err != nil {
		return r, err
	}
	r.Match.Judged, err = s.links.Judged(graph, r.Match.A.ID, r.Match.B.ID)
	return r, err
}

// settingsPut puts settings; links that others decided are found anew.
func (s *Service) settingsPut(ctx context.Context, graph string, req api.SettingsPut) (api.SettingsReply, error) {
	r, err := s.graphs.SettingsPut(ctx, graph, req)
	if err == nil && len(r.Changed) > 0 {
		s.links.Notify(graph)
	}
	return r, err
}

// schemaPut puts a schema; its policy goes over what waits.
func (s *Service) schemaPut(ctx context.Context, graph string, req api.SchemaPut) (api.SchemaReply, error) {
	r, err := s.graphs.SchemaPut(ctx, graph, req)
	if err == nil {
		s.policy.Notify(graph)
	}
	return r, err
}

// serve answers in two pools: verbs that may wait for a job never hold up the others.
func (s *Service) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() {
		defer cancel()
		errs[0] = s.conn.Serve(ctx, bus.ServiceInfo{Name: "committer", Version: s.cfg.Version, Description: "owns the graphs: facts, schemas, settings"},
			s.endpoints(), bus.ServeOptions{Workers: s.cfg.Workers, Limit: requestLimit, Nouns: []string{"query", "schema", "settings", "registry", "vectors", "matches", "candidates", "decisions", "conflicts", "stale", "held", "dead-letters", "backup", "feed"},
				Elsewhere: map[string]string{"query.candidates": "reviewer"}, Log: s.log})
	})
	wg.Go(func() {
		defer cancel()
		errs[1] = s.conn.Serve(ctx, bus.ServiceInfo{Name: "jobs", Version: s.cfg.Version, Description: "accepts, watches and cancels jobs"},
			s.jobEndpoints(), bus.ServeOptions{Workers: 256, Queue: 1024, Limit: requestLimit, Nouns: []string{"jobs"}, Log: s.log})
	})
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Service) jobEndpoints() []bus.Endpoint {
	return []bus.Endpoint{
		endpoint("jobs", "open", verb(s.jobs.Open)),
		endpoint("jobs", "get", verb(s.jobGet)),
		endpoint("jobs", "list", verb(s.jobs.List)),
		endpoint("jobs", "cancel", verb(s.jobCancel)),
		long(endpoint("jobs", "accept", verb(s.jobAccept))),
	}
}

const maxWait = 50 * time.Second

func (s *Service) jobGet(ctx context.Context, graph string, req api.JobGet) (api.JobStatus, error) {
	if !events.ValidJob(req.Job) {
		return api.JobStatus{}, api.Errorf(400, "bad_name", "bad job id %q", req.Job)
	}
	if req.Wait == "" {
		st, err := s.jobs.Get(ctx, graph, req.Job)
		if err != nil {
			return st, err
		}
		s.jobs.Cost(ctx, graph, req.Job, &st)
		return s.linked(s.queues.fill(ctx, st))
	}
	d, err := time.ParseDuration(req.Wait)
	if err != nil || d < 0 {
		return api.JobStatus{}, api.Errorf(400, "bad_value", "wait is %q: it must be a duration such as 30s", req.Wait)
	}
	d = min(d, maxWait)
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	st, err := s.jobs.Wait(ctx, graph, req.Job, d, func(st api.JobStatus) bool {
		return api.Ended(st.State) || st.State == api.JobHeld
	})
	if err != nil {
		return st, err
	}
	s.jobs.Cost(ctx, graph, req.Job, &st)
	return s.through(waiting, s.queues.fill(ctx, st))
}

func (s *Service) jobCancel(ctx context.Context, graph string, req api.JobCancel) (api.JobStatus, error) {
	if !events.ValidJob(req.Job) {
		return api.JobStatus{}, api.Errorf(400, "bad_name", "bad job id %q", req.Job)
	}
	var st api.JobStatus
	err := s.ops.Once(ctx, graph, "jobs.cancel", req.RequestID, req, &st, func() (_ []store.Op, err error) {
		st, err = s.jobs.Cancel(ctx, graph, req.Job, req.Reason)
		return nil, err
	})
	return st, err
}

func (s *Service) jobAccept(ctx context.Context, graph string, req api.JobAccept) (api.JobStatus, error) {
	if !events.ValidJob(req.Job) {
		return api.JobStatus{}, api.Errorf(400, "bad_name", "bad job id %q", req.Job)
	}
	if _, err := s.held.Accept(ctx, graph, req); err != nil { // which ends when the job is committed
		return api.JobStatus{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	st, err := s.jobs.Get(ctx, graph, req.Job)
	if err != nil {
		return st, err
	}
	return s.through(waiting, st)
}

func (s *Service) endpoints() []bus.Endpoint {
	q, g := s.query, s.graphs
	return []bus.Endpoint{
		endpoint("query", "stats", verb(bare(q.Stats))),
		endpoint("query", "health", verb(bare(s.health))),
		endpoint("query", "seq", verb(bare(q.Seq))),
		endpoint("query", "entity", verb(q.Entity)),
		endpoint("query", "search", verb(q.Search)),
		endpoint("query", "neighbors", verb(q.Neighbors)),
		endpoint("query", "path", verb(q.Path)),
		endpoint("query", "evidence", verb(q.Evidence)),
		endpoint("query", "citations", verb(q.Citations)),
		endpoint("query", "document", verb(q.Document)),
		endpoint("query", "documents", verb(q.Documents)),
		endpoint("query", "entities", verb(q.Entities)),
		endpoint("query", "relations", verb(q.Relations)),
		endpoint("query", "relation_types", verb(q.RelationTypes)),
		endpoint("query", "stored", verb(q.Stored)),
		endpoint("query", "records", verb(q.Records)),
		endpoint("query", "export", verb(q.Export)),
		long(endpoint("query", "verify", verb(s.verify))),
		long(endpoint("backup", "begin", verb(bare(s.backup.Begin)))),
		endpoint("backup", "read", verb(s.backup.Read)),
		endpoint("backup", "end", verb(s.backup.End)),
		long(endpoint("feed", "begin", verb(bare(s.feed.Begin)))),
		endpoint("feed", "read", verb(s.feed.Read)),
		endpoint("vectors", "status", verb(bare(s.vectorsStatus))),
		long(endpoint("vectors", "reembed", verb(bare(s.reembed)))),
		endpoint("schema", "get", verb(g.SchemaGet)),
		endpoint("schema", "put", verb(s.schemaPut)),
		endpoint("schema", "history", verb(bare(g.SchemaHistory))),
		endpoint("settings", "get", verb(bare(g.SettingsGet))),
		endpoint("settings", "put", verb(s.settingsPut)),
		endpoint("registry", "get", verb(s.known.Get)),
		endpoint("registry", "list", verb(s.known.List)),
		endpoint("registry", "put", verb(s.known.Put)),
		endpoint("registry", "delete", verb(s.known.Delete)),
		endpoint("registry", "lookup", verb(s.known.Lookup)),
		endpoint("matches", "list", verb(s.matches.List)),
		endpoint("matches", "get", verb(s.matchGet)),
		waiting(endpoint("matches", "decide", verb(s.matches.Decide))),
		waiting(endpoint("candidates", "decide", verb(s.candidates.Decide))),
		waiting(endpoint("candidates", "edit", verb(s.candidates.Edit))),
		waiting(endpoint("candidates", "prune", verb(s.candidates.Prune))),
		waiting(endpoint("candidates", "undo", verb(s.candidates.Undo))),
		endpoint("candidates", "plan", verb(s.candidates.Plan)),
		endpoint("candidates", "kinds", verb(s.candidates.Kinds)),
		endpoint("candidates", "patch", verb(s.candidates.Patch)),
		waiting(long(endpoint("candidates", "policy", verb(s.policy.Try)))),
		waiting(long(endpoint("candidates", "convert", verb(s.candidates.Convert)))),
		long(endpoint("decisions", "list", verb(s.candidates.Audit))),
		endpoint("stale", "list", verb(s.stale.List)),
		endpoint("stale", "get", verb(s.stale.Get)),
		waiting(endpoint("stale", "decide", verb(s.stale.Decide))),
		endpoint("held", "list", verb(s.held.List)),
		waiting(long(endpoint("held", "get", verb(s.held.Get)))),
		waiting(long(endpoint("held", "decide", verb(s.held.Decide)))),
		endpoint("conflicts", "list", verb(s.conflicts.List)),
		endpoint("conflicts", "get", verb(s.conflicts.Get)),
		endpoint("conflicts", "decide", verb(s.conflicts.Decide)),
		endpoint("dead-letters", "list", verb(s.dead.List)),
		endpoint("dead-letters", "show", verb(s.dead.Show)),
		endpoint("dead-letters", "replay", verb(s.dead.Replay)),
		endpoint("dead-letters", "drop", verb(s.dead.Drop)),
	}
}
