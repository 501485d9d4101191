package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
)

// started is a Factmill with a corpus in it, and how long loading it took.
func started(ctx context.Context, r *room, n int) (f *under.Factmill, docs string, took time.Duration, err error) {
	docs = r.dir("docs")
	if err := (corpus.Corpus{Seed: 1}).Write(docs, n); err != nil {
		return nil, "", 0, err
	}
	if f, err = under.Start(ctx, under.Options{Bin: r.bin, Dir: r.dir("factmill")}); err != nil {
		return nil, "", 0, err
	}
	r.say("loading %d documents", n)
	if _, took, err = f.Do(ctx, path(docs)); err != nil {
		_, errStop := f.Stop()
		return nil, "", 0, errors.Join(err, errStop)
	}
	return f, docs, took, nil
}

func noop(fs *flag.FlagSet) func(context.Context, *room) error {
	n := fs.Int("n", 10_000, "documents of 4 KB")
	rounds := fs.Int("rounds", 3, "how often; the best counts")
	return func(ctx context.Context, r *room) (err error) {
		f, docs, full, err := started(ctx, r, *n)
		if err != nil {
			return err
		}
		defer func() {
			_, errStop := f.Stop()
			err = errors.Join(err, errStop)
		}()
		var best time.Duration
		for range *rounds {
			s, took, err := f.Do(ctx, path(docs))
			if err != nil {
				return err
			}
			if s.Documents.Unchanged != *n {
				return fmt.Errorf("%d of %d documents were unchanged", s.Documents.Unchanged, *n)
			}
			if best == 0 || took < best {
				best = took
			}
		}
		r.report.AtLeast("unchanged documents", "docs/s", float64(*n)/best.Seconds(), 2000, fmt.Sprintf("the full load: %.0f documents/s", float64(*n)/full.Seconds()))
		return nil
	}
}

func update(fs *flag.FlagSet) func(context.Context, *room) error {
	n := fs.Int("n", 10_000, "documents of 4 KB; one in a hundred changes")
	rounds := fs.Int("rounds", 3, "how often; the best counts")
	return func(ctx context.Context, r *room) (err error) {
		f, docs, full, err := started(ctx, r, *n)
		if err != nil {
			return err
		}
		defer func() {
			_, errStop := f.Stop()
			err = errors.Join(err, errStop)
		}()
		c := corpus.Corpus{Seed: 1}
		const constant = 200 * time.Millisecond
		var best time.Duration
		for v := range *rounds {
			var changed []string
			for i := 0; i < *n; i += 100 {
				if err := c.WriteOne(docs, i, v+1); err != nil {
					return err
				}
				changed = append(changed, filepath.Join(docs, c.Name(i)))
			}
			s, took, err := f.Do(ctx, path(changed...))
			if err != nil {
				return err
			}
			if s.Documents.Updated != len(changed) {
				return fmt.Errorf("%d of %d documents were updated", s.Documents.Updated, len(changed))
			}
			if best == 0 || took < best {
				best = took
			}
		}
		r.report.AtMost("one document in a hundred", "s", best.Seconds(), full.Seconds()*0.02+constant.Seconds(),
			fmt.Sprintf("the full load: %.1f s; the limit is 2 %% of it and 200 ms", full.Seconds()))
		return nil
	}
}
