package links

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/factmill/factmill/pkg/candidates"
	"github.com/factmill/factmill/pkg/linkage"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// seen is what is read and searched for one entity of a page. It does not depend on the rest of the page.
type seen struct {
	now     named // empty: it is gone
	name    *linkage.Name
	near    map[store.ID]float64 // cosines of those near it
	cut     bool                 // there may be more
	blocks  []block              // under which its partners are filed, in order
	members [][]store.ID         // that are stored under each
}

// ahead looks at the entities of a page side by side.
func (w *work) ahead(ctx context.Context) ([]seen, error) {
	out := make([]seen, len(w.ids))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(w.ids), max(1, runtime.GOMAXPROCS(0))) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(w.ids) {
					return
				}
				if err := w.look(ctx, w.ids[i], &out[i]); err != nil {
					cancel(fmt.Errorf("entity %s: %w", w.ids[i], err))
				}
			}
		})
	}
	wg.Wait()
	return out, context.Cause(ctx)
}

func (w *work) look(ctx context.Context, v store.ID, s *seen) (err error) {
	if s.now, err = w.current(v); err != nil || s.now == (named{}) {
		return err
	}
	s.name = s.now.prepare()
	if w.source != nil {
		hits, err := w.source.Global(ctx, candidates.Mention{Label: s.now.label, Name: s.now.name})
		if err != nil {
			return err
		}
		s.near = make(map[store.ID]float64, len(hits))
		for _, h := range hits {
			o, ok := store.ParseID(h.Entity.ID)
			switch {
			case !ok || o == v: // it lies nearest to itself
			case len(s.near) == w.rules.set.TopK:
				s.cut = true
			default:
				s.near[o] = h.Score
			}
		}
		s.cut = s.cut || len(hits) == candidates.TopK+1 // there may be more
	}
	s.blocks, s.members, err = w.stored(s.now.label, s.name)
	return err
}

// stored lists the entities that are filed under the blocking keys of a name's partners.
func (w *work) stored(label string, name *linkage.Name) ([]block, [][]store.ID, error) {
	blocks := blocksOf(label, linkage.Probes(name))
	slices.SortFunc(blocks, func(a, b block) int { return bytes.Compare(a[:], b[:]) })
	members := make([][]store.ID, len(blocks))
	if w.cleared {
		return blocks, members, nil
	}
	return blocks, members, w.f.rows.members(blocks, w.f.l.cfg.MaxBlock, func(i int, o store.ID) { members[i] = append(members[i], o) })
}

// maxNames is how many filed names a follower remembers.
const maxNames = 1 << 16

// remember keeps filed names, those of entities that are not filed too, for pages to come. It is called with write held.
func (f *follower) remember(all map[store.ID]named) {
	if len(f.names)+len(all) > maxNames {
		clear(f.names)
	}
	for v, n := range all {
		f.names[v] = n
	}
}
