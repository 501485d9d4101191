package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/ingest"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
)

// input is what a job reads: one inline text, files, or (for deletes) nothing but the event.
type input struct {
	text  *string
	files []ingest.File
	// made are the keys that documents get which the call gave none.
	made []string
	// notSent are files, and links to directories, that stayed here.
	notSent []ingest.Problem
}

// unread counts the files that could not be read: documents that are missing.
func (in *input) unread() int {
	n := 0
	for _, p := range in.notSent {
		if !p.Harmless {
			n++
		}
	}
	return n
}

func (in *input) unsent() []string {
	var out []string
	for _, p := range in.notSent {
		out = append(out, p.Error())
	}
	return out
}

// notSent is a file that stayed here, as --json shows it.
type notSent struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func unsentJSON(problems []ingest.Problem) []notSent {
	out := make([]notSent, 0, len(problems))
	for _, p := range problems {
		out = append(out, notSent{p.Path, p.Reason()})
	}
	return out
}

// extend adds to a job's status what only this command knows.
func (in *input) extend(raw json.RawMessage) (json.RawMessage, error) {
	var err error
	if len(in.made) == 1 {
		raw, err = extended(raw, "key", in.made[0])
	}
	if err == nil && len(in.notSent) > 0 {
		raw, err = extended(raw, "not_sent", unsentJSON(in.notSent))
	}
	return raw, err
}

// collect reads the arguments: the standard input or files.
func (c *cli) collect(ctx context.Context, f *feed, args []string) (input, error) {
	if len(args) == 1 && args[0] == "-" {
		return c.stdin(ctx, f)
	}
	if slices.Contains(args, "-") {
		return input{}, usagef("- is the standard input: it does not go with other paths")
	}
	files, problems, err := ingest.Collect(args)
	if err != nil {
		return input{}, usage(err)
	}
	files, unread := ingest.Readable(files)
	in := input{}
	if err := c.passOver(f, &in, append(problems, unread...)); err != nil {
		return in, err
	}
	in.files = files
	switch {
	case len(files) == 0:
		return in, failf("none of the files can be read")
	case len(files) > 1 && f.event.Op == events.OpUpdate:
		return in, usagef("update takes one file, but %s names %d", args[0], len(files))
	case len(files) > 1 && (f.event.Key != "" || f.event.Title != ""):
		return in, usagef("--key and --title name one document, but the paths have %d files", len(files))
	}
	if f.event.Key == "" {
		for _, x := range files {
			in.made = append(in.made, x.Key)
		}
	}
	return in, nil
}

// settle looks what became of the one key that was made: the records of a file have keys of their own, which begin with it. What
// cannot be looked up stays as it is: it is no reason to fail.
func (in *input) settle(ctx context.Context, s *target.Session, st api.JobStatus) {
	if len(in.made) != 1 || st.State != api.JobCommitted {
		return
	}
	raw, err := s.Ask(ctx, "query.documents", api.DocumentList{Prefix: in.made[0], Limit: 1})
	if err != nil {
		return
	}
	r, err := decode[api.DocumentListReply](raw)
	if err == nil && len(r.Documents) > 0 && strings.HasPrefix(r.Documents[0].Key, in.made[0]+"#") {
		in.made[0] += "#…"
	}
}

// maxNamed files are named when a job is given up because they cannot be read.
const maxNamed = 20

// passOver passes over files where the error policy allows it, else it names them all.
func (c *cli) passOver(f *feed, in *input, problems []ingest.Problem) error {
	in.notSent = append(in.notSent, problems...)
	if f.event.ErrorPolicy == "" || f.event.ErrorPolicy == events.PolicyRaise {
		bad := slices.DeleteFunc(slices.Clone(problems), func(p ingest.Problem) bool { return p.Harmless })
		if len(bad) > 0 {
			return givenUp(bad)
		}
	}
	for _, p := range problems {
		what := "skipped"
		if p.Harmless {
			what = "passed over"
		}
		c.say("%s %v", what, p)
	}
	return nil
}

func givenUp(bad []ingest.Problem) error {
	const way = "nothing was ingested; --error-policy skip goes on without such files"
	details := map[string]any{"not_sent": unsentJSON(bad)}
	if len(bad) == 1 {
		return &coded{code: exitFailed, details: details, err: fmt.Errorf("%w: %s", bad[0], way)}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d files cannot be read: %s", len(bad), way)
	for i, p := range bad {
		if i == maxNamed {
			fmt.Fprintf(&b, "\n  … and %d more", len(bad)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %v", p)
	}
	return &coded{code: exitFailed, details: details, err: fmt.Errorf("%s", b.String())}
}

const (
	// inlineText is the largest text that travels in the document event itself: with its JSON escapes it must fit a message.
	inlineText = 128 << 10
	maxStdin   = bundle.MaxEntry
)

// stdin reads one text from the standard input.
func (c *cli) stdin(ctx context.Context, f *feed) (input, error) {
	b, err := readAll(ctx, c.in, maxStdin+1)
	if err != nil {
		return input{}, failf("read the standard input: %w", err)
	}
	if len(b) > maxStdin {
		return input{}, failf("the standard input has more than %d bytes, which one document may have: split it", maxStdin)
	}
	return stdinInput(f, b)
}

func readAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	type read struct {
		b   []byte
		err error
	}
	done := make(chan read, 1)
	go func() { // a terminal cannot be interrupted while it is read; the process ends with it
		b, err := io.ReadAll(io.LimitReader(r, limit))
		done <- read{b, err}
	}()
	select {
	case got := <-done:
		return got.b, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
