package linkage

import (
	"cmp"
	"math"
	"slices"
)

// ScoredLink is an active link between two entities, by id.
type ScoredLink struct {
	A, B   string
	Score  float64
	Method Method // reported with a link that is taken out; it decides nothing
}

// Pair is two entities that must not be in one cluster, by id: a link that a person or a model rejected, two names that
// Compare vetoes, or two that scored under the drop threshold.
type Pair struct{ A, B string }

// Clusters are the components of links in which no rejected pair lies, each sorted, of two members or more, sorted by
// their first. Where one would hold a rejected pair, the weakest link between the two goes (of equals the one that sorts
// last by its ids), and what is left is looked at again; equivalently, links are taken strongest first and one
// that would bring a rejected pair together is left out. Removed are those links, weakest first, with A before B. The
// result depends on the sets alone: order, direction and repetition of the input do not matter (of a repeated link the strongest
// counts), nor do links of an entity to itself. A score that is no number counts as 0.
func Clusters(links []ScoredLink, rejected []Pair) (clusters [][]string, removed []ScoredLink) {
	links = tidy(links)
	g := newGroups(links)
	for _, p := range rejected {
		g.reject(p)
	}
	for _, l := range links {
		if !g.join(g.index[l.A], g.index[l.B]) {
			removed = append(removed, l)
		}
	}
	slices.Reverse(removed)
	return g.clusters(), removed
}

// tidy returns the links once each, strongest first, then by ids.
func tidy(links []ScoredLink) []ScoredLink {
	out := make([]ScoredLink, 0, len(links))
	for _, l := range links {
		if l.A == l.B {
			continue
		}
		if l.B < l.A {
			l.A, l.B = l.B, l.A
		}
		if math.IsNaN(l.Score) {
			l.Score = 0
		}
		out = append(out, l)
	}
	byIDs := func(x, y ScoredLink) int { return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B)) }
	slices.SortFunc(out, func(x, y ScoredLink) int {
		return cmp.Or(byIDs(x, y), cmp.Compare(y.Score, x.Score), cmp.Compare(x.Method, y.Method))
	})
	out = slices.CompactFunc(out, func(x, y ScoredLink) bool { return x.A == y.A && x.B == y.B })
	slices.SortStableFunc(out, func(x, y ScoredLink) int { return cmp.Compare(y.Score, x.Score) })
	return out
}

// groups is a union of sets that knows which sets must stay apart.
type groups struct {
	ids   []string
	index map[string]int
	root  []int
	size  []int
	foes  []map[int]struct{} // by root: the roots it must not join
}

func newGroups(links []ScoredLink) *groups {
	g := &groups{index: map[string]int{}}
	for _, l := range links {
		for _, id := range [...]string{l.A, l.B} {
			if _, ok := g.index[id]; !ok {
				g.index[id] = len(g.ids)
				g.ids = append(g.ids, id)
			}
		}
	}
	g.root, g.size, g.foes = make([]int, len(g.ids)), make([]int, len(g.ids)), make([]map[int]struct{}, len(g.ids))
	for i := range g.ids {
		g.root[i], g.size[i] = i, 1
	}
	return g
}

func (g *groups) reject(p Pair) {
	a, ok := g.index[p.A]
	b, ok2 := g.index[p.B]
	if !ok || !ok2 || a == b {
		return
	}
	g.foe(a, b)
	g.foe(b, a)
}

func (g *groups) foe(a, b int) {
	if g.foes[a] == nil {
		g.foes[a] = map[int]struct{}{}
	}
	g.foes[a][b] = struct{}{}
}

func (g *groups) find(i int) int {
	for g.root[i] != i {
		g.root[i] = g.root[g.root[i]]
		i = g.root[i]
	}
	return i
}

// join makes one set of two, unless they must stay apart.
func (g *groups) join(a, b int) bool {
	a, b = g.find(a), g.find(b)
	if a == b {
		return true
	}
	if _, apart := g.foes[a][b]; apart {
		return false
	}
	if g.size[a]+len(g.foes[a]) < g.size[b]+len(g.foes[b]) {
		a, b = b, a
	}
	g.root[b] = a
	g.size[a] += g.size[b]
	for f := range g.foes[b] { // the smaller set moves: each foe moves few times
		delete(g.foes[f], b)
		g.foe(f, a)
		g.foe(a, f)
	}
	g.foes[b] = nil
	return true
}

func (g *groups) clusters() [][]string {
	at := map[int]int{}
	var out [][]string
	for i, id := range g.ids {
		r := g.find(i)
		if g.size[r] < 2 {
			continue
		}
		k, ok := at[r]
		if !ok {
			k = len(out)
			at[r] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], id)
	}
	for _, c := range out {
		slices.Sort(c)
	}
	slices.SortFunc(out, func(x, y []string) int { return cmp.Compare(x[0], y[0]) })
	return out
}
