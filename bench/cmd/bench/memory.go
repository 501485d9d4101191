package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
)

func memory(fs *flag.FlagSet) func(context.Context, *room) error {
	n := fs.Int("n", 100_000, "documents of 4 KB of the larger corpus; the smaller has a tenth")
	return func(ctx context.Context, r *room) error {
		var used [2]int64
		for i, size := range []int{*n / 10, *n} {
			r.say("%d documents", size)
			docs := r.dir("docs")
			if err := (corpus.Corpus{Seed: 1}).Write(docs, size); err != nil {
				return err
			}
			l, err := load(ctx, r, under.Options{}, docs)
			if err != nil {
				return err
			}
			used[i] = l.used.Memory
			r.report.Add(fmt.Sprintf("%d documents", size), "MB", float64(used[i])/1e6, fmt.Sprintf("%.0f documents/s", float64(size)/l.took.Seconds()))
		}
		if used[0] == 0 {
			return fmt.Errorf("this system does not say how much memory a process used")
		}
		r.report.AtMost("ten times the documents", "×", float64(used[1])/float64(used[0]), 1.5, "")
		return nil
	}
}
