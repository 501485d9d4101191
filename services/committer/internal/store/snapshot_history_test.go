package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

func snapshot(tb T, s *Store, seq uint64) *Snapshot {
	tb.Helper()
	sn, err := s.Snapshot(g, seq)
	require.NoError(tb, err)
	return sn
}

// history lists what documents ever said of a fact as "document from-until vN places".
func history(tb T, sn *Snapshot, factID, after string) (mentioned, stated []string) {
	tb.Helper()
	line := func(docID string, from, until uint64, version int, places string) string {
		d, ok, err := sn.Doc(docID)
		require.NoError(tb, err)
		require.True(tb, ok)
		return fmt.Sprintf("%s %d-%d v%d %s", d.Meta.Key, from, until, version, places)
	}
	require.NoError(tb, sn.EverMentioned(factID, after, func(docID string, said []Past[MentionSupport]) error {
		for _, p := range said {
			require.Equal(tb, docID, p.Said.DocID)
			places := ""
			for _, m := range p.Said.Spans {
				places += fmt.Sprintf("%d:%d-%d", m.Chunk, m.Start, m.End)
			}
			mentioned = append(mentioned, line(docID, p.From, p.Until, p.Said.Version, places))
		}
		return nil
	}))
	require.NoError(tb, sn.EverStated(factID, after, func(docID string, said []Past[EvidenceSupport]) error {
		for _, p := range said {
			require.Equal(tb, docID, p.Said.DocID)
			stated = append(stated, line(docID, p.From, p.Until, p.Said.Version, spans(p.Said.Spans)))
		}
		return nil
	}))
	return mentioned, stated
}

func TestEverSaid(t *testing.T) {
	s := memStore(t)
	at := func(c DocChange, time int64) DocChange { c.Order.Time = time; return c }
	const knows = "[Person:Ada] met [Person:Bab].\n> 0 KNOWS Person:Ada Person:Bab"
	commit(t, s, at(mustFixture(t, "a", knows), 1), at(mustFixture(t, "b", "[Person:Ada] left."), 1)) // 1
	again := at(mustFixture(t, "a", knows), 2)                                                        // read anew in place: Bab and the relation are gone
	again.Assertions.Chunks[0].Mentions, again.Assertions.Chunks[0].Relations = again.Assertions.Chunks[0].Mentions[:1], nil
	commit(t, s, again)                                                                                                                               // 2
	commit(t, s, at(mustFixture(t, "a", "Now "+knows), 3))                                                                                            // 3
	commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "a"}, Order: graph.Order{Time: 4}})                                          // 4
	commit(t, s, at(mustFixture(t, "gone", knows), 5), DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "gone"}, Order: graph.Order{Time: 6}}) // 5: never seen
	ada, bab := fingerprint.EntityID("Person", "ada"), fingerprint.EntityID("Person", "bab")
	rel := fingerprint.RelationID("KNOWS", ada, bab, false)

	sn := snapshot(t, s, 0)
	defer sn.Close()
	mentioned, _ := history(t, sn, ada, "")
	want := []string{"a 1-3 v1 0:0-3", "a 3-4 v2 0:4-7", "b 1-0 v1 0:0-3"}
	if docID("b") < docID("a") {
		want = []string{want[2], want[0], want[1]}
	}
	require.Equal(t, want, mentioned)
	mentioned, _ = history(t, sn, bab, "")
	require.Equal(t, []string{"a 1-2 v1 0:8-11", "a 3-4 v2 0:12-15"}, mentioned)
	_, stated := history(t, sn, rel, "")
	require.Len(t, stated, 2)
	require.Regexp(t, "^a 1-2 v1 ", stated[0])
	require.Regexp(t, "^a 3-4 v2 ", stated[1])
	_, stated = history(t, sn, rel, docID("a"))
	require.Empty(t, stated, "behind the document")

	// A snapshot knows nothing of what came after it.
	old := snapshot(t, s, 2)
	defer old.Close()
	_, stated = history(t, old, rel, "")
	require.Len(t, stated, 1)
	require.Regexp(t, "^a 1-2 v1 ", stated[0])
	first := snapshot(t, s, 1)
	defer first.Close()
	_, stated = history(t, first, rel, "")
	require.Regexp(t, "^a 1-0 v1 ", stated[0])

	n := 0
	require.NoError(t, sn.EverMentioned(ada, "", func(string, []Past[MentionSupport]) error { n++; return ErrStop }))
	require.Equal(t, 1, n)
	for _, none := range []string{"", "x", fingerprint.EntityID("Person", "nobody")} {
		m, st := history(t, sn, none, "")
		require.Empty(t, append(m, st...))
	}
}

// Cut at any sequence, the history of a fact is what a snapshot of that sequence shows.
func TestEverSaidEqualsSnapshots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open(context.Background(), options(vfs.NewMem()))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		s.Graph(g, true)
		seqs := rapid.IntRange(1, 8).Draw(t, "commits")
		for i := range seqs {
			k := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			c := DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: int64(i)}}
			if rapid.IntRange(0, 3).Draw(t, "delete") > 0 {
				c = wanted{src: randomDoc(t), schema: "schema1"}.change(t, k, int64(i))
			}
			commit(t, s, c)
		}
		now := snapshot(t, s, 0)
		defer now.Close()
		facts := map[string]bool{}
		got := map[uint64]map[string]string{}
		for seq := uint64(1); seq <= uint64(seqs); seq++ {
			sn := snapshot(t, s, seq)
			got[seq] = map[string]string{}
			require.NoError(t, sn.EntitiesAll("", func(f EntityFold) error {
				facts[f.ID] = true
				return sn.Mentions(f.ID, "", func(m MentionSupport) error {
					got[seq][f.ID+m.DocID] = fmt.Sprint(m)
					return nil
				})
			}))
			require.NoError(t, sn.RelationsAll("", func(f RelationFold) error {
				facts[f.ID] = true
				return sn.Evidence(f.ID, "", func(e EvidenceSupport) error {
					got[seq][f.ID+e.DocID] = fmt.Sprint(e)
					return nil
				})
			}))
			require.NoError(t, sn.Close())
		}
		for seq, shown := range got {
			want := map[string]string{}
			add := func(fact, docID string, from, until uint64, said any) {
				if from <= seq && (until == 0 || seq < until) {
					want[fact+docID] = fmt.Sprint(said)
				}
			}
			for _, f := range slices.Sorted(maps.Keys(facts)) {
				require.NoError(t, now.EverMentioned(f, "", func(docID string, said []Past[MentionSupport]) error {
					for _, p := range said {
						add(f, docID, p.From, p.Until, p.Said)
					}
					return nil
				}))
				require.NoError(t, now.EverStated(f, "", func(docID string, said []Past[EvidenceSupport]) error {
					for _, p := range said {
						add(f, docID, p.From, p.Until, p.Said)
					}
					return nil
				}))
			}
			require.Equal(t, want, shown, "at %d", seq)
		}
	})
}

func TestCandidateOfDocument(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", "A robot met [Person:Ada].\n? 0 entity Machine robot"))
	sn := snapshot(t, s, 0)
	defer sn.Close()
	r, ok, err := sn.Candidate(docID("a"), "entity|machine|robot")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "robot", r.Text)
	for _, none := range [][2]string{{docID("a"), "entity|machine|robo"}, {docID("b"), "entity|machine|robot"}, {"x", "entity|machine|robot"}} {
		_, ok, err := sn.Candidate(none[0], none[1])
		require.NoError(t, err)
		require.False(t, ok)
	}
}
