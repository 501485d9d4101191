package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// A change that contradicts itself is refused whole, and the commit goes on without it.
func TestRefusedChanges(t *testing.T) {
	s := memStore(t)
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	const src = "é [Person:Ada] met [Person:Bab].\n~\nThe end.\n> 0 KNOWS Person:Ada Person:Bab\n. 0 age=7 Person:Ada\n? 0 entity X met"
	for _, c := range []struct {
		want  string
		spoil func(c *DocChange)
	}{
		{"no key", func(c *DocChange) { c.Meta.Key = "" }},
		{`decision "maybe"`, func(c *DocChange) { c.Decision = "maybe" }},
		{"chunk 1 is 15…90 of 24 bytes", func(c *DocChange) { c.Chunks[1].End = 90 }},
		{"chunk 0 is 1…15 of 24 bytes", func(c *DocChange) { c.Chunks[0].Start = 1 }},
		{"entity number 9 of 2", func(c *DocChange) { c.Assertions.Chunks[0].Mentions[0].Entity = 9 }},
		{"entity number -1 of 2", func(c *DocChange) { c.Assertions.Chunks[0].Relations[0].Target = -1 }},
		{`entity id "x"`, func(c *DocChange) { c.Assertions.Entities[0].ID = "x" }},
		{"chunk 7 of 2", func(c *DocChange) { c.Assertions.Chunks[0].Index = 7 }},
		{"span 3…16 outside chunk 0 (0…15)", func(c *DocChange) { c.Assertions.Chunks[0].Mentions[0].End = 16 }},
		{"span 1…6 cuts a character", func(c *DocChange) { c.Assertions.Chunks[0].Mentions[0].Start = 1 }},
		{`the name "Bob" does not stand at 3…6`, func(c *DocChange) { c.Assertions.Chunks[0].Mentions[0].Name = "Bob" }},
		{"span 5…5 outside chunk 0 (0…15)", func(c *DocChange) {
			c.Assertions.Chunks[0].Relations[0].Start, c.Assertions.Chunks[0].Relations[0].End = 5, 5
		}},
		{"property age: malformed change: a value is a []string", func(c *DocChange) { c.Assertions.Chunks[0].Properties[0].Value = []string{"x"} }},
		{"property p of KNOWS: malformed change: a value is a map[string]interface {}", func(c *DocChange) {
			c.Assertions.Chunks[0].Relations[0].Properties = map[string]any{"p": map[string]any{}}
		}},
		{"a candidate has no key", func(c *DocChange) { c.Assertions.Candidates[0].Key = "" }},
		{"span 0…99 outside chunk 0 (0…15)", func(c *DocChange) { c.Assertions.Candidates[0].More = [][3]int{{0, 0, 99}} }},
	} {
		change := mustFixture(t, "bad", src)
		c.spoil(&change)
		require.NoError(t, txn.Ahead(t.Context(), []DocChange{change}), c.want)
		_, err := txn.Apply(t.Context(), change)
		require.ErrorIs(t, err, ErrBadChange, c.want)
		require.ErrorContains(t, err, c.want)
	}
	_, err = txn.Apply(t.Context(), mustFixture(t, "good", src))
	require.NoError(t, err)
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	require.NotContains(t, dumpOpen(t, s, 0), "bad")
	verified(t, s)
}

func TestResultCapsAndSymmetry(t *testing.T) {
	s := memStore(t)
	var b strings.Builder
	for i := range MaxRemoved + 50 {
		fmt.Fprintf(&b, "[Person:P%d] ", i)
	}
	commit(t, s, mustFixture(t, "a", b.String()))
	r := commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "a"}, Order: graph.Order{Seq: 1}})[0]
	require.Len(t, r.Removed, MaxRemoved)
	require.Equal(t, MaxRemoved+50, r.RemovedTotal)
	require.Equal(t, MaxRemoved+50, r.EntitiesRemoved)

	married := func(k, from, to string) DocChange {
		c := mustFixture(t, k, "[Person:Ada] and [Person:Bab].\n> 0 MARRIED Person:"+from+" Person:"+to)
		c.Symmetric = func(typ string) bool { return typ == "MARRIED" }
		return c
	}
	got := commit(t, s, married("b", "Ada", "Bab"), married("c", "Bab", "Ada"))
	require.Equal(t, 1, got[0].RelationsCreated)
	require.Equal(t, 1, got[1].RelationsJoined)
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	f, ok, err := sn.Relation(fingerprint.RelationID("MARRIED", entityID("Person", "bab"), entityID("Person", "ada"), true))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 2, f.Documents)
	verified(t, s)
}

