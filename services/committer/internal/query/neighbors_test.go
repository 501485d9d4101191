package query

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// chain is persons P0…Pn where each knows the next, P0 is married to P2, and P1 works for Acme.
func chain(n int) *doc {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "P%d. knows P%d.\n\n", i, i+1)
	}
	text.WriteString("P0. weds P2. P1. at Acme.")
	x := newDoc("chain", text.String())
	for i := range n {
		x.relate("KNOWS", fmt.Sprintf("Person:P%d", i), fmt.Sprintf("Person:P%d", i+1), fmt.Sprintf("P%d. knows P%d.", i, i+1))
	}
	x.relate("MARRIED_TO", "Person:P0", "Person:P2", "P0. weds P2.")
	return x.relate("WORKS_FOR", "Person:P1", "Organization:Acme", "P1. at Acme.")
}

// named lists the nodes' names and the edges as "Source TYPE Target".
func named(s api.Subgraph) (nodes, edges []string) {
	for _, n := range s.Nodes {
		nodes = append(nodes, n.Name)
	}
	for _, e := range s.Edges {
		edges = append(edges, e.SourceName+" "+e.Type+" "+e.TargetName)
	}
	return nodes, edges
}

func TestNeighbors(t *testing.T) {
	d := newDesk(t)
	seq := d.commit(chain(4))
	wed := "p0 MARRIED_TO p2"
	if entID("Person:P2") < entID("Person:P0") {
		wed = "p2 MARRIED_TO p0"
	}
	for _, c := range []struct {
		name  string
		req   api.Neighbors
		nodes []string
		edges []string
		cut   bool
	}{
		{"one step", api.Neighbors{Type: "Person", Name: "P1"}, []string{"p1", "p2", "acme", "p0"}, []string{"p1 KNOWS p2", "p1 WORKS_FOR acme", "p0 KNOWS p1"}, false},
		{"out", api.Neighbors{Name: "P1", Direction: "out", RelationTypes: []string{"KNOWS"}}, []string{"p1", "p2"}, []string{"p1 KNOWS p2"}, false},
		{"in", api.Neighbors{Name: "P1", Direction: "in"}, []string{"p1", "p0"}, []string{"p0 KNOWS p1"}, false},
		{"symmetric has no direction", api.Neighbors{Name: "P2", Direction: "in", RelationTypes: []string{"married to"}}, []string{"p2", "p0"}, []string{wed}, false},
		{"symmetric from the other end", api.Neighbors{Name: "P0", Direction: "in"}, []string{"p0", "p2"}, []string{wed}, false},
		{"limit", api.Neighbors{Name: "P1", Limit: 2}, []string{"p1", "p2", "acme"}, []string{"p1 KNOWS p2", "p1 WORKS_FOR acme"}, true},
		{"limit met exactly", api.Neighbors{Name: "P1", Limit: 3}, []string{"p1", "p2", "acme", "p0"}, []string{"p1 KNOWS p2", "p1 WORKS_FOR acme", "p0 KNOWS p1"}, false},
		{"two steps out", api.Neighbors{Name: "P1", Depth: 2, Direction: "out", RelationTypes: []string{"KNOWS"}}, []string{"p1", "p2", "p3"}, []string{"p1 KNOWS p2", "p2 KNOWS p3"}, false},
		{"by id, far", api.Neighbors{ID: entID("Person:P4"), Depth: 5, RelationTypes: []string{"KNOWS"}}, []string{"p4", "p3", "p2", "p1", "p0"},
			[]string{"p3 KNOWS p4", "p2 KNOWS p3", "p1 KNOWS p2", "p0 KNOWS p1"}, false},
		{"unknown type", api.Neighbors{Name: "P1", RelationTypes: []string{"LIKES"}}, []string{"p1"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.q.Neighbors(t.Context(), g, c.req)
			require.NoError(t, err)
			nodes, edges := named(got)
			require.Equal(t, c.nodes, nodes)
			require.Equal(t, c.edges, edges)
			require.Equal(t, c.cut, got.Truncated)
			require.Equal(t, seq, got.Seq)
			for _, e := range got.Edges {
				require.NotEmpty(t, e.Evidence)
			}
		})
	}
	for _, req := range []api.Neighbors{{Name: "P1", Depth: 6}, {Name: "P1", Depth: -1}, {Name: "P1", Limit: 1001}, {Name: "P1", Direction: "up"}, {Name: "P1", RelationTypes: []string{""}}} {
		_, err := d.q.Neighbors(t.Context(), g, req)
		requireRefused(t, err, 400, "bad_value")
	}
}

