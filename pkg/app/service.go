// Package app is what the services share: start and stop, health, configuration, logging.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/factmill/factmill/pkg/bus"
)

// Service is one of the six stages or desks.
type Service interface {
	// Name is the service's name, for example "loader".
	Name() string
	// Run works until ctx is done, then finishes or hands back what it holds, and returns. An error other than ctx's means
	// that the service cannot go on.
	Run(ctx context.Context) error
	// Ready is nil when the service takes work; else it says why not.
	Ready() error
}

// Deps is what every service is given.
type Deps struct {
	Conn    *bus.Conn
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// ModelCalls are the slots of the model server that the services of a process share: see Config.ModelCalls. nil: each has its own.
	ModelCalls *semaphore.Weighted
	// Now is the clock; Defaults to time.Now.
	Now func() time.Time
}

// WithDefaults fills what is absent.
func (d Deps) WithDefaults() Deps {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	return d
}

// RunAll runs services side by side until ctx is done or one of them fails; the others are then stopped. It returns after
// all have returned, with the errors of those that failed.
func RunAll(ctx context.Context, log *slog.Logger, services ...Service) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		name string
		err  error
	}
	done := make(chan result, len(services))
	for _, s := range services {
		go func() {
			done <- result{s.Name(), guard(ctx, s)}
		}()
	}
	var errs []error
	for range services {
		r := <-done
		switch {
		case r.err == nil && ctx.Err() == nil:
			errs = append(errs, fmt.Errorf("%s stopped by itself", r.name))
		case r.err != nil && !(ctx.Err() != nil && errors.Is(r.err, context.Canceled)):
			log.Error("service failed", "service", r.name, "error", r.err)
			errs = append(errs, fmt.Errorf("%s: %w", r.name, r.err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

func guard(ctx context.Context, s Service) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.Run(ctx)
}
