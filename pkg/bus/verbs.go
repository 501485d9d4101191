package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// ServiceInfo is how a service is listed by nats micro ls.
type ServiceInfo struct {
	// Name is the service's, for example "committer".
	Name string
	// Version is the build's; one that is not semantic is shown as 0.0.0+version. Defaults to 0.0.0.
	Version     string
	Description string
}

// VerbFunc answers a request about a graph. The reply is encoded as JSON; json.RawMessage and []byte are sent as they are. An
// error is sent as it is; the context ends after the time limit.
type VerbFunc func(ctx context.Context, graph string, body []byte, header func(string) string) (any, *api.Error)

// Endpoint is one verb.
type Endpoint struct {
	// Name in nats micro stats, for example "jobs-get".
	Name string
	// Subject pattern with the graph as second token, for example "factmill.*.jobs.get".
	Subject string
	Handler VerbFunc
	// Limit of time of a verb that may take longer than ServeOptions.Limit. Such a request is not waited for when the service
	// stops: its context ends at once. Defaults to ServeOptions.Limit.
	Limit time.Duration
	// Workers of its own, and a queue of its own, for a verb that may wait for its turn: however many of its requests wait, they take no
	// worker of the others. Defaults to sharing the service's.
	Workers int
}

// ServeOptions bound the requests under way. The zero value is the default.
type ServeOptions struct {
	// Workers answer at once. Defaults to 4 × processors, at least 8: a worker may wait (jobs.get with wait).
	Workers int
	// Queue of requests that wait for a worker; a full one answers busy. Defaults to 256.
	Queue int
	// Limit of time a request. Defaults to 60 s.
	Limit time.Duration
	// Nouns that this service answers alone, for example "jobs": their other verbs are answered unknown_verb.
	Nouns []string
	// Elsewhere are verbs of the nouns that another service answers, by noun.verb, for example "query.candidates": "reviewer". That one's
	// answer is left to it; while none of it runs, they are answered not_ready. Defaults to none.
	Elsewhere map[string]string
	// QueueGroup of the service's replicas, of which one answers. Defaults to the service's name.
	QueueGroup string
	// Ready is what the health endpoint says; nil is ready. Defaults to always ready.
	Ready func() error
	// Note is what health says of a service that is ready and yet stands still; empty: nothing. Defaults to nothing.
	Note func() string
	// Header is added to every reply about a graph. Defaults to none.
	Header func(graph string) nats.Header
	// Log names the service already. Defaults to the connection's, with the service's name.
	Log *slog.Logger
}

// Health is the reply of a service's health endpoint.
type Health struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	// Why it is not ready, or stands still all the same.
	Why string `json:"why,omitempty"`
}

