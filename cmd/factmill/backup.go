package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/backup"
	"github.com/factmill/factmill/services/committer"
)

func (c *cli) backupCmd() *cobra.Command {
	return &cobra.Command{
		Use: "backup DIR", Short: "Write a consistent copy of the store, while it works", Args: cobra.ExactArgs(1),
		Long: `Write all graphs, with what people decided and the audit trail, as they are at one moment, into a directory that is not there yet.
Ingests and decisions go on meanwhile. 'factmill restore' makes a data directory of it. What waits in the streams is not in it: after a
restore the streams that are still there are read on, and documents that were committed later are to be ingested again.

Who may read a backup reads every document of every graph.`,
		Example: "  factmill backup /backups/$(date +%F)\n  factmill backup /backups/today --nats nats://graph.example:4222 --json\n  factmill restore /backups/today --data ./graph",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := cmp.Or(c.checkPlace(), c.there()); err != nil {
				return err
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				b, err := c.backup(ctx, s, filepath.Clean(args[0]))
				if err != nil {
					return err
				}
				if c.json {
					return render.Value(c.out, b)
				}
				var size int64
				for _, f := range b.Files {
					size += f.Size
				}
				_, err = fmt.Fprintf(c.out, "%s: %s, %s, %.1f MiB\n", render.Line(args[0]), graphs(b), render.Count(len(b.Files), "file", "files"), float64(size)/(1<<20))
				return err
			})
		}),
	}
}

// graphs are the graphs of a backup, with their sequences.
func graphs(b api.Backup) string {
	if len(b.Graphs) == 0 {
		return "no graph"
	}
	var out []string
	for _, g := range b.Graphs[:min(len(b.Graphs), 10)] {
		out = append(out, fmt.Sprintf("%s at commit %d", render.Line(g.Graph), g.Seq))
	}
	if n := len(b.Graphs) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return "graph " + strings.Join(out, ", ")
}

// backup writes a backup into to, which appears when it is whole.
func (c *cli) backup(ctx context.Context, s *target.Session, to string) (b api.Backup, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return b, errors.Join(usagef("%s is there already: name a directory that is not", to), err)
	}
	if err := outside(to, s.Dir); err != nil {
		return b, err
	}
	part := to + ".partial"
	if err := os.Mkdir(part, 0o700); errors.Is(err, fs.ErrExist) {
		return b, usagef("%s is there: another backup writes it, or was interrupted; take it away", part)
	} else if err != nil {
		return b, fmt.Errorf("write the backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if b, err = askFor[api.Backup](ctx, s, "backup.begin", struct{}{}); err != nil {
		return b, err
	}
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // also when it was interrupted
		defer stop()
		_, errEnd := s.Ask(end, "backup.end", api.BackupEnd{ID: b.ID})
		b.ID = ""
		if err == nil {
			err = errEnd
		}
	}()
	p := render.NewProgress(c.err, true, c.now)
	defer p.Done()
	var done, total int64
	for _, f := range b.Files {
		total += f.Size
	}
	b.Files = slices.Clone(b.Files)
	for i, f := range b.Files {
		b.Files[i], err = download(ctx, s, part, b.ID, f, func(n int64) { p.Set(done+n, total, "backing up") })
		if err != nil {
			return b, err
		}
		done += f.Size
	}
	if err := backup.Finish(part, b); err != nil {
		return b, err
	}
	if err := os.Rename(part, to); err != nil {
		return b, fmt.Errorf("write the backup: %w", err)
	}
	return b, nil
}

// outside refuses a directory for a backup that lies in a data directory: in that of the store, or in any other, as far as that can be seen from
// here. A volume takes its backups with it when it is lost.
func outside(to, data string) error {
	dir, err := filepath.Abs(to)
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil { // else it is said when it is made
		dir = filepath.Join(real, filepath.Base(dir))
	}
	if real, err := filepath.EvalSymlinks(data); err == nil && data != "" {
		data = real
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		if up == data || isData(up) {
			return usagef("%s lies in the data directory %s, and would be lost with it: name a directory outside", to, up)
		}
		if up == filepath.Dir(up) {
			return nil
		}
	}
}

