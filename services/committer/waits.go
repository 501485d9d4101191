package committer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// queue is a kind of item that waits for a person.
type queue interface {
	// Oldest lists at most n items of a graph, those first that wait longest. It may read all of them.
	Oldest(ctx context.Context, graph string, n int) ([]desk.Since, error)
	// Since reads one.
	Since(ctx context.Context, graph, id string) (desk.Since, error)
}

const (
	// eldest is how many of the items that wait longest are remembered: so many are decided until all are read again.
	eldest = 1000
	// Between two readings of all lies a minute, and a hundred times as long as one took.
	waitsRest, waitsShare = time.Minute, 100
	// After an hour, and a thousand times as long as one took, all are read again in any case: a conflict waits without a commit that says so
	// when its decision is undone, or the schema becomes another.
	waitsGood, waitsGoodShare = time.Hour, 1000
)

// wait knows what has waited longest in a queue of a graph, without reading the queue: items that come later are younger, so of those that
// it remembers the first that still waits is the one.
type wait struct {
	list []desk.Since
	seq  uint64    // of the graph, as of which list is right
	next time.Time // all may be read again
	good time.Time // until then the list is taken as it is
}

// look brings it to a sequence of the graph. The first of the list is what waits longest; where all were to be read and it is too early, the
// list stays empty.
func (w *wait) look(ctx context.Context, q queue, graph string, seq uint64, now func() time.Time) error {
	begin := now()
	good := begin.Before(w.good)
	if good && w.seq == seq {
		return nil
	}
	for good && len(w.list) > 0 {
		s, err := q.Since(ctx, graph, w.list[0].ID)
		if err != nil {
			return err
		}
		if s.Seq == w.list[0].Seq {
			w.seq = seq
			return nil
		}
		w.list = w.list[1:] // decided, or it waits anew
	}
	if begin.Before(w.next) {
		return nil // seq stays behind, so it is looked at again
	}
	list, err := q.Oldest(ctx, graph, eldest)
	end := now()
	took := end.Sub(begin)
	w.next = end.Add(max(waitsRest, waitsShare*took))
	if err == nil {
		w.list, w.seq, w.good = list, seq, end.Add(max(waitsGood, waitsGoodShare*took))
	}
	return err
}

// measureWaits sets the gauge of ages until ctx is done. It is apart from measure, which must not wait for a queue to be read.
func (s *Service) measureWaits(ctx context.Context) error {
	t := time.NewTicker(measureEvery)
	defer t.Stop()
	waits := map[[2]string]*wait{}
	times := map[[2]string]moment{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C: // not at once: a start has enough to do
		}
		if err := s.waitsOnce(ctx, waits, times); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.log.Debug("the age of what waits could not be measured", "error", err)
		}
	}
}

// moment is the time of a commit.
type moment struct {
	seq uint64
	at  time.Time
}

func (s *Service) waitsOnce(ctx context.Context, waits map[[2]string]*wait, times map[[2]string]moment) error {
	var errs []error
	for kind, q := range map[string]queue{"match": s.matches, "stale": s.stale, "conflict": s.conflicts} {
		var oldest time.Time
		known := true
		for _, g := range s.st.Graphs() {
			seq, err := s.st.Seq(g)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			k := [2]string{g, kind}
			w := waits[k]
			if w == nil {
				w = &wait{}
				waits[k] = w
			}
			if err := w.look(ctx, q, g, seq, s.now); err != nil && !errors.Is(err, store.ErrNoGraph) {
				errs = append(errs, fmt.Errorf("%s of graph %s: %w", kind, g, err))
			}
			if len(w.list) == 0 {
				known = known && w.seq == seq
				continue
			}
			at, err := s.moment(ctx, g, w.list[0], times, k)
			if err != nil {
				errs = append(errs, err)
			}
			if !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
				oldest = at
			}
		}
		switch {
		case !oldest.IsZero():
			s.meters.oldest.WithLabelValues(kind).Set(max(0, s.now().Sub(oldest).Seconds()))
		case known:
			s.meters.oldest.WithLabelValues(kind).Set(0)
		}
	}
	return errors.Join(errs...)
}

// moment is when an item began to wait; the zero time: it cannot be said now.
func (s *Service) moment(ctx context.Context, graph string, x desk.Since, times map[[2]string]moment, k [2]string) (time.Time, error) {
	if !x.At.IsZero() {
		return x.At, nil
	}
	if m := times[k]; m.seq == x.Seq {
		return m.at, nil
	}
	at, err := s.committedAt(ctx, graph, x.Seq)
	if err == nil && !at.IsZero() {
		times[k] = moment{x.Seq, at}
	}
	return at, err
}

// committedAt is the time of a commit, by what the stream of changes has of it: of one that is older than the stream the time of the first
// that is kept, which is later. The zero time: its change is not published yet.
func (s *Service) committedAt(ctx context.Context, graph string, seq uint64) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	waiting, err := s.st.Outbox(graph, 0, 1)
	if err != nil {
		return time.Time{}, err
	}
	stream, err := s.conn.JS.Stream(ctx, bus.StreamChanges)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of commit %d: %w", seq, err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, (&events.Change{Graph: graph, Seq: seq}).Where().String())
	switch {
	case err == nil:
		return m.Time, nil
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return time.Time{}, fmt.Errorf("time of commit %d: %w", seq, err)
	case len(waiting) > 0:
		return time.Time{}, nil
	}
	first, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(events.Root+"."+graph+"."+events.KindChange+".*"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return s.now().Add(-stream.CachedInfo().Config.MaxAge), nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("time of commit %d: %w", seq, err)
	}
	at, err := events.ParseSubject(first.Subject)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of commit %d: %w", seq, err)
	}
	if n, err := strconv.ParseUint(at.Job, 10, 64); err == nil && n < seq {
		return s.now(), nil // a commit that changed nothing which mirrors are told of
	}
	return first.Time, nil
}
