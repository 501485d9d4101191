package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/resolver"
)

// quills are people of one rare family name, and the family name alone: as many unclear pairs as there are people.
func quills(n int) (names []string, schema string) {
	for _, given := range strings.Fields("Ann Bob Cid Dora Eve Fay Gus Hal Ida Joe Kim Leo")[:n] {
		names = append(names, given+" Quillfeather")
	}
	names = append(names, "Quillfeather")
	return names, "name: quills\nentities:\n  Person: A human being.\nrules:\n  entities:\n    Person: {names: [" + strings.Join(names, ", ") + "]}\n"
}

// A judge that answers one pair of ten, or answers for pairs that nobody asked about, leaves the others to a person; all of it is counted, and
// the requests are no more than a job may cause.
func TestJudgeThatAnswersBadly(t *testing.T) {
	short := `{"answers":[{"pair":0,"verdict":"match","reason":""},{"pair":7,"verdict":"match","reason":""}]}`
	for _, c := range []struct {
		name, reply    string
		people, budget int
		want           api.Resolution
		states         map[string]int
	}{
		{"two pairs, one out of range", short, 2, 200, api.Resolution{Compared: 3, Unclear: 1, Matched: api.Matched{LLM: 1}, LLMRequests: 1}, map[string]int{"active": 1, "unclear": 1}},
		{"two of ten", short, 10, 200, api.Resolution{Unclear: 8, Matched: api.Matched{LLM: 2}, LLMRequests: 1}, map[string]int{"active": 2, "unclear": 8}},
		{"one twice", `{"answers":[{"pair":0,"verdict":"match"},{"pair":0,"verdict":"no_match"},{"pair":1,"verdict":"no_match"}]}`, 2, 200,
			api.Resolution{Unclear: 1, LLMRequests: 1}, map[string]int{"unclear": 1, "rejected": 1}},
		{"no answers", "I would rather not.", 2, 200, api.Resolution{Unclear: 2, LLMRequests: 2, LLMFailed: 1}, map[string]int{"unclear": 2}},
		{"a budget of one request", short, 12, 1, api.Resolution{Unclear: 10, Matched: api.Matched{LLM: 2}, LLMRequests: 1, LLMLeft: 2}, map[string]int{"active": 2, "unclear": 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Content: c.reply})})
			f := newFleet(t, fleetOptions{Resolver: resolver.Config{ModelURL: m.URL()}})
			names, schema := quills(c.people)
			f.putSchema("g", schema)
			f.putSettings("g", map[string]string{"resolver.judge": "ollama", "resolver.judge_model": "fake:1", "resolver.judge_budget": fmt.Sprint(c.budget)})
			var docs []map[string]any
			for i, n := range names {
				docs = append(docs, doc(fmt.Sprint("d", i), n+" lived here."))
			}
			s := f.run("g", map[string]any{"documents": docs})
			got := s.Stages.Resolution
			c.want.Exact, c.want.Compared, c.want.Failures = got.Exact, got.Compared, got.Failures
			require.Equal(t, c.want, got)
			states := map[string]int{}
			for _, x := range parseExport(t, f.exported("g", 0)).matches {
				states[x.State]++
			}
			require.Equal(t, c.states, states)
			require.Equal(t, states, ask[api.StatsReply](f.cluster, "g", "query.stats", nil).ByMatch)
			require.Equal(t, c.want.LLMRequests, len(m.Calls()))
			f.sound("g")
		})
	}
}

// While the judge is away the job is committed and linked by names, says what waits and why, and the pairs are judged when it is back, whatever
// was restarted meanwhile.
func TestJudgeAway(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Content: `{"answers":[{"pair":0,"verdict":"match"},{"pair":1,"verdict":"no_match"}]}`})})
	m.Stop()
	f := newFleet(t, fleetOptions{Resolver: resolver.Config{ModelURL: m.URL()}})
	names, schema := quills(2)
	f.putSchema("g", schema)
	f.putSettings("g", map[string]string{"resolver.judge": "ollama", "resolver.judge_model": "fake:1"})
	job := f.publish("g", map[string]any{"documents": []map[string]any{doc("a", strings.Join(names, " met ")+".")}})
	var s api.JobStatus
	testkit.Await(t, "a reason", func() bool {
		s = ask[api.JobStatus](f.cluster, "g", "jobs.get", api.JobGet{Job: job, Wait: "1s"})
		return api.Settled(s) && len(s.Progress) > 0 && s.Progress[0].Why != ""
	})
	require.Equal(t, api.JobCommitted, s.State)
	require.Equal(t, api.StageLinker, s.Progress[0].Stage)
	require.Equal(t, 2, s.Progress[0].Waiting)
	require.Contains(t, s.Progress[0].Why, m.URL())
	require.Equal(t, 2, s.Stages.Resolution.Unclear)
	f.restart("committer")
	m.Start()
	s = f.settled("g", job)
	require.Equal(t, 1, s.Stages.Resolution.Matched.LLM)
	require.Equal(t, 0, s.Stages.Resolution.Unclear)
	f.sound("g")
}
