package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pump pulls messages by demand: what is asked for is never more than what the runner has room for, so that no message waits in
// a client while another replica is idle. Everything that arrives is kept alive (InProgress) until it is answered: the ack timer
// runs from delivery, not from the call of the handler.
type pump struct {
	conn    *Conn
	log     *slog.Logger
	stream  string
	durable string
	room    int           // messages held at most
	ackWait time.Duration // of the consumer
	gate    *Gate         // may be nil
	queue   chan *item    // arrived, not taken by a worker
	lost    chan error    // capacity 1: the consumer is gone
	metrics *metrics

	mu      sync.Mutex
	sub     *nats.Subscription // nil while not pulling; guarded by mu
	drained chan struct{}      // closed when sub has given its last message; guarded by mu
	asked   int                // requested and not arrived; guarded by mu
	heard   time.Time          // of the server; guarded by mu
	doubt   bool               // a request ended for a reason that may be the consumer's end; guarded by mu
	told    string             // why a request ended, as it was logged last; guarded by mu
	looked  time.Time          // for the consumer; guarded by mu
	held    map[*item]struct{} // arrived and not answered; guarded by mu
	gone    bool               // stopping: what still arrives is handed back; guarded by mu
}

// item is a message that was delivered and has to be answered once.
type item struct {
	msg  *nats.Msg
	meta *nats.MsgMetadata
	beat time.Time // of the last InProgress, or the arrival; guarded by pump.mu
}

const (
	pullExpires   = 30 * time.Second
	pullHeartbeat = 5 * time.Second
	// lookEvery bounds how often a pump that has doubts looks whether its consumer is still there.
	lookEvery = time.Second
)

// expires is how long a request stands. It is no longer than AckWait: what a paused process was given and did not answer is
// then never given to it again, since its requests have run out.
func (p *pump) expires() time.Duration { return min(pullExpires, p.ackWait) }

// heartbeat of the server while a request stands; at most half of that, or the server refuses it.
func (p *pump) heartbeat() time.Duration { return min(pullHeartbeat, p.expires()/2) }

var (
	ackBody      = []byte("+ACK")
	progressBody = []byte("+WPI")
	termBody     = []byte("+TERM")
)

// open starts to pull. It does nothing when the pump is open or stopping.
func (p *pump) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sub != nil || p.gone {
		return nil
	}
	// The inbox is new, so that what a former request still brings goes nowhere.
	sub, err := p.conn.NC.Subscribe(p.conn.NC.NewInbox(), p.arrive)
	if err != nil {
		return fmt.Errorf("subscribe to pull from %s: %w", p.stream, err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("subscribe to pull from %s: %w", p.stream, err)
	}
	done := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(done) })
	p.sub, p.drained, p.asked, p.heard = sub, done, 0, time.Now()
	return p.ask()
}

// close stops pulling. What has been sent already still arrives; when the pump is stopping it is handed back at once. It waits
// for that, up to two seconds.
func (p *pump) close(gone bool) {
	p.mu.Lock()
	sub, done := p.sub, p.drained
	p.sub, p.asked, p.gone = nil, 0, p.gone || gone
	p.mu.Unlock()
	if sub == nil {
		return
	}
	if err := sub.Drain(); err != nil {
		return // the connection is closed, and the subscription with it
	}
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-done:
	case <-p.conn.closed:
	case <-t.C:
	}
}

// ask requests as much as there is room for. The caller holds mu.
func (p *pump) ask() error {
	if p.sub == nil {
		return nil
	}
	want := p.gate.cut(p.room-len(p.held)-p.asked, p.asked)
	if want <= 0 || p.asked > 0 && want < max(1, p.room/4) {
		return nil
	}
	body, err := json.Marshal(map[string]int64{
		"batch": int64(want), "expires": int64(p.expires()), "idle_heartbeat": int64(p.heartbeat()),
	})
	if err != nil {
		return fmt.Errorf("encode a pull request: %w", err)
	}
	if err := p.conn.NC.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+p.stream+"."+p.durable, p.sub.Subject, body); err != nil {
		return fmt.Errorf("pull from %s: %w", p.stream, err)
	}
	p.asked += want
	return nil
}

// arrive is called for every message of the inbox, one at a time.
func (p *pump) arrive(m *nats.Msg) {
	if m.Header.Get("Status") != "" && !strings.HasPrefix(m.Reply, "$JS.ACK.") {
		p.status(m)
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		p.log.Error("a message without delivery data", "subject", m.Subject, "error", err)
		return
	}
	now := time.Now()
	it := &item{msg: m, meta: meta, beat: now}
	p.mu.Lock()
	p.heard, p.told = now, ""
	p.asked = max(0, p.asked-1)
	if p.gone || p.sub == nil || len(p.held) >= cap(p.queue) {
		p.mu.Unlock()
		delay := time.Duration(0)
		if !p.gone {
			delay = time.Second // paused: another replica may be luckier
		}
		p.nak(it, delay)
		return
	}
	p.held[it] = struct{}{}
	p.mu.Unlock()
	p.metrics.inFlight.Inc()
	p.queue <- it // held is never more than the queue has room for
}

