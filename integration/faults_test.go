package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// faults plague a fleet at the bus, where every service is plagued alike.
type faults struct {
	f    *fleet
	seed uint64
	rest time.Duration

	stop context.CancelFunc
	ctx  context.Context
	wg   sync.WaitGroup
	errs chan error

	copies, stolen, restarts atomic.Int64
}

// plague starts all kinds of faults; cure ends them. rest is how long a thief of messages pauses at most between two raids; replicas
// of the spared services are not killed.
func (f *fleet) plague(seed uint64, rest time.Duration, spared ...string) *faults {
	f.t.Helper()
	p := &faults{f: f, seed: seed, rest: rest, errs: make(chan error, 64)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	f.t.Cleanup(func() { p.stop(); p.wg.Wait() })
	p.echo()
	for _, c := range bus.NewTable(bus.TableOptions{}).Consumers {
		p.steal(c.Stream, c.Config.Durable)
	}
	p.kill(spared)
	return p
}

// cure ends the faults, says how many there were, and leaves every service running.
func (p *faults) cure() {
	p.f.t.Helper()
	p.stop()
	p.wg.Wait()
	close(p.errs)
	for err := range p.errs {
		require.NoError(p.f.t, err)
	}
	p.f.ready(stages...)
}

func (p *faults) String() string {
	return fmt.Sprintf("%d copies, %d late or lost deliveries, %d restarts", p.copies.Load(), p.stolen.Load(), p.restarts.Load())
}

func (p *faults) fail(err error) {
	if err != nil && p.ctx.Err() == nil {
		select {
		case p.errs <- err:
		default:
		}
	}
}

// headerCopy marks what echo published, so that it does not echo itself.
const headerCopy = "Factmill-Test-Copy"

// echo publishes copies of stage messages again, late and under new ids: a broker that forgot its ids, or a stage that did its
// work twice. Some copies come long after the original was handled.
func (p *faults) echo() {
	conn := testkit.Connect(p.f.t, p.f.server, "echo")
	rng := random(p.seed, "echo")
	var mu sync.Mutex // rng, n
	n := 0
	tap := func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if m.Header.Get(headerCopy) != "" || rng.Float64() > 0.25 || p.ctx.Err() != nil {
			return
		}
		n++
		c := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}}
		for k, v := range m.Header {
			if !strings.HasPrefix(k, "Nats-") {
				c.Header[k] = v
			}
		}
		c.Header.Set(headerCopy, "1")
		c.Header.Set(events.HeaderMsgID, fmt.Sprintf("echo-%d-%d", p.seed, n))
		late := time.Duration(rng.ExpFloat64() * float64(60*time.Millisecond))
		p.wg.Go(func() {
			if !p.wait(late) {
				return
			}
			if _, err := conn.JS.PublishMsg(p.ctx, c); err != nil {
				p.fail(fmt.Errorf("echo %s: %w", c.Subject, err))
				return
			}
			p.copies.Add(1)
		})
	}
	for _, subject := range []string{"factmill.*.doc.>", "factmill.*.job.sealed.*"} {
		sub, err := conn.NC.Subscribe(subject, tap)
		require.NoError(p.f.t, err)
		require.NoError(p.f.t, sub.SetPendingLimits(-1, -1))
	}
	require.NoError(p.f.t, conn.NC.Flush())
}

// steal is one more worker on a stage's consumer, a bad one: it hands messages back at once or late, or dies over them, so that
// they come again when their AckWait has run out.
func (p *faults) steal(stream, durable string) {
	conn := testkit.Connect(p.f.t, p.f.server, "thief")
	cons, err := conn.JS.Consumer(p.f.t.Context(), stream, durable)
	require.NoError(p.f.t, err)
	rng := random(p.seed, "steal "+stream)
	p.wg.Go(func() {
		pause := time.Duration(0)
		for p.wait(pause + time.Duration(rng.Int64N(int64(p.rest)))) {
			pause = 0
			batch, err := cons.Fetch(1+rng.IntN(6), jetstream.FetchMaxWait(100*time.Millisecond))
			if err != nil {
				p.fail(fmt.Errorf("steal from %s: %w", stream, err))
				return
			}
			for m := range batch.Messages() {
				if p.answer(m, rng) > 5 {
					// What is delivered too often is parked as what kills its workers: let the others have it.
					pause = 400 * time.Millisecond
				}
			}
			if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
				p.fail(fmt.Errorf("steal from %s: %w", stream, err))
			}
		}
	})
}

// answer gives a message back; it says how often the message was delivered.
func (p *faults) answer(m jetstream.Msg, rng *rand.Rand) uint64 {
	p.stolen.Add(1)
	meta, err := m.Metadata()
	if err != nil {
		p.fail(err)
		return 0
	}
	switch rng.IntN(3) {
	case 0:
		err = m.Nak()
	case 1:
		err = m.NakWithDelay(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
	default: // died over it
	}
	p.fail(err)
	return meta.NumDelivered
}

// kill restarts random replicas, half of them without a chance to say goodbye.
func (p *faults) kill(spared []string) {
	rng := random(p.seed, "kill")
	p.wg.Go(func() {
		for p.wait(20*time.Millisecond + time.Duration(rng.Int64N(int64(150*time.Millisecond)))) {
			list := p.f.list()
			i := rng.IntN(len(list))
			if slices.Contains(spared, list[i].name) || list[i].name == "committer" && rng.IntN(2) == 0 {
				continue
			}
			crash := rng.IntN(2) == 0

			if err := p.f.replace(i, crash); err != nil {
				p.fail(err)
				return
			}
			p.restarts.Add(1)
		}
	})
}

// wait is false when the faults end first.
func (p *faults) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
