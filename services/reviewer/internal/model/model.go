// Package model is the reviewer's read model of one graph: candidate records grouped by key and state, fed by a snapshot of
// the committer and then by candidate events. Any number of replicas keep one each.
package model

import (
	"sort"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
)

// recordKey: a document has one record a key.
type recordKey struct{ document, key string }

type groupKey struct{ key, state string }

// group is the records of one key and state.
type group struct {
	key     groupKey
	records map[string]*api.Record // by document id
	kind    string
	label   string // folded: the records of one key may write it differently
	// Sums of the records; where the most confident one went, confidence is worked out anew when it is asked for.
	count      int
	confidence float64
	stale      bool
}

// Graph is the read model of one graph. Not safe for concurrent use: its owner locks.
type Graph struct {
	// Seq and No are how far the model is: commit sequence and number of the newest candidate event it includes.
	Seq, No uint64
	records map[recordKey]*api.Record
	groups  map[groupKey]*group
	sorted  []*group // by count, confidence, key; nil when stale
}

// New returns an empty model at (seq, no).
func New(seq, no uint64) *Graph {
	return &Graph{Seq: seq, No: no, records: map[recordKey]*api.Record{}, groups: map[groupKey]*group{}}
}

// Put inserts or replaces a record.
func (g *Graph) Put(r api.Record) {
	k := recordKey{r.DocumentID, r.Key}
	if old := g.records[k]; old != nil {
		g.drop(old)
	}
	g.records[k] = &r
	gk := groupKey{r.Key, r.State}
	gr := g.groups[gk]
	if gr == nil {
		gr = &group{key: gk, kind: r.Kind, label: schema.FoldLabel(r.Label), records: map[string]*api.Record{}}
		g.groups[gk] = gr
	}
	gr.records[r.DocumentID] = &r
	gr.count += r.Count
	gr.confidence = max(gr.confidence, r.Confidence)
	g.sorted = nil
}

// Remove forgets a record.
func (g *Graph) Remove(documentID, key string) {
	if old := g.records[recordKey{documentID, key}]; old != nil {
		g.drop(old)
	}
}

func (g *Graph) drop(r *api.Record) {
	delete(g.records, recordKey{r.DocumentID, r.Key})
	gk := groupKey{r.Key, r.State}
	gr := g.groups[gk]
	if gr == nil {
		return
	}
	delete(gr.records, r.DocumentID)
	if len(gr.records) == 0 {
		delete(g.groups, gk)
	}
	gr.count -= r.Count
	gr.stale = gr.stale || r.Confidence >= gr.confidence
	g.sorted = nil
}

func (gr *group) best() float64 {
	if gr.stale {
		gr.confidence, gr.stale = 0, false
		for _, r := range gr.records {
			gr.confidence = max(gr.confidence, r.Confidence)
		}
	}
	return gr.confidence
}

// Apply takes one candidate event. It says whether the event fits: one that leaves a gap does not, and the model must be
// loaded anew; one that is included already changes nothing.
func (g *Graph) Apply(e *events.CandidateEvent) bool {
	if e.No <= g.No {
		return true
	}
	if e.No != g.No+1 {
		return false
	}
	for _, it := range e.Items {
		switch e.Verb {
		case "proposed", "approved", "rejected":
			g.Put(api.Record{CandidateItem: it, Seq: e.Seq})
		default: // converted, withdrawn, pruned
			g.Remove(it.DocumentID, it.Key)
		}
	}
	g.No, g.Seq = e.No, max(g.Seq, e.Seq)
	return true
}

// order returns the groups, count desc, confidence desc, key asc, state asc.
func (g *Graph) order() []*group {
	if g.sorted != nil || len(g.groups) == 0 {
		return g.sorted
	}
	out := make([]*group, 0, len(g.groups))
	for _, gr := range g.groups {
		out = append(out, gr)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].place().Before(out[j].place()) })
	g.sorted = out
	return out
}

// Place is where a group stands in the order; it is what a cursor holds.
type Place = api.Place

func (gr *group) place() Place {
	return Place{Count: gr.count, Confidence: gr.best(), Key: gr.key.key, State: gr.key.state}
}

// Filter chooses groups.
type Filter struct {
	Kinds    map[string]bool
	Label    string // as schema.FoldLabel gives it; empty: all
	State    string // empty: all
	MinCount int
	MinScore float64              // of the confidence
	Hide     func(api.Group) bool // nil: none
	Covered  func(api.Group) bool // nil: nothing is covered
}

