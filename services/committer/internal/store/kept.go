package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// What becomes of a fact that the new version of a document no longer states.
const (
	StaleWithdraw = "withdraw" // its support goes with the version
	StaleReview   = "review"   // its support stays, and a person is asked
	StaleKeep     = "keep"     // its support stays
)

// StaleFact is a fact that a document stated and does not any more, as a policy looks at it.
type StaleFact struct {
	Kind       string   // graph.KindRelation or graph.KindProperty
	Label      string   // relation type, or name of the property
	Types      []string // of the ends of the relation, or of the property's holder
	Confidence float64
	Assertions []string
	Extractors []string
	Scope      []string // of the document
	Decided    bool     // a person made it a fact, kept it before, or chose the value
	Kept       bool     // it was kept before; what was decided then stands, unless the answer is to withdraw it
	Deleted    bool     // the document goes, not a statement of it
}

// Kept is support that stayed when its version was closed: an earlier reading of the document stated the fact, the open version does
// not.
type Kept struct {
	// Version of the document that Spans are of, and its date.
	Version int    `json:"version"`
	Date    string `json:"date,omitempty"`
	// Asked: a person is to decide. Else one did, or the policy keeps it.
	Asked bool `json:"asked,omitempty"`
	// Ends are the ends of the relation, or the holder of the property.
	Ends  []KeptEnd      `json:"ends"`
	Type  string         `json:"type,omitempty"`  // of a relation
	Name  string         `json:"name,omitempty"`  // of a property
	Value any            `json:"value,omitempty"` // of a property
	Spans []EvidenceSpan `json:"spans"`
}

// KeptEnd is an entity with its mentions in a version, which stand for it while the open version has none.
type KeptEnd struct {
	graph.EntityRef
	Version int           `json:"version"`
	Spans   []MentionSpan `json:"spans,omitempty"`
}

// FactID names what is kept: the id of the relation, or a U5 of owner, property and value.
func (k *Kept) FactID() (string, error) {
	if k.Type != "" {
		if len(k.Ends) != 2 {
			return "", fmt.Errorf("%w: a kept relation with %d ends", ErrCorrupt, len(k.Ends))
		}
		return fingerprint.RelationID(k.Type, k.Ends[0].ID, k.Ends[1].ID, false), nil
	}
	if len(k.Ends) != 1 {
		return "", fmt.Errorf("%w: a kept property with %d holders", ErrCorrupt, len(k.Ends))
	}
	return valueID(k.Ends[0].ID, k.Name, k.Value)
}

func valueID(owner, name string, value any) (string, error) {
	vk, err := valueKey(value)
	return fingerprint.U5("property|" + owner + "|" + name + "|" + vk), err
}

// StaleKey is the key of the review item of a fact that a document no longer states.
func StaleKey(docID, factID string) string { return "stale|" + docID + "|" + factID }

// StaleID is the id of that item.
func StaleID(docID, factID string) string { return fingerprint.U5(StaleKey(docID, factID)) }

// StaleItem is an item that waits.
type StaleItem struct {
	ID   string `json:"-"`
	Doc  string `json:"doc"`
	Fact string `json:"fact"`
	Kept Kept   `json:"kept"`
	Seq  uint64 `json:"seq"`
	At   string `json:"at"`
	Job  string `json:"job,omitempty"`
	// Gone is the last version of a document that was deleted; 0: its new version does not state the fact.
	Gone int `json:"gone,omitempty"`
}

// factsOfStated is what a version supports: what it states, and what was kept.
func factsOfStated(st Stated) (*docFacts, error) {
	f, err := factsOf(st.Assertions)
	if err != nil || len(st.Kept) == 0 {
		return f, err
	}
	for _, k := range st.newestFirst() {
		ends := make([]id, len(k.Ends))
		for i, e := range k.Ends {
			if ends[i], err = mustID(e.ID); err != nil {
				return nil, err
			}
			if f.ents[ends[i]] == nil {
				f.ents[ends[i]] = &entFact{ref: e.EntityRef, spans: e.Spans, version: e.Version}
			}
		}
		more := &docFacts{ents: f.ents, rels: map[id]*relFact{}, props: map[propID]*propFact{}}
		for _, s := range k.Spans {
			switch {
			case k.Type != "" && len(ends) == 2:
				r := graph.RelationA{Type: k.Type, Start: s.Start, End: s.End, Confidence: s.Confidence, Assertion: s.Assertion, Extractor: s.Extractor, Rule: s.Rule, Properties: s.Properties}
				err = more.addRelation(s.Chunk, r, k.Ends[0].ID, k.Ends[1].ID, ends[0], ends[1])
			case k.Type == "" && len(ends) == 1:
				err = more.addProp(ends[0], k.Name, k.Value, s)
			default:
				err = fmt.Errorf("%w: a kept fact with %d ends", ErrCorrupt, len(ends))
			}
			if err != nil {
				return nil, err
			}
		}
		for v, r := range more.rels {
			r.version = k.Version
			if f.rels[v] == nil {
				f.rels[v] = r
			}
		}
		for v, p := range more.props {
			p.version, p.date = k.Version, k.Date
			if f.props[v] == nil {
				f.props[v] = p
			}
		}
	}
	return f, nil
}

