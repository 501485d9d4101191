package integration

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// variety brings review items of every kind.
const variety = `
name: variety
entities:
  Person: {properties: {born: {type: date, identifies: true}}}
  Organization: {properties: {founded: {type: integer}}}
relations: {WORKS_FOR: {patterns: ["Person->Organization"]}}
review: {stale: review}
rules:
  entities:
    Person: {names: [Lin, Mo, Bob, Alice, Carol, Dan]}
    Organization: {names: [Guild, Orva, Acme, Norrin Works, Norin Works, Halden Ferries, Halden Ferrie]}
  relations:
    WORKS_FOR: {phrases: ["works for"]}
`

func (f *fleet) varied(g string) {
	f.putSchema(g, variety)
	f.run(g, map[string]any{"documents": []any{
		doc("stale", "Lin works for Guild. Mo works for Orva. Dan works for Acme."),
		doc("may", "Perhaps Bob will work for Orva. Perhaps Alice will work for Acme. Perhaps Carol will work for Guild. Perhaps Dan will work for Guild."),
		doc("odd", "The Larch Workshop took place in Vell Harbour."),
		doc("1901", "Norrin Works was founded in 1901. Halden Ferries was founded in 1950. Norin Works grew. Halden Ferrie grew."),
		doc("1902", "Norrin Works was founded in 1902. Halden Ferries was founded in 1951."),
	}})
	f.run(g, map[string]any{"documents": []any{doc("stale", "Nobody works anywhere.")}})
}

func raw(c *cluster, g, verb string, req any) string {
	c.t.Helper()
	return string(ask[json.RawMessage](c, g, verb, req))
}

