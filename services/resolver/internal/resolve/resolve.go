// Package resolve turns what was read out of a document into assertions between identified entities, by exact names: one
// label and one folded name are one entity. It is pure, and its result does not depend on the order in which chunks and items
// are given, nor on items that are given twice.
package resolve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// Rules is what the resolver asks of a schema.
type Rules interface {
	// SelfAllowed says whether an entity may stand at both ends of a relation of the type.
	SelfAllowed(relation string) bool
	// Symmetric says whether a relation of the type is the same with its ends exchanged.
	Symmetric(relation string) bool
}

// Result of one document.
type Result struct {
	Assertions graph.Assertions
	// Dropped is the extraction's own list and what was dropped here, one entry a kind, label and reason, sorted.
	Dropped []graph.Dropped
	// Mentions resolved, and relations dropped because both ends are one entity.
	Mentions, SelfLoops int
}

// Document resolves an extraction. Without candidates none are made. The error says that an item refers to one that is not
// there: the extraction is broken.
func Document(ex graph.Extraction, rules Rules, candidates bool) (Result, error) {
	d := &document{rules: rules, places: map[name]int{}, folds: map[string]string{}, dropped: tally{}}
	for _, x := range ex.Dropped {
		d.dropped.add(x)
	}
	chunks, err := d.chunks(ex.Chunks)
	if err != nil {
		return Result{}, err
	}
	d.number()
	res := Result{Assertions: graph.Assertions{Entities: d.refs}}
	for _, c := range chunks {
		a := d.assertions(c)
		res.Mentions += len(a.Mentions)
		if a.State != "" || len(a.Mentions)+len(a.Properties)+len(a.Relations) > 0 {
			res.Assertions.Chunks = append(res.Assertions.Chunks, a)
		}
	}
	res.SelfLoops = d.selfLoops
	if candidates {
		res.Assertions.Candidates = d.candidates(chunks)
	}
	res.Dropped = d.dropped.list()
	return res, nil
}

// name is what identifies an entity.
type name struct{ label, key string }

// document is the state of one run.
type document struct {
	rules  Rules
	places map[name]int      // first in the order seen, after number in graph.Assertions.Entities
	refs   []graph.EntityRef // likewise
	final  []int             // final place by provisional place
	folds  map[string]string // Fold of what was seen

	surfaces  map[string][]int // places of the entities that a folded text names in this document
	dropped   tally
	selfLoops int
}

// chunk is one chunk's items, of all entries with its index.
type chunk struct {
	index      int
	state      string
	mentions   []graph.Mention
	properties []graph.PropertyA
	relations  []relation
	candidates []graph.CandidateItem
}

// relation keeps the properties as items until copies are merged.
type relation struct {
	graph.RelationA
	properties []graph.PropertyItem
}

func (d *document) fold(s string) string {
	f, ok := d.folds[s]
	if !ok {
		f = fingerprint.Fold(s)
		d.folds[s] = f
	}
	return f
}

