package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// homonymSchema has a property that tells people of one name apart.
const homonymSchema = `
entities:
  Person: {properties: {born: {type: date, identifies: true}}}
  Organization: {properties: {founded: {type: integer}}}
relations:
  WORKS_FOR: ["Person->Organization"]
rules:
  entities: {Person: {names: [John Smith, Mara Velt]}, Organization: {names: [Norrin Works]}}
`

var homonyms = []map[string]any{
	doc("older", "John Smith was born on 1 May 1950. John Smith works for Norrin Works."),
	doc("younger", "John Smith was born on 9 September 1962. He liked boats."),
	doc("either", "We met John Smith in the harbour. Mara Velt was born on 2 March 1971."),
	doc("firm", "Norrin Works was founded in 1901."),
	doc("firm2", "Norrin Works was founded in 1902. Mara Velt was born on 2 March 1971."),
}

// conflicts are what waits, "text property reason" → group.
func (c *cluster) conflicts(graph string) map[string]api.Group {
	c.t.Helper()
	out := map[string]api.Group{}
	for _, g := range ask[api.ReviewListReply](c, graph, "review.list", map[string]any{"kinds": []string{"conflict"}}).Groups {
		out[fmt.Sprintf("%s %s %s", g.Text, g.SourceText, g.Reasons[0])] = g
	}
	return out
}

// Two people of one name with different values of a property that identifies: one entity, a review item, and the evidence of each apart;
// through the whole pipeline, whatever the order, and as long as both are said.
func TestHomonymsWaitForReview(t *testing.T) {
	const john, firm = "John Smith born homonym", "Norrin Works founded property_conflict"
	f := newFleet(t, fleetOptions{Replicas: 1})
	for i, order := range [][]int{{0, 1, 2, 3, 4}, {4, 2, 1, 3, 0}, nil} {
		g := fmt.Sprint("g", i)
		f.putSchema(g, homonymSchema)
		if order == nil {
			f.cluster.add(g, homonyms...)
		}
		for _, n := range order {
			f.cluster.add(g, homonyms[n])
		}
		items := f.conflicts(g)
		require.Len(t, items, 2, "%v", items)
		x := items[john]
		require.Equal(t, []any{"Person", "pending", 2, 2, "1950-05-01 | 1962-09-09"}, []any{x.Label, x.State, x.Count, x.Documents, x.TargetText})
		require.Contains(t, items, firm)
		people := ask[api.SearchReply](f.cluster, g, "query.search", api.Search{Q: "John Smith", Kinds: []string{"entity"}})
		require.Len(t, people.Hits, 1, "one entity")

		shown := ask[api.ReviewShowReply](f.cluster, g, "review.show", api.ReviewShow{ID: x.IDs[0]})
		require.Equal(t, shown, ask[api.ReviewShowReply](f.cluster, g, "review.show", api.ReviewShow{Key: x.Key}))
		apart := map[any]string{}
		for _, v := range shown.Conflict.Values {
			require.Len(t, v.Evidence, 1)
			e := v.Evidence[0]
			require.Equal(t, e.Quote, f.document(g, e.Document, "").Text[e.Start:e.End])
			apart[v.Value] = e.Document + ": " + e.Quote
		}
		require.Equal(t, map[any]string{"1950-05-01": "older: 1 May 1950", "1962-09-09": "younger: 9 September 1962"}, apart)
		require.Equal(t, 1, shown.Conflict.UndecidedDocuments)
		require.Equal(t, []string{"either", "John Smith"}, []string{shown.Conflict.Undecided[0].Document, shown.Conflict.Undecided[0].Quote})
		require.Equal(t, map[string]int{"homonym": 1, "property_conflict": 1}, ask[api.ReviewStatsReply](f.cluster, g, "review.stats", nil).Conflicts)
		f.sound(g)

		require.Equal(t, "bad_value", refused(f.cluster, g, "review.approve", api.ReviewDecide{IDs: x.IDs, Actor: "eva"}).Code)

		f.remove(g, []string{"older", "younger", "younger"}[i])
		left := f.conflicts(g)
		require.NotContains(t, left, john, "one value is left")
		require.Contains(t, left, firm)
		f.sound(g)
	}
	list := f.conflicts("g0")
	require.True(t, slices.Equal([]string{"firm", "firm2"}, sorted(f.sources("g0", list[firm]))))
}

