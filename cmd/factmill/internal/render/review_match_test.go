package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func pair() api.Group {
	return api.Group{Key: "match|e1|e2", Kind: api.KindMatch, Label: "Organization", Text: "Norrin\x1b[2J ~ Norrin Ltd", SourceText: "Norrin\x1b[2J", TargetText: "Norrin Ltd",
		Reasons: []string{"legal suffix"}, State: api.StatePending, Count: 3, Documents: 2, Confidence: 0.965, IDs: []string{"m1"}}
}

// A page of matches is a table; beside other kinds they are told like these. Names do not reach the terminal as they are.
func TestMatchesAreATable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Groups(&b, api.ReviewListReply{Groups: []api.Group{pair()}, Total: 1}, true))
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, []string{"ID", "LABEL", "A", "B", "METHOD", "SCORE", "STATE", "DOCUMENTS"}, strings.Fields(lines[0]))
	require.Regexp(t, `^m1 +Organization +Norrin.* +Norrin Ltd +legal suffix +0\.9[67]\d* +pending +2 *$`, lines[1])
	require.Equal(t, "1 of 1 match", lines[2])
	require.NotContains(t, b.String(), "\x1b")
	b.Reset()
	require.NoError(t, Groups(&b, api.ReviewListReply{Groups: []api.Group{pair(), {Kind: "entity", Text: "Larch", Key: "entity|x|larch"}}, Total: 2}, true))
	require.Contains(t, b.String(), "match pending  seen 3 times in 2 documents")
	require.NotContains(t, b.String(), "METHOD")
	b.Reset()
	one, two := pair(), pair()
	one.Fits = 3
	require.NoError(t, Groups(&b, api.ReviewListReply{Groups: []api.Group{one, two}, Total: 2}, true))
	require.Regexp(t, `DOCUMENTS +FIT *\n.* +2 +3 *\n.* +2 +1 *\n`, b.String())
}

// A match is shown with both sides and what was decided.
func TestAMatchShown(t *testing.T) {
	quote := func(before, quote, after string) []api.Surrounded {
		return []api.Surrounded{{Evidence: graph.Evidence{Document: "a.txt", Start: 6, End: 12, Quote: quote}, Before: before, After: after}}
	}
	r := api.ReviewShowReply{Item: pair(), Revision: 4, Match: &api.MatchItem{ID: "m1", Method: "legal suffix", Score: 0.965, Found: "pending",
		A:       api.MatchSide{ID: "e1", Label: "Organization", Name: "Norrin", Names: []string{"Norrin", "NORRIN"}, Documents: 1, Mentions: 2, Evidence: quote("At\nthe ", "Norrin", " works.\x1b[2J")},
		B:       api.MatchSide{ID: "e2", Label: "Organization", Name: "Norrin Ltd", Names: []string{"Norrin Ltd"}, Documents: 1, Mentions: 1},
		Fits:    []api.MatchFits{{Entity: "e1", Name: "Norrin", Total: 3, Fits: []api.MatchFit{{ID: "m1", Entity: "e2", Name: "Norrin Ltd", State: "pending"}, {ID: "m2", Entity: "e3", Name: "Norrin\x1b Inc", State: "active"}}}},
		Decided: &api.MatchDecided{Decision: "same", Actor: "eva", Reason: "one letterhead", At: "2026-01-02T03:04:05Z"}},
		History: []events.Audit{{Record: "r1", Actor: "eva", Decision: "same", Before: "pending", After: "approved", Reason: "one letterhead", At: "2026-01-02T03:04:05Z"}}}
	var b strings.Builder
	require.NoError(t, Item(&b, r))
	for _, want := range []string{"eva says same", "because one letterhead", "found pending", "id m1  revision 4", "key match|e1|e2", "Norrin  (Organization)  2 mentions in 1 document", "written Norrin | NORRIN",
		"At the »Norrin« works.", "entity e1", "entity e2", "3 entities fit Norrin\n", "and 1 more", "choose one: factmill review approve --id m1 --entity ENTITY", "RECORD", "r1"} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), "\x1b")
}

// An outcome says what changed by which record, and why something did not.
func TestOutcome(t *testing.T) {
	var b strings.Builder
	r := api.DecideReply{Outcome: api.Outcome{Changed: []string{"match|e1|e2"}, Skipped: map[string]string{"m7": "already approved"}}, Records: map[string]string{"match|e1|e2": "r1"}}
	require.NoError(t, Outcome(&b, r, "approved"))
	require.Regexp(t, `^1 match approved\n +KEY +RECORD *\n +match\|e1\|e2 +r1 *\nskipped m7: already approved\n$`, b.String())
	for i := range 60 {
		r.Outcome.Changed = append(r.Outcome.Changed, strings.Repeat("k", i+1))
	}
	b.Reset()
	require.NoError(t, Outcome(&b, r, "rejected"))
	require.Contains(t, b.String(), "61 matches rejected\n")
	require.Contains(t, b.String(), "  and 11 more\n")
}
