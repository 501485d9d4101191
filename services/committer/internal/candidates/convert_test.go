package candidates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func (r *room) convert(p patch.Patch) api.ConvertReport {
	r.t.Helper()
	got, err := r.Convert(r.t.Context(), g, api.ReviewConvert{Patch: &p, Actor: "eva"})
	require.NoError(r.t, err)
	return got
}

// apply makes a patch a part of the schema.
func (r *room) grow(p patch.Patch) {
	r.t.Helper()
	done, err := patch.Apply(r.rule.Marshal(), "t.json", nil, &p)
	require.NoError(r.t, err)
	r.rule = done.After
}

// facts are "Label:Name documents", "TYPE source > target evidence", "name of Name = value documents", in order.
func (r *room) facts() (out []string) {
	r.t.Helper()
	r.snapshot(func(sn *store.Snapshot) {
		names := map[string]string{}
		require.NoError(r.t, sn.EntitiesAll("", func(f store.EntityFold) error {
			names[f.ID] = f.Display()
			out = append(out, fmt.Sprintf("%s:%s %d", f.Label, f.Display(), f.Documents))
			folds, err := sn.PropertyFolds(f.ID)
			for _, p := range folds {
				out = append(out, fmt.Sprintf("%s of %s = %v (%T) %d", p.Name, f.Display(), p.Value, p.Value, p.Documents))
			}
			return err
		}))
		require.NoError(r.t, sn.RelationsAll("", func(f store.RelationFold) error {
			out = append(out, fmt.Sprintf("%s %s > %s %d", f.Type, names[f.Source], names[f.Target], f.Evidence))
			return nil
		}))
	})
	slices.Sort(out)
	return out
}

// The same relation that the schema does not know in three documents becomes one with three evidences; again changes nothing.
func TestConvertOneRelationInThreeDocuments(t *testing.T) {
	r := newRoom(t)
	key := fingerprint.RelationKey("FOUNDED", "Ada", "Acme")
	for _, doc := range []string{"a", "b"} {
		r.read(doc, "Person:Ada", "Organization:Acme", "relation FOUNDED Ada > Acme")
	}
	r.approve(key)
	p := r.patch(api.CandidatesPatch{})
	require.Len(t, p.CandidateIDs, 2)
	require.Equal(t, "409 patch_not_applied", r.refused(func() error {
		_, err := r.Convert(t.Context(), g, api.ReviewConvert{Patch: &p})
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, []string{"relation FOUNDED"}, e.Details["missing"])
		return err
	}))
	r.grow(p)
	r.read("c", "Person:Ada", "Organization:Acme", "relation FOUNDED Ada > Acme") // nobody is asked again
	require.Equal(t, []string{key + " a approved 1", key + " b approved 1", key + " c approved 1"}, r.records())
	before := r.record("b", key)
	got := r.convert(p)
	require.Equal(t, api.ConvertReport{CreatedRelations: 1, Records: 3, Skipped: map[string]string{}, Entities: map[string]string{}, Failures: []api.ConvertFailure{},
		PatchID: p.PatchID, Seq: got.Seq}, got)
	require.Empty(t, r.records())
	require.Equal(t, []string{"FOUNDED Ada > Acme 3", "Organization:Acme 3", "Person:Ada 3"}, r.facts())
	r.snapshot(func(sn *store.Snapshot) {
		var quotes []string
		id := fingerprint.RelationID("FOUNDED", entityID("Person:Ada"), entityID("Organization:Acme"), false)
		require.NoError(t, sn.Evidence(id, "", func(e store.EvidenceSupport) error {
			text, _, err := sn.Text(e.DocID, e.Version)
			for _, s := range e.Spans {
				quotes = append(quotes, fmt.Sprintf("%s %.1f %s", text[s.Start:s.End], s.Confidence, s.Extractor))
			}
			return err
		}))
		require.Equal(t, slices.Repeat([]string{before.Quote + " 0.5 rules"}, 3), quotes, "evidence, confidence and extractor are the candidates'")
	})
	r.verified()
	verbs, trail := r.events()
	for _, doc := range []string{"a", "b", "c"} {
		require.Contains(t, verbs, "converted "+key+" "+doc)
	}
	last := trail[len(trail)-1]
	require.Equal(t, []string{"convert", "approved", "converted", "eva"}, []string{last.Decision, last.Before, last.After, last.Actor})

	again := r.convert(p)
	require.Equal(t, map[string]string{p.CandidateIDs[0]: "not approved", p.CandidateIDs[1]: "not approved"}, again.Skipped)
	require.Equal(t, []int{0, 0, 0, 0, 2}, []int{again.ConvertedEntities, again.CreatedRelations, again.SetProperties, again.Records, again.SkippedTotal})
	require.Equal(t, got.Seq, again.Seq, "nothing is committed")

	r.remove("a")
	r.remove("c")
	require.Equal(t, []string{"FOUNDED Ada > Acme 1", "Organization:Acme 1", "Person:Ada 1"}, r.facts())
	r.remove("b")
	require.Empty(t, r.facts(), "facts go with their last document")
	r.verified()
}

