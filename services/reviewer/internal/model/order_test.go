package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// said is what a test puts into a model, and the lists it expects, worked out without an order that is kept.
type said map[[2]string]api.Record // by document and key

func (s said) groups() (out []api.Group) {
	by := map[[2]string][]api.Record{}
	for _, r := range s {
		by[[2]string{r.Key, r.State}] = append(by[[2]string{r.Key, r.State}], r)
	}
	for _, rs := range by {
		slices.SortFunc(rs, func(a, b api.Record) int {
			if a.Document < b.Document {
				return -1
			}
			return 1
		})
		f := rs[0]
		g := api.Group{Key: f.Key, Kind: f.Kind, Label: f.Label, Text: f.Text, SourceText: f.SourceText, TargetText: f.TargetText, SourceLabel: f.SourceLabel,
			TargetLabel: f.TargetLabel, State: f.State, Documents: len(rs), Reasons: []string{}, IDs: []string{},
			Sample: api.Sample{Document: f.Document, Chunk: f.ChunkID, Quote: f.Quote, Start: f.Start, End: f.End}}
		for _, r := range rs {
			g.Count, g.Confidence, g.Revision = g.Count+r.Count, max(g.Confidence, r.Confidence), max(g.Revision, r.Seq)
			g.IDs, g.Reasons = append(g.IDs, r.ID), append(g.Reasons, r.Reasons...)
		}
		slices.Sort(g.Reasons)
		g.Reasons = slices.Compact(g.Reasons)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b api.Group) int {
		if a.Place().Before(b.Place()) {
			return -1
		}
		return 1
	})
	return out
}

func (s said) list(f Filter, after *Place, skip, limit int) (out []api.Group, total int) {
	out = []api.Group{}
	for _, g := range s.groups() {
		if len(f.Kinds) > 0 && !f.Kinds[g.Kind] || f.Label != "" && schema.FoldLabel(g.Label) != f.Label || f.State != "" && f.State != g.State || g.Count < f.MinCount ||
			g.Confidence < f.MinScore || f.Hide != nil && f.Hide(g) {
			continue
		}
		total++
		if after != nil && !after.Before(g.Place()) {
			continue
		}
		if skip > 0 {
			skip--
		} else if len(out) < limit {
			out = append(out, g)
		}
	}
	return out, total
}

// Whatever came and went, a list with any filters, from anywhere, is what a sort of all groups would give.
func TestListsAreAsIfAllWereSorted(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for _, loaded := range []bool{false, true} {
		m, want := New(0, 0), said{}
		for no := uint64(1); no <= 3000; no++ {
			kind := pick(kinds...)
			doc := fmt.Sprint("d", rng.IntN(9))
			it := events.CandidateItem{ID: fmt.Sprint("i", no), Document: doc, DocumentID: "id of " + doc, State: pick(api.StatePending, api.StatePending, api.StateApproved, api.StateRejected),
				Quote: fmt.Sprint("q", no), ChunkID: "c", Candidate: graph.Candidate{Key: fmt.Sprintf("%s|%d", kind, rng.IntN(40)), Kind: kind, Label: pick("Wind Tunnel", "WindTunnel", "Wren"),
					Text: pick("a", "A"), SourceText: "s", SourceLabel: pick("", "P"), Start: int(no), End: int(no) + 1, Count: rng.IntN(4) + 1, Confidence: float64(rng.IntN(5)) / 8,
					Reasons: [][]string{nil, {"label"}, {"confidence", "label"}}[rng.IntN(3)]}}
			at := [2]string{doc, it.Key}
			verb := pick("proposed", "proposed", "approved", "withdrawn")
			if loaded {
				verb = "proposed"
				m.Put(api.Record{CandidateItem: it, Seq: no})
			} else {
				require.True(t, m.Apply(&events.CandidateEvent{Verb: verb, Seq: no, No: no, Items: []events.CandidateItem{it}}))
			}
			if verb == "withdrawn" {
				delete(want, at)
			} else {
				want[at] = api.Record{CandidateItem: it, Seq: no}
			}
			if no%11 != 0 {
				continue
			}
			f := Filter{Kinds: map[string]bool{}, State: pick("", "pending", "approved"), Label: pick("", "", schema.FoldLabel("windtunnel")), MinCount: rng.IntN(6) * rng.IntN(3)}
			for range rng.IntN(3) {
				f.Kinds[pick(kinds...)] = true
			}
			if rng.IntN(4) == 0 {
				f.MinScore = 0.5
			}
			if rng.IntN(3) == 0 {
				f.Hide = func(g api.Group) bool {
					return g.State == api.StatePending && g.Label == "Wren" && g.SourceLabel == "P" && !slices.Contains(g.Reasons, "confidence")
				}
			}
			var after *Place
			if all := want.groups(); len(all) > 0 && rng.IntN(2) == 0 {
				p := all[rng.IntN(len(all))].Place()
				p.Count += rng.IntN(2) // a cursor outlives its group
				after = &p
			}
			skip, limit := rng.IntN(4)*rng.IntN(20), rng.IntN(30)
			groups, total := want.list(f, after, skip, limit+1)
			more := len(groups) > limit
			groups = groups[:min(len(groups), limit)]
			got, next, n := m.List(f, after, skip, limit, few, 1<<30)
			require.Equal(t, groups, got, "seed %d event %d %+v after %v skip %d limit %d", seed, no, f, after, skip, limit)
			require.Equal(t, total, n, "seed %d event %d", seed, no)
			require.Equal(t, more && limit > 0, next != nil)
			require.Equal(t, [2]int{len(want), len(want.groups())}, [2]int{m.Stats().Records, m.Stats().Groups})
		}
	}
}