func TestSelfRelation(t *testing.T) {
	d := newDesk(t)
	d.commit(newDoc("a", "Ada Lovelace knows herself.").say(ada).relate("KNOWS", ada, ada, "Ada Lovelace knows herself."))
	for _, dir := range []string{"", "out", "in"} {
		got, err := d.q.Neighbors(t.Context(), g, api.Neighbors{ID: entID(ada), Direction: dir, Depth: 3})
		require.NoError(t, err)
		require.Len(t, got.Nodes, 1)
		require.Len(t, got.Edges, 1, dir)
	}
	e, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada)})
	require.NoError(t, err)
	require.Equal(t, 1, e.RelationsTotal)
}

func TestPath(t *testing.T) {
	d := newDesk(t)
	first := d.commit(chain(6), newDoc("far", "Zed stands alone.").say("Person:Zed"))
	wed := "p0 MARRIED_TO p2"
	if entID("Person:P2") < entID("Person:P0") {
		wed = "p2 MARRIED_TO p0"
	}
	for _, c := range []struct {
		name  string
		req   api.Path
		nodes []string
		edges []string
	}{
		{"same", api.Path{From: "Person:P1", To: "P1"}, []string{"p1"}, nil},
		{"one step against the arrow", api.Path{From: "Person:P1", To: "Person:P0"}, []string{"p1", "p0"}, []string{"p0 KNOWS p1"}},
		{"short cut", api.Path{From: "Person:P0", To: entID("Person:P3")}, []string{"p0", "p2", "p3"}, []string{wed, "p2 KNOWS p3"}},
		{"types", api.Path{From: "P0", To: "P3", RelationTypes: []string{"knows"}}, []string{"p0", "p1", "p2", "p3"}, []string{"p0 KNOWS p1", "p1 KNOWS p2", "p2 KNOWS p3"}},
		{"long", api.Path{From: "Organization:Acme", To: "P6", MaxDepth: 8}, []string{"acme", "p1", "p2", "p3", "p4", "p5", "p6"},
			[]string{"p1 WORKS_FOR acme", "p1 KNOWS p2", "p2 KNOWS p3", "p3 KNOWS p4", "p4 KNOWS p5", "p5 KNOWS p6"}},
		{"too long", api.Path{From: "Organization:Acme", To: "P6", MaxDepth: 5}, nil, nil},
		{"none", api.Path{From: "P0", To: "Zed", MaxDepth: 8}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.q.Path(t.Context(), g, c.req)
			require.NoError(t, err)
			nodes, edges := named(got)
			require.Equal(t, c.nodes, nodes)
			require.Equal(t, c.edges, edges)
			require.Equal(t, first, got.Seq)
			for _, e := range got.Edges {
				require.NotEmpty(t, e.Evidence, "each step has its sentence")
				require.Equal(t, "chain", e.Evidence[0].Document)
				require.Contains(t, e.Evidence[0].Quote, strings.ToUpper(e.SourceName[:1]))
			}
			require.False(t, got.Truncated)
			require.NotNil(t, got.Nodes)
			require.NotNil(t, got.Edges)
		})
	}
	for _, c := range []struct {
		req    api.Path
		status int
		code   string
	}{
		{api.Path{From: "P0"}, 400, "bad_value"},
		{api.Path{From: "P0", To: "P1", MaxDepth: 9}, 400, "bad_value"},
		{api.Path{From: "P0", To: "Person:Nobody"}, 404, "entity_not_found"},
		{api.Path{From: "P0", To: "P1", AsOf: first + 1}, 404, "sequence_unknown"},
	} {
		_, err := d.q.Path(t.Context(), g, c.req)
		requireRefused(t, err, c.status, c.code)
	}
	d.commit(deleted("chain"))
	_, err := d.q.Path(t.Context(), g, api.Path{From: "P0", To: "P1"})
	requireRefused(t, err, 404, "entity_not_found")
	then, err := d.q.Path(t.Context(), g, api.Path{From: "P0", To: "P1", AsOf: first})
	require.NoError(t, err)
	require.Len(t, then.Edges, 1)
}