// status handles what the server says of a request instead of a message.
func (p *pump) status(m *nats.Msg) {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
	switch {
	case code == "100": // idle heartbeat
		p.told = ""
		return
	case code == "409" && (strings.EqualFold(text, "Consumer Deleted") || strings.EqualFold(text, "Consumer is push based")):
		p.fail(fmt.Errorf("consumer %s on %s: %s", p.durable, p.stream, strings.ToLower(text)))
		return
	case m.Header.Get("Nats-Pending-Messages") != "":
		n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			n = p.asked
		}
		p.asked = max(0, p.asked-n)
	default: // no responders, a new leader, a server that ends: every request is gone
		p.asked = 0
		if code != "404" && code != "408" {
			if why := code + " " + text; why != p.told { // without a leader each request ends so
				p.told = why
				p.log.Warn("a pull request ended", "status", code, "why", text)
			}
			p.doubt = true
			return // the ticker asks again, and looks whether the consumer is still there
		}
	}
	if err := p.ask(); err != nil {
		p.log.Warn("pull", "error", err)
	}
}

// fail reports a consumer that is gone. The caller holds mu or not.
func (p *pump) fail(err error) {
	select {
	case p.lost <- err:
	default:
	}
}

// tick keeps what is held alive, and pulls again when the server has been silent.
func (p *pump) tick(ctx context.Context) {
	now := time.Now()
	p.mu.Lock()
	for it := range p.held {
		if now.Sub(it.beat) >= p.ackWait/4 {
			it.beat = now
			p.answer(it, progressBody)
		}
	}
	quiet := p.sub != nil && now.Sub(p.heard) > 2*pullHeartbeat+time.Second
	if quiet || p.asked == 0 {
		p.asked = 0
		if err := p.ask(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			p.log.Warn("pull", "error", err)
		}
	}
	look := quiet || p.doubt && now.Sub(p.looked) >= lookEvery
	if quiet {
		p.heard = now
	}
	if look {
		p.doubt, p.looked = false, now
	}
	p.mu.Unlock()
	if look && p.conn.NC.IsConnected() {
		p.look(ctx)
	}
}

// more pulls what the gate newly lets through.
func (p *pump) more() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ask(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.log.Warn("pull", "error", err)
	}
}

// again forgets what was asked for: after a reconnection no request is left at the server.
func (p *pump) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = 0
	if err := p.ask(); err != nil {
		p.log.Warn("pull", "error", err)
	}
}

// look asks whether the consumer still exists.
func (p *pump) look(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	_, err := p.conn.JS.Consumer(ctx, p.stream, p.durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		p.fail(fmt.Errorf("consumer %s on %s: %w", p.durable, p.stream, err))
	}
}

// answer sends an acknowledgement of any kind. Only a closed connection can refuse it, and then the broker delivers again.
func (p *pump) answer(it *item, body []byte) {
	if err := p.conn.NC.Publish(it.msg.Reply, body); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.log.Warn("acknowledge", "seq", it.meta.Sequence.Stream, "error", err)
	}
}

// done answers an item for good and makes room.
func (p *pump) done(it *item, body []byte) {
	p.mu.Lock()
	_, mine := p.held[it]
	delete(p.held, it)
	err := p.ask()
	p.mu.Unlock()
	if !mine {
		return // it was handed back because its handler did not end
	}
	p.metrics.inFlight.Dec()
	p.answer(it, body)
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.log.Warn("pull", "error", err)
	}
}

func (p *pump) ack(it *item)  { p.done(it, ackBody) }
func (p *pump) term(it *item) { p.done(it, termBody) }

// back hands an item back, to be delivered again after delay.
func (p *pump) back(it *item, delay time.Duration) { p.done(it, nakBody(delay)) }

// nak hands back an item that was never held.
func (p *pump) nak(it *item, delay time.Duration) { p.answer(it, nakBody(delay)) }

// nakBody hands a message back after a delay, which is never nothing: the server keeps a plain -NAK in memory only, so that what is
// handed back when everything stops would wait for its whole AckWait at the next start. A delay moves the message's stored time.
func nakBody(delay time.Duration) []byte {
	delay = max(delay, 1)
	return []byte(`-NAK {"delay":` + strconv.FormatInt(delay.Nanoseconds(), 10) + `}`)
}

// backAll hands back everything that no worker has taken.
func (p *pump) backAll(delay time.Duration) (n int) {
	for {
		select {
		case it := <-p.queue:
			p.back(it, delay)
			n++
		default:
			return n
		}
	}
}

// backHeld hands back what workers still hold: their handlers did not end in time.
func (p *pump) backHeld() int {
	p.mu.Lock()
	var all []*item
	for it := range p.held {
		all = append(all, it)
	}
	p.mu.Unlock()
	for _, it := range all {
		p.back(it, 0)
	}
	return len(all)
}