// The top after a change costs the same however many groups there are: an order made anew would cost 200 times as much here.
func TestTheTopCostsWhatItShows(t *testing.T) {
	least := func(groups int) time.Duration {
		m := New(1, 0)
		for i := range groups {
			m.Put(made(5 * i))
		}
		best := time.Hour
		for i := range 40 {
			e := again(m, i*7919%groups*5)
			began := time.Now()
			require.True(t, m.Apply(e))
			out, _, total := m.List(Filter{State: api.StatePending}, nil, 0, 100, few, 700<<10)
			best = min(best, time.Since(began))
			require.Len(t, out, 100)
			require.Equal(t, groups, total)
		}
		return best
	}
	small, large := least(500), least(100_000)
	require.Less(t, large, 10*small, "of 500 groups it took %s", small)
}

// The counts go with the records.
func TestStatsFollowTheRecords(t *testing.T) {
	m := New(0, 0)
	put := func(no uint64, doc, state, at string) {
		it := events.CandidateItem{ID: doc, Document: doc, DocumentID: doc, State: state, At: at, Candidate: graph.Candidate{Key: "entity|l|a", Kind: graph.KindEntity, Label: "L", Count: 1}}
		require.True(t, m.Apply(&events.CandidateEvent{Verb: "proposed", Seq: no, No: no, Items: []events.CandidateItem{it}}))
	}
	put(1, "a", api.StatePending, "2026-01-01")
	put(2, "b", api.StatePending, "2026-01-02")
	put(3, "a", api.StateApproved, "2026-01-01")
	m.Approved, m.Rejected = 3, 1
	s := m.Stats()
	require.Equal(t, map[string]int{"pending": 1, "approved": 1}, s.ByState)
	require.Equal(t, []any{"2026-01-02", 2, 2, 0.75}, []any{s.Oldest, s.Records, s.Groups, s.AcceptanceRate})
	require.Equal(t, "entity|l|a", m.Find("b"))
	require.Empty(t, m.Find("c"))
	m.Remove("a", "a", "entity|l|a")
	m.Remove("b", "b", "entity|l|a")
	s = m.Stats()
	require.Equal(t, []any{"", 0, 0, map[string]int{}, map[string]int{}}, []any{s.Oldest, s.Records, s.Groups, s.ByLabel, s.ByKind})
}

// An id is what it was, whether it is a UUID or not.
func TestIDsArePackedAndUnpacked(t *testing.T) {
	for _, id := range []string{"", "c1", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430cg", "6ba7b8109dad11d180b400c04fd430c8"} {
		got, rest := unpack(string(pack(nil, id)) + "rest")
		require.Equal(t, []string{id, "rest"}, []string{got, rest})
	}
}
