package conflicts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/services/committer/internal/audit"
)

var (
	bornKey   = fingerprint.ConflictKey(entityID("Person:John Smith"), "born")
	heightKey = fingerprint.ConflictKey(entityID("Person:John Smith"), "height")
	sinceKey  = fingerprint.ConflictKey(fingerprint.RelationID("WORKS_FOR", entityID("Person:John Smith"), entityID("Org:Acme"), false), "since")
)

func (r *room) get(key string) api.ConflictReply {
	r.t.Helper()
	reply, err := r.Get(r.t.Context(), g, api.ConflictGet{Key: key})
	require.NoError(r.t, err)
	return reply
}

func raw(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// decide takes a decision by what is shown now and returns the record.
func (r *room) decide(key, decision string, value any) string {
	r.t.Helper()
	reply, err := r.Decide(r.t.Context(), g, api.ConflictDecide{Key: key, Decision: decision, Value: raw(value), Actor: "eva", Fingerprint: r.get(key).Fingerprint})
	require.NoError(r.t, err)
	require.Equal(r.t, []string{key}, reply.Outcome.Changed, "%v", reply.Outcome)
	return reply.Records[key]
}

func (r *room) undo(record string) {
	r.t.Helper()
	reply, err := r.Decide(r.t.Context(), g, api.ConflictDecide{Record: record, Decision: "undo", Actor: "eva"})
	require.NoError(r.t, err)
	require.Len(r.t, reply.Outcome.Changed, 1)
}

func (r *room) refused(status int, code string, req api.ConflictDecide) *api.Error {
	r.t.Helper()
	seq := r.list(api.ConflictsList{}).Seq
	_, err := r.Decide(r.t.Context(), g, req)
	var e *api.Error
	require.True(r.t, errors.As(err, &e), "%+v: %v", req, err)
	require.Equal(r.t, []any{status, code}, []any{e.Status, e.Code}, "%+v: %s", req, e.Message)
	require.True(r.t, strings.HasPrefix(api.Codes[code], fmt.Sprint(status)))
	require.Equal(r.t, seq, r.list(api.ConflictsList{}).Seq, "nothing was written")
	return e
}

func (r *room) sound() {
	r.t.Helper()
	v, err := r.st.Verify(r.t.Context(), g, nil)
	require.NoError(r.t, err)
	require.Empty(r.t, v.Problems)
	_, err = audit.Trail{Store: r.st, Graph: g}.Verify(r.t.Context(), func(p api.Problem) { require.Fail(r.t, "audit", "%v", p) })
	require.NoError(r.t, err)
}

// state is an item in words: "state: values, the shown one first".
func (r *room) state(key string) string {
	reply, err := r.Get(r.t.Context(), g, api.ConflictGet{Key: key})
	var e *api.Error
	if errors.As(err, &e) {
		return e.Code
	}
	require.NoError(r.t, err)
	var values []string
	for _, v := range reply.Conflict.Values {
		s := word(v.Value)
		if v.Rejected {
			s = "-" + s
		}
		values = append(values, s)
	}
	listed := r.list(api.ConflictsList{ConflictFilter: api.ConflictFilter{IDs: reply.Item.IDs, States: []string{reply.Item.State}}, Limit: 9})
	require.Len(r.t, listed.Groups, 1, "the list says the same")
	require.Equal(r.t, reply.Item, listed.Groups[0])
	return reply.Item.State + ": " + strings.Join(values, " ")
}

// A decision settles an item for the values it was made on: it comes back when the chosen value's last evidence goes, and when a value
// comes that nobody saw.
func TestChooseSettles(t *testing.T) {
	r := newRoom(t)
	r.fill()
	require.Equal(t, "pending: 1950-05-01 1962-09-09", r.state(bornKey))
	rec := r.decide(bornKey, "choose", "1962-09-09")
	require.Equal(t, "approved: 1962-09-09 1950-05-01", r.state(bornKey))
	got := r.get(bornKey)
	require.Equal(t, uint64(7), got.Item.Revision)
	require.Len(t, got.History, 1)
	h := got.History[0]
	require.Equal(t, []any{rec, "choose", "eva", "pending", "approved", `"1962-09-09"`, "conflict", uint64(7), "c7"},
		[]any{h.Record, h.Decision, h.Actor, h.Before, h.After, string(h.Value), h.Kind, h.Seq, h.Operation})
	require.NotEmpty(t, h.Plan)
	require.Contains(t, string(h.Item), `"values":[{"value":"1950-05-01","documents":2},{"value":"1962-09-09","documents":1}]`)
	reply := r.list(api.ConflictsList{ConflictFilter: api.ConflictFilter{States: []string{"pending"}}, Limit: 9})
	require.Equal(t, []any{3, map[string]int{"homonym": 1, "property_conflict": 2}}, []any{len(reply.Groups), reply.Reasons}, "it waits no more")
	require.Len(t, r.list(api.ConflictsList{Limit: 9}).Groups, 4)

	r.commit("d", "Person:John_Smith born=1950-05-01")
	require.Equal(t, "approved: 1962-09-09 1950-05-01", r.state(bornKey), "what was seen is said again")
	r.commit("n", "Person:John_Smith born=1970-01-01")
	require.Equal(t, "pending: 1962-09-09 1950-05-01 1970-01-01", r.state(bornKey), "a value came; the chosen one is shown meanwhile")
	require.Len(t, r.get(bornKey).History, 1)
	r.decide(bornKey, "choose", nil)
	require.Equal(t, "approved: 1962-09-09 1950-05-01 1970-01-01", r.state(bornKey))
	r.remove("b")
	require.Equal(t, "pending: 1950-05-01 1970-01-01", r.state(bornKey), "nobody says the chosen one any more")
	r.commit("b", "Person:John_Smith born=1962-09-09")
	require.Equal(t, "approved: 1962-09-09 1950-05-01 1970-01-01", r.state(bornKey), "the decision outlives readings")
	r.sound()
}

func TestKeepAllAndReject(t *testing.T) {
	r := newRoom(t)
	r.fill()
	r.decide(bornKey, "keep_all", nil)
	require.Equal(t, "approved: 1950-05-01 1962-09-09", r.state(bornKey))
	r.commit("n", "Person:John_Smith born=1970-01-01")
	require.Equal(t, "pending: 1950-05-01 1962-09-09 1970-01-01", r.state(bornKey))
	r.decide(bornKey, "keep_all", nil)

	r.commit("h", "Person:John_Smith height=182")
	r.decide(heightKey, "reject", "181")
	require.Equal(t, "pending: 180 182 -181", r.state(heightKey), "two are left")
	r.decide(heightKey, "reject", "180")
	require.Equal(t, "rejected: 182 -180 -181", r.state(heightKey))
	r.decide(heightKey, "choose", "180")
	require.Equal(t, "approved: 180 182 -181", r.state(heightKey), "chosen, so rejected no more")
	r.decide(sinceKey, "reject", "1970")
	require.Equal(t, "rejected: 1971 -1970", r.state(sinceKey), "of a relation too")
	require.Empty(t, r.list(api.ConflictsList{ConflictFilter: api.ConflictFilter{States: []string{"pending"}, Label: "Person"}, Limit: 9}).Groups)
	r.sound()
}

// The plan is of the approval: it names the values, who states them, where, and what was decided before. Its fingerprint is another one as
// soon as any of it is.
func TestPlan(t *testing.T) {
	r := newRoom(t)
	r.fill()
	got := r.get(bornKey)
	require.Equal(t, got.Fingerprint, got.Plan.Fingerprint())
	require.Equal(t, []any{g, bornKey, "choose", r.active.Fingerprint(), 0}, []any{got.Plan.Graph, got.Plan.Item, got.Plan.Decision, got.Plan.Schema, got.PlanLeftOut})
	require.Equal(t, []plan.Base{{Document: "a", Revision: 1}, {Document: "b", Revision: 1}, {Document: "c", Revision: 1}}, got.Plan.Base)
	require.Equal(t, []string{"~ born of John Smith: 1962-09-09 becomes 1950-05-01", "~ pending becomes approved",
		"~ born of John Smith = 1950-05-01  (a)", "    “1950-05-01”", "~ born of John Smith = 1950-05-01  (c)", "    “1950-05-01”"}, got.Plan.Lines())
	seen := map[string]string{}
	differs := func(what string) {
		t.Helper()
		f := r.get(bornKey).Fingerprint
		require.Equal(t, f, r.get(bornKey).Fingerprint)
		require.Empty(t, seen[f], "%s: as %s", what, seen[f])
		seen[f] = what
	}
	differs("at first")
	r.commit("e", "Person:John_Smith height=170")
	require.NotEmpty(t, seen[r.get(bornKey).Fingerprint], "a document that says nothing about it")
	r.commit("a", "Person:John_Smith born=1950-05-01", "Person:John_Smith")
	differs("a document was read again")
	r.commit("e", "Person:John_Smith born=1962-09-09")
	differs("another one says it")
	r.commit("f", "Person:John_Smith born=1963-01-01")
	differs("a value came")
	rec := r.decide(bornKey, "keep_all", nil)
	differs("kept")
	r.undo(rec)
	require.Equal(t, "a value came", seen[r.get(bornKey).Fingerprint], "as if it had not been")
	rec = r.decide(bornKey, "choose", nil)
	differs("chosen")
	r.decide(bornKey, "reject", "1963-01-01")
	differs("rejected")
}

// A decision by a plan that is not the one of now is refused with the new plan; one by the plan of now is taken.
func TestStalePlan(t *testing.T) {
	r := newRoom(t)
	r.fill()
	old := r.get(heightKey)
	req := api.ConflictDecide{Key: heightKey, Decision: "choose", Value: raw(180), Actor: "eva", Fingerprint: old.Fingerprint}
	r.commit("n", "Person:John_Smith height=180")
	e := r.refused(409, "stale_plan", req)
	now := r.get(heightKey)
	require.Equal(t, now.Fingerprint, e.Details["fingerprint"])
	require.Equal(t, now.Plan, e.Details["plan"])
	require.Empty(t, now.History)
	req.Fingerprint = now.Fingerprint
	_, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	again, err := r.Decide(t.Context(), g, api.ConflictDecide{Key: heightKey, Decision: "choose", Value: raw("180"), Actor: "eva", Fingerprint: r.get(heightKey).Fingerprint})
	require.NoError(t, err)
	require.Equal(t, map[string]string{heightKey: "already approved"}, again.Outcome.Skipped)
	require.Len(t, r.get(heightKey).History, 1)
}

func TestRefusals(t *testing.T) {
	r := newRoom(t)
	r.fill()
	shown := r.get(bornKey)
	ok := api.ConflictDecide{ID: strings.ToUpper(shown.Conflict.ID), Decision: "choose", Value: raw("1950-05-01"), Actor: "eva", Fingerprint: shown.Fingerprint}
	with := func(change func(*api.ConflictDecide)) api.ConflictDecide {
		req := ok
		change(&req)
		return req
	}
	one, zero := uint64(1), uint64(0)
	for _, c := range []struct {
		status int
		code   string
		change func(*api.ConflictDecide)
		says   string
	}{
		{400, "bad_value", func(q *api.ConflictDecide) { q.Fingerprint = "" }, "show gives it"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Value = raw("1999-01-01") }, "stated are 1950-05-01 | 1962-09-09"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Value = raw([]int{1}) }, "value must be"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Decision, q.Value = "reject", nil }, "value is missing"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Decision = "keep_all" }, "keep_all names none"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Decision = "same" }, "choose, keep_all, reject or different"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Key = bornKey }, "exactly one"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.ID = "" }, "exactly one"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Actor = " " }, "actor is missing"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Actor = "a\nb" }, "actor must be"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Actor = " Policy" }, "decisions of the policy"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Reason = strings.Repeat("x", 2001) }, "reason must be"},
		{400, "bad_value", func(q *api.ConflictDecide) { q.Decision = "different" }, "different names none"},
		{409, "stale_revision", func(q *api.ConflictDecide) { q.Revision = &one }, "at revision 0, not 1"},
		{409, "stale_plan", func(q *api.ConflictDecide) { q.Fingerprint = "0" }, "look again"},
		{404, "conflict_not_found", func(q *api.ConflictDecide) { q.ID = entityID("Person:Nobody") }, "has no conflict"},
		{404, "conflict_not_found", func(q *api.ConflictDecide) { q.ID, q.Key = "", "conflict|x|y" }, "has no conflict"},
		{404, "decision_not_found", func(q *api.ConflictDecide) { *q = api.ConflictDecide{Record: "x", Decision: "undo", Actor: "eva"} }, "no audit record"},
	} {
		e := r.refused(c.status, c.code, with(c.change))
		require.Contains(t, e.Message, c.says)
	}
	_, err := r.Decide(t.Context(), "other", ok)
	require.ErrorContains(t, err, "has no conflict")
	reply, err := r.Decide(t.Context(), g, with(func(q *api.ConflictDecide) { q.Revision = &zero }))
	require.NoError(t, err)
	require.Equal(t, []string{bornKey}, reply.Outcome.Changed)
}

