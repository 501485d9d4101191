package candidates

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/pkg/schema"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// planOf is what approving a key does, as the verb answers it.
func (r *room) planOf(key string) api.CandidatePlan {
	r.t.Helper()
	p, err := r.Plan(r.t.Context(), g, api.CandidatePlanGet{Key: key})
	require.NoError(r.t, err)
	return p
}

// stale decides with a fingerprint that is no more that of the plan: nothing is written, and the new plan is in the refusal.
func (r *room) stale(req api.CandidatesDecide) *api.Error {
	r.t.Helper()
	req.Actor = "eva"
	var e *api.Error
	require.Equal(r.t, "409 stale_plan", r.refused(func() error {
		_, err := r.Decide(r.t.Context(), g, req)
		errors.As(err, &e)
		return err
	}))
	now := r.planOf(req.Keys[0])
	require.Equal(r.t, []any{now.Fingerprint, now.Plan}, []any{e.Details["fingerprint"], e.Details["plan"]})
	require.NotEqual(r.t, req.Fingerprint, now.Fingerprint)
	return e
}

const (
	adaAtAcme = "relation WORKS_FOR Ada > Acme"
	adaAtOrva = "relation WORKS_FOR Ada > Orva"
	bornAda   = "property born Ada = 1815"
	wren      = "entity Ship Wren"
)

func candidateKey(it string) string { return candidate(it).Key }

// golden is a room whose plans are written down.
func golden(t *testing.T, fs vfs.FS) *room {
	r := open(t, fs)
	r.read("a", "Person:Ada", "Organization:Acme", adaAtAcme, adaAtOrva, bornAda, wren)
	r.read("b", "Person:Ada", wren, adaAtAcme)
	return r
}

// The plan of an approval says what comes of it: for each document the fact with its evidence, its ends by the ids of their entities, and
// the state. Its fingerprint is equal in another process, behind a restart, and however often it is made.
func TestPlans(t *testing.T) {
	fs := vfs.NewCrashableMem()
	r := golden(t, fs)
	keys := []string{candidateKey(adaAtAcme), candidateKey(adaAtOrva), candidateKey(bornAda), candidateKey(wren)}
	written := func(r *room) string {
		var b strings.Builder
		for _, key := range keys {
			p := r.planOf(key)
			require.Equal(t, p.Fingerprint, p.Plan.Fingerprint())
			b.WriteString(key + "\n" + p.Fingerprint + "\n" + strings.Join(p.Plan.Lines(), "\n") + "\n\n")
		}
		return b.String()
	}
	got := written(r)
	const file = "testdata/plans.txt"
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	for range 20 {
		require.Equal(t, got, written(r), "whatever the order of maps")
	}
	require.Equal(t, got, written(open(t, fs.CrashClone(vfs.CrashCloneCfg{}))), "behind a restart")

	p := r.planOf(keys[0]).Plan
	require.Equal(t, []plan.Base{{Document: "a", Revision: 1}, {Document: "b", Revision: 1}}, p.Base)
	require.Equal(t, []string{r.rule.Fingerprint(), "e"}, []string{p.Schema, p.Extraction})
	c := p.Changes[1]
	require.Equal(t, []string{"a", entityID("Person:Ada"), entityID("Organization:Acme"), "Ada and Acme"}, []string{c.Document, c.SourceID, c.TargetID, c.Quotes[0].Text})
	byID, err := r.Plan(t.Context(), g, api.CandidatePlanGet{ID: r.record("b", keys[0]).ID})
	require.NoError(t, err)
	require.Equal(t, p, byID.Plan)
	for _, req := range []api.CandidatePlanGet{{}, {ID: "x"}, {Key: "match|a|b"}, {ID: "x", Key: keys[0]}} {
		require.Regexp(t, "400 bad_value|404 candidate_not_found", r.refused(func() error { _, err := r.Plan(t.Context(), g, req); return err }))
	}
}

