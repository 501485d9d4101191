package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
)

// commitSeconds is the committer's histogram of what a job's commit takes, to its sync.
const commitSeconds = "factmill_committer_commit_seconds"

func commit(fs *flag.FlagSet) func(context.Context, *room) error {
	small := fs.Int("small", 500, "documents of 4 KB in the small graph")
	factor := fs.Int("factor", 100, "how many times as large the other one is")
	job := fs.Int("job", 50, "documents of a job")
	rounds := fs.Int("rounds", 5, "jobs into each; the median counts")
	return func(ctx context.Context, r *room) error {
		var took [2]times
		var rows [2]int
		for i, stride := range []int{1, *factor} {
			// As many documents as people, so that a name is as frequent in a large graph as in a small one. The jobs are the same but for which
			// names they name, and one sentence in eight names a hub, in the graph and in the job.
			c := corpus.Corpus{Seed: 1, People: max(*small, 10), Firms: max(*small/5, 10), Towns: max(*small/25, 10)}
			all := c
			all.People, all.Firms, all.Towns = c.People*stride, c.Firms*stride, c.Towns*stride
			c.Seed, c.Stride = 2, stride
			var err error
			if took[i], rows[i], err = commitInto(ctx, r, all, *small*stride, c, *job, *rounds); err != nil {
				return err
			}
		}
		for i, n := range []int{*small, *small * *factor} {
			r.report.Add(fmt.Sprintf("into %d documents", n), "ms", took[i].at(0.5).Seconds()*1000,
				fmt.Sprintf("median of %d commits of %d documents, %d rows each; the slowest %.0f ms", len(took[i]), *job, rows[i], took[i][len(took[i])-1].Seconds()*1000))
		}
		r.report.AtMost("growth", "×", took[1].at(0.5).Seconds()/took[0].at(0.5).Seconds(), 1.5, fmt.Sprintf("%d times the graph, hubs on both sides", *factor))
		return nil
	}
}

// commitInto loads n documents of a corpus, opens the graph anew, so that it is read from tables, and commits jobs of another one into it.
func commitInto(ctx context.Context, r *room, c corpus.Corpus, n int, later corpus.Corpus, job, rounds int) (took times, rows int, err error) {
	docs, jobs := r.dir("docs"), r.dir("jobs")
	if err := errors.Join(c.Write(docs, n), later.Write(jobs, job*rounds)); err != nil {
		return nil, 0, err
	}
	o := under.Options{Bin: r.bin, Dir: r.dir("factmill"), Metrics: true}
	f, err := under.Start(ctx, o)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	r.say("loading %d documents", n)
	s, _, err := f.Do(ctx, path(docs))
	if err != nil {
		return nil, 0, err
	}
	if err := linked(ctx, f, s.Job); err != nil {
		return nil, 0, err
	}
	if _, err := f.Stop(); err != nil {
		return nil, 0, err
	}
	if f, err = under.Start(ctx, o); err != nil {
		return nil, 0, err
	}
	// What goes on behind a commit is not what a commit takes.
	if err := linked(ctx, f, s.Job); err != nil {
		return nil, 0, err
	}
	r.say("%d jobs into %d documents", rounds, n)
	for round := range rounds {
		was, err := f.Metric(ctx, commitSeconds+"_sum", commitSeconds+"_count")
		if err != nil {
			return nil, 0, err
		}
		var paths []string
		for i := range job {
			paths = append(paths, filepath.Join(jobs, later.Name(round*job+i)))
		}
		s, _, err := f.Do(ctx, path(paths...))
		if err != nil {
			return nil, 0, err
		}
		now, err := f.Metric(ctx, commitSeconds+"_sum", commitSeconds+"_count")
		if err != nil {
			return nil, 0, err
		}
		if now[1] != was[1]+1 {
			return nil, 0, fmt.Errorf("job %s took %.0f commits", s.Job, now[1]-was[1])
		}
		took = append(took, time.Duration((now[0]-was[0])*float64(time.Second)))
		if err := linked(ctx, f, s.Job); err != nil {
			return nil, 0, err
		}
		rows += s.Stages.Storage.RowsWritten
	}
	slices.Sort(took)
	return took, rows / rounds, nil
}

// linked waits until the vectors and links of a committed job are there.
func linked(ctx context.Context, f *under.Factmill, job string) error {
	if err := vectorsFollow(ctx, f); err != nil {
		return err
	}
	for {
		var s api.JobStatus
		if err := f.Ask(ctx, "jobs.get", api.JobGet{Job: job}, &s); err != nil {
			return fmt.Errorf("job %s: %w", job, err)
		}
		if api.Settled(s) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
