package query

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Showing is the values of one property as readers show them: Shown, of which there may be none, the Others in their order, and those
// that somebody rejected.
type Showing struct {
	All                     bool // Shown is a list of values
	Shown, Others, Rejected []store.PropertyFold
}

// Show applies the merge rule of the schema, and above it what people decided (nil: nothing).
func Show(rule schema.Merge, values []store.PropertyFold, r *store.Ruling) Showing {
	if r == nil {
		return showing(rule, ranked(rule, values))
	}
	switch {
	case r.All:
		rule = schema.MergeAll
	case r.Chosen != "" && rule == schema.MergeAll && slices.ContainsFunc(values, func(f store.PropertyFold) bool { return keyOf(f) == r.Chosen }):
		rule = schema.MergeMostSupported
	}
	var live, rejected []store.PropertyFold
	for _, f := range ranked(rule, values) {
		switch k := keyOf(f); {
		case r.Rejects(k):
			rejected = append(rejected, f)
		case k == r.Chosen:
			live = slices.Insert(live, 0, f)
		default:
			live = append(live, f)
		}
	}
	s := showing(rule, live)
	s.Rejected = rejected
	return s
}

func showing(rule schema.Merge, values []store.PropertyFold) Showing {
	if rule == schema.MergeAll || len(values) == 0 {
		return Showing{All: rule == schema.MergeAll, Shown: values}
	}
	return Showing{Shown: values[:1], Others: values[1:]}
}

// keyOf is the key of a value; "" of one that the store would not hold.
func keyOf(f store.PropertyFold) string {
	k, err := store.ValueKey(f.Value)
	if err != nil {
		return ""
	}
	return k
}

// Values are all of them, the one that is shown first.
func (s Showing) Values() []store.PropertyFold { return slices.Concat(s.Shown, s.others()) }

// others are the values that are not shown, rejected ones last.
func (s Showing) others() []store.PropertyFold { return slices.Concat(s.Others, s.Rejected) }

// value is what is shown, of a property that shows something.
func (s Showing) value() any {
	if !s.All {
		return rounded(s.Shown[0].Value)
	}
	all := make([]any, len(s.Shown))
	for i := range s.Shown {
		all[i] = rounded(s.Shown[i].Value)
	}
	return all
}

// rulings are what was decided about the properties of an entity or relation, by property.
func (v *view) rulings(owner string) (map[string]*store.Ruling, error) {
	if ruled, err := v.anyRuled(); err != nil || !ruled {
		return nil, err
	}
	out := map[string]*store.Ruling{}
	err := v.sn.RulingsOf(owner, func(r store.Ruling) error {
		out[r.Property] = &r
		return nil
	})
	return out, err
}

// anyRuled says whether the graph has rulings.
func (v *view) anyRuled() (bool, error) {
	if v.ruled == nil {
		c, err := v.sn.Counts()
		if err != nil {
			return false, err
		}
		has := c.Rulings > 0
		v.ruled = &has
	}
	return *v.ruled, nil
}

// hidden says why a relation is not shown, by what people decided about those of its type at either end, where the schema bounds their
// number; "" when it is.
func (v *view) hidden(relation, relType, source, target string) (string, error) {
	spec, _ := v.schema.Relation(relType)
	ruled, err := v.anyRuled()
	if err != nil || !ruled {
		return "", err
	}
	for _, end := range []struct {
		entity, side string
		most         int
	}{{source, store.SideOut, spec.Cardinality.MaxPerSource}, {target, store.SideIn, spec.Cardinality.MaxPerTarget}} {
		if end.most == 0 {
			continue
		}
		r, ok, err := v.sn.Ruling(end.entity, store.DegreeProperty(relType, end.side))
		if err != nil {
			return "", err
		}
		key := keyOf(store.PropertyFold{Value: relation})
		switch {
		case !ok || r.Chosen == key:
		case r.Rejects(key):
			return graph.HiddenRejected, nil
		case r.Chosen != "":
			// A choice hides the others while what was chosen is there.
			_, ok, err := v.sn.Relation(strings.TrimPrefix(r.Chosen, keyOf(store.PropertyFold{Value: ""})))
			if err != nil || ok {
				return graph.HiddenNotChosen, err
			}
		}
	}
	return "", nil
}

// homonym says which of several things of its name an entity is, where people told them apart; else nil.
func (v *view) homonym(e store.EntityFold) (*graph.Homonym, error) {
	plain := fingerprint.EntityID(e.Label, e.Key)
	r, ok, err := v.sn.ToldApart(plain)
	if err != nil || !ok {
		return nil, err
	}
	h := &graph.Homonym{Of: plain, Property: r.Property, Undecided: e.ID == plain}
	if h.Undecided {
		return h, nil
	}
	err = v.sn.PropertyValues(e.ID, r.Property, func(f store.PropertyFold) error {
		if v.filter != nil {
			if f, err = v.refold(f); err != nil || f.Documents == 0 {
				return err
			}
		}
		if store.HomonymOf(graph.EntityRef{ID: plain, Label: e.Label, Key: e.Key}, f.Value) == e.ID {
			h.Value = rounded(f.Value)
			return store.ErrStop
		}
		return v.tick()
	})
	return h, err
}

// rulings are the decisions about conflicts, whether their owners are there or not.
func (x *exporter) rulings(at exportAt) error {
	if !x.req.Canonical && !x.req.Candidates {
		return nil
	}
	return x.v.sn.Rulings(at.After, at.Doc, func(r store.Ruling) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		row := graph.DecisionRow{Key: fingerprint.ConflictKey(r.Owner, r.Property), Kind: "decision", State: r.State()}
		pos := exportAt{Seq: at.Seq, Phase: phaseRulings, After: r.Owner, Doc: r.Property}
		if x.req.Canonical {
			return x.json(row, pos)
		}
		return x.json(fullDecision{row, r.At}, pos)
	})
}
