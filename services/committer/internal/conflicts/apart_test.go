package conflicts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// exported is the canonical export of the graph.
func (r *room) exported() string {
	r.t.Helper()
	var b strings.Builder
	require.NoError(r.t, query.New(r.st, r).ExportTo(r.t.Context(), g, api.Export{Canonical: true}, &b))
	return b.String()
}

// Told apart, each value of a homonym is an entity of its own; the item says so, nothing else is decided about it, and an undo makes one
// of them again, to the byte.
func TestDifferent(t *testing.T) {
	r := newRoom(t)
	r.fill()
	john := entityID("Person:John Smith")
	before := r.exported()
	shown := r.get(bornKey)
	require.False(t, shown.Conflict.Apart)
	one, two := fingerprint.HomonymID("Person", "john smith", "1950-05-01"), fingerprint.HomonymID("Person", "john smith", "1962-09-09")
	require.Equal(t, []string{one, two}, []string{shown.Conflict.Values[0].Entity, shown.Conflict.Values[1].Entity})
	require.Equal(t, 3, shown.Conflict.UndecidedDocuments)
	r.refused(400, "bad_value", api.ConflictDecide{Key: heightKey, Decision: "different", Actor: "eva", Fingerprint: r.get(heightKey).Fingerprint})
	r.refused(409, "stale_plan", api.ConflictDecide{Key: bornKey, Decision: "different", Actor: "eva", Fingerprint: "x"})

	record := r.decide(bornKey, "different", nil)
	r.sound()
	require.Equal(t, "approved: 1950-05-01 1962-09-09", r.state(bornKey))
	got := r.get(bornKey)
	require.Equal(t, []any{true, 3, "", record}, []any{got.Conflict.Apart, got.Conflict.UndecidedDocuments, got.Fingerprint, got.History[0].Record})
	require.Equal(t, []string{one, two}, []string{got.Conflict.Values[0].Entity, got.Conflict.Values[1].Entity})
	require.Equal(t, []string{"pending", "approved"}, []string{got.History[0].Before, got.History[0].After})
	byID, err := r.Get(t.Context(), g, api.ConflictGet{ID: got.Item.IDs[0]})
	require.NoError(t, err)
	require.Equal(t, got, byID)
	reasons := r.list(api.ConflictsList{Limit: 9}).Reasons
	require.Equal(t, 1, reasons["homonym"], "that of Acme is left")
	for _, decision := range []string{"choose", "keep_all", "different"} {
		e := r.refused(412, "decision_not_current", api.ConflictDecide{Key: bornKey, Decision: decision, Actor: "bo", Fingerprint: shown.Fingerprint})
		require.Contains(t, e.Message, record)
	}
	export := r.exported()
	require.Contains(t, export, `{"homonym":{"of":"`+john+`","property":"born","value":"1950-05-01"},"id":"`+one+`"`)
	require.Contains(t, export, `{"homonym":{"of":"`+john+`","property":"born","undecided":true},"id":"`+john+`"`)
	require.Contains(t, export, `{"key":"`+bornKey+`","kind":"decision","state":"approved"}`)

	// What is read later follows, and what is decided about one of them is its own.
	r.commit("n", "Person:John_Smith born=1950-05-01", "Person:John_Smith height=190")
	r.commit("o", "Person:John_Smith born=1950-05-01", "Person:John_Smith height=191")
	r.state(bornKey)
	r.decide(fingerprint.ConflictKey(one, "height"), "choose", 191)
	require.Equal(t, "approved: 191 180 190", r.state(fingerprint.ConflictKey(one, "height")))
	for _, k := range []string{"n", "o"} {
		r.remove(k)
	}
	r.sound()
	r.undo(record)
	r.sound()
	require.Equal(t, "pending: 1950-05-01 1962-09-09", r.state(bornKey))
	after := r.exported()
	require.Contains(t, after, fingerprint.ConflictKey(one, "height"), "that decision outlives what it is about")
	require.NotContains(t, after, "homonym")
	require.Equal(t, len(before)+len(`{"key":"`+fingerprint.ConflictKey(one, "height")+`","kind":"decision","state":"approved"}`+"\n"), len(after))

	// Once more, and back: the same bytes.
	record = r.decide(bornKey, "different", nil)
	require.NotEqual(t, after, r.exported())
	r.undo(record)
	require.Equal(t, after, r.exported())
	r.refused(412, "decision_not_current", api.ConflictDecide{Record: record, Decision: "undo", Actor: "eva"})
}

