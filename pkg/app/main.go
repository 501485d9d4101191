package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/factmill/factmill/pkg/bus"
)

// Exit codes of every command.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitUnreachable = 3
	ExitPartly      = 4
)

// Build makes a service out of the configuration.
type Build func(cfg *Config, deps Deps) (Service, error)

// Main is the whole main of a service that runs alone: configuration, connection, health, signals. It returns the exit code.
func Main(name, version string, build Build) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return MainContext(ctx, name, version, os.Args[1:], os.Environ(), os.Stderr, build)
}

// MainContext is Main with its surroundings given.
func MainContext(ctx context.Context, name, version string, args, environ []string, stderr io.Writer, build Build) int {
	file, flags, help, err := parseArgs(args)
	if help {
		usage(stderr, name)
		return ExitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "factmill-%s: %v\n", name, err)
		return ExitUsage
	}
	cfg, err := LoadConfig(file, environ, flags)
	if err != nil {
		fmt.Fprintf(stderr, "factmill-%s: %v\n", name, err)
		return ExitUsage
	}
	if cfg.Get("nats.url") == "" {
		fmt.Fprintf(stderr, "factmill-%s: no NATS server given: set --nats.url or %s\n", name, EnvName("nats.url"))
		return ExitUsage
	}
	err = serve(ctx, name, version, cfg, environ, stderr, build)
	var bad *bus.BadOption
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, bus.ErrUnreachable), errors.Is(err, bus.ErrRefused):
		fmt.Fprintf(stderr, "factmill-%s: %v\n", name, err)
		return ExitUnreachable
	case errors.Is(err, ErrConfig), errors.Is(err, bus.ErrDiffers), errors.As(err, &bad):
		fmt.Fprintf(stderr, "factmill-%s: %v\n", name, err)
		return ExitUsage
	default:
		fmt.Fprintf(stderr, "factmill-%s: %v\n", name, err)
		return ExitFailed
	}
}

// ErrConfig is wrapped by the errors of services that cannot be made as they are configured; see Misconfigured.
var ErrConfig = errors.New("wrong configuration")

type misconfigured struct{ error }

func (e misconfigured) Unwrap() []error { return []error{ErrConfig, e.error} }

// Misconfigured makes err one that wraps ErrConfig and reads as before: a process ends with code 2 on it. nil stays nil.
func Misconfigured(err error) error {
	if err == nil {
		return nil
	}
	return misconfigured{err}
}

// BusOptions are the connection's options as configured, for the user of that name. Where the nkey is a directory of seeds, the user's is
// the file of that name.
func (c *Config) BusOptions(name string) bus.Options {
	key := c.Get("nats.nkey")
	if info, err := os.Stat(key); err == nil && info.IsDir() {
		key = filepath.Join(key, name)
	}
	return bus.Options{
		URL: c.Get("nats.url"), Name: name, Creds: c.Get("nats.creds"), NKey: key, User: c.Get("nats.user"),
		Password: c.Get("nats.password"), Token: c.Get("nats.token"), CA: c.Get("nats.tls.ca"), Cert: c.Get("nats.tls.cert"),
		Key: c.Get("nats.tls.key"), Inbox: bus.Inbox(name),
	}
}

// Table is the table of streams and consumers as configured.
func (c *Config) Table() bus.Table {
	return bus.NewTable(bus.TableOptions{AckWait: c.Duration("bus.ack_wait")})
}

func serve(ctx context.Context, name, version string, cfg *Config, environ []string, stderr io.Writer, build Build) error {
	log := cfg.Logger(stderr).With("service", name)
	for _, w := range UnknownEnv(environ) {
		log.Warn(w)
	}
	traces, err := cfg.Tracing(ctx, version, log)
	if err != nil {
		return err
	}
	defer CloseTracing(traces, log)
	o := cfg.BusOptions(name)
	o.Log, o.Tracer = log, traces.Tracer(name)
	conn, err := bus.Connect(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Check(ctx, cfg.Table()); err != nil {
		return err
	}
	reg := NewRegistry()
	svc, err := build(cfg, Deps{Conn: conn, Log: log, Metrics: reg})
	if err != nil {
		return err
	}
	services := []Service{svc, watch{conn}}
	health, err := ListenHealth(cfg.Get("http.listen"), reg, func() []Service { return []Service{svc} })
	if err != nil {
		return err
	}
	if health != nil {
		log.Info("health", "address", health.Addr())
		services = append(services, healthService{health})
	}
	log.Info("started", "version", version)
	err = RunAll(ctx, log, services...)
	log.Info("stopped")
	return err
}

// NewRegistry is a registry with the Go runtime's and the process's metrics.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

type healthService struct{ *Health }

func (healthService) Name() string { return "health" }
func (healthService) Ready() error { return nil }

// watch ends the process when its connection has failed for good: better a restart than idling.
type watch struct{ conn *bus.Conn }

func (watch) Name() string { return "connection" }
func (watch) Ready() error { return nil }

func (w watch) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.conn.Failed():
		return err
	}
}

// WatchConn is a service that fails when conn has failed for good.
func WatchConn(conn *bus.Conn) Service { return watch{conn} }

// HealthService makes h a service.
func HealthService(h *Health) Service { return healthService{h} }

// parseArgs reads --config FILE, --name value and --name=value.
func parseArgs(args []string) (file string, flags map[string]string, help bool, err error) {
	flags = map[string]string{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "-h" || a == "--help" {
			return "", nil, true, nil
		}
		name, ok := strings.CutPrefix(a, "--")
		if !ok {
			return "", nil, false, fmt.Errorf("unexpected argument %q: flags are --name value", a)
		}
		name, v, has := strings.Cut(name, "=")
		if !has {
			if i+1 == len(args) {
				return "", nil, false, fmt.Errorf("--%s needs a value", name)
			}
			i++
			v = args[i]
		}
		if name == "config" {
			file = v
			continue
		}
		if name == "nats" {
			name = "nats.url"
		}
		flags[name] = v
	}
	return file, flags, false, nil
}

func usage(w io.Writer, name string) {
	fmt.Fprintf(w, "factmill-%s: the %s alone, against a NATS server.\n\n  factmill-%s --nats.url nats://127.0.0.1:4222 [--config FILE] [--name value …]\n\n", name, name, name)
	for _, k := range Keys {
		d := ""
		if k.Default != "" {
			d = fmt.Sprintf(" (default %s)", k.Default)
		}
		fmt.Fprintf(w, "  --%-32s %s%s\n", k.Name, k.Help, d)
	}
	fmt.Fprintf(w, "\nEvery flag is also an environment variable, for example %s.\n", EnvName("nats.url"))
}

// GraceStop is how long a process may take to stop after its first signal.
const GraceStop = 10 * time.Second