// Approved entities of the patch are the ends of its relations and the holders of its properties; a name that is there already is joined.
func TestConvertEndsOfThePatch(t *testing.T) {
	r := newRoom(t)
	r.read("a", "Organization:Acme", "Person:Ada", "entity Ship Beagle", "0.31 entity Ship HMS␠Erebus", "relation SAILED Ada > Beagle", "property crew Beagle = 74")
	r.read("b", "entity Ship Beagle", "0.4 entity Person Ada")
	for _, k := range []string{"Beagle", "HMS␠Erebus"} {
		r.approve(fingerprint.EntityKey("Ship", k))
	}
	r.approve(fingerprint.EntityKey("Person", "Ada"))
	r.approve(fingerprint.RelationKey("SAILED", "Ada", "Beagle"), fingerprint.PropertyKey("crew", "Beagle", "74"))
	p := r.patch(api.CandidatesPatch{})
	r.grow(p)
	beagle := r.record("a", fingerprint.EntityKey("Ship", "Beagle"))
	got := r.convert(p)
	require.Empty(t, got.Skipped)
	require.Equal(t, []int{2, 1, 1, 1, 6}, []int{got.ConvertedEntities, got.Folded, got.CreatedRelations, got.SetProperties, got.Records})
	require.Equal(t, entityID("Ship:Beagle"), got.Entities[beagle.ID])
	require.Equal(t, []string{"Organization:Acme 1", "Person:Ada 2", "SAILED Ada > Beagle 1", "Ship:Beagle 2", "Ship:HMS␠Erebus 1", "crew of Beagle = 74 (int64) 1"}, r.facts())
	r.verified()

	// An end that waits outside the patch is no entity yet.
	r.read("c", "Person:Bab", "entity Ship Terror", "relation SAILED Bab > Terror")
	r.approve(fingerprint.EntityKey("Ship", "Terror"))
	r.approve(fingerprint.RelationKey("SAILED", "Bab", "Terror"))
	sailed := r.record("c", fingerprint.RelationKey("SAILED", "Bab", "Terror"))
	got = r.convert(r.patch(api.CandidatesPatch{IDs: []string{sailed.ID}}))
	require.Equal(t, map[string]string{sailed.ID: "endpoint_missing"}, got.Skipped)
	require.Equal(t, "approved", r.record("c", sailed.Key).State)
	got = r.convert(r.patch(api.CandidatesPatch{}))
	require.Equal(t, []int{1, 1, 0}, []int{got.ConvertedEntities, got.CreatedRelations, got.SkippedTotal})
	r.verified()
}