// isData says whether a directory is a data directory: it has a store, and the lock of whoever works on it.
func isData(dir string) bool {
	for _, name := range []string{"store", "lock"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func askFor[R any](ctx context.Context, s *target.Session, verb string, req any) (r R, err error) {
	raw, err := s.Ask(ctx, verb, req)
	if err != nil {
		return r, err
	}
	return decode[R](raw)
}

// download reads a file of a backup into dir.
func download(ctx context.Context, s *target.Session, dir, id string, f api.BackupFile, said func(int64)) (sum api.BackupFile, err error) {
	if f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." { // never out of dir, whoever answers
		return f, fmt.Errorf("the backup has a file of the name %.80q", f.Name)
	}
	out, err := backup.NewFile(dir, f.Name)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for at := int64(0); at < f.Size; {
		r, err := askFor[api.BackupReadReply](ctx, s, "backup.read", api.BackupRead{ID: id, File: f.Name, Offset: at})
		if err != nil {
			return f, err
		}
		data := r.Data[:min(int64(len(r.Data)), f.Size-at)] // a log may have grown
		if len(data) == 0 {
			return f, fmt.Errorf("file %s of the backup ends at %d of %d bytes", f.Name, at, f.Size)
		}
		if err := out.Add(data); err != nil {
			return f, err
		}
		at += int64(len(data))
		said(at)
	}
	return out.Sum(), out.Sync()
}

func (c *cli) restoreCmd() *cobra.Command {
	var noVerify bool
	cmd := &cobra.Command{
		Use: "restore DIR --data NEW", Short: "Make a data directory of a backup", Args: cobra.ExactArgs(1),
		Long: `Copy a backup into a data directory that is empty or not there, check every file against the backup's list, and verify every key of
every graph. Then start what works on it: 'factmill up', or the committer of a cluster on that volume; reviewers are to be started anew with it.
Problems that verify finds end with exit code 1; the directory is there all the same.`,
		Example: "  factmill restore /backups/2026-11-30 --data ./graph\n  factmill up --data ./graph",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("data") {
				return usagef("say where to: --data NEW")
			}
			if err := c.refuse("restore makes a directory here, and asks no server: leave it out", []string{"nats.url"}, credentials, encryption); err != nil {
				return err
			}
			return c.restore(ctx, args[0], c.cfg.Get("data"), noVerify)
		}),
	}
	cmd.Flags().BoolVar(&noVerify, "no-verify", false, "check the files alone")
	return cmd
}

func (c *cli) restore(ctx context.Context, from, data string, noVerify bool) (err error) {
	b, err := backup.Open(from)
	if errors.Is(err, backup.ErrIncomplete) {
		return usage(err)
	}
	if err != nil {
		return err
	}
	if b.Format > committer.StoreFormat {
		return failf("%s has format %d, this program reads up to %d: restore it with the version that wrote it, or a newer one", from, b.Format, committer.StoreFormat)
	}
	lock, err := target.Acquire(data)
	if err != nil {
		return err
	}
	defer func() {
		let := lock.Release
		if _, none := os.Lstat(filepath.Join(data, "store")); err != nil && errors.Is(none, fs.ErrNotExist) {
			let = lock.Undo // there is no data directory
		}
		err = errors.Join(err, let())
	}()
	if err := emptyBut(data, "lock", "store.partial"); err != nil {
		return err
	}
	p := render.NewProgress(c.err, true, c.now)
	defer p.Done()
	if err := backup.Copy(ctx, b, from, filepath.Join(data, "store"), func(done, total int64) { p.Set(done, total, "restoring") }); err != nil {
		return err
	}
	p.Done()
	found := map[string]api.VerifyReply{}
	if !noVerify {
		found, err = committer.VerifyDir(ctx, committer.FromConfig(c.cfg), c.logger(slog.LevelWarn), func(g string) { c.say("verifying graph %s", g) })
		if err != nil {
			return err
		}
	}
	return c.restored(data, b, found)
}

// restored says what was restored, and fails when something is wrong with it.
func (c *cli) restored(data string, b api.Backup, found map[string]api.VerifyReply) error {
	problems := 0
	for _, r := range found {
		problems += r.Total
	}
	if c.json {
		raw, err := json.Marshal(found)
		if err != nil {
			return err
		}
		if err := render.Value(c.out, map[string]any{"data": data, "at": b.At, "graphs": b.Graphs, "verified": json.RawMessage(raw)}); err != nil {
			return err
		}
	} else {
		if _, err := fmt.Fprintf(c.out, "%s: %s, as of %s\n", render.Line(data), graphs(b), b.At); err != nil {
			return err
		}
		for g, r := range found {
			if r.Total == 0 {
				continue
			}
			if _, err := fmt.Fprintf(c.out, "graph %s:\n", render.Line(g)); err != nil {
				return err
			}
			if err := render.Verify(c.out, r); err != nil {
				return err
			}
		}
	}
	if problems > 0 {
		return failf("the restored store has %s", render.Count(problems, "problem", "problems"))
	}
	return nil
}

// emptyBut refuses a directory that holds anything besides those names.
func emptyBut(dir string, but ...string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, e := range all {
		if !slices.Contains(but, e.Name()) {
			return usagef("%s is not empty (%s): restore into a new directory", dir, e.Name())
		}
	}
	return nil
}
