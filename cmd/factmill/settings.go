package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/settings"
)

func (c *cli) settingsCmd() *cobra.Command {
	return parent("settings", "Show and change the graph's pipeline settings", `Pipeline settings (chunker, extractor, resolver, embedder) belong to the graph and ride on every event of a job.`,
		c.settingsGetCmd(), c.settingsPutCmd())
}

func showSettings(w io.Writer, r api.SettingsReply) error {
	t := render.NewTable("SETTING", "VALUE")
	for _, n := range render.Keys(r.Settings) {
		t.Row(n, r.Settings[n])
	}
	return t.Write(w)
}

func (c *cli) settingsGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Show the graph's settings", Args: noArgs, Long: "Show every pipeline setting of the graph.",
		Example: "  factmill settings get",
		RunE:    ask(c, "settings.get", func(*cobra.Command, []string) (any, error) { return struct{}{}, nil }, showSettings),
	}
}

func (c *cli) settingsPutCmd() *cobra.Command {
	return &cobra.Command{
		Use: "put NAME=VALUE…", Short: "Change settings of the graph", Args: cobra.MinimumNArgs(1),
		Long: `Change pipeline settings of the graph. Jobs that run keep theirs; later ones use the new ones, and documents whose
fingerprint a change moves are read again when they are ingested next.

Settings are: ` + strings.Join(settings.Names(), ", ") + ".",
		Example: "  factmill settings put chunker.size=300\n  factmill settings put resolver.top_k=20 extractor.floor=0.4",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			req := api.SettingsPut{Settings: map[string]string{}, Actor: c.actor()}
			for _, a := range args {
				name, v, ok := strings.Cut(a, "=")
				if !ok {
					return usagef("%q is not name=value", a)
				}
				if !settings.Known(name) {
					return usagef("unknown setting %q; settings are: %s", name, strings.Join(settings.Names(), ", "))
				}
				if _, twice := req.Settings[name]; twice {
					return usagef("%s stands twice", name)
				}
				req.Settings[name] = v
			}
			if mode, ok := req.Settings[modeSetting]; ok {
				if err := checkMode(strings.TrimSpace(mode)); err != nil {
					return err
				}
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "settings.put", req)
				if err != nil {
					return err
				}
				return reply(c, raw, func(w io.Writer, r api.SettingsReply) error {
					if len(r.Changed) == 0 {
						_, err := fmt.Fprintf(w, "nothing changed: revision %d\n", r.Revision)
						return err
					}
					for _, x := range r.Changed {
						if _, err := fmt.Fprintln(w, render.Line(x)); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}),
	}
}

// pin puts the pipeline settings that file, environment and flags chose into the graph, and says what changed.
func (c *cli) pin(ctx context.Context, s *target.Session) error {
	pinned := c.cfg.Pinned()
	if len(pinned) == 0 {
		return nil
	}
	raw, err := s.Ask(ctx, "settings.put", api.SettingsPut{Settings: pinned, Actor: c.actor()})
	if err != nil {
		return fmt.Errorf("pipeline settings: %w", err)
	}
	r, err := decode[api.SettingsReply](raw)
	if err != nil {
		return err
	}
	for _, x := range r.Changed {
		c.say("graph %s: setting %s", c.graph, x)
	}
	return nil
}

// say tells something on stderr. That it cannot be told is no reason to fail.
func (c *cli) say(format string, args ...any) {
	_, _ = fmt.Fprintln(c.err, render.Line(fmt.Sprintf(format, args...)))
}