func (o ServeOptions) withDefaults(name string, log *slog.Logger) ServeOptions {
	if o.Workers <= 0 {
		o.Workers = max(8, 4*runtime.GOMAXPROCS(0))
	}
	if o.Queue <= 0 {
		o.Queue = 256
	}
	if o.Limit <= 0 {
		o.Limit = 60 * time.Second
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.QueueGroup == "" {
		o.QueueGroup = name
	}
	if o.Log == nil {
		o.Log = log.With("service", name)
	}
	return o
}

// HealthSubject is answered with a Health by one replica of every service, also of one without verbs.
func HealthSubject(service string) string { return events.Root + ".health." + service }

type request struct {
	msg *nats.Msg
	ep  *endpoint
	at  time.Time
	by  string // who the connection is, when the server tells
}

type endpoint struct {
	Endpoint
	mu     sync.Mutex
	stats  VerbStats // guarded by mu
	prefix []string
	queue  chan request
}

// VerbStats of an endpoint, the data in nats micro stats. The requests are answered by a pool, so that micro's own times say
// nothing.
type VerbStats struct {
	Answered  uint64  `json:"answered"`
	Errors    uint64  `json:"errors"`
	LastError string  `json:"last_error,omitempty"`
	Seconds   float64 `json:"seconds"`
}

// pool is the workers of a queue.
type pool struct {
	queue   chan request
	workers int
}

type server struct {
	conn  *Conn
	opt   ServeOptions
	queue chan request
	pools []pool
	// working counts the workers of all pools.
	working sync.WaitGroup

	known map[string]bool // noun.verb
	work  context.Context // ends when the requests under way are finished
	stops context.Context // ends when the service is told to stop
}

// Serve registers a service and answers its verbs until ctx is done; requests under way are finished first. A service without
// verbs is registered with its health endpoint alone.
//
// micro calls an endpoint for one request at a time, so every request goes to a bounded pool.
func (c *Conn) Serve(ctx context.Context, info ServiceInfo, endpoints []Endpoint, o ServeOptions) error {
	o = o.withDefaults(info.Name, c.log)
	info.Version = semver(info.Version)
	s := &server{conn: c, opt: o, queue: make(chan request, o.Queue), known: map[string]bool{}}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.work, s.stops = work, ctx

	svc, err := micro.AddService(c.NC, micro.Config{
		Name: info.Name, Version: info.Version, Description: info.Description, QueueGroup: o.QueueGroup, StatsHandler: verbStats,
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			o.Log.Error("request-reply", "subject", e.Subject, "error", e)
		},
	})
	if err != nil {
		return fmt.Errorf("register the service %s: %w", info.Name, err)
	}
	s.start(s.queue, o.Workers)
	unknown, err := s.register(svc, info, endpoints)
	if err == nil {
		select {
		case <-ctx.Done():
		case <-c.closed:
			err = fmt.Errorf("serve %s: %w", info.Name, nats.ErrConnectionClosed)
		}
	}
	return errors.Join(err, s.stop(svc, info.Name, unknown))
}

// start has a queue served by workers of its own.
func (s *server) start(queue chan request, workers int) chan request {
	s.pools = append(s.pools, pool{queue, workers})
	for range workers {
		s.working.Go(func() { s.worker(queue) })
	}
	return queue
}

// stop ends the subscriptions, lets the pool finish, and waits for it.
func (s *server) stop(svc micro.Service, name string, unknown []*nats.Subscription) error {
	var errs []error
	for _, sub := range unknown {
		if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			errs = append(errs, fmt.Errorf("stop %s: %w", name, err))
		}
	}
	if err := svc.Stop(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		errs = append(errs, fmt.Errorf("stop %s: %w", name, err))
	}
	if s.conn.NC.IsConnected() {
		// Stop drains in the background: after a round trip what the server had sent has arrived.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if err := s.conn.NC.FlushWithContext(ctx); err != nil {
			s.opt.Log.Warn("flush", "error", err)
		}
		cancel()
	}
	for _, p := range s.pools {
		for range p.workers {
			p.queue <- request{} // each ends one worker, behind the requests that wait
		}
	}
	s.working.Wait()
	return errors.Join(errs...)
}

