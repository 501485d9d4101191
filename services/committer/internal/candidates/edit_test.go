package candidates

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func (r *room) edit(id string, set map[string]any) (api.CandidateEdited, error) {
	// As JSON gives it: numbers are floats.
	b, err := json.Marshal(set)
	require.NoError(r.t, err)
	set = nil
	require.NoError(r.t, json.Unmarshal(b, &set))
	return r.Edit(r.t.Context(), g, api.ReviewEdit{ID: id, Set: set, Actor: "eva", Reason: "typo"})
}

// An edit changes what a record says, not its key; it is recorded with what was before, and survives another reading while its quote stands.
func TestEdit(t *testing.T) {
	r := newRoom(t)
	const ark = "entity|sihp|ark"
	text := "The Ark sailed. HMS Ark was old."
	r.apply(reading{key: "a", text: text, items: []string{"entity Sihp Ark"}})
	was := r.record("a", ark)
	done, err := r.edit(was.ID, map[string]any{"type": "Ship", "name": "HMS Ark", "start": 16, "end": 23})
	require.NoError(t, err)
	now := r.record("a", ark)
	require.Equal(t, []any{was.ID, ark, "Ship", "HMS Ark", "HMS Ark", done.Seq}, []any{now.ID, now.Key, now.Label, now.Text, now.Quote, now.Seq})
	require.Equal(t, was.Candidate, now.Edited.Original)
	_, err = r.edit(was.ID, map[string]any{"name": "Ark Royal"})
	require.NoError(t, err)
	require.Equal(t, was.Candidate, r.record("a", ark).Edited.Original, "the original stays the first one")
	_, trail := r.events()
	require.Equal(t, []string{"edit", "eva", "typo", done.Record}, []string{trail[0].Decision, trail[0].Actor, trail[0].Reason, trail[0].Record})
	require.JSONEq(t, `{"kind":"entity","label":"Sihp","text":"Ark","start":4,"end":7}`, string(trail[0].Original))
	require.JSONEq(t, `{"kind":"entity","label":"Ship","text":"HMS Ark","start":16,"end":23}`, string(trail[0].Edited))
	require.Equal(t, `[{"field":"label","before":"Sihp","after":"Ship"},{"field":"text","before":"Ark","after":"HMS Ark"},{"field":"span","before":[4,7],"after":[16,23]}]`, encoded(t, trail[0].Diff))
	require.Equal(t, []events.AuditEvidence{{Document: "a", Version: 1, Start: 4, End: 7, Quote: "Ark"}}, trail[0].Evidence)
	require.Equal(t, done.Fingerprint, trail[0].Plan)
	require.JSONEq(t, `{"type":"Ship","name":"HMS Ark","start":16,"end":23}`, string(trail[0].Set), "with it the edit can be made again")
	require.Contains(t, string(trail[0].Item), `"label":"Sihp"`)
	verbs, _ := r.events()
	require.Equal(t, []string{"proposed entity|sihp|ark a", "proposed entity|sihp|ark a", "proposed entity|sihp|ark a"}, verbs)
	r.verified()

	edited := " edited Ship Ark Royal"
	r.apply(reading{key: "a", text: text, items: []string{"entity Sihp Ark"}, extraction: "2"})
	require.Equal(t, []string{ark + " a pending 1" + edited}, r.records(), "another reading of the same text")
	r.apply(reading{key: "a", text: "In 1890 HMS Ark was old, the Ark was.", items: []string{"entity Sihp Ark", "entity Sihp Ark"}})
	require.Equal(t, []string{ark + " a pending 2" + edited}, r.records(), "another text with the quote")
	require.Equal(t, "HMS Ark", r.record("a", ark).Quote)
	r.apply(reading{key: "a", text: "In 1890 HMS Ark was old.", extraction: "3"})
	require.Equal(t, []string{ark + " a pending 2" + edited}, r.records(), "a reading that does not find it")
	r.verified()
	require.Equal(t, []string{ark}, r.approve(ark).Outcome.Changed)
	require.Equal(t, "412 not_pending", r.refused(func() error { _, err := r.edit(r.record("a", ark).ID, map[string]any{"name": "x"}); return err }))
	r.apply(reading{key: "a", text: "HMS Ark again, an Ark.", items: []string{"entity Sihp Ark"}})
	require.Equal(t, []string{ark + " a approved 1" + edited}, r.records())
	r.remove("a")
	r.verified()

	r.apply(reading{key: "b", text: "HMS Bark here.", items: []string{"entity Sihp Bark"}})
	_, err = r.edit(r.record("b", "entity|sihp|bark").ID, map[string]any{"label": "Ship"})
	require.NoError(t, err)
	r.apply(reading{key: "b", text: "Nothing here.", extraction: "2"})
	require.Equal(t, []string{ark + " a approved 1" + edited}, r.records(), "an edit goes with its quote")
	r.verified()
}

