package conflicts

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// ofMissing is the kind of items about a value that an entity lacks.
const ofMissing = "missing"

const (
	// maxMentioning is how many documents that mention an entity the plan of such an item goes by; of more it says how many there are.
	maxMentioning = 1000
	// maxAhead is how many entities of a shape are read at once.
	maxAhead = 64
)

// required are the properties, by name, of which entities of a type must have a value under the active schema.
func (r *reader) required(label string) []string {
	if names, ok := r.must[label]; ok {
		return names
	}
	var names []string
	for _, p := range r.schema.Properties(label) {
		if p.Required {
			names = append(names, p.Name)
		}
	}
	if r.must == nil {
		r.must = map[string][]string{}
	}
	r.must[label] = names
	return names
}

func missingConflict(owner, name string) store.Conflict {
	return store.Conflict{ID: store.MissingID(owner, name), Owner: owner, Property: store.MissingProperty(name)}
}

// missingByID is the item of an id that is made of an entity's and of a property that some type requires.
func (r *reader) missingByID(id string) (c store.Conflict, ok bool, err error) {
	tried := map[string]bool{}
	for _, t := range r.schema.Entities() {
		for _, name := range r.required(t.Label) {
			if tried[name] {
				continue
			}
			tried[name] = true
			owner := store.MissingID(id, name)
			e, ok, err := r.sn.Entity(owner)
			if err == nil {
				err = r.tick()
			}
			if err != nil {
				return c, false, err
			}
			if ok && slices.Contains(r.required(e.Label), name) {
				return missingConflict(owner, name), true, nil
			}
		}
	}
	return c, false, nil
}

// lacking is the item of a value that an entity lacks; ok is false when there is one, or the schema does not require it.
func (r *reader) lacking(c store.Conflict, name string) (x item, ok bool, err error) {
	x = item{Conflict: c, kind: ofMissing, reason: api.ReasonMissing}
	e, ok, err := r.sn.Entity(c.Owner)
	if err != nil || !ok || !slices.Contains(r.required(e.Label), name) {
		return x, false, err
	}
	x.label, x.name, x.mergeKey, x.documents = e.Label, e.Display(), e.Key, e.Documents
	has, err := r.sn.HasValue(c.Owner, name)
	if err != nil || has {
		return x, false, err
	}
	x.ruling, err = r.ruling(c.Owner, c.Property)
	return x, true, err
}

// property is the name of the item's property as people know it.
func (x *item) property() string {
	if name, ok := store.ParseMissing(x.Property); ok {
		return name
	}
	return x.Property
}

// lack is what the entities of a shape lack.
type lack struct {
	store.Shape
	names []string
	ahead []string // entities that were read
	last  string   // entity behind which the rest is
	size  int      // how many are read next; 0: there are no more
}

