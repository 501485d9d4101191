package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/events"
)

// cli is one call of the program: its streams, its flags and its configuration.
type cli struct {
	in       io.Reader
	out, err io.Writer
	env      []string
	now      func() time.Time

	graph   string
	config  string
	json    bool
	timeout time.Duration
	replica bool
	// keys holds the flags of configuration values: by flag name the key it sets.
	keys map[string]string
	// given are the flags of the call that set configuration values: by key the flag's name.
	given map[string]string

	verbose int
	encrypt bool // up makes its certificate

	cfg *app.Config
	// ran says that a command's own code was reached: errors before it are wrong usage.
	ran bool
}

// run is the program: it returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer, env []string) int {
	c := &cli{in: in, out: out, err: errOut, env: env, now: time.Now, keys: map[string]string{}}
	ctx, stop := interruptible(errOut)
	defer stop()
	root := c.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	path := cmd.CommandPath()
	if cmd.Name() == "help" {
		path = root.Name()
	}
	return c.report(ctx, path, args, err)
}

// interruptible returns a context that the first interrupt ends; the second one ends the process.
func interruptible(errOut io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, ok := <-signals; !ok {
			return
		}
		cancel()
		if _, ok := <-signals; ok {
			_, _ = fmt.Fprintln(errOut, "factmill: stopped at once; what was committed is safe, the rest goes on where its services run, or when they run next")
			os.Exit(130)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel()
	}
}

const rootLong = `Factmill turns documents into a knowledge graph whose every fact shows the sentence that says it.

Where a command works:
  --nats URL    at running services
  --data DIR    on that directory, with everything embedded, while the command runs
  neither       at the 'factmill up' of the default data directory (FACTMILL_DATA, $XDG_DATA_HOME/factmill,
                ~/.local/share/factmill) when one runs, else embedded there

Configuration comes from a YAML file (--config), FACTMILL_... variables and flags, in rising order; 'factmill config' shows
the effective one with all names. Every name is a flag too: --chunker.size 300, --extractor.mode rules.

Exit codes: 0 done, 1 the work failed, 2 wrong usage or configuration, 3 a needed part could not be reached,
4 done, but some documents were skipped, quarantined or failed.`

const rootExample = `  factmill demo                                   the sample corpus, end to end
  factmill run docs/ --schema schema.yaml         one shot: read, print what was found, keep the graph
  factmill up                                     everything, until interrupted; then in another terminal:
  factmill ingest docs/
  factmill entity --type Person 'Ada Lovelace'`

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use: "factmill", Short: "Documents in, reviewed facts out", Long: rootLong, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true, Version: version, SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error { return noSuchCommand(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate(versionLine())
	root.SetHelpCommand(helpCmd())
	c.globalFlags(root)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "feed", Title: "Feed the graph:"},
		&cobra.Group{ID: "ask", Title: "Ask the graph:"}, &cobra.Group{ID: "rule", Title: "Rules and review:"},
		&cobra.Group{ID: "care", Title: "Look after it:"})
	for group, commands := range map[string][]*cobra.Command{
		"run":  {c.upCmd(), c.demoCmd(), c.runCmd(), c.serveCmd()},
		"feed": {c.ingestCmd(), c.updateCmd(), c.deleteCmd(), c.jobsCmd()},
		"ask": {c.statsCmd(), c.entityCmd(), c.neighborsCmd(), c.pathCmd(), c.evidenceCmd(), c.documentCmd(), c.searchCmd(), c.askCmd(), c.mcpCmd(),
			c.documentsCmd(), c.entitiesCmd(), c.factsCmd(), c.exportCmd()},
		"rule": {c.schemaCmd(), c.extractCmd(), c.settingsCmd(), c.registryCmd(), c.reviewCmd()},
		"care": {c.doctorCmd(), c.deadLettersCmd(), c.provisionCmd(), c.keysCmd(), c.verifyCmd(), c.backupCmd(), c.restoreCmd(), c.reembedCmd(), c.configCmd(), c.versionCmd()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	return root
}

// helpCmd is cobra's help command, but for a command that is not there: that is wrong usage.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show what a command does and takes",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = noSuchCommand(found, rest)
			}
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// noArgs is for commands without arguments; cobra would call the first one an unknown command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s accepts no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// noSuchCommand is for commands that only hold others: cobra would print their help and succeed.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if s := suggestion(cmd, args[0]); s != "" {
		hint = fmt.Sprintf(", did you mean %q?", s)
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// suggestion is the command that was probably meant: the one that other programs call so, else the one that is spelled most alike.
func suggestion(cmd *cobra.Command, word string) string {
	for _, x := range cmd.Commands() {
		if slices.Contains(x.SuggestFor, strings.ToLower(word)) {
			return x.Name()
		}
	}
	if s := cmd.SuggestionsFor(word); len(s) > 0 {
		return s[0]
	}
	return ""
}

