package conflicts

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Oldest lists at most n conflicts that wait, those first that wait longest: since the last value or relation came or went. Values that are
// missing are not among them: what is not there has no moment.
func (d *Desk) Oldest(ctx context.Context, graphName string, n int) (out []desk.Since, err error) {
	err = d.with(ctx, graphName, func(r *reader) error {
		if r == nil {
			return nil
		}
		if some, err := r.count(map[string]int{}); err != nil || !some {
			return err
		}
		e := desk.NewEldest(n)
		err := r.each(nil, func(c store.Conflict) error {
			if err := r.tick(); err != nil {
				return err
			}
			seq, err := r.since(c)
			if err == nil && seq > 0 {
				e.Add(desk.Since{ID: c.ID, Seq: seq})
			}
			return err
		})
		out = e.List()
		return err
	})
	return out, err
}

// Since says since when the conflict of an id waits.
func (d *Desk) Since(ctx context.Context, graphName, id string) (s desk.Since, err error) {
	s.ID = id
	err = d.with(ctx, graphName, func(r *reader) error {
		if r == nil {
			return nil
		}
		c, ok, err := r.stored(id)
		if err != nil || !ok {
			return err
		}
		s.Seq, err = r.since(c)
		return err
	})
	return s, err
}

// since is the commit since which a conflict waits; 0: it does not.
func (r *reader) since(c store.Conflict) (uint64, error) {
	x, ok, err := r.item(c)
	if err != nil || !ok {
		return 0, err
	}
	if x.ruling != nil {
		if _, err := r.place(&x, func(store.PropertyFold) {}); err != nil || x.state != api.StatePending {
			return 0, err
		}
	}
	return r.sn.ConflictSince(c)
}
