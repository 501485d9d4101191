package links

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/settings"
)

// scripted is a judge that answers by a function and remembers what it was asked.
type scripted struct {
	say   func(p api.JudgePair) string
	down  error
	mute  int // questions that the server answers with an error
	asked []string
}

func (s *scripted) Judge(_ context.Context, _ string, req api.JudgeRequest) (api.JudgeReply, error) {
	if s.down != nil {
		return api.JudgeReply{}, s.down
	}
	r := api.JudgeReply{PromptID: "judge/1", Requests: 1}
	for i, p := range req.Pairs {
		if s.mute > 0 {
			r.Verdicts = append(r.Verdicts, api.JudgeVerdict{Verdict: api.VerdictUncertain, Why: api.WhyModelError})
			if i == len(req.Pairs)-1 {
				s.mute--
			}
			continue
		}
		a, b := p.A, p.B
		if b < a {
			a, b = b, a
		}
		s.asked = append(s.asked, a+" ~ "+b)
		r.Verdicts = append(r.Verdicts, api.JudgeVerdict{Verdict: s.say(p)})
	}
	return r, nil
}

func judged(t T, j *scripted) *fixture {
	x := openFixture(t, vfs.NewMem(), Config{}, j)
	x.set.Resolver.Judge, x.set.Resolver.JudgeModel = settings.JudgeOllama, "fake:1"
	return x
}

// A model's word links, forbids, or leaves a pair to a person; it is asked once, whatever happens to the documents.
func TestJudge(t *testing.T) {
	j := &scripted{say: func(p api.JudgePair) string {
		switch {
		case p.Label == "Org":
			return api.VerdictMatch
		case p.A == "Mohammed Ali" || p.B == "Mohammed Ali":
			return api.VerdictNoMatch
		}
		return api.VerdictUncertain
	}}
	x := judged(t, j)
	x.commit(doc("a", "Org:ESA", "Org:European Space Agency", "Person:Mohammed Ali", "Person:Muhammad Ali", "Person:Quillfeather", "Person:Ann Quillfeather"))
	x.link()
	require.Equal(t, []string{"Ann Quillfeather ~ Quillfeather short name unclear", "ESA ~ European Space Agency acronym unclear", "Mohammed Ali ~ Muhammad Ali nickname unclear"}, x.matches())
	x.judge()
	want := []string{"Ann Quillfeather ~ Quillfeather short name unclear", "ESA ~ European Space Agency model active", "Mohammed Ali ~ Muhammad Ali model rejected"}
	require.Equal(t, want, x.matches())
	require.Len(t, j.asked, 3)
	said, err := x.l.Judged(g, fingerprint.EntityID("Org", "esa"), fingerprint.EntityID("Org", "european space agency"))
	require.NoError(t, err)
	require.Equal(t, &api.MatchJudged{Model: "fake:1", Prompt: "judge/1", Verdict: "match"}, said)
	s, err := x.l.Stats(g, "job-a")
	require.NoError(t, err)
	require.Equal(t, api.Resolution{Compared: 3, Unclear: 1, Matched: api.Matched{LLM: 1}, LLMRequests: 1}, s)
	x.verify()

	x.commit(gone("a"))
	x.link()
	require.Empty(t, x.matches())
	x.commit(doc("a", "Org:ESA", "Org:European Space Agency", "Person:Mohammed Ali", "Person:Muhammad Ali"))
	x.link()
	x.judge()
	require.Equal(t, want[1:], x.matches())
	require.Len(t, j.asked, 3, "what was said is remembered")

	// Another model is asked anew when the graph is compared anew.
	x.set.Resolver.JudgeModel = "fake:2"
	j.say = func(api.JudgePair) string { return api.VerdictUncertain }
	require.NoError(t, x.l.Reset(t.Context(), g))
	x.link()
	x.judge()
	require.Len(t, j.asked, 5)
	require.Equal(t, []string{"ESA ~ European Space Agency acronym unclear", "Mohammed Ali ~ Muhammad Ali nickname unclear"}, x.matches())
}

