package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"
)

// runner is one stage on one consumer.
type runner struct {
	cfg     RunConfig
	conn    *Conn
	handler Handler
	batch   BatchHandler
	pump    *pump
	metrics *metrics
	name    string // in Status
	points  points
	// bodies bounds what is held of bodies by reference.
	bodies *semaphore.Weighted

	// work ends with the service: handlers give up. pub ends a grace later: what is finished is still published.
	work context.Context
	pub  context.Context

	began time.Time

	mu     sync.Mutex
	rng    *rand.Rand // guarded by mu
	paused int        // workers that wait for a dependency; guarded by mu
}

// points are the names of the runner's failpoints, made once.
type points struct{ received, computed, published string }

// pointsOf names them after the service; the loader's runner on document events is the lister.
func pointsOf(cfg RunConfig) points {
	n := cfg.Service
	if cfg.Stream == StreamIngest {
		n = "lister"
	}
	return points{n + ".received", n + ".computed", n + ".published"}
}

// maxRefBytes of bodies by reference held by one runner.
const maxRefBytes = 2 * MaxBody

// Run runs a stage until ctx is done and everything is finished or handed back, or until it can work no more: the consumer is
// gone, or the connection.
func (c *Conn) Run(ctx context.Context, cfg RunConfig, h Handler) error {
	cfg, err := cfg.withDefaults(c.log, false)
	if err != nil {
		return err
	}
	r := &runner{cfg: cfg, conn: c, handler: h, points: pointsOf(cfg)}
	return r.run(ctx, cfg.Concurrency, r.worker)
}

// RunBatch is Run for a stage that works on many messages at once; one batch at a time.
func (c *Conn) RunBatch(ctx context.Context, cfg RunConfig, h BatchHandler) error {
	cfg, err := cfg.withDefaults(c.log, true)
	if err != nil {
		return err
	}
	r := &runner{cfg: cfg, conn: c, batch: h, points: pointsOf(cfg)}
	return r.run(ctx, 1, r.batcher)
}

func (r *runner) bind(ctx context.Context) error {
	cfg := r.cfg
	cons, err := r.conn.JS.Consumer(ctx, cfg.Stream, cfg.Durable)
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("consumer %s on %s does not exist: run factmill provision: %w", cfg.Durable, cfg.Stream, err)
		}
		return fmt.Errorf("bind consumer %s on %s: %w", cfg.Durable, cfg.Stream, err)
	}
	if r.metrics, err = newMetrics(cfg.Metrics, cfg.Service); err != nil {
		return err
	}
	room := cfg.Concurrency + cfg.Prefetch
	r.name = cfg.Durable + " on " + cfg.Stream
	r.rng = rand.New(rand.NewPCG(cfg.Seed, cfg.Seed))
	r.bodies = semaphore.NewWeighted(maxRefBytes)
	r.pump = &pump{
		conn: r.conn, log: cfg.Log, stream: cfg.Stream, durable: cfg.Durable, room: room, ackWait: cons.CachedInfo().Config.AckWait,
		queue: make(chan *item, 2*room), lost: make(chan error, 1), metrics: r.metrics, held: map[*item]struct{}{},
		gate: cfg.Gate,
	}
	cfg.Gate.onWake(r.pump.more)
	return nil
}

func (r *runner) run(ctx context.Context, workers int, work func(stop <-chan struct{})) error {
	if err := r.bind(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before there was anything to finish
		}
		return err
	}
	var stopWork, stopPub context.CancelFunc
	r.work, stopWork = context.WithCancel(context.WithoutCancel(ctx))
	r.pub, stopPub = context.WithCancel(context.WithoutCancel(ctx))
	defer stopPub()
	defer stopWork()

	status := r.conn.NC.StatusChanged(nats.CONNECTED)
	defer r.conn.NC.RemoveStatusListener(status)
	if err := r.pump.open(); err != nil {
		return err
	}
	r.began = r.cfg.Now()
	r.cfg.Status.set(r.name, true)
	defer r.cfg.Status.set(r.name, false)

	stop := make(chan struct{})
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { work(stop) })
	}
	wg.Go(func() { r.measure(stop) })
	go func() { wg.Wait(); close(ended) }() // ends with the workers, for which drain waits
	err := r.watch(ctx, status)
	close(stop)
	stopWork()
	return errors.Join(err, r.drain(ended, stopPub))
}

// measure tells how far the consumer is, until the runner stops. What the broker does not answer stays as it was.
func (r *runner) measure(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(r.work)
	defer cancel()
	t := time.NewTicker(lagEvery)
	defer t.Stop()
	for {
		ask, done := context.WithTimeout(ctx, lagEvery)
		if c, err := r.conn.JS.Consumer(ask, r.cfg.Stream, r.cfg.Durable); err == nil {
			info := c.CachedInfo() // a handle is made from fresh information
			r.metrics.lag.WithLabelValues(r.cfg.Stream).Set(float64(info.NumPending))
			r.metrics.unanswered.WithLabelValues(r.cfg.Stream).Set(float64(info.NumAckPending))
		}
		done()
		select {
		case <-stop:
			return
		case <-t.C:
		}
	}
}

// watch keeps messages alive until the runner has to stop; nil when ctx asked for it.
func (r *runner) watch(ctx context.Context, status <-chan nats.Status) error {
	t := time.NewTicker(min(max(r.pump.ackWait/12, 10*time.Millisecond), time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.pump.lost:
			return fmt.Errorf("run %s: %w", r.cfg.Service, err)
		case <-r.conn.closed:
			return fmt.Errorf("run %s on %s: %w", r.cfg.Service, r.cfg.Stream, nats.ErrConnectionClosed)
		case <-status:
			r.pump.again()
		case <-t.C:
			r.pump.tick(ctx)
		}
	}
}

// drain hands back what nobody has begun, and waits for the rest: a handler whose context is done either ends with what it
// finished, which is published within the grace, or hands back.
func (r *runner) drain(ended <-chan struct{}, stopPub context.CancelFunc) error {
	r.pump.close(true)
	r.pump.backAll(0)
	beat := time.NewTicker(max(r.pump.ackWait/12, 10*time.Millisecond))
	defer beat.Stop()
	grace := time.NewTimer(r.cfg.Grace)
	defer grace.Stop()
	over := false
	for {
		select {
		case <-ended:
			r.pump.backAll(0)
			r.flush()
			return nil
		case <-beat.C:
			r.pump.tick(r.pub)
		case <-grace.C:
			stopPub()
			if over {
				return fmt.Errorf("stop %s: a handler did not end within %s of being told to", r.cfg.Service, 2*r.cfg.Grace)
			}
			over = true
			grace.Reset(r.cfg.Grace)
			if n := r.pump.backHeld(); n > 0 {
				r.cfg.Log.Warn("handed back while still being handled", "messages", n)
				r.flush()
			}
		}
	}
}

// flush sends the acknowledgements that are still buffered.
func (r *runner) flush() {
	if !r.conn.NC.IsConnected() {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if err := r.conn.NC.FlushWithContext(ctx); err != nil {
		r.cfg.Log.Warn("flush", "error", err)
	}
}

func (r *runner) worker(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		select {
		case <-stop:
			return
		case it := <-r.pump.queue:
			r.one(it)
		}
	}
}

// delay before attempt+1: 250 ms doubled each time up to 30 s, and up to a quarter more so that equal messages spread.
func (r *runner) delay(attempt uint64) time.Duration {
	d := 250 * time.Millisecond << min(attempt-1, 7)
	d = min(d, 30*time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	return d + time.Duration(r.rng.Int64N(int64(d)/4+1))
}