// A decision that quotes the plan that it saw is taken on that very plan, or refused with the new one.
func TestDecisionsQuoteThePlan(t *testing.T) {
	r := golden(t, vfs.NewMem())
	key := candidateKey(adaAtAcme)
	seen := r.planOf(key).Fingerprint
	for _, x := range []struct {
		name   string
		change func()
	}{
		{"somebody edited one of them", func() {
			_, err := r.edit(r.record("a", key).ID, map[string]any{"source_text": "Ada L"})
			require.NoError(t, err)
		}},
		{"another document says it", func() { r.read("c", adaAtAcme, wren) }},
		{"a document was read anew", func() { r.read("b", "Person:Ada", wren, adaAtAcme, "Organization:Orva") }},
		{"one of them went", func() { r.remove("b") }},
		{"an end is another entity", func() { r.read("a", "Person:Ada", adaAtAcme, wren, "Organization:Acme Ltd") }},
		{"the schema is another one", func() { r.redeclare(strings.Replace(rule, `"Person"}`, `"Person"},{"label":"Ship"}`, 1)) }},
	} {
		x.change()
		e := r.stale(api.CandidatesDecide{Keys: []string{key}, Decision: "approve", Fingerprint: seen})
		require.Equal(t, "pending", e.Details["state"], x.name)
		r.stale(api.CandidatesDecide{Keys: []string{key}, Decision: "reject", Fingerprint: seen})
		seen = r.planOf(key).Fingerprint
	}
	key, seen = candidateKey(wren), r.planOf(candidateKey(wren)).Fingerprint
	d := r.decide(api.CandidatesDecide{Keys: []string{key}, Decision: "approve", Fingerprint: seen, RequestID: "one"})
	require.Equal(t, []string{key}, d.Outcome.Changed)
	_, trail := r.events()
	last := trail[len(trail)-1]
	require.Equal(t, []string{d.Records[key], seen, "a", "Wren"}, []string{last.Record, last.Plan, last.Evidence[0].Document, last.Evidence[0].Quote})
	again := r.decide(api.CandidatesDecide{Keys: []string{key}, Decision: "approve", Fingerprint: seen, RequestID: "one"})
	require.Equal(t, encoded(t, d), encoded(t, again), "the same again")
	require.Equal(t, "409 operation_reused", r.refused(func() error {
		_, err := r.Decide(t.Context(), g, api.CandidatesDecide{Keys: []string{key}, Decision: "approve", Fingerprint: "another", RequestID: "one", Actor: "eva"})
		return err
	}))
	require.Equal(t, "approved", r.stale(api.CandidatesDecide{Keys: []string{key}, Decision: "reject", Fingerprint: seen}).Details["state"], "who comes second looks again")
	r.decide(api.CandidatesDecide{Keys: []string{key}, Decision: "reject", Fingerprint: r.planOf(key).Fingerprint})
	require.Empty(t, r.planOf(key).Plan.Changes, "nothing comes of what was rejected")
	for _, req := range []api.CandidatesDecide{{Keys: []string{"entity|a|b", "entity|a|c"}}, {Query: &api.CandidateFilter{}}, {IDs: []string{"a", "b"}}} {
		req.Decision, req.Fingerprint, req.Actor = "approve", "f", "eva"
		require.Equal(t, "400 bad_value", r.refused(func() error { _, err := r.Decide(t.Context(), g, req); return err }))
	}
	r.verified()
}

// The edit's reply has the plan that show has afterwards; a decision that quotes the one before it is refused.
func TestEditsMakeThePlanAnew(t *testing.T) {
	r := golden(t, vfs.NewMem())
	key := candidateKey(adaAtOrva)
	before := r.planOf(key)
	require.Equal(t, []string{"? Ada WORKS_FOR Orva  (a)  endpoint_unresolved", "    “Ada and Orva”"}, before.Plan.Lines())
	edited, err := r.edit(r.record("a", key).ID, map[string]any{"endpoints": map[string]any{"target": map[string]any{"entity": entityID("Organization:Acme")}}})
	require.NoError(t, err)
	require.Equal(t, []string{"~ pending becomes approved", "+ Ada WORKS_FOR Acme  (a)", "    “Ada and Orva”"}, edited.Plan.Lines())
	require.Equal(t, r.planOf(key).Planned, edited.Planned)
	r.stale(api.CandidatesDecide{Keys: []string{key}, Decision: "approve", Fingerprint: before.Fingerprint})
	refused := r.record("a", key)
	require.Equal(t, "400 bad_value", r.refused(func() error { _, err := r.edit(refused.ID, map[string]any{"quote": "nowhere"}); return err }))
	require.Equal(t, refused, r.record("a", key), "the revision is what it was")
	require.Equal(t, edited.Fingerprint, r.planOf(key).Fingerprint)
	require.Equal(t, []string{key}, r.decide(api.CandidatesDecide{Keys: []string{key}, Decision: "approve", Fingerprint: edited.Fingerprint}).Outcome.Changed)
	r.verified()
}

