package plan_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/plan"
)

func sample() *plan.Plan {
	return &plan.Plan{
		Graph: "default", Item: "stale|doc-1|r", Decision: "withdraw", Schema: "s1", Extraction: "e1",
		Base: []plan.Base{{"doc-1", 4}, {"doc-2", 1}},
		Changes: []plan.Change{
			{Op: plan.Remove, Kind: "relation", Label: "MEMBER_OF", Source: "Lin", SourceID: "1", Target: "Guild", TargetID: "2", Document: "doc-1", Left: 1,
				Quotes: []plan.Quote{{1, 0, 9, "Lin joined"}, {1, 20, 29, "Lin, of the Guild"}}},
			{Op: plan.Set, Kind: "property", Label: "founded", Source: "Guild", SourceID: "2", Value: int64(1999), Was: "1998"},
			{Op: plan.Add, Kind: "entity", Label: "Person", Source: "Mo", SourceID: "3", Document: "doc-1"},
		},
	}
}

// Fingerprints are public: this one never changes, on no machine.
func TestFingerprintIsGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/fingerprint.txt")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), sample().Fingerprint())
}

func TestFingerprintKnowsNoOrder(t *testing.T) {
	want := sample().Fingerprint()
	for seed := range uint64(20) {
		p, r := sample(), rand.New(rand.NewPCG(seed, 1))
		shuffle(r, p.Base)
		shuffle(r, p.Changes)
		for i := range p.Changes {
			shuffle(r, p.Changes[i].Quotes)
		}
		before, err := json.Marshal(p)
		require.NoError(t, err)
		require.Equal(t, want, p.Fingerprint())
		after, err := json.Marshal(p)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "it changes nothing")
		var again plan.Plan
		require.NoError(t, json.Unmarshal(after, &again))
		require.Equal(t, want, again.Fingerprint(), "also over the wire")
	}
}

func shuffle[E any](r *rand.Rand, list []E) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// Everything that a plan says is in its fingerprint.
func TestFingerprintTellsPlansApart(t *testing.T) {
	seen := map[string]int{sample().Fingerprint(): -1}
	for i, change := range []func(p *plan.Plan){
		func(p *plan.Plan) { p.Graph = "other" }, func(p *plan.Plan) { p.Item += "x" }, func(p *plan.Plan) { p.Decision = "keep" },
		func(p *plan.Plan) { p.Schema, p.Extraction = "s", "1e1" }, func(p *plan.Plan) { p.Base[0].Revision++ },
		func(p *plan.Plan) { p.Base[1].Document = "doc-3" }, func(p *plan.Plan) { p.Base = p.Base[:1] },
		func(p *plan.Plan) { p.Changes[0].Left++ }, func(p *plan.Plan) { p.Changes[0].Op = plan.Add }, func(p *plan.Plan) { p.Changes[0].Label = "LED" },
		func(p *plan.Plan) { p.Changes[0].Source = "Lyn" }, func(p *plan.Plan) { p.Changes[0].TargetID = "9" },
		func(p *plan.Plan) { p.Changes[0].Quotes[0].End++ }, func(p *plan.Plan) { p.Changes[0].Quotes[0].Text = "Lin" },
		func(p *plan.Plan) { p.Changes[0].Quotes = p.Changes[0].Quotes[:1] }, func(p *plan.Plan) { p.Changes[1].Value = int64(2000) },
		func(p *plan.Plan) { p.Changes[1].Value = "1999" }, func(p *plan.Plan) { p.Changes[1].Was = int64(1998) },
		func(p *plan.Plan) { p.Changes[2].Document = "doc-2" }, func(p *plan.Plan) { p.Changes = slices.Delete(p.Changes, 2, 3) },
	} {
		p := sample()
		change(p)
		fp := p.Fingerprint()
		if was, ok := seen[fp]; ok {
			require.Fail(t, "two plans, one fingerprint", "%d and %d", was, i)
		}
		seen[fp] = i
	}
}

