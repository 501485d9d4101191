package query

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	maxDepth     = 5
	defaultEdges = 100
	maxEdges     = 1000
	maxTypes     = 200
	// Evidence of one node or edge in a subgraph; query.evidence has the rest.
	perNode = 1
	perEdge = 3
)

// walk is which edges a traversal follows.
type walk struct {
	types   []string // nil: all
	out, in bool
}

// newWalk reads relation types (folded as the schema folds them) and a direction.
func (v *view) newWalk(types []string, direction string) (walk, error) {
	w := walk{out: true, in: true}
	switch direction {
	case "", "both":
	case "out":
		w.in = false
	case "in":
		w.out = false
	default:
		return w, badValue("direction is %q: it must be out, in or both", clip(direction))
	}
	if len(types) > maxTypes {
		return w, badValue("relation_types has %d types: at most %d", len(types), maxTypes)
	}
	for _, t := range types {
		if t == "" {
			return w, badValue("relation_types has an empty type")
		}
		if v != nil {
			if canon, _, ok := v.schema.CanonRelation(t); ok {
				t = canon
			}
		}
		w.types = append(w.types, t)
	}
	w.types = unique(w.types)
	return w, nil
}

// edges calls fn for each relation at an entity that the walk follows: outgoing ones first, by type and far end. Symmetric
// relations have no direction, so they are always followed. A relation to itself comes once.
func (v *view) edges(id string, w walk, fn func(store.Edge) error) error {
	step := func(e store.Edge, source, target string) error {
		if err := v.tick(); err != nil {
			return err
		}
		if why, err := v.hidden(e.Relation, e.Type, source, target); err != nil || why != "" {
			return err
		}
		return fn(e)
	}
	types := w.types
	if len(types) == 0 {
		types = []string{""}
	}
	stop := false
	for _, t := range types {
		err := v.sn.Out(id, t, func(e store.Edge) error {
			if !w.out && !v.symmetric(e.Type) {
				return nil
			}
			err := step(e, id, e.Other)
			stop = err == store.ErrStop
			return err
		})
		if err != nil || stop {
			return err
		}
	}
	for _, t := range types {
		err := v.sn.In(id, t, func(e store.Edge) error {
			if e.Other == id && w.out || !w.in && !v.symmetric(e.Type) {
				return nil
			}
			err := step(e, e.Other, id)
			stop = err == store.ErrStop
			return err
		})
		if err != nil || stop {
			return err
		}
	}
	return nil
}

func (v *view) symmetric(relType string) bool {
	r, ok := v.schema.Relation(relType)
	return ok && r.Symmetric
}

// subgraph gathers nodes and edges, each once, within a budget.
type subgraph struct {
	v      *view
	out    *api.Subgraph
	budget *budget
	nodes  map[string]bool
	edges  map[string]bool
}

func (v *view) newSubgraph(out *api.Subgraph) *subgraph {
	out.Seq = v.sn.Seq()
	return &subgraph{v: v, out: out, budget: newBudget(), nodes: map[string]bool{}, edges: map[string]bool{}}
}

// node adds an entity; false when it does not fit.
func (s *subgraph) node(id string) (bool, error) {
	if s.nodes[id] {
		return true, nil
	}
	e, ok, err := s.v.sn.Entity(id)
	if err != nil || !ok {
		return false, err
	}
	row, ok, err := s.v.entityRow(e, perNode, s.budget)
	if err != nil || !ok {
		return false, err
	}
	s.nodes[id] = true
	s.out.Nodes = append(s.out.Nodes, row)
	return true, nil
}

// edge adds a relation and the entity at its far end; false when they do not fit.
func (s *subgraph) edge(e store.Edge) (bool, error) {
	f, ok, err := s.v.sn.Relation(e.Relation)
	if err != nil || !ok {
		return false, err
	}
	row, ok, err := s.v.relationRow(f, perEdge, s.budget)
	if err != nil || !ok {
		return false, err
	}
	if ok, err := s.node(e.Other); err != nil || !ok {
		return false, err
	}
	s.edges[e.Relation] = true
	s.out.Edges = append(s.out.Edges, row)
	return true, nil
}

// Neighbors answers query.neighbors: the entity first, then what is reached breadth first, each edge once. Truncated says that
// the limit of edges or the reply's size cut something off.
func (q *Queries) Neighbors(ctx context.Context, name string, req api.Neighbors) (api.Subgraph, error) {
	out := api.Subgraph{Nodes: []graph.EntityRow{}, Edges: []graph.RelationRow{}}
	depth, bad := limited("depth", req.Depth, 1, maxDepth)
	if bad != nil {
		return out, bad
	}
	limit, bad := limited("limit", req.Limit, defaultEdges, maxEdges)
	if bad != nil {
		return out, bad
	}
	err := q.within(ctx, name, req.AsOf, req.Offsets, req.Within, func(v *view) error {
		w, err := v.newWalk(req.RelationTypes, req.Direction)
		if err != nil {
			return err
		}
		start, err := v.find(req.ID, req.Type, req.Name)
		if err != nil {
			return err
		}
		s := v.newSubgraph(&out)
		if _, err := s.node(start.ID); err != nil {
			return err
		}
		err = s.spread(start.ID, w, depth, limit)
		out.Outside = v.nothing(len(out.Edges))
		return err
	})
	return out, err
}

