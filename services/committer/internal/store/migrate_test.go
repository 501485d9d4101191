package store

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// unpackFormat1 puts the store of the committer's testdata/format1.tgz (format1.md beside it) at data.
func unpackFormat1(tb testing.TB, fs vfs.FS) {
	tb.Helper()
	f, err := os.Open("../../testdata/format1.tgz")
	require.NoError(tb, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(tb, err)
	require.NoError(tb, fs.MkdirAll("data", 0o755))
	for tr, n := tar.NewReader(z), 0; ; {
		h, err := tr.Next()
		if err == io.EOF {
			require.Positive(tb, n)
			break
		}
		require.NoError(tb, err)
		if h.Typeflag != tar.TypeReg || path.Dir(h.Name) != "format1/store" {
			continue
		}
		raw, err := io.ReadAll(tr)
		require.NoError(tb, err)
		out, err := fs.Create(path.Join("data", path.Base(h.Name)), vfs.WriteCategoryUnspecified)
		require.NoError(tb, err)
		_, err = out.Write(raw)
		require.NoError(tb, err)
		require.NoError(tb, out.Sync())
		require.NoError(tb, out.Close())
		n++
	}
	for _, dir := range []string{"data", ""} {
		d, err := fs.OpenDir(dir)
		require.NoError(tb, err)
		require.NoError(tb, d.Sync())
		require.NoError(tb, d.Close())
	}
}

// factRows are the rows of graphs as they stand, without their sequences.
func factRows(tb testing.TB, s *Store) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for _, name := range s.Graphs() {
		sn, err := s.Snapshot(name, 0)
		require.NoError(tb, err)
		for _, space := range []byte(factSpaces) {
			require.NoError(tb, sn.scan(sn.key(space), nil, func(k key, v []byte) error {
				out[name+" "+describe(k)] = string(v)
				return nil
			}))
		}
		require.NoError(tb, sn.Close())
	}
	return out
}

func verifiedAll(tb testing.TB, s *Store) {
	tb.Helper()
	for _, name := range s.Graphs() {
		r, err := s.Verify(context.Background(), name, nil)
		require.NoError(tb, err)
		require.Empty(tb, r.Problems, name)
	}
}

// heard is a log that calls fn with each message.
type heard struct {
	slog.Handler
	fn func(slog.Record)
}

func (h heard) Enabled(context.Context, slog.Level) bool { return true }

func (h heard) Handle(_ context.Context, r slog.Record) error {
	h.fn(r)
	return nil
}

func hear(fn func(slog.Record)) *slog.Logger { return slog.New(heard{slog.DiscardHandler, fn}) }

func attr(r slog.Record, name string) (out string) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == name {
			out = a.Value.String()
		}
		return a.Key != name
	})
	return out
}