// Ends of relations can be set to entities; approval resolves what is set.
func TestEditEnds(t *testing.T) {
	r := newRoom(t)
	owns := "relation OWNS Adda > Acme"
	r.read("a", "Person:Ada", "Organization:Acme", owns, "entity Persn Ada L")
	key := candidate(owns).Key
	require.Equal(t, map[string]string{key: "endpoint_unresolved"}, r.approve(key).Outcome.Skipped)
	id := r.record("a", key).ID
	_, err := r.edit(id, map[string]any{"source_entity": entityID("Person:Ada"), "label": "HOLDS"})
	require.NoError(t, err)
	require.Equal(t, []string{key}, r.approve(key).Outcome.Changed)
	person := r.record("a", "entity|persn|ada l").ID
	_, err = r.edit(person, map[string]any{"entity": entityID("Person:Ada")})
	require.NoError(t, err)
	require.Equal(t, "Person Ada", r.record("a", "entity|persn|ada l").Label+" "+r.record("a", "entity|persn|ada l").Text)
	r.verified()
}

// A refused edit changes nothing.
func TestRefusedEdits(t *testing.T) {
	r := newRoom(t)
	text := "Ada and Bo — ships."
	r.apply(reading{key: "a", text: text, items: []string{"entity Ship Ada", "entity Ship Bo"}})
	id := r.record("a", "entity|ship|ada").ID
	before := r.records()
	for name, c := range map[string]struct {
		set  map[string]any
		want string
	}{
		"nothing":   {nil, "400 bad_value"},
		"a field":   {map[string]any{"colour": "red"}, "400 bad_value"},
		"an end":    {map[string]any{"source_text": "x"}, "400 bad_value"},
		"a number":  {map[string]any{"label": 7}, "400 bad_value"},
		"reserved":  {map[string]any{"label": "Chunk"}, "400 bad_value"},
		"malformed": {map[string]any{"label": "a/b"}, "400 bad_value"},
		"no name":   {map[string]any{"name": "  "}, "400 bad_value"},
		"control":   {map[string]any{"name": "a\x1b[2J"}, "400 bad_value"},
		"long":      {map[string]any{"name": strings.Repeat("x", 2001)}, "400 bad_value"},
		"no span":   {map[string]any{"start": 3, "end": 3}, "400 bad_value"},
		"outside":   {map[string]any{"end": 100}, "400 bad_value"},
		"half":      {map[string]any{"start": 3.5}, "400 bad_value"},
		"in a rune": {map[string]any{"start": 12, "end": 16}, "400 bad_value"},
		"blank":     {map[string]any{"start": 3, "end": 4}, "400 bad_value"},
		"an entity": {map[string]any{"entity": "x"}, "404 entity_not_found"},
		"no quote":  {map[string]any{"quote": "Cy"}, "400 bad_value"},
		"not there": {map[string]any{"quote": "Bo", "span": []int{0, 3}}, "400 bad_value"},
		"twice":     {map[string]any{"type": "A", "label": "B"}, "400 bad_value"},
		"ends":      {map[string]any{"endpoints": map[string]any{"source": map[string]any{"text": "x"}}}, "400 bad_value"},
		"no object": {map[string]any{"span": 3}, "400 bad_value"},
	} {
		require.Equal(t, c.want, r.refused(func() error { _, err := r.edit(id, c.set); return err }), name)
	}
	require.Equal(t, "404 candidate_not_found", r.refused(func() error { _, err := r.edit("x", map[string]any{"name": "y"}); return err }))
	edit := func(req api.ReviewEdit) error {
		req.Set = map[string]any{"name": "y"}
		_, err := r.Edit(t.Context(), g, req)
		return err
	}
	require.Equal(t, "409 stale_revision", r.refused(func() error { return edit(api.ReviewEdit{ID: id, Actor: "e", Revision: 99}) }))
	require.Equal(t, "400 bad_value", r.refused(func() error { return edit(api.ReviewEdit{ID: id}) }))
	require.Equal(t, "400 bad_value", r.refused(func() error { return edit(api.ReviewEdit{Actor: "e"}) }))
	require.Equal(t, before, r.records())
	r.apply(reading{key: "a", text: text, items: []string{"entity Ship Ada"}, extraction: "2"})
	err := edit(api.ReviewEdit{ID: id, Actor: "e"})
	require.ErrorContains(t, err, "its key is entity|ship|ada")
	fresh := r.record("a", "entity|ship|ada")
	req := api.ReviewEdit{ID: fresh.ID, Actor: "e", Revision: fresh.Seq, RequestID: "r"}
	require.NoError(t, edit(req))
	require.NoError(t, edit(req), "the same request again")
	_, trail := r.events()
	require.Len(t, trail, 1)
	r.verified()
}
