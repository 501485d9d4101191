package query

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// Every list is walked with a page size of its own, and each page but the last has a cursor.
func listDocuments(t *testing.T, d *desk, req api.DocumentList) (keys []string) {
	t.Helper()
	for {
		r, err := d.q.Documents(t.Context(), g, req)
		require.NoError(t, err)
		for _, x := range r.Documents {
			keys = append(keys, x.Key)
		}
		if req.Cursor = r.Next; r.Next == "" {
			return keys
		}
	}
}

func listEntities(t *testing.T, d *desk, req api.EntityList) (names []string) {
	t.Helper()
	for {
		r, err := d.q.Entities(t.Context(), g, req)
		require.NoError(t, err)
		for _, x := range r.Entities {
			names = append(names, x.Name+" ("+x.Type+")")
		}
		if req.Cursor = r.Next; r.Next == "" {
			return names
		}
	}
}

func listRelations(t *testing.T, d *desk, req api.RelationList) (facts []string) {
	t.Helper()
	for {
		r, err := d.q.Relations(t.Context(), g, req)
		require.NoError(t, err)
		for _, x := range r.Relations {
			facts = append(facts, x.SourceName+" "+x.Type+" "+x.TargetName)
		}
		if req.Cursor = r.Next; r.Next == "" {
			return facts
		}
	}
}

func TestLists(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b, newDoc("ad", "Nothing."), newDoc("ada/2", "Acme Ltd.").say(acme), newDoc("gone", "x"))
	d.commit(deleted("gone"))
	people := []string{"Ada Lovelace (Person)", "Charles Babbage (Person)"}
	all := []string{"Acme Ltd (Organization)", "Ada Lovelace (Person)", "Charles Babbage (Person)", "London (Location)"}
	facts := []string{"Acme Ltd LOCATED_IN London", "Ada Lovelace WORKS_FOR Acme Ltd", "Charles Babbage KNOWS Ada Lovelace"}
	for _, limit := range []int{1, 2, 3, 0} {
		require.Equal(t, []string{"ad", "ada", "ada/2", "bab"}, listDocuments(t, d, api.DocumentList{Limit: limit}))
		require.Equal(t, []string{"ada", "ada/2"}, listDocuments(t, d, api.DocumentList{Limit: limit, Prefix: "ada"}))
		require.Equal(t, []string{"bab"}, listDocuments(t, d, api.DocumentList{Limit: limit, Prefix: "b"}))
		require.Empty(t, listDocuments(t, d, api.DocumentList{Limit: limit, Prefix: "gone"}))
		require.Equal(t, all, listEntities(t, d, api.EntityList{Limit: limit}))
		require.Equal(t, people, listEntities(t, d, api.EntityList{Limit: limit, Type: "agent"})[1:], "a type above")
		require.Equal(t, people, listEntities(t, d, api.EntityList{Limit: limit, Type: "person"}))
		require.Empty(t, listEntities(t, d, api.EntityList{Limit: limit, Type: "Ship"}))
		require.Equal(t, facts, listRelations(t, d, api.RelationList{Limit: limit}))
		require.Equal(t, facts[1:2], listRelations(t, d, api.RelationList{Limit: limit, Type: "works for"}))
		require.Empty(t, listRelations(t, d, api.RelationList{Limit: limit, Type: "OWNS"}))
	}
}

// A listed row is the one that the single verbs give, with what it rests on.
func TestListedRows(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	seq := d.commit(a, b)
	docs, err := d.q.Documents(t.Context(), g, api.DocumentList{})
	require.NoError(t, err)
	one, err := d.q.Document(t.Context(), g, api.DocumentGet{Key: "ada"})
	require.NoError(t, err)
	require.Equal(t, api.ListedDocument{DocumentRow: one.Document, Version: 1, Chunks: 2, FromSeq: seq, FromTime: one.Versions[0].FromTime, Job: "j1"}, docs.Documents[0])
	require.Equal(t, 2, docs.Total)

	ents, err := d.q.Entities(t.Context(), g, api.EntityList{Type: "Person"})
	require.NoError(t, err)
	require.Equal(t, 2, ents.Total)
	e, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), Limit: perListed})
	require.NoError(t, err)
	require.Equal(t, e.Entity, ents.Entities[0])
	require.Len(t, ents.Entities[0].Evidence, 2)
	require.Equal(t, 3, ents.Entities[0].MentionsTotal)

	rels, err := d.q.Relations(t.Context(), g, api.RelationList{})
	require.NoError(t, err)
	require.Equal(t, 3, rels.Total)
	require.Equal(t, e.Relations[0], rels.Relations[1])
	for _, r := range rels.Relations {
		require.NotEmpty(t, r.Evidence)
	}
}

