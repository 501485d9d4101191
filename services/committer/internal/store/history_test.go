package store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/graph"
)

// verified fails when the store has a problem.
func verified(tb T, s *Store) {
	tb.Helper()
	r, err := s.Verify(context.Background(), g, nil)
	require.NoError(tb, err)
	require.Empty(tb, r.Problems)
	require.Zero(tb, r.Total)
}

var (
	people  = []string{"Person:Ada", "Person:Ada Lovelace", "Person:Żółć", "Org:Acme", "Org:東京 Ltd", "Place:Ada"}
	surface = []string{"", "=Ada Lovelace"}
)

// randomDoc draws a document in the notation of fixture.
func randomDoc(t *rapid.T) string {
	var b strings.Builder
	var tail []string
	for chunk := range rapid.IntRange(1, 3).Draw(t, "chunks") {
		if chunk > 0 {
			b.WriteString("~\n")
		}
		fmt.Fprintf(&b, "words %d 😀 é", rapid.IntRange(0, 3).Draw(t, "word"))
		var here []string
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(people), 0, 4).Draw(t, "people") {
			s := ""
			if p == "Person:Ada" {
				s = rapid.SampledFrom(surface).Draw(t, "surface")
			}
			fmt.Fprintf(&b, " [%s%s]", p, s)
			if s != "" {
				p = "Person:Ada Lovelace"
			}
			here = append(here, strings.ReplaceAll(p, " ", "_"))
		}
		b.WriteString(" end\n")
		if len(here) > 1 && rapid.Bool().Draw(t, "relation") {
			tail = append(tail, fmt.Sprintf("> %d %s %s %s since=%d", chunk, rapid.SampledFrom([]string{"KNOWS", "OWNS"}).Draw(t, "type"), here[0], here[1], rapid.IntRange(1, 2).Draw(t, "since")))
		}
		if len(here) > 0 && rapid.Bool().Draw(t, "property") {
			tail = append(tail, fmt.Sprintf(". %d %s@%s %s", chunk, rapid.SampledFrom([]string{"age=1", "age=2.5", "name=x", "age=1"}).Draw(t, "value"),
				rapid.SampledFrom([]string{"0.5", "0.9"}).Draw(t, "confidence"), here[0]))
		}
		if rapid.Bool().Draw(t, "candidate") {
			tail = append(tail, fmt.Sprintf("? %d entity Robot word%s", chunk, rapid.SampledFrom([]string{"s", "_x"}).Draw(t, "text")))
		}
	}
	return b.String() + strings.Join(tail, "\n")
}

type wanted struct {
	src, date string
	schema    string
}

func (w wanted) change(t *rapid.T, docKey string, order int64) DocChange {
	c, err := fixture(docKey, w.src)
	if err != nil {
		t.Fatal(err)
	}
	c.Meta.ContentDate, c.SchemaFP, c.Order = w.date, w.schema, graph.Order{Time: order}
	c.Symmetric = func(typ string) bool { return typ == "KNOWS" }
	return c
}

// Whatever was added, updated, described anew and deleted, what is left is what a fresh store of the living documents holds.
func TestHistoryEqualsFreshBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options(vfs.NewMem())
		o.BatchBytes = rapid.SampledFrom([]int{1, 3000, 1 << 24}).Draw(t, "batch")
		s, err := Open(context.Background(), o)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		s.Graph(g, true)
		alive := map[string]wanted{}
		past := map[uint64]string{}
		order := int64(0)
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			txn, err := s.Begin(context.Background(), g)
			require.NoError(t, err)
			after := map[string]wanted{}
			for k, v := range alive {
				after[k] = v
			}
			for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID[string]).Draw(t, "keys") {
				order++
				var c DocChange
				old, have := after[k]
				switch rapid.SampledFrom([]string{"add", "add", "delete", "date", "same", "late"}).Draw(t, "what") {
				case "delete":
					c = DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: order}}
					delete(after, k)
				case "late":
					if !known(t, txn, k) {
						continue
					}
					c = wanted{src: randomDoc(t), schema: "schema1"}.change(t, k, -1)
				case "date":
					if have {
						old.date = rapid.SampledFrom([]string{"", "2020-01-01", "2021-01-01"}).Draw(t, "date")
						after[k] = old
						c = old.change(t, k, order)
						c.Decision, c.Text, c.Chunks, c.Assertions, c.ContentHash = graph.MetadataOnly, "", nil, graph.Assertions{}, ""
						break
					}
					fallthrough
				case "same":
					if have {
						c = old.change(t, k, order)
						break
					}
					fallthrough
				default:
					w := wanted{src: randomDoc(t), date: rapid.SampledFrom([]string{"", "2020-01-01"}).Draw(t, "date"), schema: rapid.SampledFrom([]string{"schema1", "schema2"}).Draw(t, "schema")}
					after[k] = w
					c = w.change(t, k, order)
				}
				if rapid.Bool().Draw(t, "ahead") {
					require.NoError(t, txn.Ahead(context.Background(), []DocChange{c, wanted{src: randomDoc(t)}.change(t, "never applied", order)}))
				}
				_, err := txn.Apply(context.Background(), c)
				require.NoError(t, err)
			}
			if rapid.IntRange(0, 3).Draw(t, "abort") == 0 {
				require.NoError(t, txn.Abort())
				continue
			}
			seq := txn.Seq()
			_, err = txn.Finish(context.Background(), nil)
			require.NoError(t, err)
			alive = after
			past[seq] = dumpOpen(t, s, 0)
		}
		verified(t, s)
		for seq, want := range past {
			require.Equal(t, want, dumpOpen(t, s, seq), "as of %d", seq)
		}
		fresh, err := Open(context.Background(), options(vfs.NewMem()))
		require.NoError(t, err)
		defer func() { require.NoError(t, fresh.Close()) }()
		fresh.Graph(g, true)
		txn, err := fresh.Begin(context.Background(), g)
		require.NoError(t, err)
		for k, w := range alive {
			_, err := txn.Apply(context.Background(), w.change(t, k, 1))
			require.NoError(t, err)
		}
		_, err = txn.Finish(context.Background(), nil)
		require.NoError(t, err)
		require.Equal(t, dumpOpen(t, fresh, 0), dumpOpen(t, s, 0))
	})
}

// known says whether the key was ever added or deleted, as the commit sees it.
func known(t *rapid.T, txn *Txn, k string) bool {
	txn.mu.Lock()
	defer txn.mu.Unlock()
	doc, err := mustID(docID(k))
	require.NoError(t, err)
	_, known, err := txn.loadDoc(doc)
	require.NoError(t, err)
	return known
}