// The same request again is answered the same, whatever is there meanwhile; another one of that id is refused.
func TestRequestID(t *testing.T) {
	r := newRoom(t)
	r.fill()
	req := api.ConflictDecide{Key: bornKey, Decision: "reject", Value: raw("1950-05-01"), Actor: "eva", Fingerprint: r.get(bornKey).Fingerprint, RequestID: "r1"}
	first, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	r.commit("n", "Person:John_Smith born=1970-01-01")
	again, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, r.get(bornKey).History, 1)
	require.Equal(t, []string{"r1", "r1"}, []string{r.get(bornKey).History[0].Operation, r.get(bornKey).History[0].RequestID})
	req.Reason = "another"
	r.refused(409, "operation_reused", req)
}

// Two people decide by what both were shown: one is taken, the other is told that it moved.
func TestTwoDecide(t *testing.T) {
	for i := range 10 {
		r := newRoom(t)
		r.fill()
		f := r.get(bornKey).Fingerprint
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for n, value := range []string{"1950-05-01", "1962-09-09"} {
			wg.Go(func() {
				_, errs[n] = r.Decide(t.Context(), g, api.ConflictDecide{Key: bornKey, Decision: []string{"choose", "reject"}[i%2], Value: raw(value), Actor: value, Fingerprint: f})
			})
		}
		wg.Wait()
		lost := errors.Join(errs...)
		require.True(t, errs[0] == nil || errs[1] == nil, "%v", errs)
		var e *api.Error
		require.ErrorAs(t, lost, &e)
		require.Equal(t, "stale_plan", e.Code)
		require.Len(t, r.get(bornKey).History, 1)
	}
}