// What was decided before comes back by an undo; a value that was rejected is of nobody. All gone, the decision still stands.
func TestDifferentAfterOthers(t *testing.T) {
	r := newRoom(t)
	r.fill()
	r.commit("x", "Person:John_Smith born=1000-01-01")
	r.decide(bornKey, "reject", "1000-01-01")
	before := r.exported()
	record := r.decide(bornKey, "different", nil)
	require.Equal(t, "approved: 1950-05-01 1962-09-09 -1000-01-01", r.state(bornKey))
	require.Equal(t, 4, r.get(bornKey).Conflict.UndecidedDocuments)
	r.undo(record)
	require.Equal(t, before, r.exported())
	require.Equal(t, "pending: 1950-05-01 1962-09-09 -1000-01-01", r.state(bornKey))
	record = r.decide(bornKey, "different", nil)
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "x"} {
		r.remove(k)
		r.sound()
	}
	require.Equal(t, "conflict_not_found", r.state(bornKey))
	require.Contains(t, r.exported(), bornKey)
	r.undo(record)
	r.sound()
	r.put(`entities: {Person: {properties: {born: {type: date, identifies: true}, isbn: {type: string, identifies: true}}}}`)
	r.commit("a", "Person:John_Smith born=1950-05-01", "Person:John_Smith isbn=1")
	r.commit("b", "Person:John_Smith born=1962-09-09", "Person:John_Smith isbn=2")
	r.commit("c", "Person:John_Smith born=1962-09-09", "Person:John_Smith isbn=3")
	r.decide(bornKey, "different", nil)
	for _, owner := range []string{fingerprint.HomonymID("Person", "john smith", "1962-09-09")} {
		key := fingerprint.ConflictKey(owner, "isbn")
		r.refused(412, "not_supported", api.ConflictDecide{Key: key, Decision: "different", Actor: "eva", Fingerprint: r.get(key).Fingerprint})
	}
	r.sound()
}

// Any order of the same documents and of the decision behind them gives the same export.
func TestDifferentInAnyOrder(t *testing.T) {
	docs := [][]string{{"a", "Person:Ada born=1815-12-10", "Person:Ada WORKS_FOR Org:Acme since=1"}, {"b", "Person:Ada born=1950-01-01", "Person:Ada WORKS_FOR Org:Acme since=2"},
		{"c", "Person:Ada WORKS_FOR Org:Acme since=3"}, {"d", "Person:Ada born=1950-01-01", "Person:Ada height=170"}}
	key := fingerprint.ConflictKey(entityID("Person:Ada"), "born")
	want := ""
	for i, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 3, 0, 1}} {
		r := newRoom(t)
		done := false
		for n, d := range order {
			r.commit(docs[d][0], docs[d][1:]...)
			if _, ok, err := r.conflicts(key); !done && i%2 == 1 && n > 0 && ok {
				require.NoError(t, err)
				r.decide(key, "different", nil)
				done = true
			}
		}
		if !done {
			r.decide(key, "different", nil)
		}
		r.sound()
		if want == "" {
			want = r.exported()
		}
		require.Equal(t, want, r.exported(), "%v", order)
	}
}

func (r *room) conflicts(key string) (c store.Conflict, ok bool, err error) {
	err = r.with(r.t.Context(), g, func(x *reader) error {
		owner, property, _ := parseKey(key)
		c, ok, err = x.conflict(fingerprint.ConflictID(owner, property))
		return err
	})
	return c, ok, err
}
