package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/events"
)

// readyWait is how long the services may take to get ready: opening a large store after a crash takes its time.
const readyWait = 2 * time.Minute

// Start runs NATS and all services in this process on a data directory. Another process there is *InUse.
func Start(ctx context.Context, o Options, dir string) (s *Session, err error) {
	lock, err := Acquire(dir)
	if err != nil {
		return nil, err
	}
	limitMemory(o.Config, o.Getenv)
	stack := []func() error{lock.Release}
	unwind := func() error {
		var errs []error
		for i := len(stack) - 1; i >= 0; i-- {
			errs = append(errs, stack[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unwind())
		}
	}()
	up := Up{Command: o.Command, Starting: o.Listen != "", Started: stamp(o.Now)}
	if err := lock.Tell(up); err != nil {
		return nil, err
	}
	access, err := o.access(dir)
	if err != nil {
		return nil, err
	}
	server, err := embedded.Start(ctx, embedded.Options{
		Dir: filepath.Join(dir, "nats"), Listen: o.Listen, SyncAlways: o.Config.Get("nats.sync") == "always", Access: access, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	stack = append(stack, func() error { server.Shutdown(true); return nil })
	traces, err := o.Config.Tracing(ctx, o.Version, o.Log)
	if err != nil {
		return nil, err
	}
	stack = append(stack, func() error { app.CloseTracing(traces, o.Log); return nil })
	connect := func(name, user string) (*bus.Conn, error) {
		c, err := bus.Connect(ctx, access.As(user, bus.Options{InProcess: server, Name: name, Tracer: traces.Tracer(name), Log: o.Log, Now: o.Now}))
		if err == nil {
			stack = append(stack, func() error { c.Close(); return nil })
		}
		return c, err
	}
	conn, err := connect("factmill-"+o.Command, rights.Admin)
	if err != nil {
		return nil, err
	}
	if err := bus.EnsureAll(ctx, conn.JS, o.Config.Table()); err != nil {
		return nil, fmt.Errorf("streams of %s: %w", dir, err)
	}
	s = &Session{
		Conn: conn, Graph: o.Graph, Where: dir, Embedded: true, Dir: dir, URL: server.ClientURL(), timeout: o.Timeout,
		failed: make(chan error, 1), close: unwind,
	}
	stop, err := s.run(ctx, o, connect)
	if err != nil {
		return nil, err
	}
	stack = append(stack, stop)
	up.URL, up.Starting, up.Token, up.CA = s.URL, false, access.Token, access.Cert
	s.CA = access.Cert
	if err := lock.Tell(up); err != nil {
		return nil, err
	}
	return s, nil
}

// access is who may connect: the services by keys made now, and over TCP whoever brings the token, where one is set.
func (o Options) access(dir string) (*embedded.Access, error) {
	a, err := embedded.NewAccess()
	if err != nil || o.Listen == "" {
		return a, err
	}
	a.Token, a.Cert, a.Key = o.Token, o.Cert, o.Key
	if err := bus.CheckPair(a.Cert, a.Key); err != nil {
		return nil, err
	}
	if a.Cert == "" && o.SelfSigned {
		host, _, _ := net.SplitHostPort(o.Listen) // which was checked
		a.Cert, a.Key, err = selfSigned(filepath.Join(dir, "tls"), host, o.Now())
	}
	if a.Cert != "" && err == nil {
		a.Cert, err = filepath.Abs(a.Cert) // others find it from elsewhere
	}
	return a, err
}

// run builds and starts the services and waits for those that the command needs. Each has a connection of its own, so that it is seen by name.
func (s *Session) run(ctx context.Context, o Options, connect func(name, user string) (*bus.Conn, error)) (stop func() error, err error) {
	reg, calls := app.NewRegistry(), o.Config.ModelCalls()
	var services, watched []app.Service
	for _, b := range o.Services {
		c, err := connect(b.Name, b.Name)
		if err != nil {
			return nil, err
		}
		svc, err := b.Build(o.Config, s.Dir, false, app.Deps{Conn: c, Log: o.Log.With("service", b.Name), Metrics: reg, ModelCalls: calls, Now: o.Now}.WithDefaults())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		services = append(services, svc)
		watched = append(watched, app.WatchConn(c))
	}
	s.services = services
	all := append(services[:len(services):len(services)], watched...)
	health, err := app.ListenHealth(o.HTTP, reg, func() []app.Service { return services })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if health != nil {
		s.Health = health.Addr()
		all = append(all, app.HealthService(health))
	}
	// The services end when the session is closed, in an order that the session decides, not with the command's context.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	told := false // written before ended is
	go func() {
		err := app.RunAll(run, o.Log, all...)
		if run.Err() == nil {
			told = true
			s.failed <- errors.Join(errStopped, err)
		}
		ended <- err
	}()
	stop = func() error {
		cancel()
		if err := <-ended; !told {
			return err
		}
		return nil
	}
	if err = s.answered(ctx, ended, nouns[o.Wait]); err == nil && o.Wait == WaitAll {
		err = o.ready(ctx, services, ended)
	}
	if err != nil {
		cancel()
		if !errors.Is(err, errStopped) {
			err = errors.Join(err, <-ended)
		}
		return nil, err
	}
	return stop, nil
}

var errStopped = errors.New("the services stopped")

// patience is how long a service may take before it is said what it waits for; one that has started and cannot do all of its work
// (a job that it does not serve, a dependency that is down) is not waited for beyond that: it does the rest.
const patience = 2 * time.Second

// ready waits until every service has started; ended gives the error when they end before.
func (o Options) ready(ctx context.Context, services []app.Service, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	began, said := time.Now(), map[string]bool{}
	for {
		late := time.Since(began) > patience
		var why error
		for _, svc := range services {
			err := svc.Ready()
			if err == nil {
				continue
			}
			if text := notReady(svc, err); late && o.Say != nil && !said[text] {
				said[text] = true
				o.Say(text)
			}
			if !late || errors.Is(err, bus.ErrNotStarted) {
				why = fmt.Errorf("%s is not ready: %w", svc.Name(), err)
			}
		}
		if why == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%w: %w", errStopped, err)
		case <-ctx.Done():
			return errors.Join(why, ctx.Err())
		case <-tick.C:
		}
	}
}

// nouns of the verbs that commands ask, by what they wait for; their services answer unknown verbs too, with a refusal.
var nouns = map[Wait][]string{
	WaitAnswers: {"settings", "jobs"}, WaitReview: {"settings", "jobs", "review"}, WaitAll: {"settings", "jobs", "review"},
}

// answered waits until the verbs are answered. A service's last subscription is the one for unknown verbs: when such a verb is
// answered, all are.
func (s *Session) answered(ctx context.Context, ended <-chan error, nouns []string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for _, noun := range nouns {
		for {
			err := s.Conn.Request(ctx, events.Root+"."+s.Graph+"."+noun+".ready", nil, nil)
			var refused *api.Error
			if errors.As(err, &refused) && refused.Code != "not_ready" {
				break
			}
			select {
			case err := <-ended:
				return fmt.Errorf("%w: %w", errStopped, err)
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("the verbs of %s are not answered", noun), ctx.Err())
			case <-tick.C:
			}
		}
	}
	return nil
}
