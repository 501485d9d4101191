package links

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// write makes the page visible: in a commit of its own when a match changes, else beside the facts.
func (w *work) write(ctx context.Context) error {
	puts, err := w.changedPuts()
	if err != nil {
		return err
	}
	if err := w.stat(); err != nil {
		return err
	}
	if err := w.queue(); err != nil {
		return err
	}
	if len(puts)+len(w.drops) == 0 {
		err = w.f.l.deps.Store.Write(ctx, w.ops, false)
	} else {
		err = w.f.commit(ctx, puts, w.drops, w.ops)
	}
	if err == nil && len(w.asks) > 0 {
		w.f.waits(w.job, len(w.asks))
	}
	return err
}

// changedPuts are the found matches that are not stored so.
func (w *work) changedPuts() (out []store.Match, err error) {
	for p, m := range w.puts {
		was, ok, err := w.sn.Match(p[0].String(), p[1].String())
		if err != nil {
			return nil, err
		}
		if m.Decided = was.Decided; !ok || was != m {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b store.Match) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	return out, nil
}

// commit writes matches at the next sequence.
func (f *follower) commit(ctx context.Context, puts []store.Match, drops map[[2]store.ID]bool, ops []store.Op) (err error) {
	txn, err := f.l.deps.Store.Begin(ctx, f.graph)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, txn.Abort())
		}
	}()
	for _, m := range puts {
		if _, err := txn.PutMatch(m); err != nil {
			return err
		}
	}
	for p := range drops {
		if _, err := txn.DropMatch(p[0].String(), p[1].String()); err != nil {
			return err
		}
	}
	done, err := txn.Finish(ctx, ops)
	if err != nil {
		return err
	}
	f.report(func(s *Status) {
		if s.Linked == done.Seq-1 { // a commit of links leaves nothing to link
			s.Linked = done.Seq
		}
	})
	f.l.deps.Committed(f.graph)
	return nil
}

// stat adds what the page counted to its job.
func (w *work) stat() error {
	if w.job == "" {
		return nil
	}
	s, err := w.f.rows.stats(w.job)
	if err != nil {
		return err
	}
	Add(&s, w.stats)
	op, err := w.f.rows.json(jobKey(w.job), s)
	w.ops = append(w.ops, op)
	return err
}

// Add sums what linking counts.
func Add(s *api.Resolution, x api.Resolution) {
	s.Compared += x.Compared
	s.Matched.Fuzzy += x.Matched.Fuzzy
	s.Matched.Embedding += x.Matched.Embedding
	s.Matched.LLM += x.Matched.LLM
	s.Unclear += x.Unclear
	s.LLMRequests += x.LLMRequests
	s.LLMFailed += x.LLMFailed
	s.CapLeft += x.CapLeft
}