func TestConvertProperties(t *testing.T) {
	r := newRoom(t)
	var err error
	r.rule, err = schema.Parse([]byte(`{"name":"t","entities":[{"label":"Person","properties":{"kind":{"enum":["tall","small"]},"nick":{"merge":"all"}}},{"label":"Organization","properties":{"founded":{"type":"integer"}}}]}`), "t", nil)
	require.NoError(t, err)
	prop := fingerprint.PropertyKey
	ids := map[string]string{}
	approve := func(doc string, keys ...string) {
		r.approve(keys...)
		for _, k := range keys {
			ids[k] = r.record(doc, k).ID
		}
	}
	r.read("a", "Organization:Acme", "Organization:Bolt", "Organization:Coil", "Organization:Dyno", "Person:Ada",
		"property founded Acme = 1999", "property founded Bolt = 19x9", "property founded Coil = 1999", "property founded Coil = 2001",
		"property kind Ada = round", "property nick Ada = Countess", "property nick Ada = Enchantress", "property age Ada = 36")
	r.read("b", "Organization:Dyno", "property founded Dyno = 1,950")
	approve("b", prop("founded", "Dyno", "1,950"))
	all := []string{prop("founded", "Acme", "1999"), prop("founded", "Bolt", "19x9"), prop("founded", "Coil", "1999"), prop("founded", "Coil", "2001"),
		prop("kind", "Ada", "round"), prop("nick", "Ada", "Countess"), prop("nick", "Ada", "Enchantress"), prop("age", "Ada", "36")}
	approve("a", all...)
	p := r.patch(api.CandidatesPatch{})
	p.AddProperties = nil // corrected by hand: nobody wants the age
	got := r.convert(p)
	require.Equal(t, map[string]string{
		ids[prop("founded", "Bolt", "19x9")]: "bad_value", ids[prop("founded", "Coil", "1999")]: "property_conflict", ids[prop("founded", "Coil", "2001")]: "property_conflict",
		ids[prop("kind", "Ada", "round")]: "not_in_enum", ids[prop("age", "Ada", "36")]: "property_not_declared",
	}, got.Skipped)
	require.Equal(t, []int{4, 4}, []int{got.SetProperties, got.Records})
	facts := []string{"Organization:Acme 1", "Organization:Bolt 1", "Organization:Coil 1", "Organization:Dyno 2", "Person:Ada 1", "founded of Acme = 1999 (int64) 1",
		"founded of Dyno = 1950 (int64) 1", "nick of Ada = Countess (string) 1", "nick of Ada = Enchantress (string) 1"}
	require.Equal(t, facts, r.facts())
	r.verified()

	// What is there is never overwritten, and joined by the same.
	r.read("c", "Organization:Acme", "property founded Acme = 1,999", "property founded Acme = 1998")
	approve("c", prop("founded", "Acme", "1,999"), prop("founded", "Acme", "1998"))
	got = r.convert(r.patch(api.CandidatesPatch{Keys: []string{prop("founded", "Acme", "1,999"), prop("founded", "Acme", "1998")}}))
	require.Equal(t, map[string]string{ids[prop("founded", "Acme", "1998")]: "property_conflict"}, got.Skipped)
	require.Equal(t, []int{0, 1}, []int{got.SetProperties, got.Records})
	require.Contains(t, r.facts(), "founded of Acme = 1999 (int64) 2")
	r.verified()
}

// Evidence that no open chunk holds any more makes no fact; a quote that moved is found where it is now.
func TestConvertEvidence(t *testing.T) {
	r := newRoom(t)
	key := func(name string) string { return fingerprint.EntityKey("Person", name) }
	for doc, name := range map[string]string{"gone": "Gil", "changed": "Cora", "moved": "Mona"} {
		r.apply(reading{key: doc, items: []string{"entity Person " + name}, text: "Yesterday " + name + " came."})
	}
	r.approve(key("Gil"), key("Cora"), key("Mona"))
	gone, changed, moved := r.record("gone", key("Gil")), r.record("changed", key("Cora")), r.record("moved", key("Mona"))
	p := r.patch(api.CandidatesPatch{})
	require.True(t, p.Empty(), "only a threshold kept them out")
	r.remove("gone")
	r.apply(reading{key: "changed", text: "Yesterday Coraline came."})
	r.apply(reading{key: "moved", text: "Long ago, in the rain, Mona came."})
	got := r.convert(p)
	require.Equal(t, map[string]string{gone.ID: "evidence_gone", changed.ID: "evidence_gone"}, got.Skipped)
	require.Equal(t, map[string]string{moved.ID: entityID("Person:Mona")}, got.Entities)
	require.Equal(t, []string{"Person:Mona 1"}, r.facts())
	r.snapshot(func(sn *store.Snapshot) {
		require.NoError(t, sn.Mentions(entityID("Person:Mona"), "", func(m store.MentionSupport) error {
			require.Equal(t, []store.MentionSpan{{Chunk: 0, Start: 23, End: 27, Confidence: 0.5, Name: "Mona", Extractor: "rules"}}, m.Spans)
			return nil
		}))
	})
	require.Equal(t, []string{key("Cora") + " changed approved 1", key("Gil") + " gone approved 1"}, r.records())
	r.verified()
}

