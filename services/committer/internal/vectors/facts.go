package vectors

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/factmill/factmill/services/committer/internal/store"
)

// Facts are the feed and the texts of one graph of a store.
type Facts struct {
	st    *store.Store
	graph string

	mu   sync.Mutex
	last *opened // the version whose chunks were asked for last: pages of them come one behind the other; guarded by mu
}

var (
	_ Feed  = (*Facts)(nil)
	_ Texts = (*Facts)(nil)
)

// NewFacts of a graph, which need not exist yet.
func NewFacts(st *store.Store, graph string) *Facts { return &Facts{st: st, graph: graph} }

// Head implements Feed.
func (f *Facts) Head(context.Context) (uint64, error) {
	seq, err := f.st.Seq(f.graph)
	if errors.Is(err, store.ErrNoGraph) {
		return 0, nil
	}
	return seq, err
}

// After implements Feed.
func (f *Facts) After(ctx context.Context, seq uint64, offset, limit int) (p Page, err error) {
	p.Through = seq
	// Read before the rows: commits that come meanwhile are of a later page.
	head, err := f.Head(ctx)
	if err != nil {
		return p, err
	}
	for len(p.Touched) < limit {
		page, err := f.st.Feed(ctx, f.graph, p.Through, offset, limit-len(p.Touched))
		if errors.Is(err, store.ErrFeedGone) {
			return p, fmt.Errorf("%w: %w", ErrGone, err)
		}
		if err != nil {
			return p, err
		}
		if page.Seq == 0 {
			p.Through = max(p.Through, head)
			break
		}
		for _, t := range page.Touched {
			p.Touched = append(p.Touched, Ref{Kind(t.Kind), t.ID})
		}
		if page.Next > 0 {
			p.Through, p.Next = page.Seq-1, page.Next
			break
		}
		p.Through, offset = page.Seq, 0
	}
	return p, nil
}

// All implements Feed.
func (f *Facts) All(ctx context.Context, after Ref, limit int) (out []Ref, err error) {
	sn, err := f.st.Snapshot(f.graph, 0)
	if errors.Is(err, store.ErrNoGraph) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	take := func(k Kind, id string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if out = append(out, Ref{k, id}); len(out) == limit {
			return store.ErrStop
		}
		return nil
	}
	entities := ""
	if after.Kind != Entity {
		if err := sn.OpenChunks(after.ID, func(id string) error { return take(Chunk, id) }); err != nil || len(out) == limit {
			return out, err
		}
	} else {
		entities = after.ID
	}
	return out, sn.EntitiesAll(entities, func(e store.EntityFold) error { return take(Entity, e.ID) })
}

// Load implements Texts.
func (f *Facts) Load(ctx context.Context, refs []Ref) (out []*Text, err error) {
	out = make([]*Text, len(refs))
	sn, err := f.st.Snapshot(f.graph, 0)
	if errors.Is(err, store.ErrNoGraph) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	for i, r := range refs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch r.Kind {
		case Entity:
			e, ok, err := sn.Entity(r.ID)
			if err != nil {
				return nil, err
			}
			if ok && e.Documents > 0 {
				out[i] = &Text{Label: e.Label, Text: e.Display()}
			}
		case Chunk:
			if out[i], err = f.chunk(sn, r.ID); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// opened is a version whose chunks are embedded one after the other. What a version has does not change.
type opened struct {
	doc     string
	version store.Version
	text    string
}

// chunk is a chunk's text behind the header that it repeats; nil when no open version has it.
func (f *Facts) chunk(sn *store.Snapshot, id string) (*Text, error) {
	ref, ok, err := sn.ChunkRef(id)
	if err != nil || !ok || !ref.Open {
		return nil, err
	}
	d, err := f.open(sn, ref)
	if err != nil || d == nil {
		return nil, err
	}
	if ref.Index >= len(d.version.Chunks) {
		return nil, fmt.Errorf("%w: chunk %s is the %dth of %d", store.ErrCorrupt, id, ref.Index, len(d.version.Chunks))
	}
	c := d.version.Chunks[ref.Index]
	text := d.text[c.Start:c.End]
	if c.Prefix != "" {
		text = c.Prefix + "\n" + text
	}
	return &Text{Text: text}, nil
}

func (f *Facts) open(sn *store.Snapshot, ref store.ChunkRef) (*opened, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.last; d != nil && d.doc == ref.DocID && d.version.Version == ref.Version {
		return d, nil
	}
	v, ok, err := sn.Version(ref.DocID, ref.Version)
	if err != nil || !ok {
		return nil, err
	}
	text, ok, err := sn.Text(ref.DocID, ref.Version)
	if err != nil || !ok {
		return nil, err
	}
	f.last = &opened{ref.DocID, v, text}
	return f.last, nil
}
