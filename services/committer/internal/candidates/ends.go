package candidates

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Ends says whether a candidate could become a fact: its label can be declared, and each of its ends is exactly one entity, or one
// approved entity candidate of that text. It is worked out anew each time.
type Ends struct {
	ctx    context.Context
	sn     *store.Snapshot
	schema *schema.Schema

	known    map[end]answer
	approved map[string][]string // folded text → keys of approved entity candidates; nil until needed
	fresh    map[string]bool     // keys that this commit approved
}

// end is one end of a relation, or the holder of a property.
type end struct{ text, label, entity string }

// answer is an end's entity and its type, or the key of the approved candidate that will be one, or why not.
type answer struct{ entity, label, candidate, why string }

// maxKnown ends are remembered.
const maxKnown = 20_000

// NewEnds reads through a snapshot.
func NewEnds(ctx context.Context, sn *store.Snapshot, s *schema.Schema) *Ends {
	return &Ends{ctx: ctx, sn: sn, schema: s, known: map[end]answer{}, fresh: map[string]bool{}}
}

// Approved tells that an entity candidate was approved just now.
func (e *Ends) Approved(key string) {
	if kindOf(key) != graph.KindEntity || e.fresh[key] {
		return
	}
	e.fresh[key] = true
	if e.approved != nil {
		e.approve(key)
	}
	clear(e.known)
}

// Check says why a candidate cannot be approved, "" if it can.
func (e *Ends) Check(r *store.CandidateRecord) (why string, err error) {
	if why := e.label(r); why != "" {
		return why, nil
	}
	var ends []end
	switch r.Kind {
	case graph.KindRelation:
		ends = []end{{r.SourceText, r.SourceLabel, r.SourceEntity}, {r.TargetText, r.TargetLabel, r.TargetEntity}}
	case graph.KindProperty:
		ends = []end{{r.SourceText, r.SourceLabel, r.SourceEntity}}
	}
	for _, x := range ends {
		a, err := e.find(x)
		if err != nil || a.why != "" {
			return a.why, err
		}
	}
	return "", nil
}

// label says why a label can never be declared.
func (e *Ends) label(r *store.CandidateRecord) string {
	var err error
	switch r.Kind {
	case graph.KindRelation:
		if _, _, ok := e.schema.CanonRelation(r.Label); !ok {
			err = schema.CheckLabel(schema.KindRelation, r.Label)
		}
	case graph.KindProperty:
		err = schema.CheckName(r.Label)
	default:
		if _, ok := e.schema.Canon(schema.KindEntity, r.Label); !ok {
			err = schema.CheckLabel(schema.KindEntity, r.Label)
		}
	}
	if err != nil {
		return fmt.Sprintf("%s: %v", api.LabelRefused, err)
	}
	return ""
}

func (e *Ends) find(x end) (answer, error) {
	if a, ok := e.known[x]; ok {
		return a, nil
	}
	a, err := e.resolve(x)
	if err != nil {
		return a, err
	}
	if len(e.known) >= maxKnown {
		clear(e.known)
	}
	e.known[x] = a
	return a, nil
}

func (e *Ends) resolve(x end) (answer, error) {
	if err := e.ctx.Err(); err != nil {
		return answer{}, err
	}
	if x.entity != "" {
		f, ok, err := e.sn.Entity(x.entity)
		if err != nil || ok {
			return e.entity(f.Label, x.entity), err
		}
	}
	folded := fingerprint.Fold(x.text)
	if folded == "" {
		return answer{why: api.EndpointMissing}, nil
	}
	if canon, ok := e.schema.Canon(schema.KindEntity, x.label); ok {
		x.label = canon
	}
	hits, err := e.sn.EntitiesNamed(folded)
	if err != nil {
		return answer{}, err
	}
	hits = best(hits, func(n store.NamedEntity) bool { return n.Label == x.label }, func(n store.NamedEntity) bool { return n.Full })
	if len(hits) == 0 {
		return e.candidate(x)
	}
	if one, err := e.linked(hits); err != nil || !one {
		return answer{why: api.EndpointAmbiguous}, err
	}
	return e.entity(hits[0].Label, hits[0].ID), nil
}

// maxAlike entities of one name are looked at for links.
const maxAlike = 20

// linked says whether entities are linked to each other: they are read as one then.
func (e *Ends) linked(hits []store.NamedEntity) (bool, error) {
	if len(hits) > maxAlike {
		return false, nil
	}
	in := map[string]bool{hits[0].ID: true}
	for grew := true; grew && len(in) < len(hits); {
		grew = false
		for _, h := range hits {
			if in[h.ID] {
				continue
			}
			for id := range in {
				m, ok, err := e.sn.Match(id, h.ID)
				if err != nil {
					return false, err
				}
				if ok && m.Linked() {
					in[h.ID], grew = true, true
					break
				}
			}
		}
	}
	return len(in) == len(hits), nil
}

// best narrows a list by each test that any of it meets.
func best(list []store.NamedEntity, tests ...func(store.NamedEntity) bool) []store.NamedEntity {
	for _, test := range tests {
		if slices.ContainsFunc(list, test) {
			list = slices.DeleteFunc(slices.Clone(list), func(n store.NamedEntity) bool { return !test(n) })
		}
	}
	return list
}

func (e *Ends) entity(label, id string) answer {
	if _, ok := e.schema.Entity(label); !ok {
		return answer{why: api.EndpointTypeNotSchema}
	}
	return answer{entity: id, label: label}
}

// candidate looks for the approved entity candidate of a text, one of the end's label first.
func (e *Ends) candidate(x end) (answer, error) {
	if e.approved == nil {
		e.approved = map[string][]string{}
		err := e.sn.DecisionsFrom(graph.KindEntity+"|", "", func(d store.Decision) error {
			if d.State == api.StateApproved {
				e.approve(d.Key)
			}
			return e.ctx.Err()
		})
		if err != nil {
			return answer{}, err
		}
		for key := range e.fresh {
			e.approve(key)
		}
	}
	var keys []string
	for _, key := range e.approved[fingerprint.CNorm(x.text)] {
		ok, err := e.stands(key)
		if err != nil {
			return answer{}, err
		}
		if !ok {
			continue
		}
		if x.label != "" && key == fingerprint.EntityKey(x.label, x.text) {
			return answer{candidate: key}, nil
		}
		keys = append(keys, key)
	}
	switch {
	case len(keys) == 1:
		return answer{candidate: keys[0]}, nil
	case len(keys) > 1:
		return answer{why: api.EndpointAmbiguous}, nil
	case x.entity != "":
		return answer{why: api.EndpointMissing}, nil
	}
	return answer{why: api.EndpointUnresolved}, nil
}

func (e *Ends) approve(key string) {
	text := key[strings.LastIndexByte(key, '|')+1:]
	if !slices.Contains(e.approved[text], key) {
		e.approved[text] = append(e.approved[text], key)
	}
}

// stands says whether an approved key has a record left: those that were converted are gone.
func (e *Ends) stands(key string) (ok bool, err error) {
	if e.fresh[key] {
		return true, nil
	}
	err = e.sn.CandidateRows(key, key, func(r store.CandidateRow) error {
		ok = ok || r.Key == key && r.State == api.StateApproved
		if ok || r.Key != key {
			return store.ErrStop
		}
		return nil
	})
	return ok, err
}
