// Package loader is the first stage: it takes document events, lists the sources they name, fetches each source, parses it into
// documents, and decides for each document what is to be done, against what the graph stores of it.
//
// Two consumers do it. The lister turns a document event into one doc.found a source and the job.sealed that names them. The
// fetcher turns a doc.found into doc.loaded (to chunk), doc.staged (only dates or metadata changed, or a delete) or
// doc.ended (nothing changed). A source that is not exactly one document ends with a doc.ended that counts them.
package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/files"
)

// name of the service, and of its stage in failures.
const name = "loader"

// Jobs opens jobs. An *api.Error says that the committer refused.
type Jobs interface {
	Open(ctx context.Context, graph string, req api.JobOpen) (api.JobOpenReply, error)
}

// Documents tells what a graph stores of documents: one entry a key, in order.
type Documents interface {
	Stored(ctx context.Context, graph string, keys []string) ([]graph.Stored, error)
}

// Objects opens objects of the object store. A bucket or object that is not there is a document fault source_not_found.
type Objects interface {
	Open(ctx context.Context, bucket, name string) (r io.ReadCloser, size int64, err error)
}

// Service is the loader.
type Service struct {
	cfg    Config
	deps   app.Deps
	tree   *files.Tree
	list   *lister
	fetch  *fetcher
	status bus.Status
}

// New makes a loader; Run starts it and closes what New opened. It fails on a setting out of its bounds and on a root that is no
// directory.
func New(cfg Config, deps app.Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, app.Misconfigured(err)
	}
	deps = deps.WithDefaults()
	if deps.Conn == nil {
		return nil, errors.New("the loader needs a connection")
	}
	tree, err := files.New(cfg.Roots, cfg.AllowAll)
	if err != nil {
		return nil, app.Misconfigured(fmt.Errorf("loader.roots: %w", err))
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	committer, store := &client{deps.Conn}, objects{deps.Conn}
	list := newLister(committer, store, tree, m, deps.Log)
	return &Service{
		cfg: cfg, deps: deps, tree: tree, list: list,
		fetch: newFetcher(cfg, committer, store, tree, m, again{kept: ingestStream{deps.Conn}, list: list}),
	}, nil
}

// Name implements app.Service.
func (s *Service) Name() string { return name }

// Ready implements app.Service.
func (s *Service) Ready() error { return s.status.Ready() }

// Run implements app.Service: both consumers, until ctx is done or one of them cannot go on. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	common := bus.RunConfig{Service: name, Durable: bus.DurableLoader, Status: &s.status, Log: s.deps.Log, Metrics: s.deps.Metrics, Now: s.deps.Now}
	list, fetch := common, common
	list.Stream, list.Concurrency, list.Lost = bus.StreamIngest, s.cfg.ListConcurrency, s.list.lost
	fetch.Stream, fetch.Concurrency = bus.StreamFound, s.cfg.Concurrency
	stages := []struct {
		cfg bus.RunConfig
		h   bus.Handler
	}{{list, s.list}, {fetch, s.fetch}}
	errs := make([]error, len(stages)+2)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer stop()
		info := bus.ServiceInfo{Name: name, Version: s.cfg.Version, Description: "lists sources and fetches their documents"}
		errs[len(stages)+1] = s.deps.Conn.Serve(ctx, info, nil, bus.ServeOptions{Workers: 1, Ready: s.Ready, Log: s.deps.Log})
	})
	for i, st := range stages {
		wg.Go(func() {
			defer stop() // one cannot work without the other
			errs[i] = s.deps.Conn.Run(ctx, st.cfg, st.h)
		})
	}
	wg.Wait()
	errs[len(stages)] = s.tree.Close()
	return errors.Join(errs...)
}

// client is the loader's side of the committer.
type client struct{ conn *bus.Conn }

func subject(graph, verb string) string { return events.Root + "." + graph + "." + verb }

// Open implements Jobs.
func (c *client) Open(ctx context.Context, g string, req api.JobOpen) (reply api.JobOpenReply, err error) {
	err = c.conn.Consult(ctx, subject(g, "jobs.open"), req, &reply)
	return reply, err
}

// Stored implements Documents.
func (c *client) Stored(ctx context.Context, g string, keys []string) ([]graph.Stored, error) {
	var reply api.StoredReply
	err := c.conn.Consult(ctx, subject(g, "query.stored"), api.StoredGet{Keys: keys}, &reply)
	return reply.Stored, err
}

// objects is the object store. It has a method of the same name as client, so it is a type of its own.
type objects struct{ conn *bus.Conn }

// Open implements Objects.
func (o objects) Open(ctx context.Context, bucket, name string) (io.ReadCloser, int64, error) {
	missing := func(what string) (io.ReadCloser, int64, error) {
		return nil, 0, fault.Bad(files.CodeNotFound, "%s%s/%s: there is no such %s", events.ObjectPrefix, bucket, name, what)
	}
	r, size, err := o.conn.OpenObject(ctx, bucket, name)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrInvalidStoreName):
		return missing("bucket")
	case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, jetstream.ErrNameRequired):
		return missing("object")
	case err != nil:
		return nil, 0, remote(ctx, "object_store", err)
	}
	return r, size, nil
}

// remote classifies the error of a request to another service: refused for good, down, or to be tried again.
func remote(ctx context.Context, code string, err error) error {
	var f *fault.Error
	var refused *api.Error
	switch {
	case errors.As(err, &f):
		return err
	case ctx.Err() != nil:
		return &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
	case errors.As(err, &refused) && refused.Status >= 400 && refused.Status < 500 && refused.Status != 429:
		return &fault.Error{Class: fault.Permanent, Code: refused.Code, Err: err}
	case errors.As(err, &refused) && refused.Status != 503:
		return fault.Retry(refused.Code, 0, err)
	default: // not ready, no answer, no connection
		return fault.Down(code, err)
	}
}

var _ app.Service = (*Service)(nil)
