package committer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// ErrOtherWriter: another committer answers at the same NATS server. Two of them would split every graph between their stores.
var ErrOtherWriter = errors.New("another committer answers at this NATS server: one graph has one writer; stop it first")

const (
	// writerWait is how long a former committer may take to stop.
	writerWait = 10 * time.Second
	writerAsk  = time.Second
)

// alone waits until no other committer answers, or refuses.
func (s *Service) alone(ctx context.Context) error {
	deadline := time.NewTimer(writerWait)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		there, err := s.otherWriter(ctx)
		if err != nil || !there {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-deadline.C:
			return ErrOtherWriter
		case <-tick.C:
		}
	}
}

// ErrFormerWriter: another committer took over meanwhile.
var ErrFormerWriter = errors.New("another committer took over while this one stood still: it is the writer now")

// writerSubject is where every committer says that it is the writer.
const writerSubject = events.Root + ".writer"

// sayEvery is how often it says so: a former writer that wakes up learns of the new one that soon.
const sayEvery = time.Second

// claim is what a committer says of itself.
type claim struct {
	Epoch    uint64 `json:"epoch"`   // of its store
	Started  int64  `json:"started"` // Unix nanoseconds
	Instance string `json:"instance"`
}

// after says whether c took over from o. Every Open raises a store's epoch; a store that was restored may have a lower one, which its
// restarts raise.
func (c claim) after(o claim) bool {
	return cmp.Or(cmp.Compare(c.Epoch, o.Epoch), cmp.Compare(c.Started, o.Started), cmp.Compare(c.Instance, o.Instance)) > 0
}

// sayWriter says that this one writes until ctx is done, or until a newer one says so: then this one must end at once, whatever it holds. What
// it has sent by then changes nothing: events have the ids that the new one's have, and what may commit is judged in the store.
func (s *Service) sayWriter(ctx context.Context) error {
	mine := claim{Epoch: s.st.Epoch(), Started: s.started.UnixNano(), Instance: nuid.Next()}
	said, err := json.Marshal(mine)
	if err != nil {
		return fmt.Errorf("say who writes: %w", err)
	}
	others := make(chan claim, 1)
	sub, err := s.conn.NC.Subscribe(writerSubject, func(m *nats.Msg) {
		var c claim
		if json.Unmarshal(m.Data, &c) != nil || c.Instance == mine.Instance {
			return
		}
		select {
		case others <- c:
		default: // one is being looked at, and this one says it again
		}
	})
	if err != nil {
		return fmt.Errorf("listen for another writer: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		if err := s.conn.NC.Publish(writerSubject, said); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			s.log.Warn("say who writes", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case c := <-others:
			if c.after(mine) {
				return fmt.Errorf("%w (epoch %d; this one has %d)", ErrFormerWriter, c.Epoch, mine.Epoch)
			}
		}
	}
}

func (s *Service) otherWriter(ctx context.Context) (bool, error) {
	ask, cancel := context.WithTimeout(ctx, writerAsk)
	defer cancel()
	err := s.conn.Request(ask, bus.HealthSubject(s.Name()), nil, nil)
	var e *api.Error
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case errors.As(err, &e) && e.Code == "not_ready": // nobody subscribes, or it is so stuck that it does not count
		return false, nil
	default:
		return false, fmt.Errorf("look for another committer: %w", err)
	}
}

// OtherStore says that the streams belong to another store than the committer's: what it commits would make one graph out of two.
type OtherStore struct {
	// Dir and Name of this one's store, Owner is the name of the other one.
	Dir, Name, Owner string
}

// Error implements error.
func (e *OtherStore) Error() string {
	return fmt.Sprintf("the streams at this NATS server belong to the store %s, and %s is the store %s: start the committer on its own --data, "+
		"or factmill restore the last backup of it (docs/operations/backup.md); --store.adopt true gives the streams to this one for good", e.Owner, e.Dir, e.Name)
}

// Unwrap makes it wrong configuration.
func (e *OtherStore) Unwrap() error { return app.ErrConfig }

// owns refuses streams of another store, unless it is to take them over. Streams that nobody owned are its own from now on: they are new, or
// of an older version.
func (s *Service) owns(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writerWait)
	defer cancel()
	owner, err := s.conn.Owner(ctx)
	switch {
	case err != nil:
		return err
	case owner == s.st.Name():
		return nil
	case owner != "" && !s.cfg.Adopt:
		return &OtherStore{Dir: s.cfg.Dir, Name: s.st.Name(), Owner: owner}
	case owner != "":
		s.log.Warn("the streams of another store are this one's now", "owner", owner, "store", s.st.Name())
	}
	if err := s.conn.Own(ctx, s.st.Name()); err != nil { // no room: the next start says it
		s.log.Warn("it is not said whose the streams are", "error", err)
	}
	return nil
}
