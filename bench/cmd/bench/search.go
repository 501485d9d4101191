package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
)

const (
	// searchBytes of a document, which at searchTokens a chunk has about searchChunks.
	searchBytes  = 16 << 10
	searchTokens = "100"
	searchChunks = 36
)

// commonWords stand in a quarter to a third of the chunks each.
var commonWords = []string{"weather", "river", "records", "figures", "report", "tables", "machines", "scrap", "brick", "trees", "minutes", "heating", "soup", "speech"}

// searched are the modes that are measured.
var searched = []string{"lexical", "hybrid"}

// searches is what searches took in one graph, by mode.
type searches struct {
	chunks     int
	idle, busy map[string]times
}

// searching measures searches in a small and in a large graph, alone and beside an ingest whose every document is a commit of its own.
func searching(ctx context.Context, r *room, small, large, n int) error {
	var of [2]searches
	for i, chunks := range []int{small, large} {
		var err error
		if of[i], err = searchIn(ctx, r, chunks, n); err != nil {
			return err
		}
	}
	for _, mode := range searched {
		for i, s := range of {
			name := fmt.Sprintf("%d chunks, %s search", []int{small, large}[i], mode)
			idle, busy := s.idle[mode], s.busy[mode]
			r.report.Add(name+", median", "ms", ms(idle.at(0.5)), fmt.Sprintf("%d chunks; beside an ingest %.2f ms", s.chunks, ms(busy.at(0.5))))
			r.report.Add(name+", p95", "ms", ms(idle.at(0.95)), fmt.Sprintf("beside an ingest %.2f ms", ms(busy.at(0.95))))
			r.report.Add(name+", p95 beside an ingest to idle", "×", busy.at(0.95).Seconds()/idle.at(0.95).Seconds(), "")
		}
		note := fmt.Sprintf("%d chunks to %d", of[1].chunks, of[0].chunks)
		grown := func(what string, a, b times) {
			name, x := fmt.Sprintf("%s search, growth of the p95%s", mode, what), b.at(0.95).Seconds()/a.at(0.95).Seconds()
			if mode == "lexical" {
				r.report.AtMost(name, "×", x, 5, note)
			} else {
				r.report.Add(name, "×", x, note)
			}
		}
		r.report.Add(mode+" search, growth of the median", "×", of[1].idle[mode].at(0.5).Seconds()/of[0].idle[mode].at(0.5).Seconds(), note)
		grown("", of[0].idle[mode], of[1].idle[mode])
		grown(" beside an ingest", of[0].busy[mode], of[1].busy[mode])
	}
	return nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func searchIn(ctx context.Context, r *room, chunks, n int) (out searches, err error) {
	people := max(chunks/2, 26)
	c := corpus.Corpus{Seed: 1, Bytes: searchBytes, People: people, Firms: max(people/2, 8), Towns: max(people/20, 2)}
	more := c
	more.Seed = 9
	docs, others := r.dir("docs"), r.dir("more")
	if err := errors.Join(c.Write(docs, max(1, chunks/searchChunks)), more.Write(others, max(1, min(chunks/searchChunks, 2000)))); err != nil {
		return out, err
	}
	f, err := under.Start(ctx, under.Options{Bin: r.bin, Dir: r.dir("factmill"), Args: []string{"--chunker.size", searchTokens}})
	if err != nil {
		return out, err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	r.say("loading about %d chunks", chunks)
	if _, _, err := f.Do(ctx, path(docs)); err != nil {
		return out, err
	}
	if err := vectorsFollow(ctx, f); err != nil {
		return out, err
	}
	var stats api.StatsReply
	if err := f.Ask(ctx, "query.stats", struct{}{}, &stats); err != nil {
		return out, err
	}
	out = searches{chunks: stats.Chunks, idle: map[string]times{}, busy: map[string]times{}}
	for _, mode := range searched {
		r.say("%d chunks, %s searches", stats.Chunks, mode)
		if out.idle[mode], err = search(ctx, f, c, mode, n, nil); err != nil {
			return out, err
		}
	}
	event, err := json.Marshal(map[string]any{"sources": []string{others}, "atomic": "document"})
	if err != nil {
		return out, err
	}
	r.say("%d chunks, searches beside a running ingest", stats.Chunks)
	done := make(chan error, 1)
	go func() {
		_, _, err := f.Do(ctx, event)
		done <- err
	}()
	for _, mode := range searched {
		if out.busy[mode], err = search(ctx, f, c, mode, n/2, done); err != nil {
			break
		}
	}
	return out, errors.Join(err, <-done)
}

// vectorsFollow waits until the vectors of all commits are there.
func vectorsFollow(ctx context.Context, f *under.Factmill) error {
	for {
		var v api.VectorsReply
		if err := f.Ask(ctx, "vectors.status", struct{}{}, &v); err != nil {
			return err
		}
		if v.Behind == 0 {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// search asks n questions, one after another: the name of a person who is there, and two common words. With an ingest under way it ends when that
// does, whose outcome it puts back.
func search(ctx context.Context, f *under.Factmill, c corpus.Corpus, mode string, n int, ingest chan error) (times, error) {
	rng := rand.New(rand.NewPCG(3, 4))
	var out times
	for len(out) < n {
		at := rng.IntN(len(commonWords))
		q := fmt.Sprintf("%s %s %s", c.Person(rng.IntN(c.People)), commonWords[at], commonWords[(at+3)%len(commonWords)])
		begin := time.Now()
		var got api.SearchReply
		if err := f.Ask(ctx, "query.search", map[string]any{"q": q, "mode": mode, "limit": 10}, &got); err != nil {
			return nil, fmt.Errorf("%s search: %w", mode, err)
		}
		if len(got.Hits) == 0 || len(got.Failed) > 0 {
			return nil, fmt.Errorf("%s search for %q: %d hits, failed: %v", mode, q, len(got.Hits), got.Failed)
		}
		out = append(out, time.Since(begin))
		select {
		case err := <-ingest:
			ingest <- err
			if len(out) >= 20 || err != nil {
				slices.Sort(out)
				return out, nil
			}
		default:
		}
	}
	slices.Sort(out)
	return out, nil
}
