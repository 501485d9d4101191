package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/bus"
)

func (c *cli) provisionCmd() *cobra.Command {
	var apply bool
	options := bus.TableOptions{}
	cmd := &cobra.Command{
		Use: "provision", Short: "Plan and make the streams and consumers", Args: noArgs,
		Long: `Compare the streams, consumers and buckets that Factmill uses with what the NATS server has, and print the plan: what would be
made or changed, field by field. --apply carries it out. Services refuse to start while what they rely on differs.

It works where every command does, and says where that was: at --nats URL, in the account of its user (with the keys of 'factmill keys' that
is --nkey seeds/provision); without, in the data directory, whose streams 'factmill up' keeps right by itself.`,
		Example: `  factmill provision --nats nats://127.0.0.1:4222
  factmill provision --nats nats://127.0.0.1:4222 --replicas 3 --apply`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			options.AckWait = c.cfg.Duration("bus.ack_wait")
			if !cmd.Flags().Changed("replicas") {
				options.Replicas = c.cfg.Int("bus.replicas")
			}
			if options.Replicas < 1 || options.Replicas > 5 {
				return usagef("--replicas is %d: 1 to 5", options.Replicas)
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				steps, err := bus.Plan(ctx, s.Conn.JS, bus.NewTable(options))
				if err != nil {
					return err
				}
				if apply {
					if err := bus.Apply(ctx, s.Conn.JS, steps); err != nil {
						return err
					}
				}
				return c.showPlan(steps, apply, siteOf(ctx, s))
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&apply, "apply", false, "carry the plan out")
	f.IntVar(&options.Replicas, "replicas", 0, "copies of every stream and bucket; a cluster of three servers wants 3 (default: bus.replicas, 1)")
	return cmd
}

// site is whose streams a plan is about.
type site struct {
	Where   string `json:"where"`
	Account string `json:"account,omitempty"`
	Domain  string `json:"domain,omitempty"`
}

// siteOf asks the server for the account and the JetStream domain; one that does not tell is no reason to fail.
func siteOf(ctx context.Context, s *target.Session) site {
	at := site{Where: s.Where}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var user struct {
		Data struct {
			Account string `json:"account"`
		} `json:"data"`
	}
	if s.Conn.Request(ctx, bus.UserInfoSubject, nil, &user) == nil {
		at.Account = user.Data.Account
	}
	var js struct {
		Domain string `json:"domain"`
	}
	if s.Conn.Request(ctx, bus.AccountInfoSubject, nil, &js) == nil {
		at.Domain = js.Domain
	}
	return at
}

// String is the site in words.
func (p site) String() string {
	out := "at " + render.Line(p.Where)
	if p.Account != "" {
		out += ", account " + render.Line(p.Account)
	}
	if p.Domain != "" {
		out += ", domain " + render.Line(p.Domain)
	}
	return out
}

func (c *cli) showPlan(steps []bus.Step, applied bool, at site) error {
	if c.json {
		return render.Value(c.out, map[string]any{"steps": steps, "applied": applied, "where": at.Where, "account": at.Account, "domain": at.Domain})
	}
	t := render.NewTable("ACTION", "KIND", "NAME", "DIFFERENCE")
	todo := 0
	for _, s := range steps {
		t.Row(s.Action, s.Kind, s.Name, strings.Join(s.Diff, ", "))
		if s.Action != bus.ActionOK {
			todo++
		}
	}
	if err := t.Write(c.out); err != nil {
		return err
	}
	last := render.Count(todo, "difference", "differences")
	switch {
	case todo == 0:
		last = "nothing to do"
	case applied:
		last += " put right"
	default:
		last += "; factmill provision --apply" + c.at() + " puts them right"
	}
	_, err := fmt.Fprintf(c.out, "%s (%s)\n", last, at)
	return err
}
