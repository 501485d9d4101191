package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/events"
)

// short names of configuration values that people type often.
var short = []struct{ flag, key, help string }{
	{"nats", "nats.url", "NATS `URL` of running services"},
	{"data", "data", "work embedded on this data `directory`"},
	{"creds", "nats.creds", "NATS credentials `file`"},
	{"nkey", "nats.nkey", "NATS nkey seed `file`"},
	{"user", "nats.user", "NATS user `name`"},
	{"password", "nats.password", "NATS password (better: FACTMILL_NATS_PASSWORD)"},
	{"token", "nats.token", "NATS token (better: FACTMILL_NATS_TOKEN, or --token-file)"},
	{"token-file", "nats.token_file", "`file` that holds the NATS token"},
	{"tls-ca", "nats.tls.ca", "`file` of the authority that signed the server's certificate"},
	{"tls-cert", "nats.tls.cert", "client certificate `file`"},
	{"tls-key", "nats.tls.key", "client key `file`"},
}

func (c *cli) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVarP(&c.graph, "graph", "g", events.DefaultGraph, "graph `name`")
	f.BoolVar(&c.json, "json", false, "print the reply as JSON, exactly")
	f.StringVar(&c.config, "config", "", "YAML `file` with configuration (also FACTMILL_CONFIG)")
	f.CountVarP(&c.verbose, "verbose", "v", "log warnings on stderr; twice: what the services do, too")
	f.DurationVar(&c.timeout, "timeout", 30*time.Second, "how long one request may take")
	f.BoolVar(&c.replica, "replica", false, "read from a read replica: it may be behind, see factmill stats --replica")
	for _, s := range short {
		c.keyFlag(f, s.flag, s.key, s.help)
	}
	// Every configuration value is a flag of its own name; they are listed by `factmill config`, not in every help text.
	for _, k := range app.Keys {
		if f.Lookup(k.Name) == nil {
			c.keyFlag(f, k.Name, k.Name, k.Help)
			f.Lookup(k.Name).Hidden = true
		}
	}
}

// keyFlag is a flag that sets a configuration value.
func (c *cli) keyFlag(f *pflag.FlagSet, flag, key, help string) {
	c.keys[flag] = key
	f.String(flag, "", help)
}

// ownFlags makes flags of the connection a command's own: its help shows them among its flags, with what they mean there. What is not among them
// the command refuses, and its help leaves out.
func (c *cli) ownFlags(cmd *cobra.Command, help map[string]string) {
	f := cmd.Flags()
	for _, s := range short {
		text, ok := help[s.flag]
		if ok && text == "" {
			text = s.help
		}
		c.keyFlag(f, s.flag, s.key, text)
		f.Lookup(s.flag).Hidden = !ok
	}
}

// load reads the configuration: defaults, file, environment, flags.
func (c *cli) load(cmd *cobra.Command) error {
	set := map[string]string{}
	by := map[string]string{}
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		key, ok := c.keys[f.Name]
		if !ok || err != nil {
			return
		}
		if other, twice := by[key]; twice && set[key] != f.Value.String() {
			err = fmt.Errorf("--%s and --%s say different things", other, f.Name)
		}
		set[key], by[key] = f.Value.String(), f.Name
	})
	c.given = by
	if err != nil {
		return err
	}
	file := c.config
	if file == "" {
		file = c.getenv("FACTMILL_CONFIG")
	}
	if c.cfg, err = app.LoadConfig(file, c.env, set); err != nil {
		return err
	}
	for _, w := range app.UnknownEnv(c.env) {
		c.say("warning: %s", w)
	}
	return nil
}

func (c *cli) getenv(name string) string {
	for i := len(c.env) - 1; i >= 0; i-- {
		if v, ok := cutEnv(c.env[i], name); ok {
			return v
		}
	}
	return ""
}

func cutEnv(kv, name string) (string, bool) {
	if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
		return kv[len(name)+1:], true
	}
	return "", false
}

// target says where the command works.
func (c *cli) target(cmd *cobra.Command) target.Options {
	return target.Options{
		Config: c.cfg, Graph: c.graph, Command: cmd.Name(), Getenv: c.getenv, Log: c.logger(slog.LevelError),
		Now: c.now, Version: version, Services: builders, Timeout: c.timeout, Replica: c.replica, Say: func(s string) { c.say("%s", s) },
	}
}

// logger is as configured; where nobody chose a level it begins at quiet, and one level lower for each -v: a command's own words
// are enough, and what the services retry at a start is no news.
func (c *cli) logger(quiet slog.Level) *slog.Logger {
	if c.cfg.Source("log.level") != "default" {
		return c.cfg.Logger(c.err)
	}
	o := &slog.HandlerOptions{Level: quiet - slog.Level(4*c.verbose)}
	if c.cfg.Get("log.format") == "json" {
		return slog.New(slog.NewJSONHandler(c.err, o))
	}
	return slog.New(slog.NewTextHandler(c.err, o))
}
