package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/agent"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/researcher"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/llm"
)

// asking are the flags of ask.
type asking struct {
	within  api.Within
	model   string
	noModel bool
	limits  researcher.Limits
}

func (c *cli) askCmd() *cobra.Command {
	var f asking
	cmd := &cobra.Command{
		Use: "ask QUESTION", Short: "Ask in words, and get an answer whose citations are checked", Args: cobra.MinimumNArgs(1),
		Long: `Ask a question in words. A model behind Ollama (ollama.url; --model, else ollama.model) looks things up in the graph, a step at a time,
and answers from what it found. Every sentence that is shown has citations that were checked against the graph: the evidence exists, it is
current, and the quote stands in its text. What the model said without that is listed as not supported, and is no part of the answer. That
a quote entails its sentence is not checked: read it.

Without a model the evidence is the answer: what a search for the question finds, best first, with document, offsets and quote.
--max-steps, --max-tokens and --max-time bound what the model may do; --scope, --document and --label what it may see.`,
		Example: "  factmill ask 'Who directs the Norrby observatory?'\n  factmill ask 'Which telescopes did Acme build?' --model qwen3:4b --max-time 10m\n" +
			"  factmill ask 'Wer leitet das Institut?' --scope public --json\n  factmill ask 'telescope mirror' --no-model",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			question := strings.Join(args, " ")
			if err := f.check(question); err != nil {
				return err
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error { return c.research(ctx, s, f, question) })
		}),
	}
	p := cmd.Flags()
	p.StringArrayVar(&f.within.Scope, "scope", nil, "see only documents with this scope `label`; repeats")
	p.StringArrayVar(&f.within.Documents, "document", nil, "see only the document with this `key`; repeats")
	p.StringArrayVar(&f.within.Labels, "label", nil, "see only entities of this `type` and relations between such; repeats")
	p.StringVar(&f.model, "model", "", "`name` of the model (default: ollama.model of the configuration, else of the graph)")
	p.BoolVar(&f.noModel, "no-model", false, "ask no model: show the evidence")
	p.IntVar(&f.limits.Steps, "max-steps", researcher.DefaultSteps, "how many steps the model may take")
	p.IntVar(&f.limits.Tokens, "max-tokens", researcher.DefaultTokens, "how many tokens prompts and replies may have together")
	p.DurationVar(&f.limits.Time, "max-time", researcher.DefaultTime, "how long the research may take")
	return cmd
}

func (f *asking) check(question string) error {
	switch l := f.limits; {
	case slices.Contains(trimmed(slices.Concat(f.within.Scope, f.within.Documents, f.within.Labels)), ""):
		return usagef("--scope, --document or --label is empty: give a value, or leave the flag out to see everything")
	case max(len(f.within.Scope), len(f.within.Documents), len(f.within.Labels)) > api.MaxWithin:
		return usagef("--scope, --document and --label have at most %d values each", api.MaxWithin)
	case strings.TrimSpace(question) == "":
		return usagef("give a question")
	case len(question) > researcher.MaxQuestion:
		return usagef("the question has %d bytes: at most %d", len(question), researcher.MaxQuestion)
	case f.noModel && f.model != "":
		return usagef("--no-model and --model say different things: give one")
	case l.Steps < 1 || l.Steps > researcher.MaxSteps:
		return usagef("--max-steps is %d: it must be between 1 and %d", l.Steps, researcher.MaxSteps)
	case l.Tokens < researcher.MinTokens || l.Tokens > researcher.MaxTokens:
		return usagef("--max-tokens is %d: it must be between %d and %d", l.Tokens, researcher.MinTokens, researcher.MaxTokens)
	case l.Time < researcher.MinTime:
		return usagef("--max-time is %s: it must be at least %s", l.Time, researcher.MinTime)
	}
	return nil
}

func trimmed(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

func (c *cli) research(ctx context.Context, s *target.Session, f asking, question string) error {
	r := &researcher.Researcher{
		Desk: researcher.NewDesk(s, agent.New(s, agent.Options{Within: &f.within}), &f.within), Limits: f.limits, Now: c.now,
		Say: func(line string) { c.say("%s", line) },
	}
	var err error
	if r.Model, r.NoModel, err = c.askedModel(ctx, s, f); err != nil {
		return err
	}
	if r.Model != "" {
		client, err := llm.NewClient(c.cfg.Get("ollama.url"), c.cfg.Duration("ollama.timeout"))
		if err != nil {
			return usage(err)
		}
		defer client.Close()
		r.Caller = &llm.Caller{Client: client, Slots: llm.NewSlots(1, nil), Log: c.logger(slog.LevelError)}
	}
	answer, err := r.Ask(ctx, question)
	if err != nil {
		return err
	}
	if f.within.Any() {
		answer.Within = &f.within
	}
	if c.json {
		return render.Value(c.out, answer)
	}
	return render.Answer(c.out, answer)
}

// askedModel is the model to ask, or why there is none: the flag's, else the configuration's, else the graph's.
func (c *cli) askedModel(ctx context.Context, s *target.Session, f asking) (model, why string, err error) {
	if f.noModel {
		return "", "none was to be asked (--no-model)", nil
	}
	if model = cmp.Or(strings.TrimSpace(f.model), strings.TrimSpace(c.cfg.Pinned()["ollama.model"])); model != "" {
		return model, "", nil
	}
	raw, err := s.Ask(ctx, "settings.get", nil)
	if err != nil {
		return "", "", fmt.Errorf("which model the graph has: %w", err)
	}
	r, err := decode[api.SettingsReply](raw)
	if err != nil {
		return "", "", err
	}
	if model = r.Settings["ollama.model"]; model == "" {
		why = "none is configured: name one with --model NAME or ollama.model (ollama.url is " + bus.Redacted(c.cfg.Get("ollama.url")) + ")"
	}
	return model, why, nil
}
