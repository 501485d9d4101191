package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
)

func (c *cli) serveCmd() *cobra.Command {
	var http string
	cmd := &cobra.Command{
		Use: "serve SERVICE…", Short: "Run chosen services against a NATS server", Args: cobra.MinimumNArgs(1),
		Long: `Run some of the services, or all, against the NATS server of --nats until interrupted. Run a stage several times to scale it;
the committer runs once and needs --data. A replica copies the committer's store into a --data of its own and answers reads from it, perhaps
a moment behind (factmill stats --replica says how far); all does not mean it. The streams must be there: see factmill provision.

Pipeline settings that are given here are what this service insists on: jobs with others are handed back, and /ready says so.

Services: ` + strings.Join(serviceNames(), ", ") + ", all.",
		Example: `  factmill provision --apply --nats nats://127.0.0.1:4222
  factmill serve committer --data /var/lib/factmill --nats nats://127.0.0.1:4222 --http 127.0.0.1:8081
  factmill serve chunker extractor --nats nats://127.0.0.1:4222
  factmill serve replica --data /var/lib/factmill-replica --nats nats://127.0.0.1:4222`,
		ValidArgs: append(serviceNames(), "all"),
		RunE: c.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			chosen, err := choose(args)
			if err != nil {
				return usage(err)
			}
			if c.cfg.Get("nats.url") == "" {
				return usagef("serve needs a NATS server: give --nats URL or FACTMILL_NATS_URL (factmill up brings its own)")
			}
			if err := c.checkServed(chosen); err != nil {
				return err
			}
			if http == "" {
				http = c.cfg.Get("http.listen")
			}
			return atStop(ctx, c.serve(ctx, chosen, http))
		}),
	}
	cmd.Flags().SortFlags = false
	c.ownFlags(cmd, map[string]string{
		"nats": "NATS `URL` of the server to work at; needed", "data": "data `directory` of the committer or the replica; it keeps nothing of others",
		"nkey": "NATS nkey seed `file`, or the directory of the services' seeds: each takes the one of its name", "creds": "", "user": "", "password": "",
		"token": "", "token-file": "", "tls-ca": "", "tls-cert": "", "tls-key": "",
	})
	cmd.Flags().StringVar(&http, "http", "", "`address` of /live, /ready and /metrics (default: http.listen, none)")
	return cmd
}

func serviceNames() []string { return namesOf(served) }

func namesOf(list []target.Builder) []string {
	var out []string
	for _, b := range list {
		out = append(out, b.Name)
	}
	return out
}

// choose picks services by name; all is every one.
func choose(names []string) ([]target.Builder, error) {
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	var out []target.Builder
	for _, b := range served {
		if want[b.Name] || want["all"] && b.Name != "replica" {
			out = append(out, b)
		}
		delete(want, b.Name)
	}
	delete(want, "all")
	for _, n := range names {
		if want[n] {
			return nil, fmt.Errorf("there is no service %q: services are %s, all", n, strings.Join(serviceNames(), ", "))
		}
	}
	return out, nil
}

// checkServed refuses the committer and a replica without a directory: the default one belongs to up, nobody means it for a server.
func (c *cli) checkServed(chosen []target.Builder) error {
	for _, b := range chosen {
		if ownsData(b) && c.cfg.Get("data") == "" {
			return usagef("serve %s needs a data directory: give --data DIR, FACTMILL_DATA, or data in the configuration file", b.Name)
		}
	}
	return nil
}

// ownsData says whether a service keeps something in the data directory.
func ownsData(b target.Builder) bool { return b.Name == "committer" || b.Name == "replica" }

// serve runs services until ctx is done. Each has a connection of its own.
func (c *cli) serve(ctx context.Context, chosen []target.Builder, http string) (err error) {
	log := c.logger(slog.LevelInfo)
	dir := ""
	if c.cfg.Get("data") != "" {
		if dir, err = target.Dir(c.cfg, c.getenv); err != nil {
			return usage(err)
		}
	}
	for _, b := range chosen {
		if !ownsData(b) {
			continue
		}
		lock, err := target.Acquire(dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
		if err := lock.Tell(target.Up{Command: "serve", URL: shareable(c.cfg.Get("nats.url")), Started: c.now().UTC().Format(timeFormat)}); err != nil {
			return err
		}
		break // one holder of the directory, whatever it runs
	}
	traces, err := c.cfg.Tracing(ctx, version, log)
	if err != nil {
		return usage(err)
	}
	defer app.CloseTracing(traces, log)
	reg := app.NewRegistry()
	calls := c.cfg.ModelCalls()
	var services, all []app.Service
	var names []string
	for i, b := range chosen {
		o := c.cfg.BusOptions(b.Name)
		o.Log, o.Tracer = log.With("service", b.Name), traces.Tracer(b.Name)
		conn, err := bus.Connect(ctx, o)
		if err != nil {
			return err
		}
		defer conn.Close()
		if i == 0 {
			if err := conn.Check(ctx, c.cfg.Table()); err != nil {
				return usage(err)
			}
		}
		svc, err := b.Build(c.cfg, dir, true, app.Deps{Conn: conn, Log: o.Log, Metrics: reg, ModelCalls: calls, Now: c.now}.WithDefaults())
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		services, names = append(services, svc), append(names, b.Name)
		all = append(all, svc, app.WatchConn(conn))
	}
	health, err := app.ListenHealth(http, reg, func() []app.Service { return services })
	if err != nil {
		return usage(err)
	}
	if health != nil {
		all = append(all, app.HealthService(health))
		log.Info("health", "address", health.Addr())
	}
	log.Info("serving", "services", strings.Join(names, ","), "version", version)
	err = app.RunAll(ctx, log, all...)
	log.Info("stopped")
	return err
}

// shareable is a server's address that may be shown and used by others: none when it holds a password.
func shareable(address string) string {
	for _, a := range strings.Split(address, ",") {
		if u, err := url.Parse(strings.TrimSpace(a)); err != nil || u.User != nil {
			return ""
		}
	}
	return address
}

const timeFormat = "2006-01-02T15:04:05Z07:00"
