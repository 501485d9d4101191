package committer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/replica"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Replica is a service that follows the committer into a store of its own and answers reads: replica.<verb> for those who take what may be
// behind, and query.<verb> too where it is shared. It changes nothing anywhere.
type Replica struct {
	cfg  ReplicaConfig
	conn *bus.Conn
	log  *slog.Logger
	r    *replica.Replica
}

// ReplicaConfig of a read replica. Dir is required.
type ReplicaConfig struct {
	// Dir holds the copy.
	Dir string
	// CacheBytes of the copy's block cache. Defaults to 64 MiB.
	CacheBytes int64
	// Shared answers query.* beside the committer: more readers, and reads that may be behind. Defaults to false.
	Shared bool
	// MaxLag before it is not ready. Defaults to 30 s.
	MaxLag time.Duration
	// Workers answer requests at once. Defaults to 16.
	Workers int
	// OnFatal is as Config.OnFatal.
	OnFatal func(error)
	// Version is the build's. Defaults to "0.0.0".
	Version string
}

// ReplicaFromConfig takes a replica's values out of the configuration.
func ReplicaFromConfig(c *app.Config) ReplicaConfig {
	return ReplicaConfig{
		Dir: c.Get("data"), CacheBytes: int64(c.Int("store.cache")), Shared: c.Bool("replica.shared"), MaxLag: c.Duration("replica.max_lag"),
	}
}

// NewReplica opens the copy, if there is one. Run must follow.
func NewReplica(cfg ReplicaConfig, deps app.Deps) (*Replica, error) {
	if cfg.Dir == "" {
		return nil, app.Misconfigured(errors.New("replica: no data directory given (data)"))
	}
	d := Config{Workers: cfg.Workers, Version: cfg.Version, OnFatal: cfg.OnFatal}.WithDefaults()
	cfg.Workers, cfg.Version, cfg.OnFatal = d.Workers, d.Version, d.OnFatal
	deps = deps.WithDefaults()
	m, err := replica.NewMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Replica{cfg: cfg, conn: deps.Conn, log: deps.Log}
	s.r, err = replica.New(context.Background(), replica.Config{
		Dir: cfg.Dir, CacheBytes: cfg.CacheBytes, MaxLag: cfg.MaxLag, OnFatal: cfg.OnFatal, Metrics: m, Log: deps.Log, Now: deps.Now,
	}, source{deps.Conn})
	return s, err
}

// Name implements app.Service.
func (s *Replica) Name() string { return "replica" }

// Ready implements app.Service.
func (s *Replica) Ready() error { return s.r.Ready() }

