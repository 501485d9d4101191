package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/resolver"
)

// The corpus of the order tests: 150 documents and 50 rows of a file, over fifty names.
const (
	orderDocs = 150
	orderRows = 50
)

// prepare gives a graph the schema and settings of the corpus: chunks so small that most documents have several.
func (c *cluster) prepare(graphs ...string) {
	c.t.Helper()
	for _, g := range graphs {
		c.putSchema(g, corpusSchemaText())
		c.putSettings(g, map[string]string{"chunker.size": "40"})
	}
}

// prepareJudged is prepare with a judge of pairs of names, and no bounds to what it is asked.
func (c *cluster) prepareJudged(graphs ...string) {
	c.t.Helper()
	c.prepare(graphs...)
	for _, g := range graphs {
		c.putSettings(g, map[string]string{"resolver.judge": "ollama", "resolver.judge_model": "fake:1", "resolver.judge_budget": "10000", "resolver.judge_pairs": "50"})
	}
}

// arbiter is a model that judges pairs of names by the two alone: by the sum of their letters.
func arbiter(t testing.TB) *testkit.Model {
	return testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		var out []string
		for _, line := range strings.Split(c.Last(), "\n") {
			var p struct {
				Pair int
				A, B string
			}
			if json.Unmarshal([]byte(line), &p) != nil {
				continue
			}
			sum := 0
			for _, r := range p.A + p.B {
				sum += int(r)
			}
			out = append(out, fmt.Sprintf(`{"pair":%d,"verdict":%q,"reason":""}`, p.Pair, []string{"match", "no_match", "uncertain"}[sum%3]))
		}
		return testkit.ModelReply{Content: `{"answers":[` + strings.Join(out, ",") + `]}`}
	}})
}

// work is what jobs say they did. It does not depend on how often anything was done.
type work struct {
	chunks, sections, tables, processed, entities, relations, properties, mentions, candidates, newEntities, newRelations int
}

func (w *work) add(s api.Stages) {
	w.chunks += s.Chunking.Chunks
	w.sections += s.Chunking.Sections
	w.tables += s.Chunking.Tables
	w.processed += s.Extraction.ChunksProcessed
	w.entities += s.Extraction.Entities
	w.relations += s.Extraction.Relations
	w.properties += s.Extraction.Properties
	w.candidates += s.Extraction.CandidatesWritten
	w.mentions += s.Resolution.Exact
	w.newEntities += s.Merge.EntitiesCreated
	w.newRelations += s.Merge.RelationsCreated
}

// undisturbed is the canonical export of a corpus in one job, nothing shuffled, one replica, no fault; and what that job did.
func undisturbed(t *testing.T, c corpus) (export string, did work) {
	f := newFleet(t, fleetOptions{Resolver: resolver.Config{ModelURL: arbiter(t).URL()}})
	f.prepareJudged("default")
	s := f.run("default", map[string]any{"documents": append(append([]paper{}, c.docs...), c.file())})
	n := len(c.all())
	require.Equal(t, api.DocumentCounts{Total: n, Added: n}, s.Documents)
	f.sound("default")
	f.noDeadLetters()
	out := f.exported("default", 0)
	for _, kind := range []string{"document", "chunk", "entity", "relation", "candidate"} {
		require.Greater(t, strings.Count(out, `"kind":"`+kind+`"`), 20, kind)
	}
	for _, part := range []string{`"state":"active"`, `"state":"unclear"`, `"method":"model"`, `"state":"rejected"`} {
		require.Contains(t, out, part)
	}
	require.Positive(t, s.Stages.Resolution.Compared)
	require.Positive(t, s.Stages.Resolution.LLMRequests)
	did.add(s.Stages)
	return out, did
}

// TestOrderDoesNotMatter: the same documents give the same bytes, in one job or many, in any order, with any number of replicas,
// whatever is duplicated, delayed, delivered again or killed on the way.
func TestOrderDoesNotMatter(t *testing.T) {
	for _, seed := range seeds(t, 2) {
		c := newCorpus(seed, orderDocs, orderRows)
		want, wantWork := undisturbed(t, c)
		r := random(seed, "order")
		replicas := 1 + r.IntN(8)
		start := time.Now()
		f := newFleet(t, fleetOptions{Replicas: replicas, AckWait: 500 * time.Millisecond, Resolver: resolver.Config{ModelURL: arbiter(t).URL()}})
		graphs := []string{"one", "each", "some"}
		f.prepareJudged(graphs...)
		p := f.plague(seed, 40*time.Millisecond)

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
		added, did := map[string]int{}, map[string]*work{}
		for _, g := range graphs {
			did[g] = &work{}
			for _, s := range f.committed(g, jobs[g]) {
				added[g] += s.Documents.Added
				did[g].add(s.Stages)
				require.Equal(t, s.Documents.Total, s.Documents.Added, "job %s of %s: %+v", s.Job, g, s.Documents)
			}
		}
		p.cure()
		took := time.Since(start)
		for _, g := range graphs {
			require.Equal(t, orderDocs+orderRows, added[g], g)
			require.Equal(t, want, f.exported(g, 0), "seed %d, graph %s, %d jobs, %d replicas, %s", seed, g, len(jobs[g]), replicas, p)
			require.Equal(t, wantWork, *did[g], "seed %d, graph %s: %s", seed, g, p)
			f.sound(g)
		}
		f.restart("committer")
		require.Equal(t, want, f.exported("each", 0), "opened anew")
		f.noDeadLetters()
		t.Logf("seed %d: %d bytes of export, %d replicas of each, 1 + %d + %d jobs, %s, in %s",
			seed, len(want), replicas, len(jobs["each"]), len(jobs["some"]), p, took.Round(time.Millisecond))
		f.stopAll()
	}
}

// TestOrderDoesNotMatterToKilledProcesses is the same with processes that SIGKILL ends, two of each service but the committer.
func TestOrderDoesNotMatterToKilledProcesses(t *testing.T) {
	seed := seeds(t, 1)[0]
	corpus := newCorpus(seed, 60, 20)
	want, wantWork := undisturbed(t, corpus)
	c := sixProcesses(t, 2, "--ollama.url", arbiter(t).URL())
	c.prepareJudged("default")
	r := random(seed, "processes")
	all := corpus.all()
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kills := map[string]int{}
	kill := func() {
		service := stages[r.IntN(len(stages))]
		i := r.IntN(len(c.procs[service]))
		c.procs[service][i].kill()
		c.procs[service] = append(c.procs[service][:i], c.procs[service][i+1:]...)
		c.start(service)
		kills[service]++
	}
	var jobs []string
	for len(all) > 0 {
		n := min(len(all), 1+r.IntN(4))
		jobs = append(jobs, c.publish("default", map[string]any{"documents": all[:n]}))
		all = all[n:]
		kill()
	}
	var did work
	for _, s := range c.committed("default", jobs) {
		did.add(s.Stages)
	}
	c.ready(stages...)
	require.Equal(t, want, c.export("default"), "seed %d, %v", seed, kills)
	require.Equal(t, wantWork, did, "seed %d, %v", seed, kills)
	c.sound("default")
	c.noDeadLetters()
	t.Logf("seed %d: %d jobs, killed %v", seed, len(jobs), kills)
}
