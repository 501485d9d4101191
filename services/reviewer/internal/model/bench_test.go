package model

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// made is record number n of a graph in which five documents say the same; it is whole and made anew each time, as it comes off the wire.
func made(n int) api.Record {
	group, kind := n/5, kinds[n/5%3]
	doc := fmt.Sprintf("reports/2026/%07d.txt", n%50_021)
	id := fingerprint.DocumentID(doc)
	it := events.CandidateItem{Document: doc, DocumentID: id, ContentHash: fingerprint.ContentHash(doc), State: api.StatePending,
		Quote:   fmt.Sprintf("In the autumn, observatory %d was said to work with institute %d on an instrument.", group, group*7),
		ChunkID: fingerprint.ChunkID(id, doc, "c1", n%9), At: fmt.Sprintf("2026-03-%02dT%02d:00:00Z", n/40_000%28+1, n%24),
		Candidate: graph.Candidate{Kind: kind, Label: fmt.Sprintf("Label %d", group%40), Confidence: float64(n%60) / 100, Reasons: []string{graph.ReasonUndeclaredLabel},
			Count: 1 + group%97*(n%3), Chunk: n % 9, Start: n % 4000, End: n%4000 + 90, Extractor: "hybrid", Rule: "r"}}
	switch kind {
	case graph.KindEntity:
		it.Text = fmt.Sprintf("Observatory Number %d of Station %d", group, group%1000)
		it.Key = fingerprint.EntityKey(it.Label, it.Text)
	case graph.KindRelation:
		it.SourceText, it.TargetText = fmt.Sprintf("Observatory %d", group), fmt.Sprintf("Institute %d", group*7)
		it.SourceLabel, it.TargetLabel = "Observatory", "Institute"
		it.Key = fingerprint.RelationKey(it.Label, it.SourceText, it.TargetText)
	case graph.KindProperty:
		it.SourceText, it.SourceLabel, it.Text = fmt.Sprintf("Observatory %d", group), "Observatory", fmt.Sprint(1900+group%120)
		it.Key = fingerprint.PropertyKey(it.Label, it.SourceText, it.Text)
	}
	it.ID = fingerprint.CandidateID(id, it.Key, it.ContentHash, "c1", "s1", "e1")
	return api.Record{CandidateItem: it, Seq: uint64(n + 1)}
}

// filled is a model of n records.
func filled(n int) *Graph {
	g := New(uint64(n), 0)
	for i := range n {
		g.Put(made(i))
	}
	return g
}

// again is the event of a commit that sees record n more often.
func again(g *Graph, n int) *events.CandidateEvent {
	r := made(n)
	r.Count += int(g.No)%100 + 1
	return &events.CandidateEvent{Graph: "g", Verb: "proposed", Kind: r.Kind, Seq: g.Seq + 1, No: g.No + 1, Items: []events.CandidateItem{r.CandidateItem}}
}

func few(api.Group) int { return 500 }

var sizes = []int{10_000, 1_000_000}

// BenchmarkList is the top 100 right after a change of a group somewhere.
func BenchmarkList(b *testing.B) {
	for _, n := range sizes {
		g := filled(n)
		pending := Filter{Kinds: map[string]bool{}, State: api.StatePending, Covered: func(api.Group) bool { return false }}
		_, middle, _ := g.List(pending, nil, n/10-1, 1, few, 700<<10)
		labelled, often, sure := pending, pending, pending
		labelled.Label, often.MinCount, sure.MinScore = "label7", 400, 0.5
		hiding := pending
		hiding.Hide = func(v api.Group) bool { return v.Label == "Label 3" }
		for _, c := range []struct {
			name  string
			f     Filter
			after *Place
			skip  int
		}{
			{"default", pending, nil, 0}, {"cursor", pending, middle, 0}, {"skip", pending, nil, n / 10}, {"label", labelled, nil, 0},
			{"min_count", often, nil, 0}, {"min_score", sure, nil, 0}, {"hide", hiding, nil, 0},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				i := 0
				for b.Loop() {
					i++
					b.StopTimer()
					e := again(g, i*7919%n)
					b.StartTimer()
					if !g.Apply(e) {
						b.Fatal("a gap")
					}
					if out, _, _ := g.List(c.f, c.after, c.skip, 100, few, 700<<10); len(out) == 0 {
						b.Fatal("nothing is listed")
					}
				}
			})
		}
	}
}

// BenchmarkFill is a fresh model of 1,000,000 records and its first list, without the committer's part (making the records is
// about half of it); and what it holds.
func BenchmarkFill(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				before := held()
				b.StartTimer()
				g := New(1, 0)
				for i := range n {
					g.Put(made(i))
				}
				g.List(Filter{}, nil, 0, 100, few, 700<<10)
				b.StopTimer()
				b.ReportMetric(float64(held()-before)/float64(n), "B/record")
				g.Search([]string{"none"}, "", 1)
				b.ReportMetric(float64(held()-before)/float64(n), "searchable-B/record")
				runtime.KeepAlive(g)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkFind is the slowest way to a record: by its id.
func BenchmarkFind(b *testing.B) {
	for _, n := range sizes {
		g := filled(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				g.Find(made(n / 2).ID)
			}
		})
	}
}

// held is the live heap.
func held() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
