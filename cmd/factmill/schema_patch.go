package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/patch"
)

// applied is what schema apply-patch did, for --json.
type applied struct {
	File     string   `json:"file"`
	PatchID  string   `json:"patch_id"`
	Changed  bool     `json:"changed"`
	Before   string   `json:"version_before"`
	Version  string   `json:"version"`
	Diff     string   `json:"diff"`
	Warnings []string `json:"warnings"`
}

func (c *cli) schemaApplyCmd() *cobra.Command {
	var file string
	var yes bool
	cmd := &cobra.Command{
		Use: "apply-patch PATCH --schema FILE [--yes]", Short: "Write a patch into a schema file", Args: cobra.ExactArgs(1),
		Long: `Write what a patch adds into a schema file, in the file's own style: comments, order and everything else stay as they are, and the
version goes up. The change is shown first, and made once you agree (--yes agrees beforehand). A patch that does not fit the file is
refused with every reason; one that the file holds already changes nothing. No service is asked: schema put makes the file active.`,
		Example: "  factmill schema apply-patch patch.json --schema schema.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ran = true
			if file == "" {
				return usagef("say which file to change: --schema FILE")
			}
			return c.applyPatch(cmd.Context(), args[0], file, yes)
		},
	}
	cmd.Flags().StringVar(&file, "schema", "", "the schema `file` to change, YAML or JSON")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (c *cli) applyPatch(ctx context.Context, from, file string, yes bool) error {
	p, err := readPatch(from)
	if err != nil {
		return err
	}
	data, err := readSmall(file)
	if err != nil {
		return usage(fmt.Errorf("schema: %w", err))
	}
	r, err := patch.Apply(data, filepath.ToSlash(file), func(p string) ([]byte, error) { return readSmall(filepath.FromSlash(p)) }, p)
	var refused *patch.Refused
	if errors.As(err, &refused) {
		return &coded{code: exitUsage, err: err, details: map[string]any{"problems": refused.Problems}}
	}
	if err != nil {
		return err
	}
	done := applied{file, p.PatchID, r.Changed, r.Before.Version(), r.Version, r.Diff, append([]string{}, r.Warnings...)}
	for _, w := range r.Warnings {
		if _, err := fmt.Fprintln(c.err, "warning: "+render.Line(w)); err != nil {
			return err
		}
	}
	if !r.Changed {
		return c.sayApplied(done, p, from)
	}
	if !c.json {
		if err := c.showChange(r.Diff); err != nil {
			return err
		}
	}
	if !yes {
		if err := c.agree(ctx, file); err != nil {
			return err
		}
	}
	if now, err := readSmall(file); err != nil || !bytes.Equal(now, data) {
		return failf("%s was changed meanwhile: nothing was written, run the command again", render.Line(file))
	}
	if err := replaceFile(file, r.Data, 0o644); err != nil {
		return err
	}
	return c.sayApplied(done, p, from)
}

// readPatch reads a patch file.
func readPatch(file string) (*patch.Patch, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usage(fmt.Errorf("patch: %w", err))
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, patch.MaxBytes+1))
	if err != nil {
		return nil, usage(fmt.Errorf("patch: %w", err))
	}
	p, err := patch.Parse(b)
	if err != nil {
		return nil, usagef("%s: %w (factmill review patch writes one)", render.Line(file), err)
	}
	return p, nil
}

// showChange prints a unified diff, in colours on a terminal.
func (c *cli) showChange(diff string) error {
	colour := render.Terminal(c.out) && c.getenv("NO_COLOR") == ""
	for _, line := range strings.Split(strings.TrimSuffix(diff, "\n"), "\n") {
		text := render.Line(line)
		if colour {
			switch {
			case strings.HasPrefix(line, "+"):
				text = "\x1b[32m" + text + "\x1b[0m"
			case strings.HasPrefix(line, "-"):
				text = "\x1b[31m" + text + "\x1b[0m"
			case strings.HasPrefix(line, "@@"):
				text = "\x1b[36m" + text + "\x1b[0m"
			}
		}
		if _, err := fmt.Fprintln(c.out, text); err != nil {
			return err
		}
	}
	return nil
}

// agree asks on the terminal whether to write. Where there is none, nobody agreed.
func (c *cli) agree(ctx context.Context, file string) error {
	f, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usagef("nobody is here to agree: look at the change and say --yes; nothing was written")
	}
	return agreed(ctx, c.in, c.err, file)
}

func agreed(ctx context.Context, in io.Reader, out io.Writer, file string) error {
	if _, err := fmt.Fprintf(out, "write %s? [y/N] ", render.Line(file)); err != nil {
		return err
	}
	type answer struct {
		line string
		err  error
	}
	done := make(chan answer, 1)
	go func() { // a terminal cannot be interrupted while it is read; the process ends with it
		line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
		done <- answer{line, err}
	}()
	var got answer
	select {
	case got = <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if got.err != nil && !errors.Is(got.err, io.EOF) {
		return fmt.Errorf("read the answer: %w", got.err)
	}
	switch strings.ToLower(strings.TrimSpace(got.line)) {
	case "y", "yes":
		return nil
	}
	return failf("nothing was written")
}

func (c *cli) sayApplied(done applied, p *patch.Patch, from string) error {
	if c.json {
		return render.Value(c.out, done)
	}
	var err error
	switch {
	case done.Changed:
		_, err = fmt.Fprintf(c.out, "%s: version %s -> %s\nnext: factmill schema diff %s, factmill schema put %s, factmill review convert --patch %s\n",
			render.Line(done.File), render.Line(done.Before), render.Line(done.Version), quoted(done.File), quoted(done.File), quoted(from))
	case p.Empty():
		_, err = fmt.Fprintf(c.out, "the patch adds nothing to the schema: %s stays\nnext: factmill review convert --patch %s\n", render.Line(done.File), quoted(from))
	default:
		_, err = fmt.Fprintf(c.out, "nothing to do: %s holds what the patch adds\n", render.Line(done.File))
	}
	return err
}
