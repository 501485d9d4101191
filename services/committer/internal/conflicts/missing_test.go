package conflicts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/query"
)

const strict = `
entities:
  Agent: {properties: {founded: {type: integer, required: true}}}
  Person: {properties: {born: {type: date, identifies: true, required: true}, height: {type: integer}}}
  Org: {parents: [Agent], properties: {seat: {type: string, required: true}}}
`

func missingKey(entity, property string) string {
	return fingerprint.ConflictKey(entityID(entity), property+":missing")
}

// lackers lists "name property state" of the missing values of a list, and checks it against verify --schema, page by page.
func (r *room) lackers(req api.ConflictsList) []string {
	r.t.Helper()
	out := []string{}
	for req.Limit = max(req.Limit, 1); ; {
		page := r.list(req)
		require.LessOrEqual(r.t, len(page.Groups), req.Limit)
		for _, x := range page.Groups {
			if slices.Equal(x.Reasons, []string{"missing_required"}) {
				out = append(out, x.Text+" "+x.SourceText+" "+x.State)
			}
		}
		if !page.More {
			break
		}
		last := page.Groups[len(page.Groups)-1].Place()
		req.After = &last
	}
	return out
}

// A required value that an entity lacks is an item with the places where the entity is named; to accept that it is missing outlives readings,
// until a value comes and goes.
func TestMissingRequired(t *testing.T) {
	r := newRoom(t)
	r.put(strict)
	r.commit("a", "Person:Lin height=170", "Org:Acme seat=Halden")
	r.commit("b", "Person:Lin", "Person:Bo born=1950-05-01")
	reply := r.list(api.ConflictsList{Limit: 9})
	require.Equal(t, []any{2, false, map[string]int{"missing_required": 2}}, []any{reply.Total, reply.More, reply.Reasons})
	key := missingKey("Person:Lin", "born")
	item := r.get(key).Item
	require.Contains(t, reply.Groups, item)
	require.Equal(t, []any{"Person", "Lin", "born", "", "pending", 0, 2, "Lin", []string{"missing_required"}},
		[]any{item.Label, item.Text, item.SourceText, item.TargetText, item.State, item.Count, item.Documents, item.Sample.Quote, item.Reasons})
	require.Equal(t, "founded", r.get(missingKey("Org:Acme", "founded")).Item.SourceText, "it is inherited")
	byID, err := r.Get(t.Context(), g, api.ConflictGet{ID: strings.ToUpper(item.IDs[0])})
	require.NoError(t, err)
	got := r.get(key)
	require.Equal(t, got, byID)
	require.Equal(t, []any{entityID("Person:Lin"), "born", 0, 2, 2}, []any{got.Conflict.Owner, got.Conflict.Property, got.Conflict.ValuesTotal, got.Conflict.UndecidedDocuments, len(got.Conflict.Undecided)})
	require.Contains(t, got.Conflict.Undecided[0].After, " has height 170")
	require.Equal(t, events.DecisionKeepAll, got.Plan.Decision)
	require.Len(t, got.Plan.Base, 2)
	require.Equal(t, []string{"~ pending becomes approved"}, got.Plan.Lines())
	for _, none := range []string{missingKey("Person:Bo", "born"), missingKey("Person:Lin", "height"), missingKey("Person:Nobody", "born"), missingKey("Org:Acme", "seat")} {
		require.Equal(t, "conflict_not_found", r.state(none), none)
	}

	// A value needs its evidence; nothing is there to reject.
	decide := func(decision string, value any) api.ConflictDecide {
		return api.ConflictDecide{Key: key, Decision: decision, Value: raw(value), Actor: "eva", Fingerprint: r.get(key).Fingerprint}
	}
	require.Contains(t, r.refused(400, "bad_value", decide("choose", "1950-05-01")).Message, "property candidate")
	require.Contains(t, r.refused(400, "bad_value", decide("reject", "1950-05-01")).Message, "a value needs its evidence")
	require.Contains(t, r.refused(400, "bad_value", decide("different", nil)).Message, "keep_all")
	old := decide("keep_all", nil)
	r.commit("b", "Person:Lin height=171", "Person:Bo born=1950-05-01")
	require.Equal(t, r.get(key).Fingerprint, r.refused(409, "stale_plan", old).Details["fingerprint"], "a document moved")
	before := r.exported()

	record := r.decide(key, "choose", nil)
	require.Equal(t, "approved: ", r.state(key))
	require.Equal(t, map[string]int{"missing_required": 1, "property_conflict": 1}, r.list(api.ConflictsList{}).Reasons)
	require.Contains(t, r.exported(), `{"key":"`+key+`","kind":"decision","state":"approved"}`)
	said, err := audit.Trail{Store: r.st, Graph: g}.Of(key)
	require.NoError(t, err)
	require.Equal(t, []any{"keep_all", "pending", "approved", item.IDs[0], got.Conflict.Reason}, []any{said[0].Decision, said[0].Before, said[0].After, said[0].ItemID, "missing_required"})
	require.JSONEq(t, `{"label": "Person", "name": "Lin", "property": "born", "reason": "missing_required", "values": null, "values_total": 0}`, string(said[0].Item))
	again, err := r.Decide(t.Context(), g, decide("keep_all", nil))
	require.NoError(t, err)
	require.Equal(t, map[string]string{key: api.SkippedApproved}, again.Outcome.Skipped)
	r.sound()
	r.undo(record)
	require.Equal(t, before, r.exported())
	require.Equal(t, "pending: ", r.state(key))

	record = r.decide(key, "keep_all", nil)
	r.commit("b", "Person:Lin", "Person:Bo born=1950-05-01")
	r.remove("a")
	r.remove("b")
	require.Equal(t, "conflict_not_found", r.state(key), "she is gone")
	r.commit("b", "Person:Lin")
	require.Equal(t, "approved: ", r.state(key), "it outlives her")
	r.put(strings.Replace(strict, "height: {type: integer}", "height: {type: integer, required: true}", 1))
	require.Equal(t, []string{"approved: ", "pending: "}, []string{r.state(key), r.state(missingKey("Person:Lin", "height"))}, "another property is required")
	r.put(first)
	require.Equal(t, "conflict_not_found", r.state(key), "none is")
	r.put(strict)
	require.Equal(t, "approved: ", r.state(key))
	r.commit("c", "Person:Lin born=1950-05-01")
	require.Equal(t, "conflict_not_found", r.state(key), "a value came")
	r.commit("c", "Person:Lin")
	require.Equal(t, "pending: ", r.state(key), "and went")
	require.Len(t, r.get(key).History, 3, "what was decided is in its history")
	require.Contains(t, r.refused(412, "decision_not_current", api.ConflictDecide{Record: record, Decision: "undo", Actor: "eva"}).Message, "a value came")
	r.sound()
}