// An undo brings back what stood before, with its revision; what does not stand cannot be taken back.
func TestUndo(t *testing.T) {
	r := newRoom(t)
	r.fill()
	one := r.decide(bornKey, "choose", "1962-09-09")
	revision := r.get(bornKey).Item.Revision
	two := r.decide(bornKey, "reject", "1962-09-09")
	require.Equal(t, "rejected: 1950-05-01 -1962-09-09", r.state(bornKey))
	e := r.refused(412, "decision_not_current", api.ConflictDecide{Record: one, Decision: "undo", Actor: "eva"})
	require.Contains(t, e.Message, two)
	r.undo(two)
	require.Equal(t, "approved: 1962-09-09 1950-05-01", r.state(bornKey))
	got := r.get(bornKey)
	require.Equal(t, revision, got.Item.Revision)
	require.Equal(t, []any{"undo", two, "rejected", "approved"}, []any{got.History[0].Decision, got.History[0].Undoes, got.History[0].Before, got.History[0].After})
	r.refused(412, "decision_not_current", api.ConflictDecide{Record: two, Decision: "undo", Actor: "eva"})
	r.refused(412, "decision_not_current", api.ConflictDecide{Record: got.History[0].Record, Decision: "undo", Actor: "eva"})
	r.undo(one)
	require.Equal(t, "pending: 1950-05-01 1962-09-09", r.state(bornKey))
	require.Zero(t, r.get(bornKey).Item.Revision)
	r.refused(412, "decision_not_current", api.ConflictDecide{Record: one, Decision: "undo", Actor: "eva"})

	three := r.decide(bornKey, "choose", "1962-09-09")
	r.remove("a")
	r.remove("c")
	require.Equal(t, "conflict_not_found", r.state(bornKey))
	r.undo(three)
	h, err := audit.Trail{Store: r.st, Graph: g}.Of(bornKey)
	require.NoError(t, err)
	require.Equal(t, []string{"approved", ""}, []string{h[0].Before, h[0].After})
	require.Len(t, h, 6)
	r.sound()
}

