package held

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// drop and set are edits of the document doc-1.
func drop(item string) api.JobEdit { return api.JobEdit{Document: "doc-1", Item: item, Drop: true} }

func set(item string, pairs ...any) api.JobEdit {
	e := api.JobEdit{Document: "doc-1", Item: item, Set: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		e.Set[pairs[i].(string)] = pairs[i+1]
	}
	return e
}

func back(fp string, edits ...api.JobEdit) api.HeldDecide {
	return api.HeldDecide{ID: "look", Decision: "send_back", Fingerprint: fp, Edits: edits}
}

// Sent back it stays held with its edits, over restarts; its plan is another one, and what was there is in the record.
func TestSendBack(t *testing.T) {
	r := newRoom(t, guild)
	seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Guild", "Mo KNOWS Lin", "Lin is 30", "Perhaps Wren"))
	member := r.item(seen, "relation", "MEMBER_OF", "Lin Guild")
	req := back(seen.Fingerprint, drop(member), drop(r.item(seen, "candidate", "Ship", "Wren")))
	req.RequestID = "once"
	d := r.decide(req)
	require.NotEqual(t, seen.Fingerprint, d.Fingerprint)
	require.NotContains(t, d.Plan.Lines(), "+ Lin MEMBER_OF Guild  (doc-1)")
	require.NotContains(t, d.Plan.Lines(), "+ candidate Wren Ship  (doc-1)")
	require.Contains(t, d.Plan.Lines(), "+ Mo KNOWS Lin  (doc-1)")
	now := r.get("look")
	require.Equal(t, []any{d.Fingerprint, uint64(2), seen.Job.Documents[0].ItemsTotal - 2}, []any{now.Fingerprint, now.Item.Revision, now.Job.Documents[0].ItemsTotal})
	same := func() {
		t.Helper()
		first, err := json.Marshal(d)
		require.NoError(t, err)
		again, err := json.Marshal(r.decide(req))
		require.NoError(t, err)
		require.JSONEq(t, string(first), string(again), "asked again it answers the same")
	}
	same()
	r.restart()
	require.Equal(t, now, r.get("look"))
	same()

	rec := r.records("look")
	require.Len(t, rec, 1)
	require.Equal(t, []string{"send_back", "pending", "pending", seen.Fingerprint}, []string{rec[0].Decision, rec[0].Before, rec[0].After, rec[0].Plan})
	var was, edited struct {
		Items []struct {
			Document, Item, Label, Source, Target, Quote string
			Dropped                                      bool
		}
	}
	require.NoError(t, json.Unmarshal(rec[0].Item, &was))
	require.NoError(t, json.Unmarshal(rec[0].Edited, &edited))
	require.Equal(t, []string{"doc-1", member, "MEMBER_OF", "Lin", "Guild", "Lin MEMBER_OF Guild"},
		[]string{was.Items[0].Document, was.Items[0].Item, was.Items[0].Label, was.Items[0].Source, was.Items[0].Target, was.Items[0].Quote})
	require.Equal(t, []any{member, true}, []any{edited.Items[0].Item, edited.Items[0].Dropped})

	require.Equal(t, "stale_plan", r.refused(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: seen.Fingerprint}).Code)
	r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: d.Fingerprint})
	require.Equal(t, map[string]int{"Mo KNOWS Lin": 1}, r.relations())
	require.Zero(t, r.wait("look", api.JobCommitted).Stages.Extraction.CandidatesWritten)
	r.sound()
}

