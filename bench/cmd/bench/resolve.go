package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
)

// namesPerDocument of the corpus of names.
const namesPerDocument = 50

// writeNames writes documents that name n people, one in four of them in a second way.
func writeNames(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("write the names: %w", err)
	}
	var c corpus.Corpus
	var b strings.Builder
	for i := range n {
		name := c.Person(i)
		fmt.Fprintf(&b, "%s works for %s Works Ltd. ", name, strings.Fields(c.Person(i % 97))[1])
		if i%4 == 0 {
			given, family, _ := strings.Cut(name, " ")
			fmt.Fprintf(&b, "Later, Dr. %s. %s works for %s Press AG. ", given[:1], family, strings.Fields(c.Person(i % 89))[1])
		}
		b.WriteString("\n\n")
		if (i+1)%namesPerDocument == 0 || i == n-1 {
			path := filepath.Join(dir, fmt.Sprintf("%06d.md", i/namesPerDocument))
			if err := os.WriteFile(path, []byte(b.String()), 0o640); err != nil {
				return fmt.Errorf("write the names: %w", err)
			}
			b.Reset()
		}
	}
	return nil
}

func resolve(fs *flag.FlagSet) func(context.Context, *room) error {
	n := fs.Int("n", 5_000, "people in the small graph; the large one has ten times as many")
	return func(ctx context.Context, r *room) error {
		var each [2]time.Duration
		for i, people := range []int{*n, 10 * *n} {
			var err error
			if each[i], err = resolveOf(ctx, r, people); err != nil {
				return err
			}
		}
		// The bound for a hundred times the names is ten times the time.
		r.report.AtMost("time a name, growth", "×", each[1].Seconds()/each[0].Seconds(), 3.16, "ten times the names; at a hundred times 10 × is the bound")
		return nil
	}
}

// resolveOf has every name of a graph embedded and compared anew, and returns what comparing took, a name.
func resolveOf(ctx context.Context, r *room, people int) (each time.Duration, err error) {
	docs := r.dir("names")
	if err := writeNames(docs, people); err != nil {
		return 0, err
	}
	f, err := under.Start(ctx, under.Options{Bin: r.bin, Dir: r.dir("factmill")})
	if err != nil {
		return 0, err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	r.say("loading %d people", people)
	s, _, err := f.Do(ctx, path(docs))
	if err != nil {
		return 0, err
	}
	r.say("comparing the names of %d people", people)
	begin := time.Now()
	// Every vector is made anew before it answers, then the comparing begins.
	long, stop := context.WithTimeout(ctx, time.Hour) // else a request has the time of a short one
	defer stop()
	if err := f.Ask(long, "vectors.reembed", struct{}{}, nil); err != nil {
		return 0, fmt.Errorf("reembed: %w", err)
	}
	embedded := time.Since(begin)
	begin = time.Now()
	for behind := true; behind; {
		if err := f.Ask(ctx, "jobs.get", api.JobGet{Job: s.Job, Wait: "20s"}, &s); err != nil {
			return 0, fmt.Errorf("wait for the links: %w", err)
		}
		behind = false
		for _, p := range s.Progress {
			behind = behind || p.Stage == api.StageLinker && p.Waiting > 0
		}
	}
	took := time.Since(begin)
	var stats api.StatsReply
	if err := f.Ask(ctx, "query.stats", struct{}{}, &stats); err != nil {
		return 0, err
	}
	names := stats.Entities
	if names < people {
		return 0, fmt.Errorf("%d people were named, the graph has %d entities", people, names)
	}
	links := s.Stages.Resolution
	name := func(s string) string { return fmt.Sprintf("%d people, %s", people, s) }
	r.report.Add(name("compared and linked"), "names/s", float64(names)/took.Seconds(),
		fmt.Sprintf("%d names, %d pairs compared, %d linked", names, links.Compared, stats.Matches))
	r.report.Add(name("embedded"), "names/s", float64(names)/embedded.Seconds(), fmt.Sprintf("and %d chunks; by hash", stats.Chunks))
	return took / time.Duration(names), nil
}
