package conflicts

import (
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// ofEdges is the kind of items whose values are relations of one type on one side of an entity.
const ofEdges = "edges"

// maxBest is how many documents of a relation are asked how sure and how new it is.
const maxBest = 100

// edge is a relation among the values of an item, by its id.
type edge struct {
	text  string // "A TYPE B"
	other string // id of the entity at the far end
	name  string
}

// bound is how many relations of a type an entity may have on a side under the active schema; 0: as many as there are.
func bound(s *schema.Schema, relType, side string) int {
	r, ok := s.Relation(relType)
	switch {
	case !ok:
		return 0
	case side == store.SideIn:
		return r.Cardinality.MaxPerTarget
	}
	return r.Cardinality.MaxPerSource
}

// excess is the item of relations beyond their cardinality; ok is false when they are within.
func (r *reader) excess(c store.Conflict, relType, side string) (x item, ok bool, err error) {
	x = item{Conflict: c, kind: ofEdges, label: relType, rule: schema.MergeMostSupported, reason: api.ReasonCardinality, most: bound(r.schema, relType, side)}
	e, ok, err := r.sn.Entity(c.Owner)
	if err != nil || !ok {
		return x, false, err
	}
	x.name, x.documents = e.Display(), e.Documents
	x.ruling, err = r.ruling(c.Owner, c.Property)
	return x, x.most > 0 && c.Values > x.most, err
}

// eachExcess calls fn for the relations beyond the cardinality that the active schema declares.
func (r *reader) eachExcess(fn func(c store.Conflict, relType, side string) error) error {
	for _, rel := range r.schema.Relations() {
		for _, side := range []string{store.SideOut, store.SideIn} {
			most := bound(r.schema, rel.Label, side)
			if most == 0 {
				continue
			}
			err := r.sn.Degrees(rel.Label, side, func(d store.Degree) error {
				if err := r.tick(); err != nil || d.Relations <= most {
					return err
				}
				return fn(degreeConflict(d), rel.Label, side)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func degreeConflict(d store.Degree) store.Conflict {
	property := store.DegreeProperty(d.Type, d.Side)
	return store.Conflict{ID: fingerprint.ConflictID(d.Entity, property), Owner: d.Entity, Property: property, Values: d.Relations}
}

// edges calls fn for each relation of an item as for a value, up to what can be decided about.
func (r *reader) edges(x *item, fn func(store.PropertyFold) error) error {
	relType, side, _ := store.ParseDegreeProperty(x.Property)
	list, n := r.sn.Out, 0
	if side == store.SideIn {
		list = r.sn.In
	}
	if x.edges == nil {
		x.edges = map[string]edge{}
	}
	return list(x.Owner, relType, func(e store.Edge) error {
		if n++; n > maxRuled+1 {
			return store.ErrStop
		}
		rel, ok, err := r.sn.Relation(e.Relation)
		if err != nil || !ok {
			return err
		}
		o, _, err := r.sn.Entity(e.Other)
		if err != nil {
			return err
		}
		text, err := r.relationName(rel)
		if err != nil {
			return err
		}
		x.edges[rel.ID] = edge{text, e.Other, o.Display()}
		f := store.PropertyFold{Owner: rel.ID, Name: x.Property, Value: rel.ID, Documents: rel.Documents}
		seen := 0
		err = r.sn.Evidence(rel.ID, "", func(s store.EvidenceSupport) error {
			if seen++; seen > maxBest {
				return store.ErrStop
			}
			for _, span := range s.Spans {
				f.Best = max(f.Best, span.Confidence)
			}
			d, _, err := r.sn.Doc(s.DocID)
			f.Newest = max(f.Newest, d.Date())
			return err
		})
		if err != nil {
			return err
		}
		return fn(f)
	})
}

// supports calls fn for each document that gives a value of the item.
func (r *reader) supports(x *item, f store.PropertyFold, fn func(store.EvidenceSupport) error) error {
	if x.kind == ofEdges {
		return r.sn.Evidence(f.Owner, "", fn)
	}
	return r.sn.PropertySupports(f.Owner, x.Property, f.Value, fn)
}

// text is a value in words.
func (x *item) text(f store.PropertyFold) string {
	if e, ok := x.edges[f.Owner]; ok && x.kind == ofEdges {
		return e.text
	}
	return word(query.Rounded(f.Value))
}

// words writes a few of the item's values in a line.
func (x *item) words() string {
	var out []string
	for i, f := range x.values {
		if i == maxWords {
			out = append(out, "…")
			break
		}
		w := x.text(f)
		if len(w) > maxWord {
			w = strings.ToValidUTF8(w[:maxWord], "") + "…"
		}
		out = append(out, w)
	}
	return strings.Join(out, " | ")
}

// settled is the state of the item when it has some values.
func (x *item) settled(ruling *store.Ruling, keys []string) string {
	if x.kind == ofEdges && ruling != nil && len(ruling.Live(keys)) <= x.most {
		return ruling.State()
	}
	return settled(ruling, keys)
}

// statedEdge is the number of the relation that a request names: by its id, by the entity at its far end, or by the name of that one.
func (x *item) statedEdge(asked string) (int, error) {
	at, n := -1, 0
	for i, f := range x.values {
		e := x.edges[f.Owner]
		if asked == f.Owner || asked == e.other || asked == e.text {
			return i, nil
		}
		if asked == e.name {
			at, n = i, n+1
		}
	}
	switch n {
	case 1:
		return at, nil
	case 0:
		return 0, api.Errorf(400, "bad_value", "no relation %s of %s is %.80q: there are %s", x.label, x.name, asked, x.words())
	}
	return 0, api.Errorf(400, "bad_value", "%d relations %s of %s are with one named %.80q: name it by the relation's id, which show gives", n, x.label, x.name, asked)
}

// edgeChanges are the changes of a plan that chooses the first of some relations: the others are not shown any more.
func (x *item) edgeChange(f store.PropertyFold, first bool) plan.Change {
	e := x.edges[f.Owner]
	c := plan.Change{Op: plan.Set, Kind: "relation", Label: x.label, Source: x.name, SourceID: x.Owner, Target: e.name, TargetID: e.other, Value: "shown", Was: "shown", Left: f.Documents}
	if _, side, _ := store.ParseDegreeProperty(x.Property); side == store.SideIn {
		c.Source, c.SourceID, c.Target, c.TargetID = c.Target, c.TargetID, c.Source, c.SourceID
	}
	if !first {
		c.Value = "not shown"
	}
	return c
}
