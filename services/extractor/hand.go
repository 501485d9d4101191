package extractor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// errEnded is the cause of the end of a document whose job has ended: nobody needs what would be asked for it.
var errEnded = errors.New("the job has ended")

// lookEvery is how often it is looked whether the jobs in hand have ended, should the word of it be lost.
const lookEvery = 5 * time.Second

// A word of an end may come before the broker has stored it: it is looked for lookTimes times, lookSoon apart.
const (
	lookSoon  = 20 * time.Millisecond
	lookTimes = 10
)

// hand is the jobs of which this process has documents in hand that a model is asked about. It ends them with their job.
type hand struct {
	conn *bus.Conn // nil: no job ever ends
	log  *slog.Logger

	mu   sync.Mutex
	docs map[inHand]map[uint64]context.CancelCauseFunc // guarded by mu
	next uint64                                        // guarded by mu
	word map[inHand]int                                // guarded by mu; jobs of whose name an end was heard: how often they are still looked for
	wake chan struct{}                                 // there is a new word
}

// inHand is a job. since is when its document event was stored: a message about a job of that name from before is of another one.
type inHand struct {
	graph, job string
	since      int64
}

func newHand(conn *bus.Conn, log *slog.Logger) *hand {
	return &hand{conn: conn, log: log, docs: map[inHand]map[uint64]context.CancelCauseFunc{}, word: map[inHand]int{}, wake: make(chan struct{}, 1)}
}

// take returns a context that ends with ctx or, because of errEnded, with the job. leave must follow.
func (h *hand) take(ctx context.Context, job *events.Job) (_ context.Context, leave func()) {
	ctx, end := context.WithCancelCause(ctx)
	k := inHand{job.Graph, job.ID, job.At.Time}
	h.mu.Lock()
	first := len(h.docs[k]) == 0
	if first {
		h.docs[k] = map[uint64]context.CancelCauseFunc{}
	}
	h.next++
	n := h.next
	h.docs[k][n] = end
	h.mu.Unlock()
	if first { // of later ones the word comes by itself
		h.look(ctx, k)
	}
	return ctx, func() {
		h.mu.Lock()
		delete(h.docs[k], n)
		if len(h.docs[k]) == 0 {
			delete(h.docs, k)
		}
		h.mu.Unlock()
		end(context.Canceled)
	}
}

// end ends the documents of a job.
func (h *hand) end(k inHand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, end := range h.docs[k] {
		end(errEnded)
	}
}

// look asks the broker whether a job has ended, and ends its documents then. No answer is none: the job goes on.
func (h *hand) look(ctx context.Context, k inHand) bool {
	if h.conn == nil {
		return false
	}
	for _, kind := range ends {
		at, err := h.conn.LastTime(ctx, events.Subject{Graph: k.graph, Kind: kind, Job: k.job}.String())
		if err != nil {
			h.log.Debug("look whether a job has ended", "graph", k.graph, "job", k.job, "error", err)
			return false
		}
		if !at.IsZero() && at.UnixNano() >= k.since {
			h.end(k)
			return true
		}
	}
	return false
}

// ends are the kinds of events that say that a job has ended.
var ends = []string{events.KindRolledBack, events.KindCommitted}

// watch listens for ends of jobs until ctx is done, looks for those that it did not hear, and calls tick now and then.
func (h *hand) watch(ctx context.Context, tick func(context.Context)) error {
	for _, kind := range ends {
		sub, err := h.conn.NC.Subscribe(events.Root+".*."+kind+".*", h.heard)
		if err != nil {
			return fmt.Errorf("listen for the ends of jobs: %w", err)
		}
		defer func() {
			if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				h.log.Warn("stop listening", "error", err)
			}
		}()
	}
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	var soon <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
			soon = h.follow(ctx)
		case <-soon:
			soon = h.follow(ctx)
		case <-t.C:
			for _, k := range h.all() {
				h.look(ctx, k)
			}
			tick(ctx)
		}
	}
}

func (h *hand) all() []inHand {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.docs))
}

// follow looks for the ends that were heard, and returns when to look again for those that it did not find.
func (h *hand) follow(ctx context.Context) <-chan time.Time {
	h.mu.Lock()
	heard := slices.Collect(maps.Keys(h.word))
	h.mu.Unlock()
	again := false
	for _, k := range heard {
		ended := h.look(ctx, k)
		h.mu.Lock()
		if h.word[k]--; ended || h.word[k] <= 0 || len(h.docs[k]) == 0 {
			delete(h.word, k)
		} else {
			again = true
		}
		h.mu.Unlock()
	}
	if !again {
		return nil
	}
	return time.After(lookSoon)
}

// heard takes the word of an end. It bears no time, so it may be of an earlier job of that name: follow asks the broker for the time.
func (h *hand) heard(m *nats.Msg) {
	at, err := events.ParseSubject(m.Subject)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.docs {
		if k.graph == at.Graph && k.job == at.Job {
			h.word[k] = lookTimes
		}
	}
	if len(h.word) > 0 {
		select {
		case h.wake <- struct{}{}:
		default: // it will be seen by the one that is there
		}
	}
}
