package main

import (
	"flag"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/bench/report"
	"github.com/factmill/factmill/bench/under"
)

// TestEachRunsOnce runs every benchmark on next to nothing: whether its limits hold is for the machine that has nothing else to do.
func TestEachRunsOnce(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, under.Build(t.Context(), filepath.Join("..", "..", ".."), bin))
	args := map[string][]string{
		"pipeline": {"-n", "40", "-rounds", "1"},
		"noop":     {"-n", "40", "-rounds", "1"},
		"update":   {"-n", "200", "-rounds", "1"},
		"commit":   {"-small", "10", "-factor", "3", "-job", "5", "-rounds", "2"},
		"resolve":  {"-n", "60"},
		"review":   {"-small", "20", "-large", "40", "-lists", "5", "-single", "3"},
		"replicas": {"-n", "1", "-slots", "2"},
		"memory":   {"-n", "40"},
		"query":    {"-small", "100", "-large", "200", "-reads", "20", "-small-chunks", "100", "-chunks", "300"},
	}
	for name, b := range benchmarks {
		t.Run(name, func(t *testing.T) {
			fs := flag.NewFlagSet(name, flag.ContinueOnError)
			measure := b.flags(fs)
			require.NoError(t, fs.Parse(args[name]))
			r := &room{bin: bin, tmp: t.TempDir(), log: io.Discard, report: report.New(name)}
			require.NoError(t, measure(t.Context(), r))
			require.NotEmpty(t, r.report.Figures)
			for _, f := range r.report.Figures {
				require.Positive(t, f.Value, "%+v", f)
			}
		})
	}
}
