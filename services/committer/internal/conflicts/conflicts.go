// Package conflicts answers what people ask about properties with several values: those that tell things of one name apart (homonyms),
// and those that the schema gives one value; about relations beyond their cardinality, and required values that are missing; and carries out what
// they decide. Which are which is asked of the active schema at each request;
// stored are decisions (rulings), and which values they were made on.
package conflicts

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Schemas gives a graph's schema of one revision; 0 is the active one.
type Schemas interface {
	Schema(graph string, revision uint64) (*schema.Schema, error)
}

// Deps of New; Store, Schemas and Operations are required.
type Deps struct {
	Store      *store.Store
	Schemas    Schemas
	Operations *operations.Operations
	// Committed is told that a graph has another sequence.
	Committed func(graph string)
	Now       func() time.Time
}

// Desk answers the verbs. Safe for concurrent use.
type Desk struct{ deps Deps }

// New makes a desk.
func New(d Deps) *Desk {
	if d.Committed == nil {
		d.Committed = func(string) {}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Desk{d}
}

// with calls fn with a reader of the graph's current sequence; nil where the graph does not exist.
func (d *Desk) with(ctx context.Context, graphName string, fn func(r *reader) error) error {
	return desk.With(d.deps.Store, graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return fn(nil)
		}
		s, err := d.deps.Schemas.Schema(graphName, 0)
		if err != nil {
			return fmt.Errorf("active schema of %s: %w", graphName, err)
		}
		return fn(&reader{ctx: ctx, sn: sn, schema: s})
	})
}

// reader reads conflicts of a snapshot. For one goroutine.
type reader struct {
	ctx    context.Context
	sn     *store.Snapshot
	schema *schema.Schema
	ticks  int
	// ruled are all rulings of the graph, by conflict key; nil: each is read when it is asked for.
	ruled map[string]*store.Ruling
	// must are the required properties of types, as they were asked for.
	must map[string][]string
}

// ruling is what was decided about a property; nil: nothing.
func (r *reader) ruling(owner, property string) (*store.Ruling, error) {
	if r.ruled != nil {
		return r.ruled[fingerprint.ConflictKey(owner, property)], nil
	}
	x, ok, err := r.sn.Ruling(owner, property)
	if err != nil || !ok {
		return nil, err
	}
	return &x, nil
}