// newestFirst are the kept facts in the order in which their mentions stand for entities.
func (st *Stated) newestFirst() []Kept {
	out := slices.Clone(st.Kept)
	slices.SortStableFunc(out, func(a, b Kept) int { return cmp.Compare(b.Version, a.Version) })
	return out
}

// at is the version that a fact's quotes are of; date the date that a value counts with.
func (s side) at(version int) int {
	if version != 0 {
		return version
	}
	return s.version
}

func (s side) dateOf(p *propFact) string {
	if p.version != 0 {
		return p.date
	}
	return s.date
}

// stale decides what becomes of the facts that the document stated and does not any more; it is called before the old version is closed.
// It returns what is kept, in order, and which facts a person decided.
func (a *application) stale(prev Stated, was *docFacts, now *docFacts) (kept []Kept, decided []string, err error) {
	byPerson := map[string]bool{}
	for _, f := range prev.Decided {
		byPerson[f] = true
	}
	has := map[string]bool{} // kept before
	for _, k := range prev.Kept {
		fact, err := k.FactID()
		if err != nil {
			return nil, nil, err
		}
		has[fact] = true
		if now.states(&k) {
			if err := a.t.endStale(&a.d, fact, k.Asked); err != nil {
				return nil, nil, err
			}
			continue
		}
		if a.withdrawn(&k, byPerson[fact]) {
			a.lose(&k, byPerson[fact])
			if err := a.t.endStale(&a.d, fact, k.Asked); err != nil {
				return nil, nil, err
			}
			continue
		}
		kept = append(kept, k)
	}
	for _, v := range inOrder(was.rels) {
		r := was.rels[v]
		if now.rels[v] != nil || has[v.String()] {
			continue
		}
		k := Kept{Version: was.versionOf(r.version, a.d.Version), Type: r.typ, Ends: []KeptEnd{was.end(r.src, a.d.Version), was.end(r.dst, a.d.Version)}, Spans: r.spans}
		if kept, err = a.keep(kept, k, v.String(), byPerson[v.String()], false); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range propsInOrder(was.props) {
		x := was.props[p]
		if now.props[p] != nil || was.ents[p.owner] == nil { // values of a relation go with it
			continue
		}
		fact, err := valueID(p.owner.String(), p.name, x.value)
		if err != nil {
			return nil, nil, err
		}
		if has[fact] {
			continue
		}
		k := Kept{Version: was.versionOf(x.version, a.d.Version), Date: a.d.Date(), Name: p.name, Value: x.value, Ends: []KeptEnd{was.end(p.owner, a.d.Version)}, Spans: x.spans}
		if kept, err = a.keep(kept, k, fact, byPerson[fact], false); err != nil {
			return nil, nil, err
		}
	}
	if decided, err = a.stillDecided(byPerson, kept, now); err != nil {
		return nil, nil, err
	}
	return kept, decided, sortKept(kept)
}

// withdrawn says whether what was kept before is not to be any more.
func (a *application) withdrawn(k *Kept, decided bool) bool {
	if a.c.Stale == nil {
		return false
	}
	f := k.look(a.c.Meta.Scope, decided)
	f.Kept = true
	return a.c.Stale(f) == StaleWithdraw
}

func sortKept(kept []Kept) error {
	type named struct {
		Kept
		fact string
	}
	list := make([]named, len(kept))
	for i := range kept {
		fact, err := kept[i].FactID()
		if err != nil {
			return err
		}
		list[i] = named{kept[i], fact}
	}
	slices.SortFunc(list, func(a, b named) int { return strings.Compare(a.fact, b.fact) })
	for i := range list {
		kept[i] = list[i].Kept
	}
	return nil
}

// stillDecided are the facts that a person made and that the document still supports.
func (a *application) stillDecided(byPerson map[string]bool, kept []Kept, now *docFacts) ([]string, error) {
	if len(byPerson) == 0 {
		return nil, nil
	}
	still := map[string]bool{}
	for i := range kept {
		fact, err := kept[i].FactID()
		if err != nil {
			return nil, err
		}
		still[fact] = byPerson[fact]
	}
	for v := range now.rels {
		still[v.String()] = byPerson[v.String()]
	}
	for p, x := range now.props {
		fact, err := valueID(p.owner.String(), p.name, x.value)
		if err != nil {
			return nil, err
		}
		still[fact] = byPerson[fact]
	}
	maps.DeleteFunc(still, func(_ string, yes bool) bool { return !yes })
	return slices.Sorted(maps.Keys(still)), nil
}

// keep asks the policy about a fact, and appends it where it stays. gone: the document goes.
func (a *application) keep(list []Kept, k Kept, fact string, decided, gone bool) ([]Kept, error) {
	scope := a.c.Meta.Scope
	if gone {
		scope = a.d.Meta.Scope // a delete says no more than the key
	}
	if !decided {
		var err error
		if decided, err = a.t.ruledFor(a.d.Meta.ID, fact, &k); err != nil {
			return list, err
		}
	}
	verdict := StaleWithdraw
	if a.c.Stale != nil {
		f := k.look(scope, decided)
		f.Deleted = gone
		verdict = a.c.Stale(f)
	}
	if verdict != StaleReview && verdict != StaleKeep {
		a.lose(&k, decided)
		return list, nil
	}
	a.res.Kept++
	if k.Asked = verdict == StaleReview; k.Asked {
		a.res.Asked++
		key, err := staleKey(a.t.g.id, a.d.Meta.ID, fact)
		if err != nil {
			return list, err
		}
		if err := a.t.forgetStale(a.d.Meta.ID, fact); err != nil { // it was about another loss
			return list, err
		}
		x := StaleItem{Doc: a.d.Meta.ID, Fact: fact, Kept: k, Seq: a.t.seq, At: a.t.at, Job: a.c.Job}
		if gone {
			x.Gone = a.d.Version
		}
		if err := a.t.putJSON(key, x); err != nil {
			return list, err
		}
		a.t.counts.Stale++
	}
	return append(list, k), nil
}

func (k *Kept) look(scope []string, decided bool) StaleFact {
	f := StaleFact{Kind: graph.KindProperty, Label: k.Name, Scope: scope, Decided: decided}
	if k.Type != "" {
		f.Kind, f.Label = graph.KindRelation, k.Type
	}
	for _, e := range k.Ends {
		f.Types = append(f.Types, e.Label)
	}
	for _, s := range k.Spans {
		f.Confidence = max(f.Confidence, s.Confidence)
		if s.Assertion != "" && !slices.Contains(f.Assertions, s.Assertion) {
			f.Assertions = append(f.Assertions, s.Assertion)
		}
		if s.Extractor != "" && !slices.Contains(f.Extractors, s.Extractor) {
			f.Extractors = append(f.Extractors, s.Extractor)
		}
	}
	return f
}

// states says whether a version states what was kept.
func (f *docFacts) states(k *Kept) bool {
	if k.Type != "" {
		fact, err := k.FactID()
		v, ok := parseID(fact)
		return err == nil && ok && f.rels[v] != nil
	}
	owner, ok := parseID(k.Ends[0].ID)
	vk, err := valueKey(k.Value)
	return ok && err == nil && f.props[propID{owner, k.Name, vk}] != nil
}

func (f *docFacts) versionOf(version, open int) int {
	if version != 0 {
		return version
	}
	return open
}

func (f *docFacts) end(e id, open int) KeptEnd {
	x := f.ents[e]
	return KeptEnd{EntityRef: x.ref, Version: f.versionOf(x.version, open), Spans: x.spans}
}

func staleKey(g uint32, docID, fact string) (key, error) {
	v, err := mustID(StaleID(docID, fact))
	return newKey(g, spaceStale).id(v), err
}

// endStale removes an item that waits.
func (t *Txn) endStale(d *Doc, fact string, asked bool) error {
	if !asked {
		return nil
	}
	k, err := staleKey(t.g.id, d.Meta.ID, fact)
	if err != nil {
		return err
	}
	t.put(k, nil)
	t.counts.Stale--
	return nil
}