func TestConvertAgainWithTheSameRequest(t *testing.T) {
	r := newRoom(t)
	r.read("a", "entity Person Ada")
	r.approve(fingerprint.EntityKey("Person", "Ada"))
	p := r.patch(api.CandidatesPatch{})
	req := api.ReviewConvert{PatchID: p.PatchID, RequestID: "once"}
	first, err := r.Convert(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, 1, first.ConvertedEntities)
	again, err := r.Convert(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, "409 operation_reused", r.refused(func() error {
		_, err := r.Convert(t.Context(), g, api.ReviewConvert{Patch: &p, RequestID: "once"})
		return err
	}))
}

func TestConvertRefusals(t *testing.T) {
	r := newRoom(t)
	r.read("a", "entity Person Ada")
	r.approve(fingerprint.EntityKey("Person", "Ada"))
	p := r.patch(api.CandidatesPatch{})
	cut, page, old := p, p, p
	cut.CandidateIDs, page.Next, old.Format = nil, "x", 2
	for want, req := range map[string]api.ReviewConvert{
		"say what to convert":             {},
		"or the patch_id of one":          {Patch: &p, PatchID: p.PatchID},
		"is not that of the patch's base": {Patch: &cut},
		"one page of a reply":             {Patch: &page},
		"patch_format is 2":               {Patch: &old},
		"error_policy is \"maybe\"":       {Patch: &p, ErrorPolicy: "maybe"},
	} {
		require.Equal(t, "400 bad_value", r.refused(func() error {
			_, err := r.Convert(t.Context(), g, req)
			require.ErrorContains(t, err, want)
			return err
		}))
	}
	require.Equal(t, "404 patch_not_found", r.refused(func() error {
		_, err := r.Convert(t.Context(), g, api.ReviewConvert{PatchID: "0123456789abcdef"})
		return err
	}))
	none, err := r.Convert(t.Context(), "nowhere", api.ReviewConvert{Patch: &p})
	require.NoError(t, err)
	require.Equal(t, map[string]string{p.CandidateIDs[0]: "not approved"}, none.Skipped)
}

// What fails behind the commit is told; the facts are there.
func TestConvertFailsBehindTheCommit(t *testing.T) {
	r := newRoom(t)
	r.deps.Behind = func(_ context.Context, _ string, seq uint64) error {
		return fmt.Errorf("the embedder is away at %d", seq)
	}
	for i, policy := range []string{"", "skip"} {
		name := fmt.Sprint("Ada", i)
		r.read(name, "entity Person "+name)
		r.approve(fingerprint.EntityKey("Person", name))
		p := r.patch(api.CandidatesPatch{})
		got, err := r.Convert(t.Context(), g, api.ReviewConvert{Patch: &p, ErrorPolicy: policy})
		want := []api.ConvertFailure{{Stage: "linker", Code: "embedding_failed", Message: fmt.Sprint("the embedder is away at ", got.Seq)}}
		var e *api.Error
		if errors.As(err, &e) {
			require.Equal(t, "", policy)
			require.Equal(t, "committed_with_failures", e.Code)
			got = e.Details["report"].(api.ConvertReport)
		} else {
			require.NoError(t, err)
			require.Equal(t, "skip", policy)
		}
		require.Equal(t, want, got.Failures)
		require.Equal(t, 1, got.ConvertedEntities)
	}
	require.Equal(t, []string{"Person:Ada0 1", "Person:Ada1 1"}, r.facts())
}

