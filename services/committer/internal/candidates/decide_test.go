package candidates

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// One run sees a thing three times: one record. A decision acts on every record of the key, is told, and remembered.
func TestDecideActsOnEveryRecord(t *testing.T) {
	r := newRoom(t)
	const apollo = "entity|spacecraft|apollo 11"
	r.read("a", "0.31 entity Spacecraft Apollo 11", "0.44 entity Spacecraft Apollo 11", "0.40 entity Spacecraft Apollo 11")
	r.read("b", "entity Spacecraft The Apollo 11")
	require.Equal(t, []string{apollo + " a pending 3", apollo + " b pending 1"}, r.records())
	require.Equal(t, 0.44, r.record("a", apollo).Confidence)

	reply := r.decide(api.CandidatesDecide{IDs: []string{r.record("b", apollo).ID}, Decision: "approve", Actor: " eva ", Reason: "flown", RequestID: "r1"})
	require.Equal(t, api.Outcome{Changed: []string{apollo}, Skipped: map[string]string{}, CurrentKeys: nil, ChangedTotal: 1}, normal(reply.Outcome))
	require.Equal(t, []string{apollo + " a approved 3", apollo + " b approved 1"}, r.records())
	require.Equal(t, reply.Seq, r.record("a", apollo).Seq, "the revision is that of the decision")
	verbs, trail := r.events()
	require.Equal(t, []string{"approved " + apollo + " a", "approved " + apollo + " b"}, sorted(verbs[len(verbs)-2:]))
	require.Len(t, trail, 1)
	a := trail[0]
	require.Equal(t, []any{"entity", apollo, "approve", "eva", "flown", "pending", "approved", "r1", reply.Records[apollo]},
		[]any{a.Kind, a.Key, a.Decision, a.Actor, a.Reason, a.Before, a.After, a.Operation, a.Record})
	var seen map[string]any
	require.NoError(t, json.Unmarshal(a.Item, &seen))
	require.Equal(t, []any{"Spacecraft", 4.0, 2.0, 0.5}, []any{seen["label"], seen["count"], seen["records"], seen["confidence"]})

	require.Equal(t, map[string]string{apollo: "already approved"}, r.approve(apollo).Outcome.Skipped)
	require.Equal(t, []string{apollo}, r.reject(apollo).Outcome.Changed, "approved may become rejected")
	require.Equal(t, map[string]string{apollo: "already rejected"}, r.approve(apollo).Outcome.Skipped, "rejected is final")
	require.Equal(t, map[string]string{apollo: "already rejected"}, r.reject(apollo).Outcome.Skipped)
	_, trail = r.events()
	require.Len(t, trail, 2)
	require.Equal(t, []string{"approved", "rejected"}, []string{trail[1].Before, trail[1].After})
	require.Equal(t, map[string]string{"entity|x|y": "candidate_not_found"}, r.approve("entity|x|y").Outcome.Skipped)
	r.verified()
}