// A request id names one intent of whatever kind: the same request is answered the same and writes nothing, any other one is refused, and
// the audit says how far it got.
func TestOperationIDsOfEveryDecision(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.varied("g")
	show := func(key string) api.ReviewShowReply {
		return ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: key})
	}
	record := func(id string) string { // of the request
		r := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Operation: id}).Records
		require.NotEmpty(t, r, id)
		return r[0].Record
	}
	may := func(who, where string) string { return "relation|works for|" + who + "|" + where }
	open := ask[api.ReviewListReply](f.cluster, "g", "review.list", map[string]any{"kinds": []string{"entity", "relation", "property", "match", "conflict", "stale"}, "state": nil}).Groups
	first := func(kind, text string) api.Group {
		for _, g := range open {
			if g.Kind == kind && (text == "" || g.Text == text || g.Text+" "+g.SourceText == text) {
				return g
			}
		}
		require.Fail(t, "no such item", "%s %s of %+v", kind, text, open)
		return api.Group{}
	}
	decide := func(g api.Group, decision string) api.ReviewDecide {
		return api.ReviewDecide{IDs: g.IDs[:1], Decision: decision, Actor: "eva", Reason: "seen"}
	}
	quoting := func(g api.Group, decision string) api.ReviewDecide {
		r := decide(g, decision)
		r.Fingerprint = show(g.Key).Fingerprint
		require.NotEmpty(t, r.Fingerprint, g.Key)
		return r
	}
	group := func(key string) api.Group { return show(key).Item }
	for _, x := range []struct {
		id, verb string
		req      func() any // without the request id
		decision string     // of its record
		by       string     // the committer's verb
	}{
		{"approve", "review.approve", func() any { return quoting(group(may("bob", "orva")), "") }, "approve", "candidates.decide"},
		{"reject", "review.reject", func() any { return quoting(group(may("alice", "acme")), "") }, "reject", "candidates.decide"},
		{"many", "review.reject", func() any {
			return api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"entity"}}, Actor: "eva"}
		}, "reject", "candidates.decide"},
		{"edit", "review.edit", func() any {
			return api.ReviewEdit{ID: group(may("carol", "guild")).IDs[0], Set: map[string]any{"target_text": "Orva"}, Actor: "eva"}
		}, "edit", "candidates.edit"},
		{"undo reject", "review.undo", func() any { return api.ReviewUndo{Decision: record("reject"), Actor: "eva"} }, "undo", "candidates.undo"},
		{"convert", "review.convert", func() any {
			return map[string]any{"patch": ask[json.RawMessage](f.cluster, "g", "review.patch", api.ReviewPatch{}), "actor": "eva"}
		}, "convert", "candidates.convert"},
		{"prune", "review.prune", func() any { one := 2; return api.ReviewPrune{PendingBelowCount: &one, Apply: true, Actor: "eva"} }, "prune", "candidates.prune"},
		{"same", "review.approve", func() any { return decide(first("match", ""), "same") }, "same", "matches.decide"},
		{"undo same", "review.undo", func() any { return api.ReviewUndo{Decision: record("same"), Actor: "eva"} }, "undo", "matches.decide"},
		{"different", "review.reject", func() any { return decide(first("match", ""), "different") }, "different", "matches.decide"},
		{"choose", "review.approve", func() any { return quoting(first("conflict", "Norrin Works founded"), "choose") }, "choose", "conflicts.decide"},
		{"undo choose", "review.undo", func() any { return api.ReviewUndo{Decision: record("choose"), Actor: "eva"} }, "undo", "conflicts.decide"},
		{"keep all", "review.approve", func() any { return quoting(first("conflict", "Norrin Works founded"), "keep_all") }, "keep_all", "conflicts.decide"},
		{"reject one", "review.reject", func() any {
			r := quoting(first("conflict", "Halden Ferries founded"), "")
			r.Value = json.RawMessage("1951")
			return r
		}, "reject", "conflicts.decide"},
		{"withdraw", "review.approve", func() any { return quoting(first("stale", "Lin WORKS_FOR Guild"), "") }, "withdraw", "stale.decide"},
		{"undo withdraw", "review.undo", func() any { return api.ReviewUndo{Decision: record("withdraw"), Actor: "eva"} }, "undo", "stale.decide"},
		{"keep", "review.reject", func() any { return quoting(first("stale", "Mo WORKS_FOR Orva"), "") }, "keep", "stale.decide"},
	} {
		b, err := json.Marshal(x.req())
		require.NoError(t, err)
		req := map[string]any{}
		require.NoError(t, json.Unmarshal(b, &req))
		req["request_id"] = x.id
		var said []events.Audit
		answer := raw(f.cluster, "g", x.verb, req)
		total := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{}).Total
		for range 3 {
			again := raw(f.cluster, "g", x.verb, req)
			require.JSONEq(t, answer, again, x.id)
		}
		log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Operation: x.id})
		require.Equal(t, total, log.Total, "%s: no record is written twice", x.id)
		said = log.Records
		require.NotEmpty(t, said, x.id)
		for _, a := range said {
			require.Equal(t, []string{x.decision, "eva", x.id, x.id}, []string{a.Decision, a.Actor, a.Operation, a.RequestID}, x.id)
			require.NotEmpty(t, a.At, x.id)
			require.NotEmpty(t, a.Item, x.id)
			require.NotZero(t, a.Seq, x.id)
			if a.Kind != api.KindMatch {
				require.NotEmpty(t, a.Evidence, x.id)
				if a.Decision != "undo" && a.Decision != "prune" {
					require.Len(t, a.Plan, 64, x.id)
				}
			}
		}
		require.NotNil(t, log.Operation, x.id)
		require.Equal(t, &api.OperationStatus{RequestID: x.id, Verb: x.by, Done: true, Changed: len(said), Skipped: log.Operation.Skipped, Seq: said[0].Seq}, log.Operation, x.id)
		req["actor"] = "bo"
		for _, other := range []struct {
			verb string
			req  map[string]any
		}{
			{x.verb, req},
			{"review.approve", map[string]any{"keys": []string{may("dan", "guild")}, "actor": "bo", "request_id": x.id}},
			{"review.reject", map[string]any{"keys": []string{first("match", "").Key}, "actor": "bo", "request_id": x.id}},
			{"review.prune", map[string]any{"rejected": true, "apply": true, "actor": "bo", "request_id": x.id}},
		} {
			e := refused(f.cluster, "g", other.verb, other.req)
			require.Equal(t, []any{409, "operation_reused"}, []any{e.Status, e.Code}, "%s: %s: %s", x.id, other.verb, e.Message)
		}
		require.Equal(t, total, ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{}).Total, x.id)
	}
	require.Nil(t, ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Operation: "nobody's"}).Operation)
	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Verify: true})
	require.Empty(t, log.Problems)
	f.sound("g")
}

