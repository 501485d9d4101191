package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func (c *cli) reviewAuditCmd() *cobra.Command {
	var req api.ReviewAudit
	var limit int
	var export, file string
	var overwrite bool
	cmd := &cobra.Command{
		Use: "audit", Short: "List what was decided, the latest first", Args: noArgs,
		Long: `List the audit records: who decided what about which item, when and why. Records are numbered without gaps and chained: --verify reads
all of them and checks that none was altered, lost or put in; problems end with exit code 1. --operation also says how far that request got.

--export writes all of them to a file (- is the standard output), a JSON object a line in the order of the decisions, and checks the chain on the
way; the last line says up to which record it is whole, and that record's id. --verify --file checks such a file, without any service.`,
		Example: "  factmill review audit --actor eva --from 2026-01-01\n  factmill review audit --item 'entity|spacecraft|dragon'\n  factmill review audit --verify\n" +
			"  factmill review audit --export audit.jsonl\n  factmill review audit --verify --file audit.jsonl",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			chosen := false
			for _, name := range []string{"operation", "item", "actor", "from", "to", "record", "limit", "cursor"} {
				chosen = chosen || cmd.Flags().Changed(name)
			}
			switch {
			case file != "" && (!req.Verify || export != "" || chosen):
				return usagef("--file is a file to check: factmill review audit --verify --file %s, and nothing else", render.Line(file))
			case file != "":
				return c.verifyAuditFile(ctx, file)
			case export != "" && (req.Verify || chosen):
				return usagef("--export writes all records and checks them: leave the other flags out")
			case export == "-" && c.json:
				return usagef("--export - writes JSON lines by itself: leave --json out, or name a file")
			}
			if cmd.Flags().Changed("limit") {
				req.Limit = &limit
			}
			if (req.Verify || export != "") && !cmd.Flags().Changed("timeout") {
				c.timeout = verifyTimeout
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				if export != "" {
					return c.exportAudit(ctx, s, export, overwrite)
				}
				raw, err := s.Ask(ctx, "review.audit", req)
				if err != nil {
					return err
				}
				problems := 0
				err = replyAnd(c, raw, func(w io.Writer, r api.ReviewAuditReply) error { return render.Audit(w, r) }, func(r api.ReviewAuditReply) {
					problems = len(r.Problems)
				})
				if err == nil && problems > 0 {
					err = failf("the audit of graph %s has %s", c.graph, render.Count(problems, "problem", "problems"))
				}
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Operation, "operation", "", "only of this request `id`")
	f.StringVar(&req.Item, "item", "", "only about this item, by `key or id`")
	f.StringVar(&req.Actor, "actor", "", "only by this `name`")
	f.StringVar(&req.From, "from", "", "only from this `time` on, such as 2026-01-31 or 2026-01-31T12:00:00Z")
	f.StringVar(&req.To, "to", "", "only before this `time`")
	f.StringVar(&req.Record, "record", "", "only the record of this `id`")
	f.IntVar(&limit, "limit", 100, "records a page")
	f.StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	f.BoolVar(&req.Verify, "verify", false, "check the whole chain")
	f.StringVar(&export, "export", "", "write all records to this `file`, - for the standard output")
	f.BoolVar(&overwrite, "overwrite", false, "with --export: replace the file when it is there")
	f.StringVar(&file, "file", "", "with --verify: check this exported `file`")
	return cmd
}

// auditEnd is the last line of an export: up to which record the chain is whole, and that record's id.
type auditEnd struct {
	Graph    string `json:"graph"`
	Verified uint64 `json:"verified"`
	Head     string `json:"head"`
}

// auditCheck follows the chain of records.
type auditCheck struct {
	chain    events.AuditChain
	end      auditEnd // while there is no problem
	problems []api.Problem
	total    int // of problems
}

// maxAuditProblems are named.
const maxAuditProblems = 100

func (k *auditCheck) tell(no uint64, format string, args ...any) {
	if k.total++; len(k.problems) < maxAuditProblems {
		k.problems = append(k.problems, api.Problem{Kind: "audit", Key: fmt.Sprintf("audit record %d", no), Message: fmt.Sprintf(format, args...)})
	}
}

func (k *auditCheck) next(line []byte) {
	if !k.inPlace(line) {
		return
	}
	r, err := k.chain.Next(line)
	switch {
	case err != nil:
		k.tell(k.chain.No, "%v", err)
	case k.end.Graph != "" && r.Graph != k.end.Graph:
		k.tell(k.chain.No, "it is of graph %s, the others are of %s", r.Graph, k.end.Graph)
	}
	if k.total == 0 {
		k.end = auditEnd{Graph: r.Graph, Verified: k.chain.No, Head: k.chain.Head}
	}
}

// inPlace looks where a record stands that is whole in itself: what is missing before it is told, and the chain goes on with it. One that came
// before is told and left out.
func (k *auditCheck) inPlace(line []byte) bool {
	var r events.Audit
	if json.Unmarshal(line, &r) != nil || r.No == k.chain.No+1 {
		return true
	}
	if sealed, err := r.Sealed(r.No, r.Prev); err != nil || sealed.Record != r.Record {
		return true
	}
	switch next := k.chain.No + 1; {
	case r.No < next:
		k.tell(r.No, "it stands behind record %d: it is there twice, or out of its place", k.chain.No)
		return false
	case r.No == next+1:
		k.tell(next, "it is missing")
	default:
		k.tell(next, "it and those up to %d are missing", r.No-1)
	}
	k.chain.Skip(r.No)
	k.chain.Head = r.Prev
	return true
}

// auditPage is how many records are fetched at once.
const auditPage = 500

// exportAudit writes the records that are there now, in order, and checks them on the way: those in the store first, by the service.
func (c *cli) exportAudit(ctx context.Context, s *target.Session, file string, overwrite bool) error {
	none := 0
	raw, err := s.Ask(ctx, "review.audit", api.ReviewAudit{Limit: &none, Verify: true})
	if err != nil {
		return err
	}
	now, err := decode[api.ReviewAuditReply](raw)
	if err != nil {
		return err
	}
	out, err := newFileOf(file, c.out, overwrite)
	if err != nil {
		return err
	}
	k := &auditCheck{end: auditEnd{Graph: c.graph}}
	if err := c.exportRecords(ctx, s, out.w, now.Total, k); err != nil {
		return errors.Join(err, out.drop())
	}
	if k.total == 0 && k.end.Head != now.Head {
		k.tell(k.end.Verified, "the last record is %s, it should be %s", k.end.Head, now.Head)
	}
	b, err := json.Marshal(k.end)
	if err == nil {
		_, err = out.w.Write(append(b, '\n'))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--export: %w", err), out.drop())
	}
	if err := out.keep(); err != nil {
		return err
	}
	k.problems, k.total = append(k.problems, now.Problems...), k.total+len(now.Problems)
	return c.auditChecked(file, k, "exported")
}

func (c *cli) exportRecords(ctx context.Context, s *target.Session, w io.Writer, total uint64, k *auditCheck) error {
	limit := auditPage
	req := api.ReviewAudit{OldestFirst: true, Limit: &limit}
	for n := uint64(0); n < total; {
		raw, err := s.Ask(ctx, "review.audit", req)
		if err != nil {
			return err
		}
		// The records as they came: their bytes are what is chained.
		page, err := decode[struct {
			Records []json.RawMessage `json:"records"`
			Next    string            `json:"next"`
		}](raw)
		if err != nil {
			return err
		}
		for _, line := range page.Records[:min(uint64(len(page.Records)), total-n)] {
			n++
			k.next(line)
			if _, err := w.Write(append(line[:len(line):len(line)], '\n')); err != nil {
				return fmt.Errorf("--export: %w", err)
			}
		}
		if page.Next == "" || len(page.Records) == 0 {
			break
		}
		req.Cursor = page.Next
	}
	return nil
}

// auditChecked says what a check of a file found.
func (c *cli) auditChecked(file string, k *auditCheck, done string) error {
	switch {
	case file == "-":
	case c.json:
		err := render.Value(c.out, map[string]any{"file": file, "records": k.chain.No, "verified": k.end.Verified, "head": k.end.Head, "problems": append([]api.Problem{}, k.problems...)})
		if err != nil {
			return err
		}
	default:
		_, err := fmt.Fprintf(c.out, "%s %s of %s: the chain is whole up to record %d, %s\n", done, render.Count(int(k.chain.No), "record", "records"), render.Line(file), k.end.Verified, render.Line(k.end.Head))
		if err != nil {
			return err
		}
	}
	for _, p := range k.problems {
		c.say("%s: %s", render.Line(p.Key), render.Line(p.Message))
	}
	if k.total > 0 {
		return failf("the audit has %s", render.Count(k.total, "problem", "problems"))
	}
	return nil
}

// maxAuditLine is the most bytes of a line of an export.
const maxAuditLine = 16 << 20

// verifyAuditFile checks an export: its chain, and that its last line is the one that the export ended with.
func (c *cli) verifyAuditFile(ctx context.Context, file string) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return usagef("--file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	k := &auditCheck{}
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxAuditLine)
	var end *auditEnd
	for lines.Scan() {
		if err := ctx.Err(); err != nil {
			return err
		}
		line := lines.Bytes()
		if end != nil {
			k.tell(k.chain.No+1, "it stands behind the last line of the export")
			break
		}
		if end = readAuditEnd(line); end == nil {
			k.next(line)
		}
	}
	switch {
	case lines.Err() != nil:
		k.tell(k.chain.No+1, "it cannot be read: %v", lines.Err())
	case end == nil:
		k.tell(k.chain.No, "the file ends behind it: the last line of an export is missing, the file was cut or is none")
	case end.Verified != k.chain.No || end.Head != k.chain.Head:
		k.tell(k.chain.No, "it is the last one, %s; the export says that record %d, %s, is", k.chain.Head, end.Verified, end.Head)
	}
	return c.auditChecked(file, k, "checked")
}