// Of two who accept by the same screen one does; the retry of a request is answered the same.
func TestMissingTwice(t *testing.T) {
	r := newRoom(t)
	r.put(strict)
	r.commit("a", "Person:Lin")
	key := missingKey("Person:Lin", "born")
	req := api.ConflictDecide{Key: key, Decision: "keep_all", Actor: "eva", Fingerprint: r.get(key).Fingerprint, RequestID: "r1"}
	one, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	two, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Len(t, r.get(key).History, 1)
	req.RequestID = "r2"
	r.refused(409, "stale_plan", req)
}

// Things that were told apart count each by itself, the undecided one too.
func TestMissingOfHomonyms(t *testing.T) {
	r := newRoom(t)
	r.put(strings.Replace(strict, "height: {type: integer}", "height: {type: integer, required: true}", 1))
	r.commit("a", "Person:Lin born=1950-05-01", "Person:Lin height=170")
	r.commit("b", "Person:Lin born=1962-09-09")
	r.commit("c", "Person:Lin")
	require.Empty(t, r.lackers(api.ConflictsList{Limit: 9}))
	record := r.decide(fingerprint.ConflictKey(entityID("Person:Lin"), "born"), "different", nil)
	want := []string{"Lin born pending", "Lin height pending", "Lin height pending"}
	got := r.lackers(api.ConflictsList{Limit: 9})
	slices.Sort(got)
	require.Equal(t, want, got)
	r.sound()
	r.undo(record)
	require.Empty(t, r.lackers(api.ConflictsList{Limit: 9}))
	r.sound()
}

