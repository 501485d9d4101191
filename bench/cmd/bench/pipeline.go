package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/factmill/factmill/bench/bare"
	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// loaded is what one load of a corpus took.
type loaded struct {
	status api.JobStatus
	took   time.Duration
	used   under.Usage
}

// path is a document event that names a path.
func path(p ...string) []byte {
	b, err := json.Marshal(events.Ingest{Sources: p})
	if err != nil {
		panic(err) // texts only
	}
	return b
}

// load loads a directory into a fresh Factmill.
func load(ctx context.Context, r *room, o under.Options, docs string) (l loaded, err error) {
	o.Bin, o.Dir = r.bin, r.dir("factmill")
	f, err := under.Start(ctx, o)
	if err != nil {
		return l, err
	}
	l.status, l.took, err = f.Do(ctx, path(docs))
	var errStop error
	l.used, errStop = f.Stop()
	return l, errors.Join(err, errStop)
}

func pipeline(fs *flag.FlagSet) func(context.Context, *room) error {
	n := fs.Int("n", 10_000, "documents of 4 KB of the larger corpus; the smaller has a tenth")
	rounds := fs.Int("rounds", 2, "how often each is measured; the best counts")
	return func(ctx context.Context, r *room) error {
		for _, size := range []int{*n / 10, *n} {
			if err := pipelineOf(ctx, r, size, *rounds, size == *n); err != nil {
				return err
			}
		}
		return nil
	}
}

func pipelineOf(ctx context.Context, r *room, n, rounds int, limits bool) error {
	docs := r.dir("docs")
	if err := (corpus.Corpus{Seed: 1}).Write(docs, n); err != nil {
		return err
	}
	r.say("%d documents: what travels", n)
	traffic, err := tap(ctx, r, docs)
	if err != nil {
		return err
	}
	var one, six loaded
	var js, rows time.Duration
	best := func(d *time.Duration, x time.Duration) bool {
		if *d != 0 && *d <= x {
			return false
		}
		*d = x
		return true
	}
	for i := range rounds {
		r.say("%d documents: round %d of %d", n, i+1, rounds)
		x, err := bare.JetStream(ctx, r.dir("bare"), n, traffic)
		if err != nil {
			return err
		}
		best(&js, x)
		l, err := load(ctx, r, under.Options{}, docs)
		if err != nil {
			return err
		}
		if best(&one.took, l.took) {
			one = l
		}
		s := l.status.Stages.Storage
		if x, err = bare.Pebble(ctx, r.dir("rows"), s.RowsWritten, s.Bytes); err != nil {
			return err
		}
		best(&rows, x)
		if l, err = load(ctx, r, under.Options{Replicas: 1}, docs); err != nil {
			return err
		}
		if best(&six.took, l.took) {
			six = l
		}
	}
	rate := func(d time.Duration) float64 { return float64(n) / d.Seconds() }
	name := func(s string) string { return fmt.Sprintf("%d documents, %s", n, s) }
	of := fmt.Sprintf("bare: %.0f documents/s, %d messages, %d bytes a document", rate(js), traffic.Messages()/n, traffic.Bytes()/n)
	cpu := float64(one.used.CPU.Microseconds()) / 1000 / float64(n)
	if limits {
		r.report.AtLeast(name("all-in-one"), "docs/s", rate(one.took), 400, "")
		r.report.AtLeast(name("share of bare JetStream"), "", rate(one.took)/rate(js), 0.25, of)
		r.report.AtMost(name("CPU a document"), "ms", cpu, 3, "start and stop included")
	} else {
		r.report.Add(name("all-in-one"), "docs/s", rate(one.took), "")
		r.report.Add(name("share of bare JetStream"), "", rate(one.took)/rate(js), of)
		r.report.Add(name("CPU a document"), "ms", cpu, "start and stop included")
	}
	s := one.status.Stages.Storage
	r.report.Add(name("share of bare Pebble"), "", rate(one.took)/rate(rows), fmt.Sprintf("%d rows, %d bytes a document", s.RowsWritten/n, s.Bytes/n))
	r.report.Add(name("memory"), "MB", float64(one.used.Memory)/1e6, "largest resident, all-in-one")
	r.report.Add(name("six processes"), "docs/s", rate(six.took), fmt.Sprintf("CPU %.2f ms a document", float64(six.used.CPU.Microseconds())/1000/float64(n)))
	return nil
}

// tap loads a corpus while somebody listens, and returns what travelled.
func tap(ctx context.Context, r *room, docs string) (t bare.Traffic, err error) {
	f, err := under.Start(ctx, under.Options{Bin: r.bin, Dir: r.dir("tap")})
	if err != nil {
		return nil, err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	listen, err := bare.Listen(f.Conn.NC)
	if err != nil {
		return nil, err
	}
	if _, _, err := f.Do(ctx, path(docs)); err != nil {
		return nil, err
	}
	return listen()
}