// readAuditEnd reads the last line of an export; nil where a line is another one.
func readAuditEnd(line []byte) *auditEnd {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var e auditEnd
	if err := d.Decode(&e); err != nil || e.Graph == "" {
		return nil
	}
	return &e
}

// fileOf is a file that appears whole or not at all, or the standard output.
type fileOf struct {
	w    *bufio.Writer
	file *os.File // nil: the standard output
	name string
}

func newFileOf(name string, out io.Writer, overwrite bool) (*fileOf, error) {
	if name == "-" {
		return &fileOf{w: bufio.NewWriter(out)}, nil
	}
	if info, err := os.Stat(name); err == nil && (info.IsDir() || !overwrite) {
		if info.IsDir() {
			return nil, usagef("--export %s is a directory: name a file in it", render.Line(name))
		}
		return nil, usagef("--export %s exists: name another file, or say --overwrite", render.Line(name))
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, usagef("--export: %w", err)
	}
	return &fileOf{w: bufio.NewWriter(f), file: f, name: name}, nil
}

func (f *fileOf) keep() error {
	err := f.w.Flush()
	if f.file == nil {
		return err
	}
	if err = errors.Join(err, f.file.Chmod(0o644), f.file.Sync(), f.file.Close()); err == nil {
		err = os.Rename(f.file.Name(), f.name)
	}
	if err != nil {
		return fmt.Errorf("--export: %w", errors.Join(err, os.Remove(f.file.Name())))
	}
	return nil
}

func (f *fileOf) drop() error {
	if f.file == nil {
		return f.w.Flush()
	}
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}