// The pages of one list are of one sequence, whatever commits meanwhile.
func TestListsArePinned(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	seq := d.commit(a, b)
	docs, err := d.q.Documents(t.Context(), g, api.DocumentList{Limit: 1})
	require.NoError(t, err)
	ents, err := d.q.Entities(t.Context(), g, api.EntityList{Limit: 1})
	require.NoError(t, err)
	rels, err := d.q.Relations(t.Context(), g, api.RelationList{Limit: 1})
	require.NoError(t, err)
	d.commit(deleted("bab"), newDoc("b", "Zed.").say("Person:Zed"))

	more, err := d.q.Documents(t.Context(), g, api.DocumentList{Cursor: docs.Next})
	require.NoError(t, err)
	require.Equal(t, []string{"bab"}, []string{more.Documents[0].Key})
	require.Equal(t, seq, more.Seq)
	left, err := d.q.Entities(t.Context(), g, api.EntityList{Cursor: ents.Next})
	require.NoError(t, err)
	require.Len(t, left.Entities, 3)
	facts, err := d.q.Relations(t.Context(), g, api.RelationList{Cursor: rels.Next})
	require.NoError(t, err)
	require.Len(t, facts.Relations, 2)
	require.Equal(t, []string{"ada", "b"}, listDocuments(t, d, api.DocumentList{}))
	require.Equal(t, []string{"ada", "bab"}, listDocuments(t, d, api.DocumentList{AsOf: seq}))
}

func TestListsRefuse(t *testing.T) {
	d := newDesk(t)
	r, err := d.q.Relations(t.Context(), "nowhere", api.RelationList{})
	require.NoError(t, err)
	require.Equal(t, api.RelationListReply{Relations: []graph.RelationRow{}}, r, "a graph that is not there is empty")
	a, b := corpus()
	d.commit(a, b)
	ents, err := d.q.Entities(t.Context(), g, api.EntityList{Limit: 1})
	require.NoError(t, err)
	for _, req := range []api.DocumentList{{Limit: -1}, {Limit: 1001}, {Cursor: "x"}, {Cursor: ents.Next}} {
		_, err := d.q.Documents(t.Context(), g, req)
		requireRefused(t, err, 400, "bad_value")
	}
	_, err = d.q.Entities(t.Context(), g, api.EntityList{Cursor: ents.Next, AsOf: 9})
	requireRefused(t, err, 400, "bad_value")
	_, err = d.q.Entities(t.Context(), g, api.EntityList{AsOf: 9})
	requireRefused(t, err, 404, "sequence_unknown")
}

// A page stays below the largest reply, also where one source has most of the facts; nothing is lost between pages.
func TestLargeListsComeInPages(t *testing.T) {
	d := newDesk(t)
	x := newDoc("hub", "")
	text := ""
	for i := range 3000 {
		text += fmt.Sprintf("Hub Person knows Friend Number %04d of the very long street that makes each of the quotes a little longer.\n\n", i)
	}
	*x = *newDoc("hub", text)
	x.mentionAt("Person:Hub Person", "Hub Person", 0, 0)
	for i := range x.c.Chunks {
		name := fmt.Sprintf("Friend Number %04d", i)
		c := x.c.Chunks[i]
		x.mentionAt("Person:"+name, name, i, c.Start+17)
		cr := x.in(i)
		cr.Relations = append(cr.Relations, graph.RelationA{Type: "KNOWS", Source: x.ref("Person:Hub Person"), Target: x.ref("Person:" + name),
			Start: c.Start, End: c.End, Confidence: 0.8, Extractor: "rules"})
	}
	d.commit(x)
	seen, biggest := map[string]bool{}, 0
	req, n := api.RelationList{Limit: 1000}, 0
	for {
		r, err := d.q.Relations(t.Context(), g, req)
		require.NoError(t, err)
		b, err := json.Marshal(r)
		require.NoError(t, err)
		biggest = max(biggest, len(b))
		for _, rel := range r.Relations {
			require.False(t, seen[rel.ID])
			seen[rel.ID] = true
		}
		n++
		if req.Cursor = r.Next; r.Next == "" {
			break
		}
	}
	require.Len(t, seen, 3000)
	require.GreaterOrEqual(t, n, 3)
	require.Less(t, biggest, MaxReply)
}
