package resolver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/resolver/internal/resolve"
)

// Registry says whose names are at the revision of its graph's registry that a job uses.
type Registry interface {
	Lookup(ctx context.Context, job events.Job, names []resolve.Name) (resolve.Known, error)
}

// known is what the registry of the job's revision says of an extraction's names; nil for a graph without known entities.
func (s *Stage) known(ctx context.Context, j events.Job, ex graph.Extraction) (resolve.Known, error) {
	if j.RegistryRevision == 0 {
		return nil, nil
	}
	if s.registry == nil {
		return nil, fault.CannotServe("job %s of graph %s has known entities, this service has no registry to ask", j.ID, j.Graph)
	}
	known, err := s.registry.Lookup(ctx, j, resolve.Names(ex))
	var refused *api.Error
	switch {
	case err == nil:
		return known, nil
	case ctx.Err() != nil:
		return nil, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
	case errors.As(err, &refused) && refused.Status != 503 && refused.Status != 429:
		return nil, fault.Retry(refused.Code, 0, fmt.Errorf("registry of job %s: %w", j.ID, err))
	default:
		return nil, fault.Down("registry_unreachable", fmt.Errorf("registry of job %s: %w", j.ID, err))
	}
}

// names asks the registry, in bounded requests, and remembers its answers: what a revision with its fingerprint says
// never changes.
type names struct {
	ask  func(ctx context.Context, graph string, req api.RegistryLookup) (api.RegistryLookupReply, error)
	kept *ristretto.Cache[string, resolve.Entry] // nil: nothing is remembered
}

var _ Registry = (*names)(nil)

func newNames(ask func(ctx context.Context, graph string, req api.RegistryLookup) (api.RegistryLookupReply, error)) *names {
	return &names{ask: ask}
}

// open lets it remember up to most answers; it comes before Lookup. close ends the cache's goroutine: then nothing is remembered.
func (n *names) open(most int) error {
	kept, err := ristretto.NewCache(&ristretto.Config[string, resolve.Entry]{
		NumCounters: int64(10 * most), MaxCost: int64(most), BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return fmt.Errorf("cache of %d names: %w", most, err)
	}
	n.kept = kept
	return nil
}

func (n *names) close() { n.kept.Close() }

// maxAsked bytes of names are asked about at once, besides their number: a request is far below the limit of a message.
const maxAsked = 128 << 10

// Lookup implements Registry.
func (n *names) Lookup(ctx context.Context, j events.Job, list []resolve.Name) (resolve.Known, error) {
	out := resolve.Known{}
	head := j.Graph + "\x00" + j.RegistryFP + "\x00" + strconv.FormatUint(j.RegistryRevision, 10) + "\x00"
	key := func(x resolve.Name) string { return head + x.Label + "\x00" + x.Key }
	var open []api.RegistryName
	for _, x := range list {
		if len(x.Key) > maxKey {
			continue // longer than any entry's name
		}
		if e, ok := n.get(key(x)); ok {
			add(out, x, e)
			continue
		}
		open = append(open, api.RegistryName{Label: x.Label, Key: x.Key})
	}
	for len(open) > 0 {
		part := open[:asked(open)]
		reply, err := n.ask(ctx, j.Graph, api.RegistryLookup{Revision: j.RegistryRevision, Names: part})
		if err != nil {
			return nil, err
		}
		if reply.Answered < 1 || reply.Answered > len(part) {
			return nil, fmt.Errorf("the registry answered %d of %d names", reply.Answered, len(part))
		}
		said := make([]resolve.Entry, reply.Answered)
		for _, f := range reply.Found {
			if f.Index < 0 || f.Index >= len(said) || f.Entries < 1 || f.Entries == 1 && f.Key == "" {
				return nil, fmt.Errorf("the registry answered for name %d of %d with %d entries", f.Index, len(part), f.Entries)
			}
			said[f.Index] = resolve.Entry{Key: f.Key, Ambiguous: f.Entries > 1}
		}
		for i, e := range said {
			x := resolve.Name{Label: part[i].Label, Key: part[i].Key}
			n.set(key(x), e)
			add(out, x, e)
		}
		open = open[reply.Answered:]
	}
	return out, nil
}

// maxKey is the most bytes of a folded name that an entry may have: case folding and NFKC make some runes many.
const maxKey = api.MaxRegistryName * 64

// add adds what is known of a name, unless nothing is.
func add(out resolve.Known, x resolve.Name, e resolve.Entry) {
	if e != (resolve.Entry{}) {
		out[x] = e
	}
}

// asked is how many of the names go into the next request, at least one.
func asked(list []api.RegistryName) int {
	size := 0
	for i, x := range list {
		if size += len(x.Label) + len(x.Key) + 30; i > 0 && (size > maxAsked || i == api.MaxRegistryBatch) {
			return i
		}
	}
	return len(list)
}

func (n *names) get(key string) (resolve.Entry, bool) {
	if n.kept == nil {
		return resolve.Entry{}, false
	}
	return n.kept.Get(key)
}

func (n *names) set(key string, e resolve.Entry) {
	if n.kept != nil {
		n.kept.Set(key, e, 1)
	}
}

// lookup asks the committer.
func (s *Service) lookup(ctx context.Context, graph string, req api.RegistryLookup) (reply api.RegistryLookupReply, err error) {
	if err := events.CheckGraph(graph); err != nil { // it becomes part of a subject
		return reply, err
	}
	err = s.deps.Conn.Consult(ctx, events.Root+"."+graph+".registry.lookup", req, &reply)
	return reply, err
}
