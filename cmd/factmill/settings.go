package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor"
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
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				if err := c.digest(ctx, s, req.Settings); err != nil {
					return err
				}
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
	if err := c.digest(ctx, s, pinned); err != nil {
		return err
	}
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

// digestLimit is how long a model server may take to say what it has.
const digestLimit = 3 * time.Second

// digest adds the digest of the graph's model to settings that are about to be put, so that another model under the same name is noticed.
// It asks the server of ollama.url where that is this process's own or was given; one that does not answer is no reason to fail.
func (c *cli) digest(ctx context.Context, s *target.Session, put map[string]string) error {
	if _, given := put["ollama.model_digest"]; given || !s.Embedded && c.cfg.Source("ollama.url") == "default" {
		return nil
	}
	raw, err := s.Ask(ctx, "settings.get", nil)
	if err != nil {
		return fmt.Errorf("pipeline settings: %w", err)
	}
	r, err := decode[api.SettingsReply](raw)
	if err != nil {
		return err
	}
	value := func(name string) string {
		if v, ok := put[name]; ok {
			return strings.TrimSpace(v)
		}
		return r.Settings[name]
	}
	if name := value("ollama.model"); name != "" && value("extractor.mode") != extractor.ModeRules {
		ctx, cancel := context.WithTimeout(ctx, digestLimit)
		defer cancel()
		digest, err := extractor.ModelDigest(ctx, c.cfg.Get("ollama.url"), name)
		if err != nil {
			c.say("%v; ollama.model_digest is not put", err)
			return nil
		}
		if digest != r.Settings["ollama.model_digest"] || name != r.Settings["ollama.model"] {
			put["ollama.model_digest"] = digest
		}
	}
	return nil
}

// say tells something on stderr. That it cannot be told is no reason to fail.
func (c *cli) say(format string, args ...any) {
	_, _ = fmt.Fprintln(c.err, render.Line(fmt.Sprintf(format, args...)))
}
