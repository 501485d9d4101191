package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/doctor"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/bus/rights"
)

func (c *cli) doctorCmd() *cobra.Command {
	var watch, old time.Duration
	cmd := &cobra.Command{
		SuggestFor: []string{"check", "health", "diagnose"}, Use: "doctor", Short: "Say what is wrong and how to mend it", Args: noArgs,
		Long: `Look at everything that runs, and say for each thing that is wrong what it is, why it matters, and the command that mends it:
NATS and its streams, consumers whose messages do not move, services that are missing, not ready or of another version, the store's
room, dead letters, quarantine, held jobs, what waits long for a person, vectors and their copy in Milvus, the model server, clocks,
and a server that listens to everybody. It changes nothing.

Exit codes: 0 nothing is wrong, 1 something is, 3 there was nothing to look at.`,
		Example: `  factmill doctor
  factmill doctor --nats nats://127.0.0.1:4222 --json
  factmill doctor --watch 30s`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.doctor(ctx, cmd, watch, old)
		}),
	}
	cmd.Flags().DurationVar(&watch, "watch", 3*time.Second, "how long what waits may stand still while it is looked at")
	cmd.Flags().DurationVar(&old, "old", 7*24*time.Hour, "from when what waits for a person is old")
	return cmd
}

func (c *cli) doctor(ctx context.Context, cmd *cobra.Command, watch, old time.Duration) (err error) {
	if watch <= 0 || old <= 0 {
		return usagef("--watch and --old must be more than nothing")
	}
	if err := c.checkPlace(); err != nil {
		return err
	}
	if f := c.nothing(); f != nil {
		return c.diagnosed(doctor.Report{Graph: c.graph, Findings: []doctor.Finding{*f}}, exitUnreachable)
	}
	o := c.target(cmd)
	o.Wait = target.WaitAll
	var greeting atomic.Pointer[string]
	o.Greeting = func(line string) { greeting.Store(&line) }
	s, err := target.Open(ctx, o)
	if err != nil {
		f := c.unopened(err)
		if f == nil || ctx.Err() != nil {
			return err
		}
		return c.diagnosed(doctor.Report{Graph: c.graph, Findings: []doctor.Finding{*f}}, exitUnreachable)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	at, as := c.at(), c.atAs
	if s.Embedded && c.given["data"] == "" {
		at = " --data " + quoted(s.Dir) + at
	}
	if c.cfg.Get("nats.nkey") == "" {
		as = func(string) string { return at }
	}
	do := doctor.Options{
		Conn: s.Conn, Embedded: s.Embedded, Graph: c.graph, Where: s.Where, Config: c.cfg, Environ: c.env, Services: namesOf(builders), Version: version, At: at, As: as,
		Needs: func(subject string, subscribe bool) string { return needed(rights.Needs(subject, subscribe)) },
		Watch: watch, Old: old, Now: c.now,
	}
	if line := greeting.Load(); line != nil {
		do.Greeting = *line
	}
	r := doctor.Examine(ctx, do)
	if err := ctx.Err(); err != nil {
		return err
	}
	code := exitDone
	if !r.OK {
		code = exitFailed
	}
	return c.diagnosed(r, code)
}

// nothing finds that there is nothing to look at: no server was named, and there is no data.
func (c *cli) nothing() *doctor.Finding {
	if c.cfg.Get("nats.url") != "" && c.cfg.Source("data") != "flag" {
		return nil
	}
	dir, err := target.Dir(c.cfg, c.getenv)
	if err != nil {
		return nil // Open says it
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &doctor.Finding{Code: "nothing_there", Severity: doctor.Error, What: "nothing runs here, and there is no data in " + dir, Why: "there is nothing to look at",
		Mend: "factmill up, or name running services: factmill doctor --nats URL"}
}

// unopened is the finding of a place that cannot be looked at; nil for errors that are none.
func (c *cli) unopened(err error) *doctor.Finding {
	var bad *bus.BadOption
	if errors.As(err, &bad) { // wrong usage
		return nil
	}
	f := &doctor.Finding{Severity: doctor.Error, What: err.Error(), Why: "nothing can be looked at"}
	var held *target.InUse
	switch {
	case errors.As(err, &held):
		f.Code, f.Why = "data_in_use", "one process at a time works on a data directory"
		f.Mend = "wait for it, or stop it"
		if held.By != nil && held.By.URL != "" {
			f.Mend = "factmill doctor --nats " + held.By.URL
			if held.By.CA != "" {
				f.Mend += " --tls-ca " + quoted(held.By.CA)
			}
			if held.By.Token != "" {
				f.Mend += " --token-file FILE"
			}
		}
	case errors.Is(err, bus.ErrRefused):
		f.Code, f.Why, f.Mend = "nats_refused", "without the right credentials nothing can be asked", "factmill doctor"+c.at()+", with the --nkey, --creds or --token-file that the server knows"
	case errors.Is(err, bus.ErrUnreachable), errors.Is(err, target.ErrNoAnswer):
		f.Code, f.Why, f.Mend = "nats_unreachable", "every service and every command works over NATS", "start it (factmill up, or nats-server -js), or name another with --nats"
	case errors.Is(err, embedded.ErrPortTaken), errors.Is(err, app.ErrConfig), errors.Is(err, context.Canceled), errors.Is(err, target.ErrAddress),
		errors.Is(err, target.ErrBothTargets):
		return nil
	default:
		f.Code, f.Mend = "cannot_open", "factmill restore from a backup, or the version that wrote it"
	}
	return f
}

// diagnosed prints a report and makes it the exit code.
func (c *cli) diagnosed(r doctor.Report, code int) error {
	for _, list := range []*[]string{&r.Checked, &r.Unchecked} {
		if *list == nil {
			*list = []string{}
		}
	}
	show := func() error { return render.Doctor(c.out, r) }
	if c.json {
		show = func() error { return render.Value(c.out, r) }
	}
	err := show()
	if err == nil && code != exitDone {
		err = &coded{code: code}
	}
	return err
}