// What is reached comes in the order of its distance, by the types and directions that count alone, up to a limit that cuts the farthest.
func TestNeighborsAreBreadthFirst(t *testing.T) {
	d := newDesk(t)
	rng := rand.New(rand.NewPCG(11, 12))
	type link struct {
		relType string
		a, b    int
	}
	const n = 14
	var links []link
	var text strings.Builder
	for range 30 {
		l := link{[]string{"KNOWS", "MARRIED_TO"}[rng.IntN(4)/3], rng.IntN(n), rng.IntN(n)}
		if l.a == l.b || slices.ContainsFunc(links, func(x link) bool { return min(x.a, x.b) == min(l.a, l.b) && max(x.a, x.b) == max(l.a, l.b) }) {
			continue
		}
		links = append(links, l)
		fmt.Fprintf(&text, "N%d. %s N%d.\n", l.a, l.relType, l.b)
	}
	c := newDoc("web", text.String())
	for _, l := range links {
		c.relate(l.relType, fmt.Sprintf("Person:N%d", l.a), fmt.Sprintf("Person:N%d", l.b), fmt.Sprintf("N%d. %s N%d.", l.a, l.relType, l.b))
	}
	seq := d.commit(c)
	for _, req := range []api.Neighbors{{Depth: 1}, {Depth: 2}, {Depth: 3, Direction: "out"}, {Depth: 5, Direction: "in"}, {Depth: 4, RelationTypes: []string{"KNOWS"}},
		{Depth: 4, RelationTypes: []string{"KNOWS"}, Direction: "out"}, {Depth: 5, Limit: 6}, {Depth: 5, Limit: 1}} {
		for start := range n {
			// follow says where a link leads from x; -1: nowhere.
			follow := func(l link, x int) int {
				both := l.relType == "MARRIED_TO"
				switch {
				case len(req.RelationTypes) > 0 && !slices.Contains(req.RelationTypes, l.relType):
					return -1
				case l.a == x && (both || req.Direction != "in"):
					return l.b
				case l.b == x && (both || req.Direction != "out"):
					return l.a
				}
				return -1
			}
			dist, reached := map[int]int{start: 0}, map[link]bool{}
			for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
				if dist[queue[0]] == req.Depth {
					continue
				}
				for _, l := range links {
					y := follow(l, queue[0])
					if y < 0 {
						continue
					}
					reached[l] = true
					if _, ok := dist[y]; !ok {
						dist[y] = dist[queue[0]] + 1
						queue = append(queue, y)
					}
				}
			}
			r := req
			r.ID = entID(fmt.Sprintf("Person:N%d", start))
			got, err := d.q.Neighbors(t.Context(), g, r)
			if len(reached) == 0 && err != nil { // nothing names that one
				continue
			}
			require.NoError(t, err)
			require.Equal(t, seq, got.Seq)
			limit := cmp.Or(req.Limit, defaultEdges)
			require.Equal(t, len(reached) > limit, got.Truncated)
			require.Len(t, got.Edges, min(limit, len(reached)))
			if !got.Truncated {
				require.Len(t, got.Nodes, len(dist))
			}
			last := 0
			for _, e := range got.Nodes {
				var no int
				_, err := fmt.Sscanf(e.Name, "n%d", &no)
				require.NoError(t, err)
				at, ok := dist[no]
				require.True(t, ok, "%s is not reached: %+v", e.Name, r)
				require.GreaterOrEqual(t, at, last, "nearer ones first: %+v", r)
				last = at
			}
		}
	}
}