// Run follows and answers until ctx is done.
func (s *Replica) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A plain subscription: what it misses is asked for within a second.
	sub, err := s.conn.NC.Subscribe(events.Root+".*."+events.KindChange+".*", s.change)
	if err != nil {
		return fmt.Errorf("follow the changes: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	var wg sync.WaitGroup
	parts := []func(context.Context) error{s.r.Run, s.serve("replica", "replica")}
	if s.cfg.Shared {
		parts = append(parts, s.serve("query", "committer"))
	}
	errs := make([]error, len(parts))
	for i, part := range parts {
		wg.Go(func() {
			defer cancel()
			errs[i] = part(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Replica) change(m *nats.Msg) {
	at, err := events.ParseSubject(m.Subject)
	if err != nil {
		return
	}
	if seq, err := strconv.ParseUint(at.Job, 10, 64); err == nil {
		s.r.Announced(at.Graph, seq)
	}
}

// Headers of a replica's replies.
const (
	// HeaderSeq is the graph's sequence in the copy, HeaderLag how many seconds ago nothing was missing in it.
	HeaderSeq = "Factmill-Seq"
	HeaderLag = "Factmill-Lag-Seconds"
)

func (s *Replica) header(graph string) nats.Header {
	st := s.r.State(graph)
	h := nats.Header{HeaderSeq: []string{strconv.FormatUint(st.Seq, 10)}}
	if st.LevelAt != "" {
		h[HeaderLag] = []string{strconv.FormatFloat(st.Lag, 'f', 3, 64)}
	}
	return h
}

// serve answers the read verbs under a noun, in a queue group.
func (s *Replica) serve(noun, group string) func(context.Context) error {
	name, nouns := "replica", []string{noun}
	if noun != "replica" { // the committer answers what is no verb
		name, nouns = "replica-"+noun, nil
	}
	return func(ctx context.Context) error {
		return s.conn.Serve(ctx, bus.ServiceInfo{Name: name, Version: s.cfg.Version, Description: "answers reads from a copy that may be behind"},
			s.endpoints(noun), bus.ServeOptions{
				Workers: s.cfg.Workers, Limit: requestLimit, Nouns: nouns, QueueGroup: group, Ready: s.r.Ready, Header: s.header, Log: s.log,
			})
	}
}

func (s *Replica) endpoints(noun string) []bus.Endpoint {
	out := []bus.Endpoint{
		endpoint(noun, "stats", verb(bare(s.stats))),
		endpoint(noun, "entity", read(s, func(c *replica.Reading) reader[api.EntityGet, api.EntityReply] { return c.Query.Entity })),
		endpoint(noun, "search", read(s, func(c *replica.Reading) reader[api.Search, api.SearchReply] { return c.Query.Search })),
		endpoint(noun, "neighbors", read(s, func(c *replica.Reading) reader[api.Neighbors, api.Subgraph] { return c.Query.Neighbors })),
		endpoint(noun, "path", read(s, func(c *replica.Reading) reader[api.Path, api.Subgraph] { return c.Query.Path })),
		endpoint(noun, "evidence", read(s, func(c *replica.Reading) reader[api.EvidenceGet, api.EvidenceReply] { return c.Query.Evidence })),
		endpoint(noun, "citations", read(s, func(c *replica.Reading) reader[api.CitationsGet, api.CitationsReply] { return c.Query.Citations })),
		endpoint(noun, "document", read(s, func(c *replica.Reading) reader[api.DocumentGet, api.DocumentReply] { return c.Query.Document })),
		endpoint(noun, "documents", read(s, func(c *replica.Reading) reader[api.DocumentList, api.DocumentListReply] { return c.Query.Documents })),
		endpoint(noun, "entities", read(s, func(c *replica.Reading) reader[api.EntityList, api.EntityListReply] { return c.Query.Entities })),
		endpoint(noun, "relations", read(s, func(c *replica.Reading) reader[api.RelationList, api.RelationListReply] { return c.Query.Relations })),
		endpoint(noun, "relation_types", read(s, func(c *replica.Reading) reader[api.RelationTypesGet, api.RelationTypesReply] {
			return c.Query.RelationTypes
		})),
		endpoint(noun, "export", read(s, func(c *replica.Reading) reader[api.Export, api.ExportReply] { return c.Query.Export })),
	}
	if noun == "replica" { // of the copy; query.verify is of the committer's store
		out = append(out, long(endpoint(noun, "verify", verb(s.verify))))
	}
	return out
}

type reader[Q, R any] func(ctx context.Context, graph string, req Q) (R, error)

// aheadWait is how long a read waits for a sequence that the copy does not have yet: a cursor of another replica may name it.
const aheadWait = 3 * time.Second

// read makes a verb of a read of the copy.
func read[Q, R any](s *Replica, of func(c *replica.Reading) reader[Q, R]) bus.VerbFunc {
	return verb(func(ctx context.Context, graph string, req Q) (r R, err error) {
		until, stop := context.WithTimeout(ctx, aheadWait)
		defer stop()
		for {
			c, err := s.r.Reading()
			if err != nil {
				return r, err
			}
			at := s.r.State(graph).Seq
			r, err = of(c)(ctx, graph, req)
			var e *api.Error
			if !errors.As(err, &e) || e.Code != "sequence_unknown" || !s.r.Await(until, graph, at+1) {
				return r, err
			}
		}
	})
}

func (s *Replica) stats(ctx context.Context, graph string) (r api.StatsReply, err error) {
	c, err := s.r.Reading()
	if err != nil {
		return r, err
	}
	if r, err = c.Query.Stats(ctx, graph); err == nil {
		st := s.r.State(graph)
		r.Replica = &st
	}
	return r, err
}

// verify checks every row of the copy; the trail and the links are the committer's to check.
func (s *Replica) verify(ctx context.Context, graph string, req api.Verify) (api.VerifyReply, error) {
	c, err := s.r.Reading()
	if err != nil {
		return api.VerifyReply{}, err
	}
	r, err := c.Store.Verify(ctx, graph, nil)
	if errors.Is(err, store.ErrNoGraph) {
		return api.VerifyReply{Checked: map[string]int{}, Problems: []api.Problem{}}, nil
	}
	if err != nil || !req.Schema {
		return r, err
	}
	return r, c.Query.SchemaProblems(ctx, graph, func(p api.Problem) {
		if r.Total++; len(r.Problems) < store.MaxProblems {
			r.Problems = append(r.Problems, p)
		}
	})
}

// source is the committer behind a connection.
type source struct{ conn *bus.Conn }

func subjectOf(verb string) string { return events.Root + "." + events.DefaultGraph + "." + verb }

// Begin implements replica.Source. A checkpoint may take long.
func (s source) Begin(ctx context.Context) (b api.Backup, err error) {
	return b, s.conn.Request(ctx, subjectOf("feed.begin"), nil, &b)
}

// File implements replica.Source.
func (s source) File(ctx context.Context, req api.BackupRead) ([]byte, error) {
	var r api.BackupReadReply
	err := s.conn.Consult(ctx, subjectOf("backup.read"), req, &r)
	return r.Data, err
}

// End implements replica.Source.
func (s source) End(ctx context.Context, id string) error {
	return s.conn.Consult(ctx, subjectOf("backup.end"), api.BackupEnd{ID: id}, nil)
}

// Read implements replica.Source.
func (s source) Read(ctx context.Context, req api.FeedRead) ([]byte, error) {
	var raw json.RawMessage
	err := s.conn.Consult(ctx, subjectOf("feed.read"), req, &raw)
	return raw, err
}