func (s *server) register(svc micro.Service, info ServiceInfo, endpoints []Endpoint) ([]*nats.Subscription, error) {
	health := Endpoint{Name: "health", Subject: HealthSubject(info.Name), Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) {
		h := Health{Service: info.Name, Version: info.Version, Ready: true}
		if err := s.opt.Ready(); err != nil {
			h.Ready, h.Why = false, clip(err.Error(), 1000)
		} else if s.opt.Note != nil {
			h.Why = clip(s.opt.Note(), 1000)
		}
		return h, nil
	}}
	var subs []*nats.Subscription
	// Health comes last: whoever is answered by it is answered by every verb.
	for _, e := range append(slices.Clone(endpoints), health) {
		ep := &endpoint{Endpoint: e, queue: s.queue}
		if e.Workers > 0 {
			ep.queue = s.start(make(chan request, s.opt.Queue), e.Workers)
		}
		if t := strings.Split(e.Subject, "."); len(t) == 4 {
			s.known[t[2]+"."+t[3]] = true
		}
		h := microHandler{s: s, ep: ep}
		if e.Name != health.Name {
			sub, err := s.conn.NC.QueueSubscribe(bySubject(e.Subject), s.opt.QueueGroup, h.signed)
			if err != nil {
				return subs, fmt.Errorf("register %s of %s: %w", e.Name, info.Name, err)
			}
			subs = append(subs, sub)
		}
		if err := svc.AddEndpoint(e.Name, h, micro.WithEndpointSubject(e.Subject)); err != nil {
			return subs, fmt.Errorf("register %s of %s on %s: %w", e.Name, info.Name, e.Subject, err)
		}
	}
	for _, noun := range s.opt.Nouns {
		pattern := events.Root + ".*." + noun + ".*"
		for _, subject := range []string{bySubject(pattern), pattern} { // the plain one last: see target
			sub, err := s.conn.NC.QueueSubscribe(subject, s.opt.QueueGroup+"-unknown", s.unknown)
			if err != nil {
				return subs, fmt.Errorf("answer unknown verbs of %s: %w", noun, err)
			}
			subs = append(subs, sub)
		}
	}
	// After this round trip the server knows the subscriptions: a request sent now is answered.
	if err := s.conn.NC.FlushTimeout(ackTimeout); err != nil {
		return subs, fmt.Errorf("register the service %s: %w", info.Name, err)
	}
	return subs, nil
}

// unknown answers the verbs of a noun that nobody has.
func (s *server) unknown(m *nats.Msg) {
	m.Subject, _ = plainSubject(m.Subject)
	t := strings.Split(m.Subject, ".")
	if len(t) != 4 || s.known[t[2]+"."+t[3]] || m.Reply == "" {
		return
	}
	if other := s.opt.Elsewhere[t[2]+"."+t[3]]; other != "" {
		go s.elsewhere(m, other, t[2]+"."+t[3])
		return
	}
	s.reply(m, nil, api.Errorf(404, "unknown_verb", "%s has no verb %q", t[2], clip(t[3], 80)))
}

// aliveWait is how long another service may take to show that it is there.
const aliveWait = 2 * time.Second

// elsewhere says that nobody answers a verb, when the service that would does not run: the broker does not, since the subscription for
// unknown verbs took the request.
func (s *server) elsewhere(m *nats.Msg, service, verb string) {
	ctx, stop := context.WithTimeout(s.stops, aliveWait)
	defer stop()
	if _, err := s.conn.NC.RequestWithContext(ctx, HealthSubject(service), nil); errors.Is(err, nats.ErrNoResponders) {
		s.reply(m, nil, api.Errorf(503, "not_ready", "%s is answered by the %s, and none runs: start one", verb, service))
	}
}

// microHandler is an endpoint as micro sees it.
type microHandler struct {
	s  *server
	ep *endpoint
}

// Handle implements micro.Handler: it hands the request to the pool and never waits.
func (h microHandler) Handle(r micro.Request) {
	h.take(&nats.Msg{Subject: r.Subject(), Reply: r.Reply(), Data: r.Data(), Header: nats.Header(r.Headers())}, "")
}

// signed is Handle for requests whose sender the NATS server names in the subject.
func (h microHandler) signed(m *nats.Msg) {
	var who string
	m.Subject, who = plainSubject(m.Subject)
	h.take(m, who)
}

func (h microHandler) take(m *nats.Msg, by string) {
	if m.Reply == "" {
		return // nobody would read an answer
	}
	select {
	case h.ep.queue <- request{msg: m, ep: h.ep, at: time.Now(), by: by}:
	default:
		h.ep.count(0, api.Errorf(429, "busy", "busy"))
		h.s.reply(m, nil, api.Errorf(429, "busy", "%d requests wait already: try again", cap(h.ep.queue)))
	}
}