func TestDisplay(t *testing.T) {
	for _, c := range []struct {
		names []NameCount
		want  string
	}{
		{nil, "key"},
		{[]NameCount{{"b", 9, false}, {"a", 1, false}}, "a"},
		{[]NameCount{{"KEY", 1, true}, {"Key", 2, true}, {"alias", 9, false}}, "Key"},
		{[]NameCount{{"Key", 2, true}, {"KEY", 2, true}}, "KEY"},
	} {
		require.Equal(t, c.want, EntityFold{Key: "key", Names: c.names}.Display())
	}
}

// Events of a commit stay below the size of a message, and their parts are numbered.
func TestEventParts(t *testing.T) {
	s := memStore(t)
	var changes []DocChange
	for i := range 60 {
		var b strings.Builder
		for j := range 90 {
			fmt.Fprintf(&b, "[Person:P%d-%d] ", i, j)
		}
		b.WriteString("word\n")
		for j := range 10 {
			fmt.Fprintf(&b, "? 0 entity L%d word\n", j)
		}
		changes = append(changes, mustFixture(t, fmt.Sprintf("%03d-%s", i, strings.Repeat("k", 500)), b.String()))
	}
	commit(t, s, changes...)
	rows, err := s.Outbox(g, 0, 0)
	require.NoError(t, err)
	items, entities, documents, no, part := 0, 0, 0, uint64(0), 0
	for _, r := range rows {
		require.Less(t, len(r.Body), 250<<10)
		e, err := r.Event()
		require.NoError(t, err)
		switch e := e.(type) {
		case *events.CandidateEvent:
			no++
			require.Equal(t, no, e.No)
			items += len(e.Items)
		case *events.Change:
			part++
			require.Equal(t, part, e.Part)
			require.Equal(t, 2, e.Parts)
			entities += len(e.Upserted)
			documents += len(e.Documents)
		}
	}
	require.Equal(t, 600, items)
	require.Greater(t, no, uint64(3))
	require.Equal(t, 60*90, entities)
	require.Equal(t, 60, documents)
	require.Equal(t, 2, part)
}

// A reader sees the state before a commit or after it, never between.
func TestReadersDuringCommits(t *testing.T) {
	o := options(nil)
	o.FS, o.Dir, o.BatchBytes = nil, t.TempDir(), 4<<10
	s := openStore(t, o)
	const docs = 20
	write := func(round int) {
		var changes []DocChange
		for i := range docs {
			c := mustFixture(t, fmt.Sprint(i), fmt.Sprintf("[Person:Ada] in round %d. [Org:R%d]", round, round))
			c.Order.Time = int64(round)
			changes = append(changes, c)
		}
		commit(t, s, changes...)
	}
	write(0)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := readRound(s, docs); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for round := 1; round < 15; round++ {
		write(round)
	}
	cancel()
	wg.Wait()
	close(errs)
	require.NoError(t, <-errs)
	verified(t, s)
}

func readRound(s *Store, docs int) error {
	sn, err := s.Snapshot(g, 0)
	if err != nil {
		return err
	}
	defer sn.Close()
	org := entityID("Org", fmt.Sprintf("r%d", sn.Seq()-1))
	f, ok, err := sn.Entity(org)
	if err != nil {
		return err
	}
	n := 0
	err = sn.Mentions(org, "", func(MentionSupport) error { n++; return nil })
	if !ok || f.Documents != docs || n != docs {
		return fmt.Errorf("at %d: %d documents, %d mentions", sn.Seq(), f.Documents, n)
	}
	return err
}