func normal(o api.Outcome) api.Outcome {
	if len(o.CurrentKeys) == 0 {
		o.CurrentKeys = nil
	}
	return o
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// What was rejected is never asked again, whatever happens to the documents; prune or undo lets it come again.
func TestRejectedIsRemembered(t *testing.T) {
	const dragon = "entity|spacecraft|dragon"
	for name, forget := range map[string]func(r *room, record string){
		"prune": func(r *room, _ string) {
			p, err := r.Prune(t.Context(), g, api.ReviewPrune{Rejected: true, Apply: true})
			require.NoError(t, err)
			require.Equal(t, []any{[]string{dragon}, 1, true}, []any{p.Matched, p.Deleted, p.Applied})
		},
		"undo": func(r *room, record string) {
			u, err := r.Undo(t.Context(), g, api.CandidatesUndo{Record: record, Actor: "bo"})
			require.NoError(t, err)
			require.Equal(t, []string{dragon}, u.Outcome.Changed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			r.read("a", "entity Spacecraft Dragon")
			record := r.reject(dragon).Records[dragon]
			want := []string{dragon + " a rejected 1"}
			res := r.read("a", "entity Spacecraft Dragon", "entity Spacecraft Shuttle")
			require.Equal(t, []int{1, 1}, []int{res.CandidatesSuppressed, res.CandidatesWritten})
			r.remove("a")
			require.Equal(t, want, r.records(), "pending go with the document, decided stay")
			res = r.read("a", "entity Spacecraft Dragon")
			require.Equal(t, 1, res.CandidatesSuppressed)
			res = r.read("b", "entity Spacecraft dragon", "entity Spacecraft Dragons")
			require.Equal(t, []int{1, 1}, []int{res.CandidatesSuppressed, res.CandidatesWritten}, "dragon is the same key, Dragons is not")
			require.Equal(t, append(want, "entity|spacecraft|dragons b pending 1"), r.records())
			r.rule = mustParse(t, `{"name":"t","entities":[{"label":"Spacecraft"}]}`)
			require.Equal(t, append(want, "entity|spacecraft|dragons b pending 1"), r.records(), "no schema changes a state")
			forget(r, record)
			require.Equal(t, []string{"entity|spacecraft|dragons b pending 1"}, r.records())
			r.verified()
			res = r.apply(reading{key: "a", items: []string{"entity Spacecraft Dragon"}}) // as force does
			require.Equal(t, 1, res.CandidatesWritten)
			require.Contains(t, r.records(), dragon+" a pending 1")
			require.Equal(t, []string{dragon}, r.approve(dragon).Outcome.Changed)
			r.verified()
		})
	}
}

func mustParse(t *testing.T, text string) *schema.Schema {
	s, err := schema.Parse([]byte(text), "t", nil)
	require.NoError(t, err)
	return s
}

// What was approved stays approved: a later sighting joins it, be it of a document that came later, or one that was read again.
func TestApprovedStays(t *testing.T) {
	r := newRoom(t)
	const dragon = "entity|spacecraft|dragon"
	r.read("a", "entity Spacecraft Dragon", "entity Spacecraft Soyuz")
	r.approve(dragon)
	r.read("b", "entity Spacecraft Dragon")
	require.Equal(t, []string{dragon + " a approved 1", dragon + " b approved 1", "entity|spacecraft|soyuz a pending 1"}, r.records(), "a sighting joins")
	r.read("a", "entity Spacecraft Dragon", "entity Spacecraft Dragon")
	require.Equal(t, []string{dragon + " a approved 2", dragon + " b approved 1"}, r.records())
	r.apply(reading{key: "b", items: []string{"entity Spacecraft Soyuz"}, none: true})
	r.remove("a")
	require.Equal(t, []string{dragon + " a approved 2", dragon + " b approved 1"}, r.records(), "decided ones stay, candidates: false writes none")
	verbs, _ := r.events()
	require.Contains(t, verbs, "withdrawn entity|spacecraft|soyuz a")
	r.verified()
}

// A failed job leaves the old candidates as they are.
func TestAbortLeavesCandidates(t *testing.T) {
	r := newRoom(t)
	r.read("a", "entity Spacecraft Dragon")
	before := r.records()
	txn, err := r.st.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.DecideCandidate(t.Context(), store.Decision{Key: "entity|spacecraft|dragon", State: api.StateRejected}, nil)
	require.NoError(t, err)
	require.NoError(t, txn.Abort())
	require.Equal(t, before, r.records())
	r.verified()
}

// Each end must be one entity, or one approved candidate of its text; a record that fails alone stays pending.
func TestEndsAreResolved(t *testing.T) {
	r := newRoom(t)
	r.read("a", "Person:Ada", "Organization:Acme", "Person:Mercury", "Organization:Mercury", "Robot:R2",
		"relation OWNS Ada > Acme", "relation OWNS Ada > Soyuz", "relation OWNS Ada > Mercury", "relation OWNS R2 > Acme", "relation OWNS Ada > Vostok",
		"property height Ada = 170", "property height Soyuz = 7", "entity Spacecraft Soyuz", "entity Spacecraft Vostok", "entity Ship Vostok", "relation OWNS  > Acme")
	key := func(it string) string { return candidate(it).Key }
	skipped := r.decide(api.CandidatesDecide{Query: &api.CandidateFilter{Kinds: []string{"relation", "property"}, States: []string{"pending"}}, Decision: "approve"})
	require.Equal(t, sorted([]string{key("relation OWNS Ada > Acme"), key("property height Ada = 170")}), sorted(skipped.Outcome.Changed))
	require.Equal(t, map[string]string{
		key("relation OWNS Ada > Soyuz"):   "endpoint_unresolved",
		key("relation OWNS Ada > Vostok"):  "endpoint_unresolved",
		key("relation OWNS Ada > Mercury"): "endpoint_ambiguous",
		key("relation OWNS R2 > Acme"):     "endpoint_type_not_in_schema",
		key("property height Soyuz = 7"):   "endpoint_unresolved",
		key("relation OWNS  > Acme"):       "endpoint_missing",
	}, skipped.Outcome.Skipped)
	require.Equal(t, 6, skipped.Outcome.SkippedTotal)

	// In one request, entities are approved before what refers to them.
	all := r.decide(api.CandidatesDecide{Query: &api.CandidateFilter{States: []string{"pending"}}, Decision: "approve"})
	require.Equal(t, sorted([]string{"entity|spacecraft|soyuz", "entity|spacecraft|vostok", "entity|ship|vostok", key("relation OWNS Ada > Soyuz"), key("property height Soyuz = 7")}), sorted(all.Outcome.Changed))
	require.Equal(t, "endpoint_ambiguous", all.Outcome.Skipped[key("relation OWNS Ada > Vostok")], "two approved candidates have the name")
	r.verified()

	// Record by record: the end of one document's record is a mention that is kept there, of the other's there is none.
	r.rule = mustParse(t, `{"name":"t","entities":[{"label":"Person"},{"label":"Organization"},{"label":"Robot"}]}`)
	knows := "relation KNOWS Ada > Mercury"
	r.read("b", knows)
	r.apply(reading{key: "c", items: []string{"Person:Mercury", knows}})
	r.txn(func(txn *store.Txn) error { // as the resolver says it of a kept mention
		c := r.record("c", key(knows))
		c.TargetEntity, c.Edited = entityID("Person:Mercury"), &store.Edited{Actor: "t"}
		return txn.EditCandidate(t.Context(), c, c.Quote)
	})
	both := r.approve(key(knows))
	require.Equal(t, []string{key(knows)}, both.Outcome.Changed)
	require.Equal(t, map[string]string{r.record("b", key(knows)).ID: "endpoint_ambiguous"}, both.Outcome.Skipped)
	require.Equal(t, api.StatePending, r.record("b", key(knows)).State)
	require.Equal(t, api.StateApproved, r.record("c", key(knows)).State)
	r.verified()
	require.Equal(t, map[string]string{key(knows): "endpoint_ambiguous"}, r.approve(key(knows)).Outcome.Skipped)
	r.remove("a")
	r.remove("c")
	r.read("d", "Person:Mercury", "Person:Ada")
	require.Equal(t, []string{key(knows)}, r.approve(key(knows)).Outcome.Changed, "it is worked out anew")
	require.Equal(t, []string{key(knows)}, r.reject(key(knows)).Outcome.Changed, "rejecting needs no ends")
	r.verified()
}

// Entities of one name that are linked are one end.
func TestLinkedEndsAreOne(t *testing.T) {
	r := newRoom(t)
	alias := func(doc, name string) { // an entity that is written Norrin there
		r.read(doc, "Organization:"+name)
		r.txn(func(txn *store.Txn) error {
			r.order++
			text := "Norrin is old."
			_, err := txn.Apply(t.Context(), store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: doc + "2", ID: fingerprint.DocumentID(doc + "2")}, SchemaFP: "s", ChunkerFP: "c", ExtractionFP: "e",
				Text: text, ContentHash: fingerprint.ContentHash(text), Order: graph.Order{Time: r.order}, Chunks: []graph.Chunk{{End: len(text), Content: "text", Tokens: 1}},
				Assertions: graph.Assertions{Entities: []graph.EntityRef{{ID: entityID("Organization:" + name), Label: "Organization", Key: fingerprint.Fold(name)}},
					Chunks: []graph.ChunkAssertions{{Mentions: []graph.Mention{{Name: "Norrin", End: 6, Confidence: 0.9, Extractor: "rules"}}}}}})
			return err
		})
	}
	alias("a", "Norrin Works")
	alias("b", "Norrin Labs")
	owns := "relation OWNS Ada > Norrin"
	r.read("c", "Person:Ada", owns)
	key := candidate(owns).Key
	require.Equal(t, map[string]string{key: "endpoint_ambiguous"}, r.approve(key).Outcome.Skipped)
	r.txn(func(txn *store.Txn) error {
		_, err := txn.PutMatch(store.Match{A: entityID("Organization:Norrin Works"), B: entityID("Organization:Norrin Labs"), Method: "x", Score: 1, Found: store.MatchActive})
		return err
	})
	require.Equal(t, []string{key}, r.approve(key).Outcome.Changed)
	r.verified()
}