// List returns groups after a place (nil: from the first), skipping some, at most limit and budget bytes; the place of the
// last one when more follow; and how many match in all.
func (g *Graph) List(f Filter, after *Place, skip, limit int, size func(api.Group) int, budget int) (out []api.Group, next *Place, total int) {
	out = []api.Group{}
	used, full := 0, false
	for _, gr := range g.order() {
		if !f.matches(gr) {
			continue
		}
		total++
		p := gr.place()
		if full || after != nil && !after.Before(p) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		v := gr.view()
		if f.Covered != nil {
			v.Covered = f.Covered(v)
		}
		n := size(v)
		if len(out) == limit || len(out) > 0 && used+n > budget {
			full = true
			continue
		}
		used += n
		out = append(out, v)
	}
	if full && len(out) > 0 {
		last := out[len(out)-1].Place()
		next = &last
	}
	return out, next, total
}

// matches makes a group's whole row only when a filter looks at all of it.
func (f Filter) matches(gr *group) bool {
	return (len(f.Kinds) == 0 || f.Kinds[gr.kind]) && (f.Label == "" || f.Label == gr.label) &&
		(f.State == "" || f.State == gr.key.state) && gr.count >= f.MinCount && gr.best() >= f.MinScore && (f.Hide == nil || !f.Hide(gr.view()))
}

// maxIDs of a group are listed.
const maxIDs = 100

// view makes the group's row. The text and sample are those of the smallest document key, so that replicas agree.
func (gr *group) view() api.Group {
	rs := gr.list()
	first := rs[0]
	v := api.Group{
		Key: first.Key, Kind: first.Kind, Label: first.Label, Text: first.Text, SourceText: first.SourceText, TargetText: first.TargetText,
		SourceLabel: first.SourceLabel, TargetLabel: first.TargetLabel, State: first.State, Count: gr.count, Confidence: gr.best(), Documents: len(rs), IDs: []string{},
		Sample: api.Sample{Document: first.Document, Chunk: first.ChunkID, Quote: first.Quote, Start: first.Start, End: first.End},
	}
	reasons := map[string]bool{}
	for i, r := range rs {
		if i < maxIDs {
			v.IDs = append(v.IDs, r.ID)
		}
		for _, x := range r.Reasons {
			reasons[x] = true
		}
		v.Revision = max(v.Revision, r.Seq)
	}
	v.Reasons = make([]string, 0, len(reasons))
	for x := range reasons {
		v.Reasons = append(v.Reasons, x)
	}
	sort.Strings(v.Reasons)
	return v
}

func (gr *group) list() []*api.Record {
	rs := make([]*api.Record, 0, len(gr.records))
	for _, r := range gr.records {
		rs = append(rs, r)
	}
	sort.Slice(rs, func(i, j int) bool { return rs[i].Document < rs[j].Document })
	return rs
}

// Find returns the key of a record id, "" when there is none.
func (g *Graph) Find(id string) string {
	for k, r := range g.records {
		if r.ID == id {
			return k.key
		}
	}
	return ""
}

// Group returns the group of a key: the pending one first.
func (g *Graph) Group(key string) (api.Group, bool) {
	for _, s := range []string{api.StatePending, api.StateApproved, api.StateRejected} {
		if gr := g.groups[groupKey{key, s}]; gr != nil {
			return gr.view(), true
		}
	}
	return api.Group{}, false
}

// Stats counts the queue.
func (g *Graph) Stats() api.ReviewStatsReply {
	s := api.ReviewStatsReply{Seq: g.Seq, Records: len(g.records), Groups: len(g.groups),
		ByKind: map[string]int{}, ByState: map[string]int{}, ByLabel: map[string]int{}}
	for _, r := range g.records {
		s.ByKind[r.Kind]++
		s.ByState[r.State]++
		s.ByLabel[r.Label]++
		if r.State == api.StatePending && r.At != "" && (s.Oldest == "" || r.At < s.Oldest) {
			s.Oldest = r.At
		}
	}
	if n := s.ByState[api.StateApproved] + s.ByState[api.StateRejected]; n > 0 {
		s.AcceptanceRate = float64(s.ByState[api.StateApproved]) / float64(n)
	}
	return s
}