// What was shown of a candidate is what is decided: its plan goes with the documents, its decision quotes it, an edit makes it anew.
func TestCandidatesArePlanned(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.varied("g")
	const key = "relation|works for|carol|guild"
	show := func() api.ReviewShowReply {
		return ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: key})
	}
	seen := show()
	require.Equal(t, []string{"~ pending becomes approved", "+ Carol WORKS_FOR Guild  (may)", "    “Perhaps Carol will work for Guild.”"}, seen.Plan.Lines())
	f.cluster.add("g", doc("more", "Guild grew. Carol grew. Perhaps Carol will work for Guild."))
	decide := func(verb, fingerprint string) *api.Error {
		return refused(f.cluster, "g", verb, api.ReviewDecide{Keys: []string{key}, Fingerprint: fingerprint, Actor: "eva"})
	}
	for _, verb := range []string{"review.approve", "review.reject"} {
		e := decide(verb, seen.Fingerprint)
		now := show()
		require.Equal(t, []any{409, "stale_plan", now.Fingerprint}, []any{e.Status, e.Code, e.Details["fingerprint"]})
		require.Equal(t, "pending", now.Item.State)
	}
	now := show()
	require.Equal(t, []string{"~ pending becomes approved", "+ Carol WORKS_FOR Guild  (may)", "    “Perhaps Carol will work for Guild.”", "+ Carol WORKS_FOR Guild  (more)", "    “Perhaps Carol will work for Guild.”"}, now.Plan.Lines())

	no := refused(f.cluster, "g", "review.edit", api.ReviewEdit{ID: now.Records[0].ID, Set: map[string]any{"quote": "Carol left Guild."}, Actor: "eva"})
	require.Equal(t, []any{400, "bad_value"}, []any{no.Status, no.Code})
	no = refused(f.cluster, "g", "review.edit", api.ReviewEdit{ID: now.Records[0].ID, Set: map[string]any{"target_text": "Mo", "target_label": "Person"}, Actor: "eva"})
	require.Contains(t, no.Message, "no pattern WORKS_FOR Person->Person")
	after := show()
	require.Equal(t, []any{now.Revision, now.Fingerprint}, []any{after.Revision, after.Fingerprint}, "a refused edit changes nothing")
	set := map[string]any{"endpoints": map[string]any{"target": map[string]any{"text": "Orva"}}}
	edited := ask[api.ReviewEditReply](f.cluster, "g", "review.edit", api.ReviewEdit{ID: now.Records[0].ID, Set: set, Actor: "eva", Reason: "a slip", RequestID: "e"})
	after = show()
	require.Equal(t, []any{edited.Revision, edited.Fingerprint, edited.Plan.Lines()}, []any{after.Revision, after.Fingerprint, after.Plan.Lines()})
	require.Greater(t, edited.Revision, now.Revision)
	require.Equal(t, "stale_plan", decide("review.approve", now.Fingerprint).Code)
	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Operation: "e"}).Records[0]
	require.Len(t, log.Diff, 2, "the entity of the end goes with its name")
	require.Equal(t, events.AuditDiff{Field: "target_text", Before: "Guild", After: "Orva"}, log.Diff[1])
	require.Contains(t, string(log.Original), `"target_text":"Guild"`)
	require.Contains(t, string(log.Edited), `"target_text":"Orva"`)

	f.run("g", map[string]any{"documents": []any{doc(now.Records[0].Document, "Carol again. Guild grew. Orva grew. Perhaps Carol will work for Guild."), doc("rest", "Orva grew.")}})
	after = show()
	ends := map[string]string{}
	for _, r := range after.Records {
		ends[r.Document] = r.TargetText
	}
	require.Equal(t, "Orva", ends[now.Records[0].Document], "it survives another text with its quote, under its key")
	done := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{IDs: []string{after.Records[0].ID}, Fingerprint: after.Fingerprint, Actor: "eva"})
	require.Equal(t, []string{key}, done.Outcome.Changed)
	no = refused(f.cluster, "g", "review.edit", api.ReviewEdit{ID: after.Records[0].ID, Set: set, Actor: "eva"})
	require.Equal(t, []any{412, "not_pending"}, []any{no.Status, no.Code})
	require.Equal(t, "approved", decide("review.reject", after.Fingerprint).Details["state"])

	for _, kind := range []string{"match", "stale", "conflict"} {
		g := ask[api.ReviewListReply](f.cluster, "g", "review.list", map[string]any{"kinds": []string{kind}, "state": nil}).Groups[0]
		no = refused(f.cluster, "g", "review.edit", api.ReviewEdit{ID: g.IDs[0], Set: set, Actor: "eva"})
		require.Equal(t, []any{400, "bad_value"}, []any{no.Status, no.Code}, kind)
		require.Contains(t, no.Message, "is a "+kind+", which is not edited: ")
	}
	f.sound("g")
}