// Candidates may hold any label; approval refuses those that cannot be declared, and says why.
func TestLabelsAreRefused(t *testing.T) {
	r := newRoom(t)
	labels := []string{"Document", "resolved_entity", "`x`", "a/b", "x\x01y", strings.Repeat("L", 2048), "works␠hard", "9lives", "日本"}
	items := []string{"entity Spacecraft Good", "property born:at Ada = x", "Person:Ada", "relation HAS_PART Ada > Ada", "relation works␠for Ada > Ada", "entity person Bo"}
	for i, l := range labels {
		items = append(items, fmt.Sprintf("entity %s thing%d", l, i))
	}
	r.read("a", items...)
	got := r.decide(api.CandidatesDecide{Query: &api.CandidateFilter{}, Decision: "approve"})
	require.Equal(t, []string{"entity|person|bo", "entity|spacecraft|good", "relation|works for|ada|ada"}, got.Outcome.Changed)
	require.Len(t, got.Outcome.Skipped, len(labels)+2)
	for k, why := range got.Outcome.Skipped {
		require.Regexp(t, `^label_refused: .*(reserved|malformed|longer than 128)`, why, k)
		require.Less(t, len(why), 400)
	}
	require.Contains(t, got.Outcome.Skipped["entity|document|thing0"], "reserved")
	r.verified()
}

