package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
)

// read is one kind of question about the person of a number.
type read struct {
	name string
	verb string
	ask  func(c corpus.Corpus, n int) any
}

var reads = []read{
	{"entity", "query.entity", func(c corpus.Corpus, n int) any { return map[string]any{"type": "Person", "name": c.Person(n)} }},
	{"neighbours", "query.neighbors", func(c corpus.Corpus, n int) any {
		return map[string]any{"type": "Person", "name": c.Person(n), "depth": 1, "limit": 50}
	}},
	{"search", "query.search", func(c corpus.Corpus, n int) any {
		return map[string]any{"q": c.Person(n), "mode": "lexical", "limit": 10}
	}},
}

// times are how long reads took, sorted.
type times []time.Duration

func (t times) at(share float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(len(t)-1, int(share*float64(len(t))))]
}

// reading asks n questions, one after another, about people that are there.
func reading(ctx context.Context, f *under.Factmill, c corpus.Corpus, rd read, n int) (times, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	var out times
	for missed := 0; len(out) < n; {
		begin := time.Now()
		err := f.Ask(ctx, rd.verb, rd.ask(c, rng.IntN(c.People)), nil)
		var refused *api.Error
		if errors.As(err, &refused) && refused.Status == 404 && missed < 10*n { // no document names that one
			missed++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rd.name, err)
		}
		out = append(out, time.Since(begin))
	}
	slices.Sort(out)
	return out, nil
}

func query(fs *flag.FlagSet) func(context.Context, *room) error {
	small := fs.Int("small", 10_000, "people in the small graph, about")
	large := fs.Int("large", 1_000_000, "people in the large graph, about")
	n := fs.Int("reads", 1000, "reads of each kind")
	fewChunks := fs.Int("small-chunks", 10_000, "chunks in the small graph that is searched, about")
	chunks := fs.Int("chunks", 1_000_000, "chunks in the large graph that is searched, about; 0: nothing is searched")
	return func(ctx context.Context, r *room) error {
		var medians [2]map[string]time.Duration
		for i, people := range []int{*small, *large} {
			medians[i] = map[string]time.Duration{}
			if err := queryOf(ctx, r, people, *n, medians[i], i == 1); err != nil {
				return err
			}
		}
		for _, rd := range reads {
			note := fmt.Sprintf("%d people to %d", *large, *small)
			x := medians[1][rd.name].Seconds() / medians[0][rd.name].Seconds()
			if rd.name == "entity" {
				r.report.AtMost(rd.name+", growth", "×", x, 2, note)
			} else {
				r.report.Add(rd.name+", growth", "×", x, note)
			}
		}
		if *chunks > 0 {
			return searching(ctx, r, *fewChunks, *chunks, *n)
		}
		return nil
	}
}

func queryOf(ctx context.Context, r *room, people, n int, medians map[string]time.Duration, limits bool) (err error) {
	c := corpus.Corpus{Seed: 1, People: people, Firms: people / 2, Towns: people / 20}
	size := people / 10 // a document names about ten people
	docs, more := r.dir("docs"), r.dir("more")
	if err := errors.Join(c.Write(docs, size), corpus.Corpus{Seed: 9, People: people, Firms: people / 2, Towns: people / 20}.Write(more, min(size, 3000))); err != nil {
		return err
	}
	o := under.Options{Bin: r.bin, Dir: r.dir("factmill")}
	f, err := under.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	r.say("loading %d documents", size)
	if _, _, err := f.Do(ctx, path(docs)); err != nil {
		return err
	}
	if _, err := f.Stop(); err != nil {
		return err
	}
	begin := time.Now()
	if f, err = under.Start(ctx, o); err != nil {
		return err
	}
	start := time.Since(begin)
	var stats api.StatsReply
	if err := f.Ask(ctx, "query.stats", struct{}{}, &stats); err != nil {
		return err
	}
	name := func(s string) string { return fmt.Sprintf("%d people, %s", people, s) }
	if limits {
		r.report.AtMost(name("start of up"), "s", start.Seconds(), 3, fmt.Sprintf("%d entities, %d relations, %d chunks", stats.Entities, stats.Relations, stats.Chunks))
	} else {
		r.report.Add(name("start of up"), "s", start.Seconds(), fmt.Sprintf("%d entities, %d relations, %d chunks", stats.Entities, stats.Relations, stats.Chunks))
	}
	idle := map[string]times{}
	for _, rd := range reads {
		r.say("%s", name(rd.name))
		if idle[rd.name], err = reading(ctx, f, c, rd, n); err != nil {
			return err
		}
		medians[rd.name] = idle[rd.name].at(0.5)
		r.report.Add(name(rd.name), "ms", medians[rd.name].Seconds()*1000, fmt.Sprintf("median; p99 %.2f ms", idle[rd.name].at(0.99).Seconds()*1000))
	}
	r.say("reads beside a running ingest")
	done := make(chan error, 1)
	go func() {
		_, _, err := f.Do(ctx, path(more))
		done <- err
	}()
	busy, err := reading(ctx, f, c, reads[0], n)
	if errJob := <-done; err != nil || errJob != nil {
		return errors.Join(err, errJob)
	}
	r.report.AtMost(name("entity p99 beside an ingest"), "×", busy.at(0.99).Seconds()/idle["entity"].at(0.99).Seconds(), 5,
		fmt.Sprintf("%.2f ms", busy.at(0.99).Seconds()*1000))
	return nil
}
