package candidates

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/patch"
)

func (r *room) patch(req api.CandidatesPatch) patch.Patch {
	r.t.Helper()
	p, err := r.Patch(r.t.Context(), g, req)
	require.NoError(r.t, err)
	return p
}

// The same relation that the schema does not know in three documents: approve, patch, apply.
func TestPatchOfOneRelationInThreeDocuments(t *testing.T) {
	r := newRoom(t)
	key := fingerprint.RelationKey("FOUNDED", "Ada", "Acme")
	var ids []string
	for _, doc := range []string{"a", "b", "c"} {
		r.read(doc, "Person:Ada", "Organization:Acme", "relation FOUNDED Ada > Acme")
		ids = append(ids, r.record(doc, key).ID)
	}
	require.True(t, r.empty(r.patch(api.CandidatesPatch{})), "nothing is approved")
	require.Empty(t, r.patch(api.CandidatesPatch{Keys: []string{key}}).CandidateIDs)
	r.approve(key)
	p := r.patch(api.CandidatesPatch{})
	require.Equal(t, []patch.Relation{{Label: "FOUNDED", Patterns: []string{"Person->Organization"}}}, p.Additions.Relations, "the ends' types are those of the entities")
	require.Equal(t, map[string]int{"relation:FOUNDED": 3}, p.Evidence)
	require.ElementsMatch(t, ids, p.CandidateIDs)
	require.Equal(t, patch.ID(r.rule.Fingerprint(), ids), p.PatchID)
	require.Equal(t, p, r.patch(api.CandidatesPatch{Keys: []string{key}}))
	require.Equal(t, p, r.patch(api.CandidatesPatch{IDs: ids}))
	require.Equal(t, ids[:1], r.patch(api.CandidatesPatch{IDs: ids[:1]}).CandidateIDs)

	file := []byte("name: t\nentities: [Person, Organization]\nrelations:\n  WORKS_FOR: [\"Person->Organization\"] # a job\n")
	done, err := patch.Apply(file, "t.yaml", nil, &p)
	require.NoError(t, err)
	require.Equal(t, "name: t\nversion: \"2\"\nentities: [Person, Organization]\nrelations:\n  WORKS_FOR: [\"Person->Organization\"] # a job\n  FOUNDED: [\"Person->Organization\"]\n", string(done.Data))
	r.rule = done.After
	require.True(t, r.empty(r.patch(api.CandidatesPatch{})), "the schema has it all")
}

func (r *room) empty(p patch.Patch) bool { return p.Empty() }

// The types of ends: of the entity that has the name now, whatever the record says; of an approved entity of the patch.
func TestPatchResolvesEnds(t *testing.T) {
	r := newRoom(t)
	r.read("a", "Organization:Acme", "Person:Ada", "entity Ship Beagle", "relation SAILED Ada > Beagle", "relation HIRED Acme > Ada", "property crew Beagle = 74")
	r.approve(fingerprint.EntityKey("Ship", "Beagle"))
	r.approve(fingerprint.RelationKey("SAILED", "Ada", "Beagle"), fingerprint.RelationKey("HIRED", "Acme", "Ada"), fingerprint.PropertyKey("crew", "Beagle", "74"))
	p := r.patch(api.CandidatesPatch{})
	require.Equal(t, []patch.Entity{{Label: "Ship"}}, p.Additions.Entities)
	require.Equal(t, []patch.Relation{{Label: "HIRED", Patterns: []string{"Organization->Person"}}, {Label: "SAILED", Patterns: []string{"Person->Ship"}}}, p.Additions.Relations)
	require.Equal(t, []patch.AddProperty{{Entity: "Ship", Name: "crew", Spec: patch.Spec{Type: "integer"}}}, p.AddProperties)
	require.Empty(t, p.Check(r.rule))
	alone := r.patch(api.CandidatesPatch{Keys: []string{fingerprint.RelationKey("SAILED", "Ada", "Beagle")}})
	require.Empty(t, alone.Additions.Relations, "the ship is not in this patch")
	require.Len(t, alone.CandidateIDs, 1)
}