// sources are the documents that give a conflict's values.
func (c *cluster) sources(graph string, g api.Group) (out []string) {
	for _, v := range ask[api.ReviewShowReply](c, graph, "review.show", api.ReviewShow{Key: g.Key}).Conflict.Values {
		for _, e := range v.Evidence {
			out = append(out, e.Document)
		}
	}
	return out
}

// A conflict is decided by the plan that was shown, on any replica: a document that comes between refuses the decision and shows the new
// plan; of two people one decides; the value is shown from then on, and the next list knows it. The canonical export has the decision.
func TestConflictsAreDecided(t *testing.T) {
	const graph = "default"
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.putSchema(graph, homonymSchema)
	f.cluster.add(graph, homonyms...)
	founded := func() any {
		e := ask[api.EntityReply](f.cluster, graph, "query.entity", api.EntityGet{Type: "Organization", Name: "Norrin Works"})
		return e.Entity.Properties["founded"].Value
	}
	const firm = "Norrin Works founded property_conflict"
	item := f.conflicts(graph)[firm]
	show := func() api.ReviewShowReply {
		return ask[api.ReviewShowReply](f.cluster, graph, "review.show", api.ReviewShow{Key: item.Key})
	}
	old := show()
	require.Equal(t, old.Fingerprint, old.Plan.Fingerprint(), "as it came over the wire")
	require.Contains(t, old.Plan.Lines(), "~ founded of Norrin Works: 1902 becomes 1901")
	f.cluster.add(graph, doc("firm3", "Norrin Works was founded in 1902."))
	req := api.ReviewDecide{Keys: []string{item.Key}, Value: json.RawMessage(`"1901"`), Actor: "eva", Fingerprint: old.Fingerprint, RequestID: "first"}
	e := refused(f.cluster, graph, "review.approve", req)
	require.Equal(t, []any{409, "stale_plan", show().Fingerprint}, []any{e.Status, e.Code, e.Details["fingerprint"]})
	require.Contains(t, fmt.Sprint(e.Details["plan"]), "firm3")
	require.Equal(t, float64(1902), founded(), "nothing was decided")

	replies := make(chan error, 2)
	fingerprint := show().Fingerprint
	for _, who := range []string{"eva", "bo"} {
		go func() {
			replies <- f.conn.Request(t.Context(), "factmill."+graph+".review.approve",
				api.ReviewDecide{Keys: []string{item.Key}, Value: json.RawMessage(`1901`), Actor: who, Fingerprint: fingerprint, RequestID: who}, nil)
		}()
	}
	var lost *api.Error
	require.ErrorAs(t, errors.Join(<-replies, <-replies), &lost)
	require.Equal(t, "stale_plan", lost.Code)
	require.Equal(t, float64(1901), founded())
	require.NotContains(t, f.conflicts(graph), firm)
	require.Equal(t, map[string]int{"homonym": 1}, ask[api.ReviewStatsReply](f.cluster, graph, "review.stats", nil).Conflicts)
	shown := show()
	require.Equal(t, []any{"approved", 1, "choose"}, []any{shown.Item.State, len(shown.History), shown.History[0].Decision})
	require.Contains(t, f.exported(graph, 0), fmt.Sprintf(`{"key":%q,"kind":"decision","state":"approved"}`, item.Key))
	all := ask[api.ReviewListReply](f.cluster, graph, "review.list", map[string]any{"kinds": []string{"conflict"}, "state": "approved"})
	require.Equal(t, item.Key, all.Groups[0].Key)

	ask[api.DecideReply](f.cluster, graph, "review.undo", api.ReviewUndo{Decision: shown.History[0].Record, Actor: "eva"})
	require.Contains(t, f.conflicts(graph), firm)
	require.Equal(t, float64(1902), founded())
	ask[api.DecideReply](f.cluster, graph, "review.reject", api.ReviewDecide{Keys: []string{item.Key}, Value: json.RawMessage(`1902`), Actor: "eva", Fingerprint: show().Fingerprint})
	require.Equal(t, float64(1901), founded())
	f.remove(graph, "firm")
	f.cluster.add(graph, doc("firm", "Norrin Works was founded in 1903."))
	require.Equal(t, float64(1903), founded(), "the decision outlives readings")
	require.NotContains(t, f.conflicts(graph), firm)
	f.sound(graph)
}