// Each thing that can be set, and what the graph holds then.
func TestEdits(t *testing.T) {
	lines := []string{"Lin MEMBER_OF Guild", "Mo KNOWS Lin", "Lin is 30", "Orva since 1901"}
	guildID := fingerprint.EntityID("Guild", "orva")
	for name, c := range map[string]struct {
		edits     func(r *room, x api.HeldReply) []api.JobEdit
		relations map[string]int
		want      string // a line of the plan
	}{
		"a relation's ends are turned": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "relation", "KNOWS", "Mo Lin"), "source", "Lin", "target", r.item(x, "entity", "Person", "Mo"))}
		}, map[string]int{"Lin MEMBER_OF Guild": 1, "Lin KNOWS Mo": 1}, "+ Lin KNOWS Mo  (doc-1)"},
		"its type, by the name that people use": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "relation", "MEMBER_OF", "Lin Guild"), "target", "Mo", "type", "knows")}
		}, map[string]int{"Lin KNOWS Mo": 1, "Mo KNOWS Lin": 1}, "+ Lin KNOWS Mo  (doc-1)"},
		"its span and a property": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "relation", "MEMBER_OF", "Lin Guild"), "start", 0.0, "end", 58.0, "properties.since", 1901.0)}
		}, map[string]int{"Lin MEMBER_OF Guild": 1, "Mo KNOWS Lin": 1}, "+ since of Lin MEMBER_OF Guild = 1901  (doc-1)"},
		"a person is called by another name of the text": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "entity", "Person", "Mo"), "name", "Orva")}
		}, map[string]int{"Lin MEMBER_OF Guild": 1, "Mo KNOWS Lin": 1}, "+ Mo KNOWS Lin  (doc-1)"},
		"a stored entity": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "entity", "Guild", "Guild"), "entity", guildID)}
		}, map[string]int{"Lin MEMBER_OF Orva": 1, "Mo KNOWS Lin": 1}, "+ Guild Orva  (doc-1)  1 other source"},
		"a value": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "property", "age", "Lin"), "value", 1901.0)}
		}, map[string]int{"Lin MEMBER_OF Guild": 1, "Mo KNOWS Lin": 1}, "+ age of Lin = 1901  (doc-1)"},
		"a value of another kind, that need not be written": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "property", "age", "Lin"), "name", "rank", "value", "clerk")}
		}, map[string]int{"Lin MEMBER_OF Guild": 1, "Mo KNOWS Lin": 1}, "+ rank of Lin = clerk  (doc-1)"},
		"a mention's span": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "mention", "", "Guild"), "start", 4.0, "end", 19.0)}
		}, map[string]int{"Lin MEMBER_OF MEMBER_OF Guild": 1, "Mo KNOWS Lin": 1}, "    “MEMBER_OF Guild”"},
		"an entity goes with all that is said of it": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{drop(r.item(x, "entity", "Person", "Lin"))}
		}, map[string]int{}, "+ Person Mo  (doc-1)"},
		"the last mention of a chunk takes what the chunk says": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{drop(r.item(x, "mention", "", "Mo"))}
		}, map[string]int{"Lin MEMBER_OF Guild": 1}, "+ age of Lin = 30  (doc-1)"},
		"a type, when what would not fit goes too": {func(r *room, x api.HeldReply) []api.JobEdit {
			return []api.JobEdit{set(r.item(x, "entity", "Person", "Mo"), "type", "place"), drop(r.item(x, "relation", "KNOWS", "Mo Lin"))}
		}, map[string]int{"Lin MEMBER_OF Guild": 1}, "+ Place Mo  (doc-1)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, guild)
			r.commit("before", says("doc-0", "Ida MEMBER_OF Orva"))
			seen := r.hold("look", says("doc-1", lines...))
			d := r.decide(back(seen.Fingerprint, c.edits(r, seen)...))
			require.Contains(t, d.Plan.Lines(), c.want)
			r.decide(api.HeldDecide{ID: "look", Decision: "accept", Fingerprint: d.Fingerprint})
			c.relations["Ida MEMBER_OF Orva"] = 1
			require.Equal(t, c.relations, r.relations())
			r.sound()
		})
	}
}

// A dropped entity is no item any more: it is not listed, is no end, and nothing can be set of it.
func TestDroppedEntity(t *testing.T) {
	r := newRoom(t, guild)
	seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Guild", "Mo KNOWS Lin"))
	gone := r.item(seen, "entity", "Guild", "Guild")
	d := r.decide(back(seen.Fingerprint, drop(gone)))
	now := r.get("look")
	require.Equal(t, 6, now.Job.Documents[0].ItemsTotal, "two entities, three mentions, a relation")
	for _, it := range now.Job.Documents[0].Items {
		require.NotEqual(t, "Guild", it.Label)
	}
	for want, e := range map[string]api.JobEdit{
		"has no item":         drop(gone),
		"no item":             set(gone, "name", "Lin"),
		"names no entity":     set(r.item(now, "relation", "KNOWS", "Mo Lin"), "target", "Guild"),
		"document names no e": set(r.item(now, "relation", "KNOWS", "Mo Lin"), "target", fingerprint.EntityID("Guild", "guild")),
	} {
		require.Contains(t, r.refused(back(d.Fingerprint, e)).Message, want)
	}
	require.Equal(t, uint64(2), r.get("look").Item.Revision)
	r.sound()
}