// An edit cannot make what the schema declares and forbids; what was so before may stay so while something else is corrected.
func TestEditsFitTheSchema(t *testing.T) {
	r := newRoom(t)
	r.redeclare(`{"name":"t","entities":[{"label":"Person","properties":{"born":{"type":"integer"}}},{"label":"Organization"}],"relations":[{"label":"WORKS_FOR","patterns":[["Person","Organization"]]}]}`)
	const back = "relation WORKS_FOR Acme > Ada"
	r.read("a", "Person:Ada", "Organization:Acme", adaAtAcme, back, bornAda, "property died Ada = soon")
	set := func(it string, fields map[string]any) string {
		_, err := r.edit(r.record("a", candidateKey(it)).ID, fields)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	ada, acme := entityID("Person:Ada"), entityID("Organization:Acme")
	require.Contains(t, set(adaAtAcme, map[string]any{"source_entity": acme, "target_entity": ada}), "the schema has no pattern WORKS_FOR Organization->Person")
	require.Contains(t, set(adaAtAcme, map[string]any{"target_entity": ada}), "no pattern WORKS_FOR Person->Person")
	require.Empty(t, set(adaAtAcme, map[string]any{"type": "KNOWS", "target_entity": ada}), "a label that is not declared yet")
	require.Empty(t, set(back, map[string]any{"quote": "Acme and Ada"}), "it came to review for that")
	require.Empty(t, set(back, map[string]any{"source": map[string]any{"entity": ada}, "target": map[string]any{"entity": acme}}))
	require.Contains(t, set(bornAda, map[string]any{"value": "in spring"}), "value: ")
	require.Empty(t, set(bornAda, map[string]any{"properties": map[string]any{"born": "1816"}}))
	require.Equal(t, "1816", r.record("a", candidateKey(bornAda)).Text)
	require.Contains(t, set("property died Ada = soon", map[string]any{"type": "born"}), "value: ")
	require.Equal(t, []any{int64(1816)}, []any{r.planOf(candidateKey(bornAda)).Plan.Changes[1].Value})
	r.verified()
}

// A quote is found in the text; more records than a plan lists are counted, and still a part of its fingerprint.
func TestLongPlans(t *testing.T) {
	r := newRoom(t)
	r.apply(reading{key: "q", text: "Ark. The Wren sailed. HMS Wren was old.", items: []string{wren}})
	edited, err := r.edit(r.record("q", candidateKey(wren)).ID, map[string]any{"quote": "HMS Wren", "name": "HMS Wren"})
	require.NoError(t, err)
	require.Equal(t, []any{22, 30, "HMS Wren"}, []any{r.record("q", candidateKey(wren)).Start, r.record("q", candidateKey(wren)).End, edited.Plan.Changes[1].Quotes[0].Text})
	for i := range maxPlanned + 5 {
		r.read("d"+strings.Repeat("x", i), wren)
	}
	p := r.planOf(candidateKey(wren))
	require.Equal(t, 6, p.Plan.Rest.Changes)
	r.read("d", "Person:Ada", wren)
	r.stale(api.CandidatesDecide{Keys: []string{candidateKey(wren)}, Decision: "approve", Fingerprint: p.Fingerprint})
	last := p.Plan.Rest.Digest
	r.read("d"+strings.Repeat("x", maxPlanned+6), wren)
	require.NotEqual(t, last, r.planOf(candidateKey(wren)).Plan.Rest.Digest)
}

func (r *room) redeclare(text string) {
	r.t.Helper()
	s, err := schema.Parse([]byte(text), "t", nil)
	require.NoError(r.t, err)
	r.rule = s
}
