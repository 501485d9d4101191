package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

const defaultListen = "127.0.0.1:4222"

const upLong = `Run everything in one process until interrupted: NATS with JetStream, the loader, the chunker, the extractor, the resolver,
the committer and the reviewer.

Clients connect with NATS at --listen, which is loopback unless you say otherwise. With --token (FACTMILL_NATS_TOKEN, --token-file)
they must bring it; with --tls-cert and --tls-key, or --tls, what they send is encrypted. --tls makes a certificate in the data
directory, which clients name with --tls-ca. Whoever is let in may do anything: for people with names and roles run a NATS server of
your own, see 'factmill keys' and 'factmill serve'. Commands that name neither --nats nor --data find an 'up' on the default data
directory by themselves.

The first interrupt finishes what can be finished and hands back the rest; a second one ends the process at once. Nothing that
was committed is lost either way.`

func (c *cli) upCmd() *cobra.Command {
	var listen, http string
	var encrypt bool
	cmd := &cobra.Command{
		SuggestFor: []string{"start", "server", "daemon"}, Use: "up", Short: "Run everything here until interrupted", Args: noArgs, Long: upLong,
		Example: `  factmill up
  factmill up --data ./graph --listen 127.0.0.1:4333 --http 127.0.0.1:8080
  factmill up --listen 0.0.0.0:4222 --token-file token --tls
  factmill up --extractor.mode rules --chunker.size 300`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if c.cfg.Source("nats.url") == "flag" {
				return usagef("up brings its own NATS: use serve to work at %s", bus.Redacted(c.cfg.Get("nats.url")))
			}
			if err := c.ownServer(); err != nil {
				return err
			}
			c.encrypt = encrypt
			s, err := c.start(ctx, cmd, listen, http)
			if err != nil {
				return atStop(ctx, err)
			}
			return c.stay(ctx, s)
		}),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "`address` for NATS clients; port 0 chooses a free one")
	cmd.Flags().StringVar(&http, "http", "", "`address` of /live, /ready and /metrics (default: http.listen, none)")
	cmd.Flags().BoolVar(&encrypt, "tls", false, "encrypt with a certificate made in the data directory, when --tls-cert names none")
	c.ownFlags(cmd, map[string]string{
		"data": "the data `directory` (default FACTMILL_DATA, $XDG_DATA_HOME/factmill, ~/.local/share/factmill)", "token": "`token` that clients must bring (better: FACTMILL_NATS_TOKEN, or --token-file)",
		"token-file": "`file` that holds the token that clients must bring", "tls-cert": "the server's certificate `file`; with --tls-key",
		"tls-key": "the `file` of its key",
	})
	return cmd
}

// start runs everything on the data directory and puts the settings of the call into the graph.
func (c *cli) start(ctx context.Context, cmd *cobra.Command, listen, http string) (*target.Session, error) {
	dir, err := target.Dir(c.cfg, c.getenv)
	if err != nil {
		return nil, usage(err)
	}
	o := c.target(cmd)
	o.Wait = target.WaitAll
	o.Listen, o.HTTP, o.Log = listen, http, c.logger(slog.LevelInfo)
	if http == "" {
		o.HTTP = c.cfg.Get("http.listen")
	}
	if err := checkListen(listen); err != nil {
		return nil, usage(err)
	}
	if err := bus.CheckPair(c.cfg.Get("nats.tls.cert"), c.cfg.Get("nats.tls.key")); err != nil {
		return nil, err
	}
	o.Token, o.Cert, o.Key, o.SelfSigned = c.cfg.Get("nats.token"), c.cfg.Get("nats.tls.cert"), c.cfg.Get("nats.tls.key"), c.encrypt
	if w := exposed(listen, o.Token != "", o.Cert != "" || o.SelfSigned); w != "" {
		c.say("WARNING: %s", w)
	}
	s, err := target.Start(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	if err := c.pin(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// exposed is what is wrong with listening there: empty on loopback, and with both, a token and TLS.
func exposed(listen string, token, encrypted bool) string {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host == "" || host == "localhost" || ip != nil && ip.IsLoopback() || token && encrypted {
		return ""
	}
	switch {
	case token:
		return "at " + listen + " the token and every document travel unencrypted: give --tls-cert and --tls-key, or --tls"
	case encrypted:
		return "at " + listen + " anybody who can connect may read and change every graph: give --token-file, or FACTMILL_NATS_TOKEN"
	default:
		return "at " + listen + " anybody who can connect may read and change every graph, unencrypted: give --token-file (or FACTMILL_NATS_TOKEN) and --tls, or listen on 127.0.0.1"
	}
}

// checkListen refuses what is no address.
func checkListen(listen string) error {
	_, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--listen is %q: it must be an address such as %s", listen, defaultListen)
	}
	return nil
}

// stay says what listens where, and waits for the interrupt.
func (c *cli) stay(ctx context.Context, s *target.Session) error {
	err := c.announce(s)
	if err == nil {
		select {
		case <-ctx.Done():
			c.say("stopping; interrupt again to end at once")
		case err = <-s.Failed():
		}
	}
	return errors.Join(err, s.Close())
}

func (c *cli) announce(s *target.Session) error {
	if c.json {
		return render.Value(c.out, map[string]string{"data": s.Dir, "nats": s.URL, "http": s.Health, "graph": c.graph})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Factmill is up.\n  NATS    %s\n", s.URL)
	if s.Health != "" {
		fmt.Fprintf(&b, "  health  http://%s/ready, /live, /metrics\n", s.Health)
	}
	if s.CA != "" {
		fmt.Fprintf(&b, "  TLS     clients: --tls-ca %s\n", s.CA)
	}
	fmt.Fprintf(&b, "  data    %s\n\nIn another terminal:\n", s.Dir)
	at := " --nats " + s.URL
	if s.CA != "" {
		at += " --tls-ca " + quoted(s.CA)
	}
	if c.cfg.Get("nats.token") != "" {
		at += " --token-file " + quoted(cmp.Or(c.cfg.Get("nats.token_file"), "FILE"))
	}
	if dir, err := target.DataDir(c.getenv); err == nil && dir == s.Dir || c.cfg.Source("data") == "environment" {
		at = "" // found by itself
	}
	if c.graph != events.DefaultGraph {
		at += " --graph " + c.graph
	}
	for _, line := range []string{
		"factmill ingest docs/" + at,
		"factmill stats" + at,
		"factmill review list" + at,
		"nats --server " + s.URL + natsFlags(s, c.cfg.Get("nats.token")) + ` req factmill.` + c.graph + `.ingest '{"key":"a","text":"Ada Lovelace worked for Acme Ltd."}'`,
	} {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	_, err := fmt.Fprint(c.out, b.String())
	return err
}

// natsFlags are what the nats command needs besides the address. The token stays unsaid.
func natsFlags(s *target.Session, token string) string {
	out := ""
	if s.CA != "" {
		out += " --tlsca " + s.CA
	}
	if token != "" {
		out += " --token …"
	}
	return out
}