// A store of the first format, as the program of that time wrote it, gets the rows that it lacks.
func TestFormat1(t *testing.T) {
	o := options(vfs.NewMem())
	unpackFormat1(t, o.FS)
	before, err := o.FS.List("data")
	require.NoError(t, err)
	format, err := FormatOf(o)
	require.NoError(t, err)
	require.Equal(t, uint64(1), format)
	after, err := o.FS.List("data")
	require.NoError(t, err)
	require.ElementsMatch(t, append(before, "LOCK"), after, "looking changes nothing")

	var said []string
	o.Log = hear(func(r slog.Record) {
		if r.Level >= slog.LevelWarn {
			said = append(said, fmt.Sprintf("%s: format %s%s", r.Message, attr(r, "to"), attr(r, "format")))
		}
	})
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"bringing the store to a newer format: older versions cannot open it afterwards: format 2", "the store has the newer format: format 2"}, said)
	verifiedAll(t, s)
	sn, err := s.Snapshot("default", 0)
	require.NoError(t, err)
	require.Equal(t, uint64(3), sn.Seq(), "no commit was made")
	c, err := sn.Counts()
	require.NoError(t, err)
	require.Equal(t, map[string]int{"entity|Organization|founded": 1, "entity|Telescope|aperture_m": 1}, mapped(c.Conflicts, func(string) bool { return true }))
	var conflicts []string
	require.NoError(t, sn.Conflicts(func(c Conflict) error {
		e, ok, err := sn.Entity(c.Owner)
		require.True(t, ok)
		conflicts = append(conflicts, fmt.Sprintf("%s %s %d", e.Display(), c.Property, c.Values))
		return err
	}))
	slices.Sort(conflicts)
	require.Len(t, conflicts, 2)
	require.Contains(t, conflicts, "Institute of Sky Studies founded 2")
	holt := fingerprint.EntityID("Person", "mira holt")
	d, ok, err := sn.DegreeByID(fingerprint.ConflictID(holt, DegreeProperty("WORKS_FOR", SideOut)))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Degree{holt, "WORKS_FOR", SideOut, 3}, d)
	shape, ok, err := sn.ShapeOf(holt)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "Person", shape.Label)
	require.Empty(t, shape.Names)
	records := 0
	require.NoError(t, sn.CandidateAll(CandidateCursor{}, func(r CandidateRecord) error {
		records++
		docID, k, current, err := sn.CandidateByID(r.ID)
		require.Equal(t, []any{r.DocID, r.Key, true}, []any{docID, k, current})
		return err
	}))
	require.Equal(t, 13, records)
	require.NoError(t, sn.Close())
	keys := allKeys(t, s)
	require.NoError(t, s.Close())

	said = nil
	s, err = Open(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, keys, allKeys(t, s), "a second open changes nothing")
	require.Empty(t, said)
	require.NoError(t, s.Close())
	format, err = FormatOf(o)
	require.NoError(t, err)
	require.Equal(t, Format, format)
}

func mapped(m map[string]int, keep func(string) bool) map[string]int {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k string, _ int) bool { return !keep(k) })
	return out
}

func TestFormatOfNothing(t *testing.T) {
	o := options(vfs.NewMem())
	format, err := FormatOf(o)
	require.NoError(t, err)
	require.Zero(t, format)
	require.NoError(t, o.FS.MkdirAll(o.Dir, 0o755))
	format, err = FormatOf(o)
	require.NoError(t, err)
	require.Zero(t, format)
	s := openStore(t, o)
	_, err = FormatOf(o)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.Close())
}

// Killed after any batch, with or without what was not synced, and again on the next way, the outcome is that of a way in one go.
func TestMigrationIsCutOff(t *testing.T) {
	whole := options(vfs.NewMem())
	unpackFormat1(t, whole.FS)
	s := openStore(t, whole)
	want := factRows(t, s)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))

	fs := vfs.NewCrashableMem()
	unpackFormat1(t, fs)
	ways, wentOn, clones := 0, 0, []*vfs.MemFS{fs}
	for len(clones) > 0 {
		o := options(clones[len(clones)-1])
		o.BatchBytes = 3 << 10
		from := clones[len(clones)-1]
		clones = clones[:len(clones)-1]
		batches := 0
		o.Log = hear(func(r slog.Record) {
			if attr(r, "goes_on") == "true" {
				wentOn++
			}
			if r.Message != "on the way to a newer format" {
				return
			}
			if batches++; ways < 24 && rng.IntN(6) == 0 {
				clones = append(clones, from.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))}))
				ways++
			}
		})
		s, err := Open(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, want, factRows(t, s))
		verifiedAll(t, s)
		require.Nil(t, must(s.systemRow(rowMigration)))
		require.NoError(t, s.Close())
	}
	require.Greater(t, ways, 10)
	require.Positive(t, wentOn)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Interrupted over and over, each way does a batch at least, and the last one raises the format.
func TestMigrationIsInterrupted(t *testing.T) {
	o := options(vfs.NewMem())
	unpackFormat1(t, o.FS)
	o.BatchBytes = 3 << 10
	starts := 0
	for ; ; starts++ {
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		o.Log = hear(func(r slog.Record) {
			if r.Message == "on the way to a newer format" {
				if n++; n == 3 {
					stop()
				}
			}
		})
		s, err := Open(ctx, o)
		stop()
		if err == nil {
			verifiedAll(t, s)
			require.NoError(t, s.Close())
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "bring data from format 1 to 2 (the next start goes on with it)")
		format, err := FormatOf(o)
		require.NoError(t, err)
		require.Equal(t, uint64(1), format)
	}
	require.Greater(t, starts, 5)
}

