package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/agent"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/cmd/factmill/internal/toolserver"
	"github.com/factmill/factmill/pkg/api"
)

const mcpLong = `Offer the graph to an agent over the Model Context Protocol: tools that search, describe, explore and read, and that give evidence to cite
and check citations. All of them only read. On standard input and output (for a client that starts the command itself), or with --http over streamable HTTP at
http://ADDRESS` + toolserver.Path + `. Nothing but the protocol goes to standard output; the log goes to standard error.

--scope, --document and --label fix what the agent may see, and are enforced where the query runs: what is outside is neither found nor shown nor counted, and is
answered like what does not exist. Several values of one kind add up; several kinds all hold. With --label alone no running text is shown, only the quotes of facts.

` + agent.CandidatesVariable + `=true offers search_unreviewed_candidates too, unless the agent is limited.

HTTP listens on loopback; elsewhere it needs --http-token-file, whose token clients send as a bearer token, and a proxy in front that encrypts.`

func (c *cli) mcpCmd() *cobra.Command {
	var w api.Within
	var o mcpOptions
	cmd := &cobra.Command{
		Use: "mcp", Short: "Offer the graph to an agent (Model Context Protocol)", Args: noArgs, Long: mcpLong, SuggestFor: []string{"agent", "agents", "tools"},
		Example: `  factmill mcp --data ./graph
  factmill mcp --nats nats://127.0.0.1:4222 --scope public --label Person
  factmill mcp --http 127.0.0.1:8090 --document handbook.md`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			for _, f := range []struct {
				name string
				list []string
			}{{"scope", w.Scope}, {"document", w.Documents}, {"label", w.Labels}} {
				for _, v := range f.list {
					if strings.TrimSpace(v) == "" {
						return usagef("--%s is empty: give a value, or leave the flag out for an agent that may see everything", f.name)
					}
				}
				if len(f.list) > api.MaxWithin {
					return usagef("--%s has %d values: at most %d", f.name, len(f.list), api.MaxWithin)
				}
			}
			candidates, err := agent.CandidatesAllowed(c.getenv)
			if err != nil {
				return usage(err)
			}
			if err := o.check(); err != nil {
				return usage(err)
			}
			wait := target.WaitAnswers
			if candidates {
				wait = target.WaitReview
			}
			return c.open(ctx, cmd, wait, func(ctx context.Context, s *target.Session) error {
				kit := agent.New(s, agent.Options{Within: &w, Candidates: candidates, ResultBytes: o.bytes})
				return c.serveTools(ctx, kit, o)
			})
		}),
	}
	f := cmd.Flags()
	f.StringArrayVar(&w.Scope, "scope", nil, "only documents with this scope `label`; repeats")
	f.StringArrayVar(&w.Documents, "document", nil, "only the document with this `key`; repeats")
	f.StringArrayVar(&w.Labels, "label", nil, "only entities of this `type` or below it, and relations between such; repeats")
	f.StringVar(&o.http, "http", "", "serve streamable HTTP at this `address` instead, such as 127.0.0.1:8090")
	f.StringVar(&o.tokenFile, "http-token-file", "", "`file` that holds the token which HTTP clients must send")
	f.IntVar(&o.bytes, "result-bytes", agent.DefaultResultBytes, "about how long the text of a result may be; what is left follows with a cursor")
	return cmd
}

type mcpOptions struct {
	http, tokenFile, token string
	bytes                  int
}

const maxToken = 4096

func (o *mcpOptions) check() error {
	if o.bytes < agent.MinResultBytes || o.bytes > agent.MaxResultBytes {
		return fmt.Errorf("--result-bytes is %d: it must be between %d and %d", o.bytes, agent.MinResultBytes, agent.MaxResultBytes)
	}
	if o.http == "" {
		if o.tokenFile != "" {
			return errors.New("--http-token-file goes with --http")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(o.http); err != nil {
		return fmt.Errorf("--http is %q: it must be an address such as 127.0.0.1:8090", o.http)
	}
	if o.tokenFile != "" {
		b, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return fmt.Errorf("--http-token-file: %w", err)
		}
		if o.token = strings.TrimSpace(string(b)); o.token == "" || len(o.token) > maxToken {
			return fmt.Errorf("--http-token-file: %s must hold a token of 1 to %d bytes", o.tokenFile, maxToken)
		}
	}
	if o.token == "" && !toolserver.Loopback(o.http) {
		return fmt.Errorf("at %s anybody who can connect may read the graph: give --http-token-file, or listen on 127.0.0.1", o.http)
	}
	return nil
}

// serveTools serves until the client goes, or the interrupt.
func (c *cli) serveTools(ctx context.Context, kit *agent.Kit, o mcpOptions) error {
	log := c.logger(slog.LevelWarn)
	s := toolserver.New(ctx, kit, version, log)
	if o.http == "" {
		return toolserver.Stdio(ctx, s, c.in, c.out)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.http)
	if err != nil {
		return fmt.Errorf("%w: --http: %w", target.ErrAddress, err)
	}
	if !toolserver.Loopback(o.http) {
		c.say("WARNING: at %s the token and every answer travel unencrypted: put a proxy with TLS in front", o.http)
	}
	c.say("tools at http://%s%s, until interrupted", l.Addr(), toolserver.Path)
	return toolserver.HTTP(ctx, s, l, o.token, log)
}