// A refused edit changes nothing, nor do the others of its request.
func TestRefusedEdits(t *testing.T) {
	r := newRoom(t, guild)
	seen := r.hold("look", says("doc-1", "Lin MEMBER_OF Guild", "Mo KNOWS Lin", "Lin is 30", "Perhaps Wren", "Ötzi sleeps."), says("doc-2", "Ida KNOWS Ove"))
	member, knows := r.item(seen, "relation", "MEMBER_OF", "Lin Guild"), r.item(seen, "relation", "KNOWS", "Mo Lin")
	lin, mention, age := r.item(seen, "entity", "Person", "Lin"), r.item(seen, "mention", "", "Guild"), r.item(seen, "property", "age", "Lin")
	for want, e := range map[string]api.JobEdit{
		"has no item":                         drop("r000"),
		"dropped or changed, not both":        {Document: "doc-1", Item: member, Drop: true, Set: map[string]any{"type": "KNOWS"}},
		"say what to set":                     {Document: "doc-1", Item: member},
		"no document":                         {Document: "doc-7", Item: member, Drop: true},
		"\"weight\" of item":                  set(member, "weight", 3.0),
		"is not declared":                     set(member, "type", "LOVES"),
		"has no KNOWS from Person to Guild":   set(member, "type", "KNOWS"),
		"has no KNOWS from Place to Person":   set(r.item(seen, "entity", "Person", "Mo"), "type", "Place"),
		"names no entity \"Nobody\"":          set(member, "source", "Nobody"),
		"to itself":                           set(knows, "source", "Lin"),
		"no property \"weight\"":              set(member, "properties", map[string]any{"weight": 3.0}),
		"1999 is not in the quote":            set(member, "properties.since", 1999.0),
		"properties must be":                  set(member, "properties", 3.0),
		"must enclose a piece":                set(member, "start", 4.0, "end", 4000.0),
		"whole characters":                    set(member, "end", 57.0),
		"must be an offset":                   set(mention, "start", -1.0),
		"there is no name at":                 set(mention, "start", 68.0, "end", 69.0),
		"type \"Ship\" is not declared":       set(lin, "type", "Ship"),
		"Place has no property":               set(lin, "type", "Place"),
		"the name \"Ida\" is not in the text": set(lin, "name", "Ida"),
		"no such entity":                      set(lin, "entity", fingerprint.EntityID("Person", "ida")),
		"name must be a text":                 set(lin, "name", 7.0),
		"the value 31 is not in the text":     set(age, "value", 31.0),
		"rank: ":                              set(age, "name", "rank", "value", "queen"),
		"Person has no property":              set(age, "name", "height"),
		"age: ":                               set(age, "value", "old"),
		"is not in the text at 0…3":           set(age, "start", 0.0, "end", 3.0),
		"drop it, or edit it":                 set(r.item(seen, "candidate", "Ship", "Wren"), "label", "Boat"),
	} {
		e := r.refused(back(seen.Fingerprint, drop(r.item(seen, "mention", "", "Mo")), e))
		require.Contains(t, e.Message, want)
		require.Contains(t, []int{400, 404}, e.Status)
	}
	twice := r.refused(back(seen.Fingerprint, drop(member), drop(member)))
	require.Contains(t, twice.Message, "stands there twice")
	require.Equal(t, "stale_plan", r.refused(back("another", drop(member))).Code)
	require.Equal(t, seen, r.get("look"))
	r.restart()
	require.Equal(t, seen, r.get("look"))
	require.Empty(t, r.records("look"))
	x, err := r.Get(t.Context(), g, api.HeldGet{ID: "look", Document: "doc-2"})
	require.NoError(t, err)
	require.Equal(t, []any{1, "doc-2", 5}, []any{len(x.Job.Documents), x.Job.Documents[0].Key, len(x.Job.Documents[0].Items)})
}