// Over any history, items are what verify --schema names, in pages of any size, and what was accepted is what a plain model says.
func TestMissingHistories(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 21))
		r := newRoom(t)
		r.put(strict)
		people := []string{"Lin", "Bo", "Cy", "Di", "Ed"}
		live, accepted := map[string]map[string]bool{}, map[string]bool{}
		says := func(what string) bool {
			for _, d := range live {
				if d[what] {
					return true
				}
			}
			return false
		}
		for range 25 {
			doc := fmt.Sprint("d", rng.IntN(5))
			if rng.IntN(4) == 0 && live[doc] != nil {
				r.remove(doc)
				delete(live, doc)
			} else {
				lines, d := []string{"Org:Acme seat=Halden"}, map[string]bool{}
				for _, p := range people {
					switch rng.IntN(5) {
					case 0:
						lines, d[p], d[p+" born"] = append(lines, fmt.Sprintf("Person:%s born=19%d0-01-01", p, 1+rng.IntN(2))), true, true
					case 1:
						lines, d[p] = append(lines, fmt.Sprintf("Person:%s height=%d", p, rng.IntN(2))), true
					case 2:
						lines, d[p] = append(lines, "Person:"+p), true
					}
				}
				r.commit(doc, lines...)
				live[doc] = d
			}
			for _, p := range people {
				if says(p + " born") {
					delete(accepted, p)
				}
			}
			if p := people[rng.IntN(5)]; says(p) && !says(p+" born") && !accepted[p] {
				r.decide(missingKey("Person:"+p, "born"), "keep_all", nil)
				accepted[p] = true
			}
			want, waits, problems := []string{}, []string{}, []string{}
			for _, p := range people {
				switch {
				case !says(p) || says(p+" born"):
				case accepted[p]:
					want = append(want, p+" born approved")
				default:
					want, waits = append(want, p+" born pending"), append(waits, p+" born pending")
				}
			}
			if len(live) > 0 {
				want, waits = append(want, "Acme founded pending"), append(waits, "Acme founded pending")
			}
			require.NoError(t, query.New(r.st, r).SchemaProblems(t.Context(), g, func(p api.Problem) { problems = append(problems, p.Key) }))
			require.Len(t, problems, len(want), "verify --schema names the same")
			for _, size := range []int{1, 2, 9} {
				got := r.lackers(api.ConflictsList{Limit: size})
				require.ElementsMatch(t, want, got, "seed %d", seed)
				got = r.lackers(api.ConflictsList{Limit: size, ConflictFilter: api.ConflictFilter{States: []string{"pending"}}})
				require.ElementsMatch(t, waits, got, "seed %d", seed)
			}
			settled := r.list(api.ConflictsList{Limit: 9, ConflictFilter: api.ConflictFilter{States: []string{"approved"}}})
			require.Equal(t, []int{len(want) - len(waits), len(want) - len(waits)}, []int{len(settled.Groups), settled.Total})
			born := r.list(api.ConflictsList{Limit: 9, ConflictFilter: api.ConflictFilter{Label: "person", Property: "born", States: []string{"pending"}}})
			require.Equal(t, len(born.Groups), born.Total)
			require.Equal(t, len(waits), r.list(api.ConflictsList{}).Reasons["missing_required"], "seed %d", seed)
			require.Empty(t, slices.DeleteFunc(r.list(api.ConflictsList{Limit: 9, ConflictFilter: api.ConflictFilter{MinCount: 1}}).Groups, func(x api.Group) bool { return x.Count > 0 }))
		}
		r.sound()
	}
}

// Any order of the same documents, and of the decision among them, gives the same export.
func TestMissingInAnyOrder(t *testing.T) {
	docs := [][]string{{"a", "Person:Lin height=1"}, {"b", "Person:Lin"}, {"c", "Person:Bo born=1950-05-01"}}
	want := ""
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		r := newRoom(t)
		r.put(strict)
		for _, d := range order {
			r.commit(docs[d][0], docs[d][1:]...)
			if r.state(missingKey("Person:Lin", "born")) == "pending: " {
				r.decide(missingKey("Person:Lin", "born"), "keep_all", nil)
			}
		}
		if want == "" {
			want = r.exported()
		}
		require.Contains(t, want, `born:missing`)
		require.Equal(t, want, r.exported(), "%v", order)
	}
}

// The first page, and the counts, of a graph in which three lack a value cost as much when it is ten times as large: what is read makes
// as many allocations.
func TestMissingAmongMany(t *testing.T) {
	costs := func(n int) (page, counts float64) {
		r := newRoom(t)
		manyBorn(r, n)
		cost := func(limit int) float64 {
			return testing.AllocsPerRun(5, func() {
				reply := r.list(api.ConflictsList{Limit: limit, ConflictFilter: api.ConflictFilter{States: []string{"pending"}}})
				require.Equal(t, map[string]int{"missing_required": 3}, reply.Reasons)
				require.Len(t, reply.Groups, min(limit, 3))
			})
		}
		return cost(100), cost(0)
	}
	page, counts := costs(1000)
	more, same := costs(10_000)
	require.InEpsilon(t, page, more, 0.1)
	require.InEpsilon(t, counts, same, 0.1)
}

// manyBorn fills a graph with people of whom three lack a value.
func manyBorn(r *room, n int) {
	r.t.Helper()
	r.put(strict)
	for i := 0; i < n; i += 1000 {
		var lines []string
		for j := i; j < i+1000; j++ {
			lines = append(lines, fmt.Sprintf("Person:P%d born=1950-05-01", j))
		}
		r.commit(fmt.Sprint("d", i), lines...)
	}
	r.commit("x", "Person:Lin", "Person:Bo height=1", "Person:Cy")
}