// Every node of a search space is reached by breadth first search too; the lengths must agree.
func TestPathIsShortest(t *testing.T) {
	d := newDesk(t)
	const n = 24
	var text strings.Builder
	links := map[int][]int{}
	x := 7
	type pair struct{ a, b int }
	var pairs []pair
	for range 34 {
		x = (x*137 + 59) % 9973
		a, b := x%n, x/n%n
		if a != b {
			fmt.Fprintf(&text, "N%d. to N%d.\n", a, b)
			links[a], links[b] = append(links[a], b), append(links[b], a)
			pairs = append(pairs, pair{a, b})
		}
	}
	c := newDoc("web", text.String())
	for _, p := range pairs {
		c.relate("KNOWS", fmt.Sprintf("Person:N%d", p.a), fmt.Sprintf("Person:N%d", p.b), fmt.Sprintf("N%d. to N%d.", p.a, p.b))
	}
	d.commit(c)
	from := pairs[0].a
	dist := map[int]int{from: 0}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, y := range links[queue[0]] {
			if _, ok := dist[y]; !ok {
				dist[y] = dist[queue[0]] + 1
				queue = append(queue, y)
			}
		}
	}
	for to, want := range dist {
		got, err := d.q.Path(t.Context(), g, api.Path{From: fmt.Sprintf("N%d", from), To: fmt.Sprintf("N%d", to), MaxDepth: 8})
		require.NoError(t, err)
		if want > 8 {
			require.Empty(t, got.Nodes)
			continue
		}
		require.Len(t, got.Edges, want, "N%d to N%d", from, to)
		at := got.Nodes[0].ID
		for i, e := range got.Edges {
			require.Contains(t, []string{e.Source, e.Target}, at)
			at = got.Nodes[i+1].ID
			require.Contains(t, []string{e.Source, e.Target}, at)
		}
	}
}

func TestCancelled(t *testing.T) {
	d := newDesk(t)
	d.commit(chain(3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.q.Neighbors(ctx, g, api.Neighbors{Name: "P1"})
	require.ErrorIs(t, err, context.Canceled)
}

// A hub with more and longer evidence than a reply holds is cut and says so.
func TestRepliesStaySmall(t *testing.T) {
	d := newDesk(t)
	long := strings.Repeat("<very> \"long\" sentence ", 2000)
	var docs []*doc
	for i := range 60 {
		who := fmt.Sprintf("Person:Worker %d", i)
		text := fmt.Sprintf("Worker %d. %sAcme Ltd", i, long)
		docs = append(docs, newDoc(fmt.Sprint("d", i), text).say(acme).relate("WORKS_FOR", who, acme, text).
			property(acme, "motto", text, text, 0.7).meta(func(m *graph.Meta) { m.Title = "" }))
	}
	d.commit(docs...)
	entity, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(acme), Limit: 1000})
	require.NoError(t, err)
	require.Less(t, sizeOf(entity), MaxReply)
	require.NotEmpty(t, entity.Entity.Mentions)
	require.NotEmpty(t, entity.Relations)
	require.Equal(t, 60, entity.RelationsTotal)
	around, err := d.q.Neighbors(t.Context(), g, api.Neighbors{ID: entID(acme), Limit: 1000})
	require.NoError(t, err)
	require.Less(t, sizeOf(around), MaxReply)
	require.True(t, around.Truncated)
	require.NotEmpty(t, around.Edges)
	found, err := d.q.Search(t.Context(), g, api.Search{Q: "sentence worker", Limit: 100})
	require.NoError(t, err)
	require.Less(t, sizeOf(found), MaxReply)
	require.NotEmpty(t, found.Hits)
	for _, h := range found.Hits {
		require.Less(t, len(h.Snippet), 2*snippetBytes)
	}
}
