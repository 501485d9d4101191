package matches

import (
	"context"

	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Oldest lists at most n matches that wait for a person, those first that wait longest. It reads every match of a graph where one waits, and none
// where none does.
func (d *Desk) Oldest(ctx context.Context, graphName string, n int) (out []desk.Since, err error) {
	err = d.with(graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		c, err := sn.Counts()
		if err != nil || c.Matches[store.MatchUnclear] == 0 {
			return err
		}
		r, e := reader{ctx: ctx, sn: sn}, desk.NewEldest(n)
		err = sn.MatchesAll(store.Match{}, func(m store.Match) error {
			if err := r.tick(); err != nil || m.State() != store.MatchUnclear {
				return err
			}
			seq, err := sn.MatchSince(m)
			e.Add(desk.Since{ID: keyOf(m), Seq: seq})
			return err
		})
		out = e.List()
		return err
	})
	return out, err
}

// Since says since when the match of a key waits.
func (d *Desk) Since(_ context.Context, graphName, key string) (s desk.Since, err error) {
	s.ID = key
	err = d.with(graphName, func(sn *store.Snapshot) error {
		a, b, ok := pairOf(key)
		if sn == nil || !ok {
			return nil
		}
		m, ok, err := sn.Match(a, b)
		if err != nil || !ok || m.State() != store.MatchUnclear {
			return err
		}
		s.Seq, err = sn.MatchSince(m)
		return err
	})
	return s, err
}
