package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// The corpus of the order tests: 150 documents and 50 rows of a file, over fifty names.
const (
	orderDocs = 150
	orderRows = 50
)

// prepare gives a graph the schema and settings of the corpus: chunks so small that most documents have several.
func (f *fleet) prepare(graphs ...string) {
	f.t.Helper()
	for _, g := range graphs {
		f.putSchema(g, corpusSchemaText())
		f.putSettings(g, map[string]string{"chunker.size": "40"})
	}
}

// undisturbed is the canonical export of a corpus in one job, nothing shuffled, one replica, no fault.
func undisturbed(t *testing.T, c corpus) string {
	f := newFleet(t, fleetOptions{})
	f.prepare("default")
	s := f.run("default", map[string]any{"documents": append(append([]paper{}, c.docs...), c.file())})
	require.Equal(t, api.DocumentCounts{Total: orderDocs + orderRows, Added: orderDocs + orderRows}, s.Documents)
	f.sound("default")
	f.noDeadLetters()
	out := f.exported("default", 0)
	for _, kind := range []string{"document", "chunk", "entity", "relation", "candidate"} {
		require.Greater(t, strings.Count(out, `"kind":"`+kind+`"`), 40, kind)
	}
	return out
}

// TestOrderDoesNotMatter: the same documents give the same bytes, in one job or many, in any order, with any number of replicas,
// whatever is duplicated, delayed, delivered again or killed on the way.
func TestOrderDoesNotMatter(t *testing.T) {
	for _, seed := range seeds(t, 3) {
		c := newCorpus(seed, orderDocs, orderRows)
		want := undisturbed(t, c)
		r := random(seed, "order")
		replicas := 1 + r.IntN(8)
		start := time.Now()
		f := newFleet(t, fleetOptions{Replicas: replicas, AckWait: 500 * time.Millisecond})
		graphs := []string{"one", "each", "some"}
		f.prepare(graphs...)
		p := f.plague(seed)

		jobs := map[string][]string{}
		publish := func(g string, docs ...paper) {
			jobs[g] = append(jobs[g], f.publish(g, map[string]any{"documents": docs}))
		}
		for _, g := range graphs {
			all := c.all()
			if g == "one" { // the rows as the file that they come in
				all = append(append([]paper(nil), c.docs...), c.file())
			}
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for len(all) > 0 {
				n := len(all)
				switch g {
				case "each":
					n = 1
				case "some":
					n = min(n, 1+r.IntN(40))
				}
				publish(g, all[:n]...)
				all = all[n:]
			}
		}
		added := map[string]int{}
		for _, g := range graphs {
			for _, s := range f.committed(g, jobs[g]) {
				added[g] += s.Documents.Added
				require.Equal(t, s.Documents.Total, s.Documents.Added, "job %s of %s: %+v", s.Job, g, s.Documents)
			}
		}
		p.cure()
		took := time.Since(start)
		for _, g := range graphs {
			require.Equal(t, orderDocs+orderRows, added[g], g)
			require.Equal(t, want, f.exported(g, 0), "seed %d, graph %s, %d jobs, %d replicas, %s", seed, g, len(jobs[g]), replicas, p)
			f.sound(g)
		}
		f.noDeadLetters()
		t.Logf("seed %d: %d bytes of export, %d replicas of each, 1 + %d + %d jobs, %s, in %s",
			seed, len(want), replicas, len(jobs["each"]), len(jobs["some"]), p, took.Round(time.Millisecond))
		f.stopAll()
	}
}