// parent is a command that only holds others. Without one of them it is wrong usage.
func parent(use, short, long string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("%s needs one of: %s", cmd.CommandPath(), strings.Join(names(children), ", "))
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(children...)
	return cmd
}

func names(cmds []*cobra.Command) []string {
	var out []string
	for _, c := range cmds {
		out = append(out, c.Name())
	}
	return out
}

// do makes a command's run function: it checks the graph's name and loads the configuration first.
func (c *cli) do(f func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c.ran = true
		if err := events.CheckGraph(c.graph); err != nil {
			return usage(err)
		}
		if err := c.load(cmd); err != nil {
			return c.explained(usage(err))
		}
		if err := c.checkCall(cmd); err != nil {
			return usage(err)
		}
		return f(cmd.Context(), cmd, args)
	}
}

// with runs f, which reads, at the target that flags and configuration name.
func (c *cli) with(ctx context.Context, cmd *cobra.Command, f func(ctx context.Context, s *target.Session) error) error {
	return c.open(ctx, cmd, target.WaitAnswers, f)
}

// open runs f at the target that flags and configuration name, once what it waits for is there.
func (c *cli) open(ctx context.Context, cmd *cobra.Command, wait target.Wait, f func(ctx context.Context, s *target.Session) error) error {
	if err := c.checkPlace(); err != nil {
		return err
	}
	o := c.target(cmd)
	o.Wait = wait
	s, err := target.Open(ctx, o)
	if err != nil {
		return err
	}
	return within(ctx, s, f)
}

// within runs f at s and closes s. f's context ends when the services of s cannot go on, and when NATS refuses what f does.
func within(ctx context.Context, s *target.Session, f func(ctx context.Context, s *target.Session) error) (err error) {
	ctx, allowed := s.Conn.WhileAllAllowed(ctx)
	defer allowed()
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case e := <-s.Failed():
			cancel(e)
		case <-ctx.Done():
		}
	}()
	defer func() {
		cause := context.Cause(ctx)
		cancel(nil)
		<-watched
		if denied := refusal(cause); err != nil && denied != nil && refusal(err) == nil {
			err = denied
		} else if err != nil && denied == nil && cause != nil && !errors.Is(cause, context.Canceled) {
			err = errors.Join(err, cause)
		}
		err = errors.Join(err, s.Close())
	}()
	return f(ctx, s)
}

// ask runs one request and prints its reply: exactly with --json, else as show does.
func ask[T any](c *cli, verb string, request func(cmd *cobra.Command, args []string) (any, error),
	show func(w io.Writer, reply T) error) func(*cobra.Command, []string) error {
	return c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		req, err := request(cmd, args)
		if err != nil {
			return usage(err)
		}
		wait := target.WaitAnswers
		if strings.HasPrefix(verb, "review.") || verb == "query.candidates" { // which the review desk answers
			wait = target.WaitReview
		}
		return c.open(ctx, cmd, wait, func(ctx context.Context, s *target.Session) error {
			raw, err := s.Ask(ctx, verb, req)
			if err != nil {
				return err
			}
			return reply(c, raw, show)
		})
	})
}