// What commits wrote row by row and what a migration makes of the same facts are equal, whatever was there before: nothing, or rows that an
// older program left as they were while the facts changed.
func TestMigrationEqualsCommits(t *testing.T) {
	o := options(vfs.NewMem())
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	s.Graph(g, true)
	s.Graph("empty", true)
	s.Graph("other", true)
	commit(t, s, corpus(t, 8, 0)...)
	commit(t, s,
		mustFixture(t, "a", "[Person:Ada] [Person:Bo] [Org:Acme] [Org:Else]\n. 0 born=1 Person:Ada\n> 0 OWNS Person:Ada Org:Acme\n> 0 OWNS Person:Ada Org:Else\n? 0 entity Ship Acme"),
		mustFixture(t, "b", "[Person:Ada] [Person:Bo] [Org:Acme]\n. 0 born=2 Person:Ada\n. 0 born=3 Person:Bo\n. 0 job=x Person:Bo\n> 0 OWNS Person:Bo Org:Acme\n? 0 entity Ship Acme"))
	putMatch(t, s, entityID("Person", "ada"), entityID("Person", "bo"), MatchUnclear, true)
	inTxn(t, s, func(txn *Txn) {
		n, err := txn.Decide(t.Context(), "entity|ship|acme", api.StateApproved)
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})
	commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: corpus(t, 1, 0)[0].Meta.Key}, Order: graph.Order{Time: 9}})
	want := factRows(t, s)
	verifiedAll(t, s)
	for space, n := range map[byte]int{spaceConflict: 1, spaceDegree: 2, spaceDegreeID: 2, spaceShape: 3, spaceShaped: 3, spaceShapeOf: 3, spaceCandID: 2, spaceMatchID: 1} {
		require.GreaterOrEqual(t, len(rowsOf(want, space)), n, "%c", space)
	}
	var c Counts
	require.NoError(t, decodeJSON([]byte(want[g+" "+"s/counts"]), &c))
	require.NotEmpty(t, c.Conflicts)
	require.NotEmpty(t, c.Decided)
	require.NoError(t, s.Close())

	for _, before := range []string{"nothing", "stale rows", "stale rows, another writer", "all"} {
		t.Run(before, func(t *testing.T) {
			s, err := Open(t.Context(), o)
			require.NoError(t, err)
			b := s.db.NewBatch()
			require.NoError(t, b.Set(systemKey(rowFormat).end(), number(1), nil))
			for _, k := range allKeys(t, s) {
				switch space := k[headLen-1]; {
				case before == "all" || strings.IndexByte("%$?_;-#@", space) < 0:
				case before == "nothing" || rand.IntN(2) == 0:
					require.NoError(t, b.Delete([]byte(k), nil))
				}
			}
			put := func(k key, v []byte) { require.NoError(t, b.Set(k.with(2), seal(k, v), nil)) }
			if before != "nothing" && before != "all" {
				gone, _ := parseID(fingerprint.EntityID("Person", "nobody"))
				put(shapeOfKey(1, gone), encodeShapeOf("Person", []string{"x"}))
				put(shapeAt("Person", []string{"x"}).member(1, gone), isMember)
				put(shapeAt("Person", []string{"x"}).key(1), encodeShape([]string{"x"}, 7))
				put(degreeAt{"OWNS", SideIn, gone}.key(1), degreeRow(4))
				put(must(conflictKey(1, gone, "x")), Conflict{Property: "x", Values: 2}.row(gone))
			}
			if before == "stale rows, another writer" { // which came when a migration had been cut off
				at := must(encodeJSON(waypoint{To: formatVersion, Epoch: s.epoch - 1, Graph: 3, Pass: len(passes) - 1}))
				require.NoError(t, b.Set(systemKey(rowMigration).end(), at, nil))
			}
			require.NoError(t, s.apply(b, true))
			require.NoError(t, b.Close())
			require.NoError(t, s.Close())
			s, err = Open(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, want, factRows(t, s))
			verifiedAll(t, s)
			require.NoError(t, s.Close())
		})
	}
}

func rowsOf(rows map[string]string, space byte) (out []string) {
	for k := range rows {
		if strings.Contains(k, " "+string(space)+"/") {
			out = append(out, k)
		}
	}
	return out
}