// While the model is away pairs wait, and nothing of them is lost.
func TestJudgeAway(t *testing.T) {
	away := errors.New("away")
	j := &scripted{say: func(api.JudgePair) string { return api.VerdictMatch }, down: away}
	x := judged(t, j)
	x.commit(doc("a", "Org:ESA", "Org:European Space Agency"))
	x.link()
	require.ErrorIs(t, x.l.of(g).ask(t.Context()), away)
	require.Equal(t, 1, x.l.Status(g, "").Waiting)
	s, err := x.l.Stats(g, "job-a")
	require.NoError(t, err)
	require.Zero(t, s.LLMRequests)
	j.down = nil
	x.judge()
	require.Equal(t, []string{"ESA ~ European Space Agency model active"}, x.matches())
	require.Zero(t, x.l.Status(g, "").Waiting)
	// A pair of which one side went meanwhile is not asked about.
	j.down = away
	x.commit(doc("b", "Org:NATO Support Agency", "Org:NSA"))
	x.link()
	x.commit(gone("b"))
	x.link()
	j.down = nil
	x.judge()
	require.Len(t, j.asked, 1)
	require.Zero(t, x.l.Status(g, "").Waiting)
}

// A model that answers with errors has said nothing: the pair waits on, within the budget.
func TestJudgeAnswersWithErrors(t *testing.T) {
	j := &scripted{say: func(api.JudgePair) string { return api.VerdictMatch }, mute: 1}
	x := judged(t, j)
	x.commit(doc("a", "Org:ESA", "Org:European Space Agency"))
	x.link()
	require.ErrorIs(t, x.l.of(g).ask(t.Context()), errNoAnswer)
	require.Equal(t, 1, x.l.Status(g, "").Waiting)
	x.judge()
	require.Equal(t, []string{"ESA ~ European Space Agency model active"}, x.matches())
	s, err := x.l.Stats(g, "job-a")
	require.NoError(t, err)
	require.Equal(t, 2, s.LLMRequests)

	j.mute = 100
	x.set.Resolver.JudgeBudget = 3
	x.commit(doc("b", "Org:NSA", "Org:NATO Support Agency"))
	x.link()
	for range 2 {
		require.ErrorIs(t, x.l.of(g).ask(t.Context()), errNoAnswer)
	}
	x.judge()
	require.Equal(t, 1, x.l.Status(g, "").Postponed)
}

// A job's budget postpones pairs; a later job that needs less asks about them.
func TestJudgeBudget(t *testing.T) {
	j := &scripted{say: func(api.JudgePair) string { return api.VerdictMatch }}
	x := judged(t, j)
	x.set.Resolver.JudgeBudget = 1
	x.set.Resolver.JudgePairs = 50
	var all []string
	for _, given := range []string{"Ann", "Bob", "Cid", "Dora", "Eve", "Fay", "Gus", "Hal", "Ida", "Joe", "Kim", "Leo"} {
		all = append(all, "Person:"+given+" Quillfeather")
	}
	x.commit(doc("a", append(all, "Person:Quillfeather")...))
	x.link()
	x.judge()
	require.Len(t, j.asked, 10)
	st := x.l.Status(g, "")
	require.Equal(t, 2, st.Waiting)
	require.Equal(t, 2, st.Postponed)
	x.commit(doc("b", "Org:Nobody"))
	x.link()
	x.judge()
	require.Len(t, j.asked, 12)
	require.Zero(t, x.l.Status(g, "").Waiting)
	b, err := x.l.Stats(g, "job-b")
	require.NoError(t, err)
	require.Equal(t, api.Resolution{LLMRequests: 1}, b, "it paid for them")
	a, err := x.l.Stats(g, "job-a")
	require.NoError(t, err)
	require.Equal(t, 12, a.Matched.LLM)
	require.Equal(t, 0, a.Unclear)
}

// No more pairs of an entity are asked about than are allowed, the likeliest first.
func TestJudgePairsOfAnEntity(t *testing.T) {
	j := &scripted{say: func(api.JudgePair) string { return api.VerdictUncertain }}
	x := judged(t, j)
	x.set.Resolver.JudgePairs = 2
	x.commit(doc("a", "Person:Ann Quillfeather", "Person:Bob Quillfeather", "Person:Cid Quillfeather"))
	x.link()
	x.commit(doc("b", "Person:Quillfeather"))
	x.link()
	x.judge()
	require.Len(t, j.asked, 2)
	s, err := x.l.Stats(g, "job-b")
	require.NoError(t, err)
	require.Equal(t, 1, s.CapLeft)
	require.Len(t, x.matches(), 3, "a person decides all of them")
}