// chunks groups the items by chunk, in order, and gives the entities provisional places.
func (d *document) chunks(in []graph.ChunkItems) ([]*chunk, error) {
	byIndex := make(map[int]*chunk, len(in))
	out := make([]*chunk, 0, len(in))
	for i := range in {
		c := byIndex[in[i].Index]
		if c == nil {
			c = &chunk{index: in[i].Index}
			byIndex[c.index] = c
			out = append(out, c)
		}
		if err := d.read(c, &in[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *chunk) int { return cmp.Compare(a.index, b.index) })
	return out, nil
}

// read adds one entry's items to its chunk.
func (d *document) read(c *chunk, in *graph.ChunkItems) error {
	c.state = worse(c.state, in.State)
	at := make([]int, len(in.Entities)) // place of each item's entity; -1 for one without a name
	for i := range in.Entities {
		at[i] = d.mention(c, &in.Entities[i])
	}
	for i := range in.Relations {
		r := &in.Relations[i]
		if r.Source < 0 || r.Source >= len(at) || r.Target < 0 || r.Target >= len(at) {
			return fmt.Errorf("relation %d of chunk %d joins mentions %d and %d of %d", i, in.Index, r.Source, r.Target, len(at))
		}
		source, target := at[r.Source], at[r.Target]
		if source < 0 || target < 0 {
			d.dropped.add(graph.Dropped{Kind: graph.KindRelation, Label: r.Type, Reason: graph.ReasonUnresolvedEndpoint, Count: 1})
			continue
		}
		c.relations = append(c.relations, relation{
			RelationA: graph.RelationA{
				Type: r.Type, Source: source, Target: target, Start: r.Start, End: r.End, Confidence: r.Confidence,
				Assertion: kind(r.Assertion), Extractor: r.Extractor, Rule: r.Rule,
			},
			properties: r.Properties,
		})
	}
	c.candidates = append(c.candidates, in.Candidates...)
	return nil
}

// kind is an assertion kind in its short form.
func kind(assertion string) string {
	if assertion == "explicit" {
		return ""
	}
	return assertion
}

// mention adds an entity item and its properties; -1 when it has no name.
func (d *document) mention(c *chunk, e *graph.EntityItem) int {
	full := e.Of
	key := d.fold(full)
	if key == "" {
		full = e.Name
		key = d.fold(full)
	}
	if key == "" {
		d.dropped.add(graph.Dropped{Kind: graph.KindEntity, Label: e.Type, Reason: graph.ReasonBadName, Count: 1})
		return -1
	}
	n := name{e.Type, key}
	place, ok := d.places[n]
	if !ok {
		place = len(d.refs)
		d.places[n] = place
		d.refs = append(d.refs, graph.EntityRef{ID: fingerprint.EntityID(n.label, n.key), Label: n.label, Key: n.key})
	}
	c.mentions = append(c.mentions, graph.Mention{
		Entity: place, Name: e.Name, Start: e.Start, End: e.End, Confidence: e.Confidence, Extractor: e.Extractor, Rule: e.Rule,
	})
	for _, p := range e.Properties {
		c.properties = append(c.properties, graph.PropertyA{
			Entity: place, Name: p.Name, Value: p.Value, Start: p.Start, End: p.End, Confidence: p.Confidence, Extractor: e.Extractor,
		})
	}
	return place
}

// number sorts the entities by id. Items still hold provisional places; final maps them.
func (d *document) number() {
	if len(d.refs) == 0 {
		return
	}
	order := make([]int, len(d.refs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(d.refs[a].ID, d.refs[b].ID) })
	sorted := make([]graph.EntityRef, len(order))
	final := make([]int, len(order))
	for i, old := range order {
		sorted[i], final[old] = d.refs[old], i
	}
	d.refs = sorted
	for n, old := range d.places {
		d.places[n] = final[old]
	}
	d.final = final
}

// assertions makes what a chunk states: final places, copies merged, sorted.
func (d *document) assertions(c *chunk) graph.ChunkAssertions {
	out := graph.ChunkAssertions{Index: c.index, State: c.state}
	for i := range c.mentions {
		c.mentions[i].Entity = d.final[c.mentions[i].Entity]
	}
	for i := range c.properties {
		c.properties[i].Entity = d.final[c.properties[i].Entity]
	}
	for i := range c.relations {
		r := &c.relations[i]
		r.Source, r.Target = d.final[r.Source], d.final[r.Target]
		if r.Source > r.Target && d.rules.Symmetric(r.Type) { // places are in the order of ids
			r.Source, r.Target = r.Target, r.Source
		}
	}
	c.mentions = merge(c.mentions, sameMention, byMention)
	out.Mentions = c.mentions
	out.Properties = mergeProperties(c.properties)
	for _, r := range mergeRelations(c.relations) {
		if r.Source == r.Target && !d.rules.SelfAllowed(r.Type) {
			d.selfLoops++
			d.dropped.add(graph.Dropped{
				Kind: graph.KindRelation, Label: r.Type, Reason: graph.ReasonSelfLoop, Count: 1, Sample: d.refs[r.Source].Key,
			})
			continue
		}
		out.Relations = append(out.Relations, r)
	}
	return out
}

// worse is the state of a chunk that was read in two entries.
func worse(a, b string) string {
	if b == graph.Complete {
		b = ""
	}
	if a == graph.Failed || b == graph.Failed {
		return graph.Failed
	}
	return cmp.Or(a, b)
}