func TestLines(t *testing.T) {
	require.Equal(t, []string{
		"~ founded of Guild: 1998 becomes 1999", "+ Person Mo  (doc-1)", "- Lin MEMBER_OF Guild  (doc-1)  1 left", "    “Lin joined”", "    “Lin, of the Guild”",
	}, sample().Canonical().Lines())
	edge := plan.Change{Op: plan.Set, Kind: "relation", Label: "WORKS_FOR", Source: "Lin", Target: "Acme", Was: "shown", Value: "not shown"}
	kept := edge
	kept.Value = "shown"
	require.Equal(t, []string{"~ Lin WORKS_FOR Acme: shown becomes not shown", "~ Lin WORKS_FOR Acme: stays shown"}, (&plan.Plan{Changes: []plan.Change{edge, kept}}).Lines())
}

// A long plan is shown in part; what is left out is counted.
func TestWithin(t *testing.T) {
	whole, left := sample().Within(10_000)
	require.Equal(t, 0, left)
	require.Equal(t, sample().Fingerprint(), whole.Fingerprint())
	p := sample()
	for i := range 100 {
		p.Base = append(p.Base, plan.Base{Document: strings.Repeat("d", 100), Revision: uint64(i)})
		p.Changes = append(p.Changes, plan.Change{Op: plan.Add, Kind: "entity", Source: strings.Repeat("x", i)})
	}
	for _, n := range []int{0, 3000, 10_000} {
		short, left := p.Within(n)
		require.Equal(t, len(p.Base)+len(p.Changes)-left, len(short.Base)+len(short.Changes))
		b, err := json.Marshal(short)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), n+200)
		require.Equal(t, n > 0, len(short.Base) > 0 && len(short.Changes) > 0)
	}
}

// A plan that is streamed has the fingerprint that it has when it is held whole; of other parts than were announced there is none.
func TestStream(t *testing.T) {
	p := &plan.Plan{Graph: "g", Item: "job|j1", Decision: "accept", Schema: "s", Extraction: "x", Base: []plan.Base{{"b", 2}, {"a", 0}}, Changes: []plan.Change{
		{Op: plan.Add, Kind: "stale", Label: "KNOWS", Source: "A", Target: "B", Document: "b", Left: 2},
		{Op: plan.Add, Kind: "candidate", Label: "Ship", Source: "Wren", Value: "entity|ship|wren", Document: "a", Quotes: []plan.Quote{{1, 9, 13, "Wren"}, {1, 0, 4, "Wren"}}},
		{Op: plan.Remove, Kind: "candidate", Label: "Ship", Source: "Lark", Value: "entity|ship|lark", Document: "a"},
		{Op: plan.Add, Kind: "kept", Label: "born", Source: "A", Value: int64(1), Document: "b"},
	}}
	want := p.Fingerprint()
	p.Canonical()
	stream := func(bases, changes int) (string, error) {
		s := plan.NewStream(plan.Plan{Graph: "g", Item: "job|j1", Decision: "accept", Schema: "s", Extraction: "x"}, bases, changes)
		for _, b := range p.Base {
			s.Base(b)
		}
		for _, c := range p.Changes {
			s.Change(c)
		}
		return s.Sum()
	}
	got, err := stream(2, 4)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = stream(2, 3)
	require.Error(t, err)
	require.Equal(t, []string{
		"- candidate Lark Ship  (a)", "+ candidate Wren Ship  (a)", "    “Wren”", "    “Wren”", "+ kept, not stated any more: born of A = 1  (b)",
		"+ to decide, not stated any more: A KNOWS B  (b)  2 other sources",
	}, p.Lines())
	none := plan.Plan{Graph: "g"}
	sum, err := plan.NewStream(none, 0, 0).Sum()
	require.NoError(t, err)
	require.Equal(t, none.Fingerprint(), sum)
}