// lacks are the shapes of the graph's types that lack something that the active schema requires.
func (r *reader) lacks(fn func(lack) error) error {
	c, err := r.sn.Counts()
	if err != nil {
		return err
	}
	for label := range c.Entities {
		required := r.required(label)
		if len(required) == 0 {
			continue
		}
		err := r.sn.Shapes(label, func(s store.Shape) error {
			l := lack{Shape: s, size: 1}
			for _, name := range required {
				if _, has := slices.BinarySearch(s.Names, name); !has {
					l.names = append(l.names, name)
				}
			}
			if err := r.tick(); err != nil || len(l.names) == 0 {
				return err
			}
			// By their keys in the list, which have the mark behind the name.
			slices.SortFunc(l.names, func(a, b string) int { return strings.Compare(store.MissingProperty(a), store.MissingProperty(b)) })
			return fn(l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// accepted calls fn for the missing values that people accepted, where they are missing still and required. All rulings are read by then.
func (r *reader) accepted(fn func(x item) error) error {
	for _, ruling := range r.ruled {
		name, ok := store.ParseMissing(ruling.Property)
		if !ok {
			continue
		}
		x, ok, err := r.lacking(missingConflict(ruling.Owner, name), name)
		if err == nil && ok {
			err = fn(x)
		}
		if err == nil {
			err = r.tick()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// missing adds the missing values that a filter chooses to a page of up to limit items, and counts them. They stand behind all other
// conflicts, which documents say, in the order of their keys. What is read follows from the shapes, the rulings and the page, not from how many
// entities there are.
func (r *reader) missing(req api.ConflictsList, chosen func(label, property string) bool, limit int, total *int, add func(store.Conflict, api.Place)) error {
	if req.MinCount > 0 || req.MinScore > 0 {
		return nil
	}
	wants := func(state string) bool { return len(req.States) == 0 || slices.Contains(req.States, state) }
	var accepted []api.Place
	items := map[string]store.Conflict{}
	err := r.accepted(func(x item) error {
		if chosen(x.label, x.property()) {
			p := missingPlace(x.Conflict, x.ruling)
			accepted, items[p.Key] = append(accepted, p), x.Conflict
		}
		return nil
	})
	if err != nil {
		return err
	}
	if wants(api.StateApproved) {
		*total += len(accepted)
	}
	if !wants(api.StatePending) {
		if wants(api.StateApproved) {
			for _, p := range accepted {
				if req.After == nil || req.After.Before(p) {
					add(items[p.Key], p)
				}
			}
		}
		return nil
	}
	var open []*lack
	err = r.lacks(func(l lack) error {
		l.names = slices.DeleteFunc(l.names, func(name string) bool { return !chosen(l.Label, name) })
		*total += l.Entities * len(l.names)
		if len(l.names) > 0 {
			open = append(open, &l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	*total -= len(accepted)
	return r.missingPage(open, req.After, limit, wants(api.StateApproved), add)
}

func missingPlace(c store.Conflict, ruling *store.Ruling) api.Place {
	p := api.Place{Key: fingerprint.ConflictKey(c.Owner, c.Property), State: api.StatePending}
	if ruling != nil {
		p.State = ruling.State()
	}
	return p
}

// missingPage adds the first limit missing values behind a place, out of shapes of which each has its entities in order.
func (r *reader) missingPage(open []*lack, after *api.Place, limit int, settled bool, add func(store.Conflict, api.Place)) error {
	behind := ""
	if after != nil && after.Count == 0 && after.Confidence == 0 {
		owner, _, ok := parseKey(after.Key)
		switch {
		case ok:
			behind = owner
		case after.Key > "conflict|":
			return nil
		}
	}
	for _, l := range open {
		l.last = behind
		if behind == "" {
			continue
		}
		own, ok, err := r.sn.ShapeOf(behind) // more of the entity's values may follow the place
		if err != nil {
			return err
		}
		if ok && own.Same(l.Shape) {
			l.ahead = []string{behind}
		}
	}
	for n := 0; n < limit; {
		var first *lack
		for i := 0; i < len(open); {
			if err := r.read(open[i]); err != nil {
				return err
			}
			if len(open[i].ahead) == 0 {
				open = slices.Delete(open, i, i+1)
				continue
			}
			if first == nil || open[i].ahead[0] < first.ahead[0] {
				first = open[i]
			}
			i++
		}
		if first == nil {
			return nil
		}
		owner := first.ahead[0]
		first.ahead = first.ahead[1:]
		for _, name := range first.names {
			c := missingConflict(owner, name)
			ruling, err := r.ruling(owner, c.Property)
			if err != nil {
				return err
			}
			if p := missingPlace(c, ruling); (settled || p.State == api.StatePending) && (after == nil || after.Before(p)) {
				add(c, p)
				n++
			}
		}
	}
	return nil
}

// read reads the next entities of a shape when there are none ahead.
func (r *reader) read(l *lack) error {
	if len(l.ahead) > 0 || l.size == 0 {
		return nil
	}
	size := l.size
	err := r.sn.Shaped(l.Shape, l.last, func(v string) error {
		if l.ahead = append(l.ahead, v); len(l.ahead) == size {
			return store.ErrStop
		}
		return r.tick()
	})
	if n := len(l.ahead); n == size {
		l.last, l.size = l.ahead[n-1], min(2*size, maxAhead)
	} else {
		l.size = 0
	}
	return err
}

// missingPlan is what accepting a missing value does: no more than that. It goes by the documents in which the entity is named.
func (r *reader) missingPlan(graphName string, x *item) (*plan.Plan, error) {
	p := &plan.Plan{Graph: graphName, Item: fingerprint.ConflictKey(x.Owner, x.Property), Decision: events.DecisionKeepAll, Schema: r.schema.Fingerprint(),
		Base: []plan.Base{}, Changes: []plan.Change{}}
	n := 0
	err := r.sn.Mentions(x.Owner, "", func(s store.MentionSupport) error {
		if n++; n > maxMentioning {
			return store.ErrStop
		}
		d, _, err := r.sn.Doc(s.DocID)
		if err != nil {
			return err
		}
		p.Base = append(p.Base, plan.Base{Document: d.Meta.Key, Revision: d.Revision})
		return r.tick()
	})
	if err != nil {
		return nil, err
	}
	p.Changes = append(p.Changes, plan.Change{Op: plan.Set, Kind: "state", Label: x.Property, Source: x.name, SourceID: x.Owner, Value: api.StateApproved,
		Was: x.state + decided(x.ruling), Left: x.documents})
	return p.Canonical(), nil
}

// mentioned shows where the entity is named: the value may stand there.
func (r *reader) mentioned(x *item, limit int) ([]api.Surrounded, error) {
	var docs [][]desk.Span
	err := r.sn.Mentions(x.Owner, "", func(s store.MentionSupport) error {
		if docs = append(docs, desk.Mentions(s)); len(docs) == limit {
			return store.ErrStop
		}
		return r.tick()
	})
	if err != nil {
		return nil, err
	}
	return desk.Quotes(r.sn, docs, limit)
}

// acceptMissing refuses what does not accept that the value is missing: a value needs evidence.
func (w *deciding) acceptMissing(x *item) error {
	name := x.property()
	if len(w.req.Value) > 0 {
		return api.Errorf(400, "bad_value", "no document states %s of %s, and a value needs its evidence: state it in a document and ingest that, or approve and convert a property candidate that says it; keep_all accepts that it is missing", name, x.name)
	}
	switch w.req.Decision {
	case events.DecisionChoose, events.DecisionKeepAll:
		w.req.Decision = events.DecisionKeepAll // there is nothing to choose
		return nil
	}
	return api.Errorf(400, "bad_value", "%s of %s has no value, so there is none to reject or to tell apart: keep_all accepts that it is missing", name, x.name)
}
