package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
)

func clash() api.Group {
	return api.Group{Key: "conflict|e1|born", Kind: api.KindConflict, Label: "Person", Text: "John\x1b[2J Smith", SourceText: "born", TargetText: "1950-05-01 | 1962-09-09",
		Reasons: []string{api.ReasonHomonym}, State: api.StatePending, Count: 3, Documents: 3, Confidence: 0.8, IDs: []string{"x1"}}
}

// A page of conflicts is a table; beside other kinds they are told like these.
func TestConflictsAreATable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Groups(&b, api.ReviewListReply{Groups: []api.Group{clash()}, Total: 1}, true))
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, []string{"ID", "LABEL", "NAME", "PROPERTY", "VALUES", "REASON", "STATE", "DOCUMENTS"}, strings.Fields(lines[0]))
	require.Regexp(t, `^x1 +Person +John.* Smith +born +1950-05-01 \| 1962-09-09 +homonym +pending +3 *$`, lines[1])
	require.Equal(t, "1 of 1 conflict", lines[2])
	require.NotContains(t, b.String(), "\x1b")
	b.Reset()
	require.NoError(t, Groups(&b, api.ReviewListReply{Groups: []api.Group{clash(), pair()}, Total: 2}, true))
	require.Contains(t, b.String(), "Smith  (Person)  born = 1950-05-01 | 1962-09-09")
	require.Contains(t, b.String(), "conflict pending  seen 3 times in 3 documents")
	require.Contains(t, b.String(), "2 of 2 groups")
}

// A conflict is shown with the evidence of each value apart.
func TestAConflictShown(t *testing.T) {
	quote := func(doc, before, quote string) []api.Surrounded {
		return []api.Surrounded{{Evidence: graph.Evidence{Document: doc, Start: 6, End: 12, Quote: quote}, Before: before, After: " in\nHull.\x1b[2J"}}
	}
	r := api.ReviewShowReply{Item: clash(), Conflict: &api.ConflictItem{ID: "x1", Owner: "e1", Label: "Person", Name: "John Smith", Property: "born", Reason: api.ReasonHomonym, ValuesTotal: 4,
		Values: []api.ConflictValue{{Value: "1950-05-01", Documents: 2, Confidence: 0.8, Evidence: quote("a.txt", "born on ", "1 May 1950")},
			{Value: "1962-09-09", Documents: 1, Confidence: 0.9, Evidence: quote("b.txt", "born on ", "9 September 1962")}},
		Undecided: quote("c.txt", "We met ", "John Smith"), UndecidedDocuments: 7},
		Planned: api.Planned{Fingerprint: "f00", PlanLeftOut: 3, Plan: &plan.Plan{Changes: []plan.Change{
			{Op: plan.Set, Kind: "property", Label: "born", Source: "John\x1b[2J Smith", Value: "1950-05-01", Was: "1962-09-09"},
			{Op: plan.Set, Kind: "property", Label: "born", Source: "John Smith", Value: "1950-05-01", Document: "a.txt", Quotes: []plan.Quote{{Text: "1 May 1950"}}}}}},
		History: []events.Audit{{Record: "rec1", Actor: "eva", Decision: "choose", Value: json.RawMessage(`1901`)}}}
	r.Conflict.Values[1].Rejected = true
	var b strings.Builder
	require.NoError(t, Item(&b, r))
	at := -1
	for _, want := range []string{"John Smith  (Person)  born", "homonym pending  4 values in 3 documents", "id x1  revision 0", "key conflict|e1|born", "of e1",
		"1950-05-01  2 documents  confidence 0.8", "shown", "born on »1 May 1950« in Hull.", "a.txt", "1962-09-09  1 document  confidence 0.90  rejected", "born on »9 September 1962« in Hull.", "b.txt",
		"and 2 more values", "undecided  7 documents without a value", "We met »John Smith«", "c.txt",
		"what approve does  fingerprint f00", "~ born of John", "1962-09-09 becomes 1950-05-01", "~ born of John Smith = 1950-05-01  (a.txt)", "“1 May 1950”", "and 3 more", "rec1", "eva", "choose 1901"} {
		next := strings.Index(b.String(), want)
		require.Greater(t, next, at, "%s in\n%s", want, b.String())
		at = next
	}
	require.NotContains(t, b.String(), "\x1b")
	b.Reset()
	require.NoError(t, ReviewStats(&b, api.ReviewStatsReply{Conflicts: map[string]int{"homonym": 3}}))
	require.Regexp(t, `(?s)conflicts\n.*homonym +3`, b.String())
}
