package stale

import (
	"context"
	"time"

	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func sinceOf(x store.StaleItem) desk.Since {
	at, _ := time.Parse(time.RFC3339Nano, x.At) // an item without a time is asked for it by its commit
	return desk.Since{ID: x.ID, Seq: x.Seq, At: at}
}

// Oldest lists at most n facts that are asked about, those first that wait longest.
func (d *Desk) Oldest(ctx context.Context, graphName string, n int) (out []desk.Since, err error) {
	err = desk.With(d.deps.Store, graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		e := desk.NewEldest(n)
		err := sn.Stale(func(x store.StaleItem) error {
			e.Add(sinceOf(x))
			return ctx.Err()
		})
		out = e.List()
		return err
	})
	return out, err
}

// Since says since when the fact of an item's id waits.
func (d *Desk) Since(_ context.Context, graphName, id string) (s desk.Since, err error) {
	s.ID = id
	err = desk.With(d.deps.Store, graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		x, ok, err := sn.StaleByID(id)
		if err == nil && ok {
			s = sinceOf(x)
		}
		return err
	})
	return s, err
}