// Ids of records that a later reading replaced lead to the key as it is now.
func TestOldIDs(t *testing.T) {
	r := newRoom(t)
	const dragon = "entity|spacecraft|dragon"
	r.read("a", "entity Spacecraft Dragon")
	old := r.record("a", dragon).ID
	r.apply(reading{key: "a", items: []string{"entity Spacecraft Dragon"}, extraction: "2"})
	fresh := r.record("a", dragon).ID
	require.NotEqual(t, old, fresh)
	none := fingerprint.CandidateID("x", "y", "z", "", "", "")
	got := r.decide(api.CandidatesDecide{IDs: []string{old, none, "nonsense"}, Decision: "approve"})
	require.Equal(t, map[string]string{old: "unknown id", none: "unknown id", "nonsense": "unknown id"}, got.Outcome.Skipped)
	require.Equal(t, map[string]string{old: dragon}, got.Outcome.CurrentKeys)
	require.Empty(t, got.Outcome.Changed)
	require.Equal(t, []string{dragon}, r.decide(api.CandidatesDecide{IDs: []string{old, fresh}, Decision: "approve"}).Outcome.Changed)
	kinds, err := r.Kinds(t.Context(), g, api.CandidatesKinds{IDs: []string{old, fresh, none}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{old: "entity", fresh: "entity"}, kinds.Kinds)
	r.verified()
}

func TestRefused(t *testing.T) {
	r := newRoom(t)
	const dragon = "entity|spacecraft|dragon"
	r.read("a", "entity Spacecraft Dragon")
	rev := r.record("a", dragon).Seq
	one := []string{dragon}
	for want, req := range map[string]api.CandidatesDecide{
		"a word":    {Keys: one, Decision: "same", Actor: "e"},
		"nothing":   {Decision: "approve", Actor: "e"},
		"two ways":  {Keys: one, IDs: one, Decision: "approve", Actor: "e"},
		"no actor":  {Keys: one, Decision: "approve"},
		"actor":     {Keys: one, Decision: "approve", Actor: "a\nb"},
		"reason":    {Keys: one, Decision: "approve", Actor: "e", Reason: strings.Repeat("x", 2001)},
		"a match":   {Keys: []string{"match|a|b"}, Decision: "approve", Actor: "e"},
		"revision":  {Keys: []string{dragon, "entity|x|y"}, Decision: "approve", Actor: "e", Revision: 1},
		"kind":      {Query: &api.CandidateFilter{Kinds: []string{"match"}}, Decision: "approve", Actor: "e"},
		"state":     {Query: &api.CandidateFilter{States: []string{"active"}}, Decision: "approve", Actor: "e"},
		"min_count": {Query: &api.CandidateFilter{MinCount: -1}, Decision: "approve", Actor: "e"},
		"min_score": {Query: &api.CandidateFilter{MinScore: 2}, Decision: "approve", Actor: "e"},
		"id":        {Keys: one, Decision: "approve", Actor: "e", RequestID: strings.Repeat("x", 129)},
	} {
		require.Equal(t, "400 bad_value", r.refused(func() error { _, err := r.Decide(t.Context(), g, req); return err }), want)
	}
	require.Equal(t, "413 too_large", r.refused(func() error {
		_, err := r.Decide(t.Context(), g, api.CandidatesDecide{IDs: make([]string, 10_001), Decision: "approve", Actor: "e"})
		return err
	}))
	require.Equal(t, "409 stale_revision", r.refused(func() error {
		_, err := r.Decide(t.Context(), g, api.CandidatesDecide{Keys: one, Decision: "approve", Actor: "e", Revision: rev + 1})
		return err
	}))
	_, err := r.Decide(t.Context(), "other", api.CandidatesDecide{Keys: one, Decision: "approve", Actor: "e"})
	require.ErrorContains(t, err, "graph other has no candidate")
	got, err := r.Decide(t.Context(), "other", api.CandidatesDecide{Query: &api.CandidateFilter{}, Decision: "approve", Actor: "e", RequestID: "q"})
	require.NoError(t, err)
	require.Empty(t, got.Outcome.Changed)
	require.Equal(t, one, r.decide(api.CandidatesDecide{Keys: one, Decision: "approve", Revision: rev}).Outcome.Changed)
}

// The filters of a query are those of the list.
func TestQueries(t *testing.T) {
	r := newRoom(t)
	r.read("a", "0.9 entity Space␠Craft Dragon", "0.3 entity spacecraft Soyuz", "0.3 entity Ship Soyuz", "0.2 entity person Bo", "0.2 entity Ship Ark", "0.8 entity Ship Ark")
	r.read("b", "0.4 entity Spacecraft Soyuz")
	chosen := func(f api.CandidateFilter) []string {
		t.Helper()
		flt, err := r.newFilter(g, f)
		require.NoError(t, err)
		out := []string{}
		r.snapshot(func(sn *store.Snapshot) {
			require.NoError(t, r.groups(sn, "", func(key string, groups []group) error {
				for _, x := range groups {
					ok, err := flt.chooses(sn, x)
					require.NoError(t, err)
					if ok {
						out = append(out, strings.TrimPrefix(key, "entity|"))
					}
				}
				return nil
			}))
		})
		return out
	}
	require.Equal(t, []string{"person|bo", "ship|ark", "ship|soyuz", "space craft|dragon", "spacecraft|soyuz"}, chosen(api.CandidateFilter{}))
	require.Equal(t, []string{"space craft|dragon", "spacecraft|soyuz"}, chosen(api.CandidateFilter{Label: "SPACE_CRAFT"}))
	require.Equal(t, []string{"ship|ark", "spacecraft|soyuz"}, chosen(api.CandidateFilter{MinCount: 2}))
	require.Equal(t, []string{"ship|ark", "space craft|dragon"}, chosen(api.CandidateFilter{MinScore: 0.8}))
	require.Equal(t, []string{"ship|ark", "ship|soyuz", "space craft|dragon", "spacecraft|soyuz"}, chosen(api.CandidateFilter{Hide: json.RawMessage(`"current"`)}), "the schema declares Person")
	require.Equal(t, []string{"person|bo", "space craft|dragon", "spacecraft|soyuz"}, chosen(api.CandidateFilter{Hide: json.RawMessage(`{"name":"x","entities":[{"label":"Ship"}]}`)}))
	require.Empty(t, chosen(api.CandidateFilter{Kinds: []string{"relation"}}))
	require.Empty(t, chosen(api.CandidateFilter{States: []string{"approved"}}))
	r.approve("entity|ship|ark")
	require.Equal(t, []string{"ship|ark"}, chosen(api.CandidateFilter{States: []string{"approved", "rejected"}}))
}

// One request names its intent: the same again is answered the same and changes nothing twice, from any number of callers.
func TestOneIntentOneChange(t *testing.T) {
	r := newRoom(t)
	const dragon = "entity|spacecraft|dragon"
	r.read("a", "entity Spacecraft Dragon")
	req := api.CandidatesDecide{Keys: []string{dragon}, Decision: "approve", Actor: "eva", RequestID: "r1"}
	replies := make([]api.DecideReply, 8)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() {
			var err error
			replies[i], err = r.Decide(t.Context(), g, req)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	for _, x := range replies {
		x.Outcome.CurrentKeys, replies[0].Outcome.CurrentKeys = nil, nil
		require.Equal(t, replies[0], x)
	}
	other := req
	other.Decision = "reject"
	require.Equal(t, "409 operation_reused", r.refused(func() error { _, err := r.Decide(t.Context(), g, other); return err }))
	// Two reviewers, one approve each: one of them changes something.
	r.read("b", "entity Spacecraft Soyuz")
	changed := make(chan int, 2)
	for _, who := range []string{"eva", "bo"} {
		wg.Go(func() {
			x, err := r.Decide(t.Context(), g, api.CandidatesDecide{Keys: []string{"entity|spacecraft|soyuz"}, Decision: "approve", Actor: who, RequestID: who})
			require.NoError(t, err)
			changed <- len(x.Outcome.Changed)
		})
	}
	wg.Wait()
	require.Equal(t, 1, <-changed+<-changed)
	_, trail := r.events()
	require.Len(t, trail, 2)
	require.Equal(t, int64(2), r.told.Load())
	r.verified()
}

// Ten thousand keys are decided in several commits. A request that dies between them goes on when it is sent again, with one record a key.
func TestManyKeys(t *testing.T) {
	fs := vfs.NewMem()
	r := open(t, fs)
	const docs, each = 20, 500
	for d := range docs {
		items := make([]string, each)
		for i := range items {
			items[i] = fmt.Sprintf("entity Spacecraft Vessel number %d of the %d fleet", i, d)
		}
		r.read(fmt.Sprint("doc", d), items...)
	}
	req := api.CandidatesDecide{Query: &api.CandidateFilter{States: []string{"pending"}}, Decision: "approve", Actor: "eva", RequestID: "all"}
	ctx, cancel := context.WithCancel(t.Context())
	r.deps.Committed = func(string) {
		if r.told.Add(1) == 3 {
			cancel()
		}
	}
	_, err := r.Decide(ctx, g, req)
	require.ErrorIs(t, err, context.Canceled)
	r.snapshot(func(sn *store.Snapshot) {
		c, err := sn.Counts()
		require.NoError(t, err)
		require.Equal(t, docs*each-3*commitKeys, c.Candidates, "three commits stand")
	})
	reply, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, docs*each, reply.Outcome.ChangedTotal, "those before the interruption are told too")
	require.Empty(t, reply.Outcome.Skipped)
	body, err := json.Marshal(reply)
	require.NoError(t, err)
	require.Less(t, len(body), 900<<10)
	require.Greater(t, len(reply.Outcome.Changed), 1000)
	again, err := r.Decide(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, reply.Seq, again.Seq)
	require.Equal(t, reply.Outcome.Changed, again.Outcome.Changed)
	require.Equal(t, int64(10), r.told.Load())
	list, err := r.Audit(t.Context(), g, api.ReviewAudit{Operation: "all", Limit: new(int)})
	require.NoError(t, err)
	require.Equal(t, uint64(docs*each), list.Total)
	r.verified()
}

// A reader that applies the events in order has what is stored, however many there are in a commit.
func TestEventsTellWhatIsThere(t *testing.T) {
	r := newRoom(t)
	items := make([]string, 500)
	for i := range items {
		items[i] = fmt.Sprintf("entity Ship Number %d %s", i, strings.Repeat("long ", 30))
	}
	r.read("a", items...)
	r.apply(reading{key: "a", items: items[100:], extraction: "2"})
	r.decide(api.CandidatesDecide{Query: &api.CandidateFilter{MinScore: 0.1}, Decision: "reject"})
	r.apply(reading{key: "b", items: items[50:150], extraction: "3"})
	_, err := r.Prune(t.Context(), g, api.ReviewPrune{Rejected: true, Apply: true})
	require.NoError(t, err)
	r.apply(reading{key: "a", items: items[200:], extraction: "4"})
	there := map[string]bool{}
	verbs, _ := r.events()
	for _, v := range verbs {
		verb, what, _ := strings.Cut(v, " ")
		switch verb {
		case "withdrawn", "pruned":
			delete(there, what)
		default:
			there[what] = true
		}
	}
	var want, got []string
	for _, x := range r.records() {
		want = append(want, x[:strings.LastIndex(x, " pending")])
	}
	for x := range there {
		got = append(got, x)
	}
	require.Len(t, want, 350)
	require.Equal(t, want, sorted(got))
}