// The newest patches are remembered, each once.
func TestPatchesAreRemembered(t *testing.T) {
	r := newRoom(t)
	first := patch.Patch{Format: 1, CandidateIDs: []string{"x"}}
	for i := range maxKept + 1 {
		first.PatchID = fmt.Sprint("p", i)
		for range 2 {
			require.NoError(t, r.keep(t.Context(), g, &first))
		}
	}
	for i, want := range map[int]bool{0: false, 1: true, maxKept: true} {
		p, err := r.patchOf(g, api.ReviewConvert{PatchID: fmt.Sprint("p", i)})
		require.Equal(t, want, err == nil, i)
		if want {
			require.Equal(t, []string{"x"}, p.CandidateIDs)
		}
	}
}

// Records of one key that people edited apart become different things, and a corrected name need not be written anywhere.
func TestConvertEdited(t *testing.T) {
	r := newRoom(t)
	key := fingerprint.EntityKey("Company", "IBM")
	r.read("a", "entity Company IBM", "Person:Ada", "relation WORKS_FOR Ada > IBM")
	r.read("b", "entity Company IBM")
	edit := func(doc string, set map[string]any) {
		_, err := r.Edit(t.Context(), g, api.ReviewEdit{ID: r.record(doc, key).ID, Set: set, Actor: "eva"})
		require.NoError(t, err)
	}
	edit("a", map[string]any{"type": "Organization", "name": "International Business Machines"})
	works := fingerprint.RelationKey("WORKS_FOR", "Ada", "IBM")
	r.approve(key)
	r.approve(works)
	p := r.patch(api.CandidatesPatch{})
	r.grow(p)
	got := r.convert(p)
	require.Equal(t, 2, got.ConvertedEntities, "%v", got)
	facts := r.facts()
	require.Contains(t, facts, "Organization:IBM 1", "it is shown as it is written")
	require.Contains(t, facts, "Company:IBM 1")
	r.snapshot(func(sn *store.Snapshot) {
		_, ok, err := sn.Entity(entityID("Organization:International Business Machines"))
		require.NoError(t, err)
		require.True(t, ok)
	})
	r.verified()
}

// A converted key can be rejected: its facts stay, and whoever says it next is not believed.
func TestRejectAConvertedKey(t *testing.T) {
	r := newRoom(t)
	key := fingerprint.EntityKey("Person", "Ada")
	r.read("a", "entity Person Ada")
	r.approve(key)
	r.convert(r.patch(api.CandidatesPatch{}))
	require.Empty(t, r.records())
	done := r.reject(key)
	require.Equal(t, []string{key}, done.Outcome.Changed)
	require.Equal(t, map[string]string{key: "already rejected"}, r.reject(key).Outcome.Skipped)
	require.Equal(t, []string{"Person:Ada 1"}, r.facts())
	require.Equal(t, 1, r.read("b", "entity Person Ada").CandidatesSuppressed)
	require.Empty(t, r.records())
	r.verified()
	_, trail := r.events()
	last := trail[len(trail)-1]
	require.Equal(t, []string{"reject", "approved", "rejected"}, []string{last.Decision, last.Before, last.After})
	_, err := r.Undo(t.Context(), g, api.CandidatesUndo{Record: last.Record, Actor: "eva"})
	require.NoError(t, err)
	r.read("b", "entity Person Ada again")
	r.verified()
}

// An end that a person set to an entity is shown by its name.
func TestEditedEndIsShown(t *testing.T) {
	r := newRoom(t)
	r.read("a", "Person:Ada", "Organization:Acme", "relation OWNS Bob > Acme")
	key := fingerprint.RelationKey("OWNS", "Bob", "Acme")
	_, err := r.Edit(t.Context(), g, api.ReviewEdit{ID: r.record("a", key).ID, Set: map[string]any{"source_entity": entityID("Person:Ada")}, Actor: "eva"})
	require.NoError(t, err)
	now := r.record("a", key)
	require.Equal(t, []string{"Ada", "Person", "Acme"}, []string{now.SourceText, now.SourceLabel, now.TargetText})
}
