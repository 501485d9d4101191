package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// degreesOf lists "type side name number" and checks that each is found by id.
func degreesOf(tb T, s *Store, seq uint64, types ...string) []string {
	tb.Helper()
	sn, err := s.Snapshot(g, seq)
	require.NoError(tb, err)
	defer sn.Close()
	out := []string{}
	for _, typ := range types {
		for _, side := range []string{SideOut, SideIn} {
			require.NoError(tb, sn.Degrees(typ, side, func(d Degree) error {
				byID, ok, err := sn.DegreeByID(fingerprint.ConflictID(d.Entity, DegreeProperty(typ, side)))
				require.NoError(tb, err)
				require.True(tb, ok)
				require.Equal(tb, d, byID)
				e, ok, err := sn.Entity(d.Entity)
				require.NoError(tb, err)
				require.True(tb, ok)
				out = append(out, fmt.Sprintf("%s%s %s %d", typ, side, e.Display(), d.Relations))
				return nil
			}))
		}
	}
	slices.Sort(out)
	return out
}

// An entity with several relations of a type on a side has a row while it has them, over whatever history and in batches of whatever size.
func TestDegreesFollowTheRelations(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 9))
		o := options(vfs.NewMem())
		o.BatchBytes = []int{1 << 24, 1 << 12, 1}[seed%3]
		s := openStore(t, o)
		live := map[string][]string{}
		for order := range int64(20) {
			k := fmt.Sprint("d", rng.IntN(5))
			if rng.IntN(4) == 0 {
				commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: order + 1}})
				delete(live, k)
			} else {
				src, rels := "[Person:A] [Person:B] [Person:C] "+fmt.Sprint(order), []string{}
				for range 1 + rng.IntN(4) {
					r := fmt.Sprintf("%s Person:%c Person:%c", []string{"OWNS", "KNOWS"}[rng.IntN(2)], 'A'+rune(rng.IntN(3)), 'A'+rune(rng.IntN(3)))
					rels = append(rels, r)
					src += "\n> 0 " + r
				}
				c := mustFixture(t, k, src)
				c.Order.Time = order + 1
				commit(t, s, c)
				live[k] = rels
			}
			verified(t, s)
			edges, n, want := map[string]bool{}, map[string]int{}, []string{}
			for _, rels := range live {
				for _, r := range rels {
					if f := strings.Fields(r); !edges[r] {
						edges[r] = true
						n[f[0]+":source "+f[1][7:]]++
						n[f[0]+":target "+f[2][7:]]++
					}
				}
			}
			for at, count := range n {
				if count > 1 {
					want = append(want, fmt.Sprintf("%s %d", at, count))
				}
			}
			slices.Sort(want)
			require.Equal(t, want, degreesOf(t, s, 0, "OWNS", "KNOWS"), "seed %d", seed)
		}
	}
}

// A store that an older version wrote lacks the rows; the next relation makes one.
func TestDegreeThatHadNoRow(t *testing.T) {
	s := memStore(t)
	for i := range 3 {
		commit(t, s, mustFixture(t, fmt.Sprint("d", i), fmt.Sprintf("[Person:Ada] %d [Person:P%d]\n> 0 KNOWS Person:Ada Person:P%d", i, i, i)))
	}
	require.Equal(t, []string{"KNOWS:source Ada 3"}, degreesOf(t, s, 0, "KNOWS"))
	require.Equal(t, []string{"KNOWS:source Ada 2"}, degreesOf(t, s, 2, "KNOWS"), "as of a sequence")
	d := degreeAt{"KNOWS", SideOut, fixtureID(t, "Person", "ada")}
	ik, err := d.idKey(1)
	require.NoError(t, err)
	for seq := range uint64(4) {
		require.NoError(t, s.db.Delete(d.key(1).with(seq), pebble.NoSync))
		require.NoError(t, s.db.Delete(ik.clone().with(seq), pebble.NoSync))
	}
	commit(t, s, mustFixture(t, "d3", "[Person:Ada] 3 [Person:P3]\n> 0 KNOWS Person:Ada Person:P3"))
	require.Equal(t, []string{"KNOWS:source Ada 4"}, degreesOf(t, s, 0, "KNOWS"))
	verified(t, s)
}