// spread adds what lies within depth steps, breadth first.
func (s *subgraph) spread(start string, w walk, depth, limit int) error {
	level := []string{start}
	for range depth {
		var next []string
		for _, id := range level {
			err := s.v.edges(id, w, func(e store.Edge) error {
				if s.edges[e.Relation] {
					return nil
				}
				known := s.nodes[e.Other]
				if len(s.out.Edges) >= limit {
					s.out.Truncated = true
					return store.ErrStop
				}
				ok, err := s.edge(e)
				if err != nil {
					return err
				}
				if !ok {
					s.out.Truncated = true
					return store.ErrStop
				}
				if !known {
					next = append(next, e.Other)
				}
				return nil
			})
			if err != nil || s.out.Truncated {
				return err
			}
		}
		level = next
	}
	return nil
}

const (
	defaultSteps = 4
	maxSteps     = 8
	maxVisited   = 200_000 // entities that one path search looks at
)

// Path answers query.path: the entities and relations of a shortest path in order, from the first entity on, over relations in
// either direction. Without a path of at most max_depth steps both lists are empty; truncated then says that the search
// ended early because it had looked at too many entities.
func (q *Queries) Path(ctx context.Context, name string, req api.Path) (api.Subgraph, error) {
	out := api.Subgraph{Nodes: []graph.EntityRow{}, Edges: []graph.RelationRow{}}
	depth, bad := limited("max_depth", req.MaxDepth, defaultSteps, maxSteps)
	if bad != nil {
		return out, bad
	}
	if req.From == "" || req.To == "" {
		return out, badValue("give from and to, each as an id or as Type:name")
	}
	err := q.within(ctx, name, req.AsOf, req.Offsets, req.Within, func(v *view) error {
		w, err := v.newWalk(req.RelationTypes, "")
		if err != nil {
			return err
		}
		from, err := v.end(req.From)
		if err != nil {
			return err
		}
		to, err := v.end(req.To)
		if err != nil {
			return err
		}
		s := v.newSubgraph(&out)
		steps, found, cut, err := v.shortest(from, to, w, depth)
		if err != nil {
			return err
		}
		out.Truncated = cut
		if !found {
			out.Outside = v.nothing(0)
			return nil
		}
		ok, err := s.node(from)
		for _, e := range steps {
			if err != nil || !ok {
				break
			}
			ok, err = s.edge(e)
		}
		if err == nil && !ok {
			return api.Errorf(413, "too_large", "the path does not fit in one reply")
		}
		return err
	})
	return out, err
}

// end reads one end of a path: an id, Type:name, or a name that one entity has.
func (v *view) end(text string) (string, error) {
	if v == nil {
		_, err := v.find("", "", text)
		return "", err
	}
	if e, ok, err := v.sn.Entity(strings.ToLower(text)); err != nil || ok {
		return e.ID, err
	}
	if label, name, ok := strings.Cut(text, ":"); ok && label != "" && name != "" {
		e, err := v.named(strings.TrimSpace(label), name)
		if err == nil {
			return e.ID, nil
		}
		// A name may hold a colon of its own.
		if whole, wholeErr := v.named("", text); wholeErr == nil {
			return whole.ID, nil
		}
		return "", err
	}
	e, err := v.named("", text)
	return e.ID, err
}

// reached is how a side of the search came to an entity.
type reached struct {
	prev string
	edge store.Edge // as seen from prev
}

// shortest searches from both ends, level by level, always on the side with fewer entities to look at. steps are the path's
// edges as seen from the entity before each. Among equally short paths the choice depends on ids alone.
func (v *view) shortest(from, to string, w walk, depth int) (steps []store.Edge, found, cut bool, err error) {
	if from == to {
		return nil, true, false, nil
	}
	sides := [2]map[string]reached{{from: {}}, {to: {}}}
	levels := [2][]string{{from}, {to}}
	for range depth {
		side := 0
		if len(levels[1]) < len(levels[0]) {
			side = 1
		}
		own, other := sides[side], sides[1-side]
		var next []string
		meet := ""
		for _, id := range levels[side] {
			err := v.edges(id, w, func(e store.Edge) error {
				if _, ok := own[e.Other]; ok {
					return nil
				}
				own[e.Other] = reached{prev: id, edge: e}
				next = append(next, e.Other)
				if _, ok := other[e.Other]; ok && (meet == "" || e.Other < meet) {
					meet = e.Other
				}
				if len(own)+len(other) > maxVisited {
					cut = true
					return store.ErrStop
				}
				return nil
			})
			if err != nil {
				return nil, false, false, err
			}
			if cut {
				break
			}
		}
		if meet != "" {
			return join(sides, from, to, meet), true, false, nil
		}
		if cut || len(next) == 0 {
			return nil, false, cut, nil
		}
		levels[side] = next
	}
	return nil, false, false, nil
}

// join puts the two halves of a path together.
func join(sides [2]map[string]reached, from, to, meet string) []store.Edge {
	var steps []store.Edge
	for at := meet; at != from; {
		r := sides[0][at]
		steps = append(steps, r.edge)
		at = r.prev
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	for at := meet; at != to; {
		r := sides[1][at]
		// Seen from the other end: the far end of this step is the one nearer to `to`.
		e := r.edge
		e.Other = r.prev
		steps = append(steps, e)
		at = r.prev
	}
	return steps
}