// Values are named as they are, and numbers as text too.
func TestValuesAreNamed(t *testing.T) {
	r := newRoom(t)
	r.put(`entities: {Person: {properties: {height: {type: string}}}}`)
	r.commit("a", "Person:Ada height=1")
	r.commit("b", "Person:Ada height=2")
	key := fingerprint.ConflictKey(entityID("Person:Ada"), "height")
	r.decide(key, "choose", 2)
	require.Equal(t, "approved: 2 1", r.state(key))
	r.decide(key, "choose", "1")
	require.Equal(t, "approved: 1 2", r.state(key))
	r.refused(400, "bad_value", api.ConflictDecide{Key: key, Decision: "choose", Value: raw(true), Actor: "eva", Fingerprint: r.get(key).Fingerprint})
	require.Equal(t, events.DecisionChoose, r.get(key).History[0].Decision)
}

// Of a plan that many documents are the base of, a reply shows a part; the fingerprint is of all.
func TestLongPlan(t *testing.T) {
	r := newRoom(t)
	for i := range 220 {
		r.commit(fmt.Sprintf("d%03d-%s", i, strings.Repeat("x", 400)), fmt.Sprintf("Person:Ada height=%d", i%2))
	}
	key := fingerprint.ConflictKey(entityID("Person:Ada"), "height")
	got := r.get(key)
	require.Equal(t, 220+maxPlanned+1+1, len(got.Plan.Base)+len(got.Plan.Changes)+got.PlanLeftOut)
	require.Positive(t, got.PlanLeftOut)
	r.commit("d219-"+strings.Repeat("x", 400), "Person:Ada height=1", "Person:Ada")
	require.NotEqual(t, got.Fingerprint, r.get(key).Fingerprint)
}
