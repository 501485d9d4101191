package graphs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func newGraphs(t *testing.T) *Graphs {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st, err := store.Open(context.Background(), store.Options{Dir: t.TempDir(), Now: func() time.Time { return at }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return New(st, func() time.Time { return at })
}

// What makes a new revision is another effective schema, not another file: its arrows, "&" and "<" are escaped in the store.
func TestTheSameSchemaIsNoNewRevision(t *testing.T) {
	g := newGraphs(t)
	const first = "name: s\nentities:\n  Person: A human being.\n  Firm: Sells & buys, <1 day old.\nrelations:\n  WORKS_FOR: {patterns: ['Person->Firm'], description: Employment.}\n"
	for _, c := range []struct {
		what, schema string
		revision     uint64
		changed      bool
	}{
		{"a schema", first, 2, true},
		{"itself", first, 2, false},
		{"with a comment", "# mine\n" + first, 2, false},
		{"in another order", "relations:\n  WORKS_FOR: {description: Employment., patterns: [Person->Firm]}\nentities:\n  Firm: {description: 'Sells & buys, <1 day old.'}\n  Person: A human being.\nname: s\n", 2, false},
		{"another description", first[:len(first)-len("Employment.}\n")] + "Work.}\n", 3, true},
		{"the first again", first, 4, true},
	} {
		r, err := g.SchemaPut(t.Context(), "g", api.SchemaPut{Schema: c.schema, Source: c.schema})
		require.NoError(t, err, c.what)
		require.Equal(t, c.revision, r.Revision, c.what)
		require.Equal(t, c.changed, r.Changed, c.what)
	}
	h, err := g.SchemaHistory(t.Context(), "g")
	require.NoError(t, err)
	require.Len(t, h.Schemas, 4)
}

// A graph begins with the default schema; putting that changes nothing.
func TestTheDefaultSchemaIsPutAlready(t *testing.T) {
	g := newGraphs(t)
	r, err := g.SchemaPut(t.Context(), "g", api.SchemaPut{Schema: string(schema.Default().Marshal())})
	require.NoError(t, err)
	require.Equal(t, uint64(1), r.Revision)
	require.False(t, r.Changed)
}
