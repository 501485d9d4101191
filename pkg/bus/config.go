package bus

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// RunConfig says how a stage is run. Service and Stream are required.
type RunConfig struct {
	// Service is the stage's name: source of its events, stage of its failures, name in its metrics.
	Service string
	// Stream to read, for example StreamLoaded, and the durable consumer on it. Durable defaults to Service.
	Stream  string
	Durable string
	// Concurrency is how many messages are handled at once. Defaults to the number of processors.
	Concurrency int
	// Prefetch is how many more messages wait in this process. Defaults to Concurrency, at most 64; -1 for none: right for slow
	// handlers, whose messages another replica could take. A batch handler's default is MaxBatch.
	Prefetch int
	// Gate holds back what is pulled. Defaults to none.
	Gate *Gate
	// MaxAttempts after which a message that fails, or that never ends, is parked as a dead letter. Defaults to 20.
	MaxAttempts uint64
	// MaxBatch and BatchWait bound a batch of RunBatch: up to 256 messages, gathered for at most 5 ms. BatchBytes bounds its
	// bodies: defaults to 8 MiB.
	MaxBatch   int
	BatchWait  time.Duration
	BatchBytes int
	// Grace is how long finished work may take to be published when the service stops. Defaults to 5 s.
	Grace time.Duration
	// Lost makes the events that end a message which is parked, besides the dead letter. Defaults to EndedFor with outcome
	// failed. The loader gives its own: it must end the job of a document event.
	Lost func(in events.Event, f graph.Failure) []events.Event
	// Status tells whether the runner can work. Defaults to a private one.
	Status *Status
	// Log names the service already, and defaults to the connection's with the service's name; Metrics defaults to a private
	// registry, Now to time.Now.
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
	// Seed of the jitter of delays. Defaults to the clock.
	Seed uint64
}

func (c RunConfig) withDefaults(log *slog.Logger, batch bool) (RunConfig, error) {
	if c.Service == "" || c.Stream == "" {
		return c, fmt.Errorf("run %q on stream %q: both need a name", c.Service, c.Stream)
	}
	if c.Durable == "" {
		c.Durable = c.Service
	}
	if c.Concurrency <= 0 {
		c.Concurrency = runtime.GOMAXPROCS(0)
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = 256
	}
	if c.BatchWait <= 0 {
		c.BatchWait = 5 * time.Millisecond
	}
	if c.BatchBytes <= 0 {
		c.BatchBytes = 8 << 20
	}
	if batch {
		c.Concurrency = c.MaxBatch
	}
	switch {
	case c.Prefetch < 0:
		c.Prefetch = 0
	case c.Prefetch == 0 && batch:
		c.Prefetch = c.MaxBatch
	case c.Prefetch == 0:
		c.Prefetch = min(c.Concurrency, 64)
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 20
	}
	if c.Grace <= 0 {
		c.Grace = 5 * time.Second
	}
	if c.Lost == nil {
		c.Lost = lost
	}
	if c.Status == nil {
		c.Status = &Status{}
	}
	if c.Log == nil {
		c.Log = log.With("service", c.Service)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	c.Log = c.Log.With("stream", c.Stream)
	return c, nil
}

// lost ends the document or source of a parked message as failed.
func lost(in events.Event, f graph.Failure) []events.Event {
	if e := EndedFor(in, events.OutcomeFailed, f); e != nil {
		return []events.Event{e}
	}
	return nil
}