func (r *reader) tick() error {
	if r.ticks++; r.ticks%256 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// reasonOf is why a property with several values is an item; "" when it is none.
func reasonOf(s *schema.Schema, kind, label, property string) string {
	spec, ok := schema.Property{}, false
	if kind == store.ConflictOfRelation {
		spec, ok = s.RelationProperty(label, property)
	} else {
		spec, ok = s.Property(label, property)
	}
	switch {
	case !ok:
		return ""
	case spec.Identifies:
		return api.ReasonHomonym
	case spec.Merge == schema.MergeAll:
		return ""
	}
	return api.ReasonPropertyConflict
}

// item is a conflict; it waits unless its ruling settles it.
type item struct {
	store.Conflict
	kind, label string
	name        string // of the entity; of a relation "A TYPE B"
	mergeKey    string // of an entity
	documents   int    // of the entity or relation
	reason      string
	rule        schema.Merge
	ruling      *store.Ruling        // nil: nobody decided
	edges       map[string]edge      // of relations that are values, by id; read with the values
	most        int                  // relations that are allowed
	owners      []string             // entities that have values, where they were told apart; nil: the owner
	values      []store.PropertyFold // the one that is shown first, rejected ones last; read by group
	state       string               // read with the values
}

// settled is the state of an item that has some values.
func settled(r *store.Ruling, keys []string) string {
	if r.Settles(keys) {
		return r.State()
	}
	return api.StatePending
}

// item reads a conflict; ok is false when it is none under the active schema.
func (r *reader) item(c store.Conflict) (x item, ok bool, err error) {
	if relType, side, ok := store.ParseDegreeProperty(c.Property); ok {
		return r.excess(c, relType, side)
	}
	if name, ok := store.ParseMissing(c.Property); ok {
		return r.lacking(c, name)
	}
	x = item{Conflict: c, kind: store.ConflictOfEntity}
	if x.ruling, err = r.ruling(c.Owner, c.Property); err != nil {
		return x, false, err
	}
	if x.ruling != nil && x.ruling.Apart {
		return r.toldApart(x)
	}
	e, is, err := r.sn.Entity(c.Owner)
	if err != nil {
		return x, false, err
	}
	if is {
		x.label, x.name, x.documents, x.mergeKey = e.Label, e.Display(), e.Documents, e.Key
		spec, _ := r.schema.Property(x.label, c.Property)
		x.rule = spec.Merge
	} else {
		f, is, err := r.sn.Relation(c.Owner)
		if err != nil {
			return x, false, err
		}
		if !is {
			return x, false, fmt.Errorf("%w: a conflict of %s, which is not there", store.ErrCorrupt, c.Owner)
		}
		x.kind, x.label, x.documents = store.ConflictOfRelation, f.Type, f.Documents
		spec, _ := r.schema.RelationProperty(x.label, c.Property)
		x.rule = spec.Merge
		if x.name, err = r.relationName(f); err != nil {
			return x, false, err
		}
	}
	x.reason = reasonOf(r.schema, x.kind, x.label, c.Property)
	return x, x.reason != "", nil
}

func (r *reader) relationName(f store.RelationFold) (string, error) {
	a, _, err := r.sn.Entity(f.Source)
	if err != nil {
		return "", err
	}
	b, _, err := r.sn.Entity(f.Target)
	return a.Display() + " " + f.Type + " " + b.Display(), err
}

// place says where an item stands; keep is given each of its values.
func (r *reader) place(x *item, keep func(store.PropertyFold)) (p api.Place, err error) {
	p = api.Place{Key: fingerprint.ConflictKey(x.Owner, x.Property)}
	var keys []string
	err = r.values(x, func(f store.PropertyFold) error {
		p.Count += f.Documents
		p.Confidence = max(p.Confidence, graph.Round6(f.Best))
		keep(f)
		if x.ruling != nil {
			k, err := store.ValueKey(f.Value)
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return r.tick()
	})
	p.State = x.settled(x.ruling, keys)
	x.state = p.State
	return p, err
}

func check(f api.ConflictFilter) error {
	for _, w := range f.States {
		switch w {
		case api.StatePending, api.StateActive, api.StateApproved, api.StateRejected:
		default:
			return api.Errorf(400, "bad_value", "state is %.40q: a conflict is pending, approved or rejected", w)
		}
	}
	switch {
	case len(f.IDs) > api.MaxDecided:
		return api.Errorf(400, "bad_value", "ids has %d ids: at most %d", len(f.IDs), api.MaxDecided)
	case math.IsNaN(f.MinScore) || f.MinScore < 0 || f.MinScore > 1:
		return api.Errorf(400, "bad_value", "min_score is %v: it must be between 0 and 1", f.MinScore)
	case f.MinCount < 0:
		return api.Errorf(400, "bad_value", "min_count is %d: it must not be negative", f.MinCount)
	}
	return nil
}

// List answers conflicts.list: the conflicts that a filter chooses, behind a place, as groups in the order of the review list. What is
// held at once is a page, however many there are.
func (d *Desk) List(ctx context.Context, graphName string, req api.ConflictsList) (api.ConflictsReply, error) {
	reply := api.ConflictsReply{Groups: []api.Group{}, Reasons: map[string]int{}}
	if req.Limit < 0 || req.Limit > desk.MaxLimit {
		return reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", req.Limit, desk.MaxLimit)
	}
	if err := check(req.ConflictFilter); err != nil {
		return reply, err
	}
	err := d.with(ctx, graphName, func(r *reader) error {
		if r == nil {
			return nil
		}
		reply.Seq = r.sn.Seq()
		some, err := r.count(reply.Reasons)
		if err != nil || req.Limit == 0 || !some {
			return err
		}
		return r.page(req, &reply)
	})
	return reply, err
}

// count counts the conflicts that wait by reason, out of the counts of the graph and the rulings; some says that there are any, settled
// ones too.
func (r *reader) count(by map[string]int) (some bool, err error) {
	c, err := r.sn.Counts()
	if err != nil {
		return false, err
	}
	for class, n := range c.Conflicts {
		kind, label, property := store.ParseConflictClass(class)
		if reason := reasonOf(r.schema, kind, label, property); reason != "" {
			by[reason] += n
		}
	}
	err = r.eachExcess(func(store.Conflict, string, string) error {
		by[api.ReasonCardinality]++
		return nil
	})
	if err == nil {
		err = r.lacks(func(l lack) error {
			by[api.ReasonMissing] += l.Entities * len(l.names)
			return nil
		})
	}
	if err != nil {
		return false, err
	}
	r.ruled = map[string]*store.Ruling{}
	if some = len(by)+c.Apart > 0; c.Rulings == 0 {
		return some, nil
	}
	return some, r.sn.Rulings("", "", func(x store.Ruling) error {
		r.ruled[fingerprint.ConflictKey(x.Owner, x.Property)] = &x
		c, ok, err := r.of(x.Owner, x.Property, r.stored)
		if err != nil || !ok {
			return err
		}
		it, ok, err := r.item(c)
		if err != nil || !ok {
			return err
		}
		if _, err := r.place(&it, func(store.PropertyFold) {}); err != nil || it.state == api.StatePending {
			return err
		}
		reason := it.reason
		if it.kind != ofEdges && it.kind != ofMissing {
			reason = reasonOf(r.schema, it.kind, it.label, it.Property)
		}
		if reason == "" {
			return nil
		}
		if by[reason]--; by[reason] == 0 {
			delete(by, reason)
		}
		return nil
	})
}

// each calls fn for the conflicts of the store that have one of some ids, or for all (no ids).
func (r *reader) each(ids []string, fn func(store.Conflict) error) error {
	if len(ids) == 0 {
		if err := r.sn.Conflicts(fn); err != nil {
			return err
		}
		if err := r.eachExcess(func(c store.Conflict, _, _ string) error { return fn(c) }); err != nil {
			return err
		}
		return r.eachApart(fn)
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if id = strings.ToLower(id); seen[id] {
			continue
		}
		seen[id] = true
		c, ok, err := r.conflict(id)
		if err == nil && ok {
			err = fn(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) page(req api.ConflictsList, reply *api.ConflictsReply) error {
	label := schema.FoldLabel(req.Label)
	page := desk.NewTop[store.Conflict](req.Limit + 1)
	err := r.each(req.IDs, func(c store.Conflict) error {
		if err := r.tick(); err != nil {
			return err
		}
		if name, _ := store.ParseMissing(c.Property); req.Property != "" && c.Property != req.Property && name != req.Property {
			return nil
		}
		x, ok, err := r.item(c)
		if err != nil || !ok || label != "" && schema.FoldLabel(x.label) != label {
			return err
		}
		p, err := r.place(&x, func(store.PropertyFold) {})
		if err != nil || p.Count < req.MinCount || p.Confidence < req.MinScore || len(req.States) > 0 && !slices.Contains(req.States, p.State) {
			return err
		}
		reply.Total++
		if req.After == nil || req.After.Before(p) {
			page.Add(c, p)
		}
		return nil
	})
	if err == nil && len(req.IDs) == 0 {
		chosen := func(of, property string) bool {
			return (label == "" || schema.FoldLabel(of) == label) && (req.Property == "" || property == req.Property)
		}
		err = r.missing(req, chosen, req.Limit+1-len(page.List()), &reply.Total, page.Add)
	}
	if err != nil {
		return err
	}
	reply.Groups, reply.More, err = desk.Fill(page.List(), req.Limit, func(c store.Conflict) (api.Group, error) {
		x, _, err := r.item(c)
		if err != nil {
			return api.Group{}, err
		}
		return r.group(&x)
	})
	return err
}

func notFound(graphName, what string) *api.Error {
	return api.Errorf(404, "conflict_not_found", "graph %s has no conflict %.120q: the property has one value, may have several, or none is required", graphName, what)
}

// named is the item of an id or key.
func (r *reader) named(graphName, id, key string) (x item, err error) {
	none := notFound(graphName, id+key)
	if r == nil {
		return x, none
	}
	var c store.Conflict
	ok := false
	if key == "" {
		c, ok, err = r.conflict(strings.ToLower(id))
	} else if owner, property, is := parseKey(key); is {
		c, ok, err = r.of(owner, property, r.conflict)
	}
	if err != nil {
		return x, err
	}
	if ok {
		x, ok, err = r.item(c)
	}
	if err == nil && !ok {
		err = none
	}
	return x, err
}

func parseKey(key string) (owner, property string, ok bool) {
	rest, is := strings.CutPrefix(key, "conflict|")
	owner, property, two := strings.Cut(rest, "|")
	_, valid := store.ParseID(owner)
	return owner, property, is && two && valid
}

// Get answers conflicts.get.
func (d *Desk) Get(ctx context.Context, graphName string, req api.ConflictGet) (reply api.ConflictReply, err error) {
	if (req.ID == "") == (req.Key == "") {
		return reply, api.Errorf(400, "bad_value", "give either id or key")
	}
	err = d.with(ctx, graphName, func(r *reader) error {
		x, err := r.named(graphName, req.ID, req.Key)
		if err != nil {
			return err
		}
		reply.Seq = r.sn.Seq()
		if reply.Item, err = r.group(&x); err != nil {
			return err
		}
		if reply.Conflict, err = r.whole(&x); err != nil {
			return err
		}
		if reply.Planned, err = r.planned(graphName, &x); err != nil {
			return err
		}
		reply.History, err = audit.Trail{Store: d.deps.Store, Graph: graphName}.Of(reply.Item.Key)
		return err
	})
	return reply, err
}