func TestPatchRefuses(t *testing.T) {
	r := newRoom(t)
	r.read("a", "entity Ship Beagle", "entity Ship Victory", "entity Ship Endeavour")
	beagle, victory, endeavour := fingerprint.EntityKey("Ship", "Beagle"), fingerprint.EntityKey("Ship", "Victory"), fingerprint.EntityKey("Ship", "Endeavour")
	r.approve(beagle)
	r.reject(endeavour)
	gone := fingerprint.CandidateID("x", "y", "", "", "", "")
	_, err := r.Patch(t.Context(), g, api.CandidatesPatch{IDs: []string{r.record("a", beagle).ID, r.record("a", victory).ID, gone, "nonsense"}})
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 412, e.Status)
	require.Equal(t, "not_approved", e.Code)
	require.Equal(t, map[string]any{"skipped": map[string]string{r.record("a", victory).ID: "is pending", gone: "unknown id", "nonsense": "unknown id"}}, e.Details)
	require.Equal(t, "400 bad_value", r.refused(func() error {
		_, err := r.Patch(t.Context(), g, api.CandidatesPatch{IDs: []string{"a"}, Keys: []string{"b"}})
		return err
	}))
	p, err := r.Patch(t.Context(), "nowhere", api.CandidatesPatch{})
	require.NoError(t, err)
	b, err := json.Marshal(p)
	require.NoError(t, err)
	require.Contains(t, string(b), `"additions":{"entities":[],"relations":[]},"add_properties":[],"evidence":{},"candidate_ids":[]`, "the empty patch has its lists")
}

// A patch with more ids than a reply holds comes in pages of one patch.
func TestPatchInPages(t *testing.T) {
	r := newRoom(t)
	var keys, items []string
	for i := range 300 {
		items = append(items, fmt.Sprintf("entity Ship Ship%d", i))
		keys = append(keys, fingerprint.EntityKey("Ship", fmt.Sprint("Ship", i)))
	}
	r.read("a", items...)
	r.approve(keys...)
	whole := r.patch(api.CandidatesPatch{})
	require.Len(t, whole.CandidateIDs, 300)
	require.Empty(t, whole.Next)
	var got []string
	pages, cursor := 0, ""
	for {
		p := r.patch(api.CandidatesPatch{Cursor: cursor, Budget: 5000})
		b, err := json.Marshal(p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), 5000)
		require.Equal(t, whole.PatchID, p.PatchID)
		require.Equal(t, whole.Evidence, p.Evidence)
		got = append(got, p.CandidateIDs...)
		pages++
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, whole.CandidateIDs, got)
	require.Greater(t, pages, 2)
	require.Equal(t, "413 too_large", r.refused(func() error {
		_, err := r.Patch(t.Context(), g, api.CandidatesPatch{Budget: 300})
		return err
	}))
}

// Labels that no schema takes are refused by approval; were one stored as approved, no file would get it.
func TestPatchKeepsBadLabelsOut(t *testing.T) {
	r := newRoom(t)
	bad := []string{"a`b", "x/y", "Chunk", "Job", strings.Repeat("L", 2000), "a\x01b"}
	for i, label := range bad {
		r.read(fmt.Sprint("d", i), "entity "+label+" thing"+fmt.Sprint(i))
		key := fingerprint.EntityKey(label, "thing"+fmt.Sprint(i))
		why := r.approve(key).Outcome.Skipped[key]
		require.Contains(t, why, api.LabelRefused, "%q", label)
	}
	require.Empty(t, r.patch(api.CandidatesPatch{}).CandidateIDs)
	_, err := patch.Apply([]byte("entities: [A]\n"), "t.yaml", nil, &patch.Patch{Format: patch.Format, Additions: patch.Additions{Entities: []patch.Entity{{Label: "a\n- b: `c`"}}}})
	var refused *patch.Refused
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "malformed")
}
