package model

import (
	"sort"
	"unique"

	"github.com/tidwall/btree"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// ordered are groups by count desc, confidence desc, key asc, state asc.
type ordered = btree.BTreeG[*group]

// shelf is where groups stand in order: those of a kind and state, of one folded label or, with none, of all.
type shelf struct {
	kind, state string
	label       unique.Handle[string]
}

// The kinds and states of candidates.
var (
	kinds  = []string{graph.KindEntity, graph.KindRelation, graph.KindProperty}
	states = []string{api.StatePending, api.StateApproved, api.StateRejected}
)

// Place is where a group stands in the order; it is what a cursor holds.
type Place = api.Place

func before(a, b *group) bool {
	switch {
	case a.count != b.count:
		return a.count > b.count
	case a.confidence != b.confidence:
		return a.confidence > b.confidence
	case a.key != b.key:
		return a.key < b.key
	default:
		return a.state < b.state
	}
}

func (gr *group) shelves() [2]shelf {
	return [2]shelf{{kind: gr.kind, state: gr.state}, {gr.kind, gr.state, gr.label}}
}

func (g *Graph) shelve(gr *group) {
	for _, s := range gr.shelves() {
		t := g.shelves[s]
		if t == nil {
			t = btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
			g.shelves[s] = t
		}
		t.Set(gr)
	}
	gr.shape = gr.shapeOf()
	count(g.shapes, gr.shape, 1)
	g.groups++
}

func (g *Graph) unshelve(gr *group) {
	for _, s := range gr.shelves() {
		t := g.shelves[s]
		t.Delete(gr)
		if t.Len() == 0 {
			delete(g.shelves, s)
		}
	}
	count(g.shapes, gr.shape, -1)
	g.groups--
}

// Filter chooses groups.
type Filter struct {
	Kinds    map[string]bool
	Label    string // as schema.FoldLabel gives it; empty: all
	State    string // empty: all
	MinCount int
	MinScore float64 // of the confidence
	// Hide leaves groups out (nil: none). It is given kind, state, labels and reasons alone, once for all groups that have the same.
	Hide    func(api.Group) bool
	Covered func(api.Group) bool // nil: nothing is covered
}

// run is a part of a shelf, from lo to hi.
type run struct {
	groups *ordered
	lo, hi int
	it     btree.IterG[*group]
	head   *group // nil behind the end
}

// advance goes to the next group.
func (r *run) advance() {
	r.lo, r.head = r.lo+1, nil
	if r.lo < r.hi && r.it.Next() {
		r.head = r.it.Item()
	}
}

// runs are the parts of shelves that hold what the filter's kinds, state, label and count choose.
func (g *Graph) runs(f Filter) (out []*run) {
	var label unique.Handle[string]
	if f.Label != "" {
		label = unique.Make(f.Label)
	}
	for _, kind := range kinds {
		for _, state := range states {
			if len(f.Kinds) > 0 && !f.Kinds[kind] || f.State != "" && f.State != state {
				continue
			}
			t := g.shelves[shelf{kind, state, label}]
			if t == nil {
				continue
			}
			r := &run{groups: t, hi: t.Len()}
			if f.MinCount > 0 {
				r.hi = search(t, func(x *group) bool { return x.count < f.MinCount })
			}
			if r.hi > 0 {
				out = append(out, r)
			}
		}
	}
	return out
}

// search returns the place of the first group for which is holds, which it does for all behind that.
func search(t *ordered, is func(*group) bool) int {
	return sort.Search(t.Len(), func(i int) bool {
		x, _ := t.GetAt(i)
		return is(x)
	})
}

// begin goes to where each run begins.
func begin(runs []*run) {
	for _, r := range runs {
		if x, ok := r.groups.GetAt(r.lo); ok && r.lo < r.hi {
			r.it = r.groups.Iter()
			if r.it.Seek(x) {
				r.head = r.it.Item()
			}
		}
	}
}

// first is the run whose head stands before those of all others, nil behind the last one.
func first(runs []*run) (f *run) {
	for _, r := range runs {
		if r.head != nil && (f == nil || before(r.head, f.head)) {
			f = r
		}
	}
	return f
}

// leap skips the first n groups of all runs without looking at each: of what stands a step ahead in each of k runs, whatever comes first
// is among the first k steps of all, and so is what is before it in its run.
func leap(runs []*run, n int) {
	for n > 0 {
		live := 0
		for _, r := range runs {
			if r.lo < r.hi {
				live++
			}
		}
		if live == 0 {
			return
		}
		step := max(1, n/live)
		var to *run
		var least *group
		for _, r := range runs {
			if r.lo < r.hi {
				if x, _ := r.groups.GetAt(min(r.lo+step, r.hi) - 1); to == nil || before(x, least) {
					to, least = r, x
				}
			}
		}
		by := min(step, to.hi-to.lo)
		to.lo, n = to.lo+by, n-by
	}
}

// hides says which shapes are left out; nil when none is. Each is asked about once.
func (f Filter) hides() func(unique.Handle[shape]) bool {
	if f.Hide == nil {
		return nil
	}
	hidden := map[unique.Handle[shape]]bool{}
	return func(s unique.Handle[shape]) bool {
		hide, known := hidden[s]
		if !known {
			hide = f.Hide(s.Value().group())
			hidden[s] = hide
		}
		return hide
	}
}

// each says whether a group is chosen by what the shelves are not sorted by; nil when that is nothing.
func (f Filter) each(hides func(unique.Handle[shape]) bool) func(*group) bool {
	if hides == nil && f.MinScore == 0 {
		return nil
	}
	return func(gr *group) bool { return gr.confidence >= f.MinScore && (hides == nil || !hides(gr.shape)) }
}

// total counts what a filter chooses of whole runs.
func total(runs []*run, chosen func(*group) bool) (n int) {
	for _, r := range runs {
		if chosen == nil {
			n += r.hi
			continue
		}
		left := r.hi
		r.groups.Scan(func(x *group) bool {
			if chosen(x) {
				n++
			}
			left--
			return left > 0
		})
	}
	return n
}

// totalOf counts what a filter chooses by nothing but its shape.
func (g *Graph) totalOf(f Filter, hides func(unique.Handle[shape]) bool) (n int) {
	for h, groups := range g.shapes {
		s := h.Value()
		if (len(f.Kinds) == 0 || f.Kinds[s.kind]) && (f.State == "" || f.State == s.state) && (f.Label == "" || f.Label == schema.FoldLabel(s.label)) && !hides(h) {
			n += groups
		}
	}
	return n
}

// List returns groups after a place (nil: from the first), skipping some, at most limit and budget bytes; the place of the
// last one when more follow; and how many match in all. Every group is looked at only
// to count for MinScore, and for Hide with MinCount.
func (g *Graph) List(f Filter, after *Place, skip, limit int, size func(api.Group) int, budget int) (out []api.Group, next *Place, n int) {
	g.Settle()
	out = []api.Group{}
	runs, hides := g.runs(f), f.hides()
	chosen := f.each(hides)
	if hides != nil && f.MinScore == 0 && f.MinCount == 0 {
		n = g.totalOf(f, hides)
	} else {
		n = total(runs, chosen)
	}
	if after != nil {
		p := &group{count: after.Count, confidence: after.Confidence, key: after.Key, state: after.State}
		for _, r := range runs {
			r.lo = search(r.groups, func(x *group) bool { return before(p, x) })
		}
	}
	if chosen == nil {
		leap(runs, skip)
		skip = 0
	}
	begin(runs)
	used, full := 0, false
	for r := first(runs); r != nil; r = first(runs) {
		gr := r.head
		r.advance()
		if chosen != nil && !chosen(gr) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if full = len(out) == limit; full {
			break
		}
		v := gr.view()
		if f.Covered != nil {
			v.Covered = f.Covered(v)
		}
		used += size(v)
		if full = len(out) > 0 && used > budget; full {
			break
		}
		out = append(out, v)
	}
	if full && len(out) > 0 {
		last := out[len(out)-1].Place()
		next = &last
	}
	return out, next, n
}
