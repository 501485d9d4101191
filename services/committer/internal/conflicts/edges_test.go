package conflicts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/query"
)

const bounded = `
entities: {Person: {}, Org: {}}
relations: {WORKS_FOR: {patterns: ["Person->Org"], cardinality: {max_per_source: 1, max_per_target: 2}}}
`

func worksFor(person, org string) string {
	return fingerprint.RelationID("WORKS_FOR", entityID("Person:"+person), entityID("Org:"+org), false)
}

// shows lists the relations of an entity as reads show them, hidden ones with why; and its neighbours.
func (r *room) shows(name string) (relations, neighbors []string) {
	r.t.Helper()
	q := query.New(r.st, r)
	e, err := q.Entity(r.t.Context(), g, api.EntityGet{ID: entityID(name)})
	require.NoError(r.t, err)
	for _, x := range e.Relations {
		relations = append(relations, strings.TrimSpace(x.TargetName+" "+x.Hidden))
	}
	n, err := q.Neighbors(r.t.Context(), g, api.Neighbors{ID: entityID(name)})
	require.NoError(r.t, err)
	for _, x := range n.Edges {
		neighbors = append(neighbors, x.TargetName)
	}
	return sorted(relations), sorted(neighbors)
}

// Relations beyond the cardinality are an item while they are; what is decided about them is applied by reads, outlives readings, and
// comes back when its evidence goes or another relation comes.
func TestExcessRelations(t *testing.T) {
	r := newRoom(t)
	r.put(bounded)
	r.commit("a", "Person:Lin WORKS_FOR Org:Acme x=1")
	require.Empty(t, r.list(api.ConflictsList{Limit: 9}).Groups)
	r.commit("b", "Person:Lin WORKS_FOR Org:Bolt x=1")
	r.commit("c", "Person:Lin WORKS_FOR Org:Bolt x=1")
	lin := fingerprint.ConflictKey(entityID("Person:Lin"), "WORKS_FOR:source")
	reply := r.list(api.ConflictsList{Limit: 9})
	require.Equal(t, map[string]int{"cardinality": 1}, reply.Reasons)
	require.Len(t, reply.Groups, 1)
	item := reply.Groups[0]
	require.Equal(t, []any{lin, "WORKS_FOR", "Lin", "WORKS_FOR:source", "Lin WORKS_FOR Bolt | Lin WORKS_FOR Acme", []string{"cardinality"}, "pending", 3, 3},
		[]any{item.Key, item.Label, item.Text, item.SourceText, item.TargetText, item.Reasons, item.State, item.Count, item.Documents})
	got := r.get(lin)
	require.Equal(t, []any{worksFor("Lin", "Bolt"), "Lin WORKS_FOR Bolt", entityID("Org:Bolt"), 2}, []any{got.Conflict.Values[0].Value, got.Conflict.Values[0].Text, got.Conflict.Values[0].Entity, got.Conflict.Values[0].Documents})
	require.Len(t, got.Conflict.Values[0].Evidence, 2)
	require.Contains(t, strings.Join(got.Plan.Lines(), "\n"), "~ Lin WORKS_FOR Acme")
	r.refused(400, "bad_value", api.ConflictDecide{Key: lin, Decision: "choose", Value: raw("Wren"), Actor: "eva", Fingerprint: got.Fingerprint})
	r.refused(400, "bad_value", api.ConflictDecide{Key: lin, Decision: "different", Actor: "eva", Fingerprint: got.Fingerprint})
	before := r.exported()

	record := r.decide(lin, "choose", "Acme")
	require.Equal(t, "approved: "+worksFor("Lin", "Acme")+" "+worksFor("Lin", "Bolt"), r.state(lin))
	all, near := r.shows("Person:Lin")
	require.Equal(t, [][]string{{"Acme", "Bolt not_chosen"}, {"Acme"}}, [][]string{all, near})
	require.Contains(t, r.exported(), `,"hidden":"not_chosen","id":"`+worksFor("Lin", "Bolt")+`"`)
	require.Contains(t, r.exported(), `{"key":"`+lin+`","kind":"decision","state":"approved"}`)
	require.Empty(t, r.list(api.ConflictsList{Limit: 9}).Reasons)
	r.sound()
	r.commit("a", "Person:Lin WORKS_FOR Org:Acme x=2")
	require.Equal(t, api.StateApproved, r.get(lin).Item.State, "it outlives readings")
	r.commit("d", "Person:Lin WORKS_FOR Org:Wren x=1")
	require.Equal(t, api.StatePending, r.get(lin).Item.State, "another relation came")
	r.remove("d")
	r.remove("a")
	all, near = r.shows("Person:Lin")
	require.Equal(t, [][]string{{"Bolt"}, {"Bolt"}}, [][]string{all, near}, "what was chosen is gone")
	r.commit("d", "Person:Lin WORKS_FOR Org:Wren x=1")
	require.Equal(t, api.StatePending, r.get(lin).Item.State, "nobody says the chosen one any more")
	r.remove("d")
	r.commit("a", "Person:Lin WORKS_FOR Org:Acme x=1")
	r.undo(record)
	require.Equal(t, before, r.exported())

	record = r.decide(lin, "reject", worksFor("Lin", "Bolt"))
	require.Equal(t, "rejected: "+worksFor("Lin", "Acme")+" -"+worksFor("Lin", "Bolt"), r.state(lin))
	all, near = r.shows("Person:Lin")
	require.Equal(t, [][]string{{"Acme", "Bolt rejected"}, {"Acme"}}, [][]string{all, near})
	_, err := query.New(r.st, r).Neighbors(t.Context(), g, api.Neighbors{ID: entityID("Org:Bolt")})
	require.NoError(t, err)
	r.put(strings.Replace(bounded, "max_per_source: 1, ", "", 1))
	require.Equal(t, "conflict_not_found", r.state(lin), "the schema bounds it no more")
	all, _ = r.shows("Person:Lin")
	require.Equal(t, []string{"Acme", "Bolt"}, all)
	r.put(bounded)
	r.undo(record)
	r.decide(lin, "keep_all", nil)
	all, near = r.shows("Person:Lin")
	require.Equal(t, [][]string{{"Acme", "Bolt"}, {"Acme", "Bolt"}}, [][]string{all, near})

	// At the other end, where two are allowed.
	acme := fingerprint.ConflictKey(entityID("Org:Acme"), "WORKS_FOR:target")
	r.commit("m", "Person:Mo WORKS_FOR Org:Acme x=1")
	require.Equal(t, "conflict_not_found", r.state(acme))
	r.commit("n", "Person:Ned WORKS_FOR Org:Acme x=1")
	require.Equal(t, api.StatePending, r.get(acme).Item.State)
	r.decide(acme, "reject", "Ned")
	require.Equal(t, api.StateRejected, r.get(acme).Item.State, "two are left")
	_, near = r.shows("Person:Ned")
	require.Empty(t, near)
	r.sound()
}

// Any order of the same documents, and of the decision among them, gives the same export.
func TestExcessInAnyOrder(t *testing.T) {
	docs := [][]string{{"a", "Person:Lin WORKS_FOR Org:Acme x=1"}, {"b", "Person:Lin WORKS_FOR Org:Bolt x=1"}, {"c", "Person:Mo WORKS_FOR Org:Acme x=1"}}
	lin := fingerprint.ConflictKey(entityID("Person:Lin"), "WORKS_FOR:source")
	want := ""
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		r := newRoom(t)
		r.put(bounded)
		for _, d := range order {
			r.commit(docs[d][0], docs[d][1:]...)
			if r.state(lin) != "conflict_not_found" && r.get(lin).Item.State == api.StatePending {
				r.decide(lin, "choose", "Bolt")
			}
		}
		if want == "" {
			want = r.exported()
		}
		require.Contains(t, want, "not_chosen")
		require.Equal(t, want, r.exported(), "%v", order)
	}
}
