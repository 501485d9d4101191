package committer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
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
