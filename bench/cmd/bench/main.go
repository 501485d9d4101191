// Command bench measures Factmill: each subcommand is one benchmark, prints its figures beside their limits, and ends with 1 when one is
// missed.
//
//	bench [-json FILE] [-bin DIR] [-tmp DIR] pipeline|noop|update|commit|resolve|review|replicas|memory|query [flags]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/factmill/factmill/bench/report"
	"github.com/factmill/factmill/bench/under"
)

// room is what every benchmark works in.
type room struct {
	bin, tmp string
	log      io.Writer
	report   *report.Report
	dirs     int
}

// dir is a fresh directory.
func (r *room) dir(what string) string {
	r.dirs++
	return filepath.Join(r.tmp, fmt.Sprintf("%s-%d", what, r.dirs))
}

func (r *room) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }

// benchmark measures; flags are its own.
type benchmark struct {
	about string
	flags func(*flag.FlagSet) func(context.Context, *room) error
}

var benchmarks = map[string]benchmark{
	"pipeline": {"documents a second and CPU a document, beside bare JetStream and bare Pebble", pipeline},
	"noop":     {"the same corpus again: contents read and hashed, nothing changed", noop},
	"update":   {"one document in a hundred changed, and only those sent", update},
	"commit":   {"the same job into a small graph and into one 100 times as large", commit},
	"resolve":  {"names a second that are compared and linked, and at ten times as many", resolve},
	"review":   {"lists, single decisions, and one about 10,000 candidates", review},
	"replicas": {"an extractor with a 200 ms model: 1, 2, 4 and 8 replicas", replicas},
	"memory":   {"the largest resident memory over 10,000 and 100,000 documents", memory},
	"query":    {"reads and searches in a small and in a large graph, and beside a running ingest", query},
}

var errMissed = errors.New("a limit was missed")

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	var jsonTo, bin, tmp string
	flag.StringVar(&jsonTo, "json", "", "append the figures as JSON to this `file`")
	flag.StringVar(&bin, "bin", "", "`directory` of built binaries (default: they are built)")
	flag.StringVar(&tmp, "tmp", "", "work below this `directory` (default: a temporary one)")
	flag.Parse()
	b, ok := benchmarks[flag.Arg(0)]
	if !ok {
		return fmt.Errorf("name a benchmark: %s", strings.Join(slices.Sorted(maps.Keys(benchmarks)), ", "))
	}
	fs := flag.NewFlagSet(flag.Arg(0), flag.ExitOnError)
	measure := b.flags(fs)
	if err := fs.Parse(flag.Args()[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work, err := os.MkdirTemp(tmp, "factmill-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	r := &room{bin: bin, tmp: work, log: os.Stderr, report: report.New(flag.Arg(0))}
	if bin == "" {
		r.bin = filepath.Join(work, "bin")
		if err := under.Build(ctx, ".", r.bin); err != nil {
			return err
		}
	}
	if err := measure(ctx, r); err != nil {
		return err
	}
	if err := r.report.Table(os.Stdout); err != nil {
		return err
	}
	if jsonTo != "" {
		if err := appendJSON(jsonTo, r.report); err != nil {
			return err
		}
	}
	if !r.report.OK() {
		return errMissed
	}
	return nil
}

func appendJSON(path string, r *report.Report) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.JSON(f)
}