func verbStats(e *micro.Endpoint) any {
	h, ok := e.Handler.(microHandler)
	if !ok {
		return VerbStats{}
	}
	h.ep.mu.Lock()
	defer h.ep.mu.Unlock()
	return h.ep.stats
}

func (e *endpoint) count(d time.Duration, err *api.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Answered++
	e.stats.Seconds += d.Seconds()
	if err != nil {
		e.stats.Errors++
		e.stats.LastError = err.Code + ": " + clip(err.Message, 200)
	}
}

func (s *server) worker(queue chan request) {
	for r := range queue {
		if r.msg == nil {
			return
		}
		start := time.Now()
		out, err := s.answer(r)
		err = s.reply(r.msg, out, err)
		r.ep.count(time.Since(start), err)
	}
}

// answer calls a verb, bounded and guarded.
func (s *server) answer(r request) (out any, err *api.Error) {
	defer func() {
		if p := recover(); p != nil {
			s.opt.Log.Error("a verb panicked", "subject", r.msg.Subject, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out, err = nil, api.Errorf(500, "internal", "%s failed inside: the log says more", r.ep.Name)
		}
	}()
	graph := ""
	if t := strings.Split(r.msg.Subject, "."); t[1] != "health" {
		graph = t[1]
		if e := events.CheckGraph(graph); e != nil {
			return nil, api.Errorf(400, "bad_name", "%v", e)
		}
	}
	limit, base := s.opt.Limit, s.work
	if r.ep.Limit > limit {
		limit, base = r.ep.Limit, s.stops
	}
	left := limit - time.Since(r.at)
	if left <= 0 {
		return nil, api.Errorf(429, "busy", "the request waited %s for its turn: try again", limit)
	}
	ctx, stop := context.WithTimeout(WithTrace(base, r.msg.Header.Get(events.HeaderTrace)), left)
	defer stop()
	if r.by != "" {
		ctx = WithBy(ctx, r.by)
	}
	return r.ep.Handler(ctx, graph, r.msg.Data, r.msg.Header.Get)
}

// reply sends a reply, or the error, or that the reply is too large. It returns the error that was sent.
func (s *server) reply(m *nats.Msg, out any, e *api.Error) *api.Error {
	var body []byte
	if e == nil {
		var err error
		if body, err = replyBody(out); err != nil {
			s.opt.Log.Error("encode a reply", "subject", m.Subject, "error", err)
			e = api.Errorf(500, "internal", "the reply could not be encoded")
		}
	}
	if max := s.conn.NC.MaxPayload(); e == nil && max > 0 && int64(len(body)) > max {
		e = api.Errorf(413, "too_large", "the reply has %d bytes, a message at most %d: ask for less", len(body), max)
		e.Details = map[string]any{"bytes": len(body), "limit": max}
	}
	r := &nats.Msg{Subject: m.Reply, Data: body}
	if e != nil {
		r.Data = api.Wrap(e)
		r.Header = nats.Header{
			micro.ErrorHeader:     []string{oneLine(e.Message)},
			micro.ErrorCodeHeader: []string{strconv.Itoa(max(e.Status, 400))},
		}
	}
	if t := strings.Split(m.Subject, "."); s.opt.Header != nil && len(t) == 4 && t[1] != "health" {
		if r.Header == nil {
			r.Header = nats.Header{}
		}
		for k, v := range s.opt.Header(t[1]) {
			r.Header[k] = v
		}
	}
	if err := s.conn.NC.PublishMsg(r); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.opt.Log.Error("reply", "subject", m.Subject, "error", err)
	}
	return e
}

func replyBody(out any) ([]byte, error) {
	switch out := out.(type) {
	case []byte:
		return out, nil
	case json.RawMessage:
		return out, nil
	default:
		b, err := json.Marshal(out)
		if err != nil {
			return nil, fmt.Errorf("encode the reply: %w", err)
		}
		return b, nil
	}
}

// oneLine makes a text fit for a header.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return clip(s, 500)
}
