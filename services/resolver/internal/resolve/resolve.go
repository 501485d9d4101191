// Package resolve turns what was read out of a document into assertions between identified entities, by exact names: one
// label and one folded name are one entity, unless the name is exactly one known entity's: then it is that one. It is pure, and its result does not depend on the order in which chunks and items
// are given, nor on items that are given twice.
package resolve

import (
	"cmp"
	"fmt"
	"maps"
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
	// Known mentions took the identity of a known entity; Ambiguous ones have a name of several, and kept their own.
	Known, Ambiguous int
}

// Name identifies an entity: its label and folded name.
type Name struct{ Label, Key string }

// Entry is what the registry says of a name: the folded name of the one entry that has it, as name or alias, or that several have it.
type Entry struct {
	Key       string
	Ambiguous bool
}

// Known is what the registry says of a document's names; one that is not in it is nobody's.
type Known map[Name]Entry

// Names are the names by which the mentions of an extraction are identified, and as they are written, each once, sorted.
func Names(ex graph.Extraction) []Name {
	d := &document{folds: map[string]string{}}
	seen := map[Name]bool{}
	for i := range ex.Chunks {
		for k := range ex.Chunks[i].Entities {
			e := &ex.Chunks[i].Entities[k]
			for _, key := range []string{d.identifying(e), d.fold(e.Name)} {
				if key != "" {
					seen[Name{e.Type, key}] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Name) int { return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.Key, b.Key)) })
}

// Document resolves an extraction against what is known. Without candidates none are made. The error says that an item refers to
// one that is not there: the extraction is broken.
func Document(ex graph.Extraction, rules Rules, known Known, candidates bool) (Result, error) {
	d := &document{rules: rules, known: known, places: map[Name]int{}, folds: map[string]string{}, dropped: tally{}}
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
		for _, ambiguous := range c.told {
			if ambiguous {
				res.Ambiguous++
			} else {
				res.Known++
			}
		}
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

// document is the state of one run.
type document struct {
	rules  Rules
	known  Known
	places map[Name]int      // first in the order seen, after number in graph.Assertions.Entities
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
	told       map[spot]bool // the mentions of which the registry says something; true: their name is ambiguous
}

// spot tells the mentions of a chunk apart; the entity is a provisional place.
type spot struct{ entity, start, end int }

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

// identifying is the folded name that identifies an item: its full name in the document, else its own; empty when it has none.
func (d *document) identifying(e *graph.EntityItem) string {
	if key := d.fold(e.Of); key != "" {
		return key
	}
	return d.fold(e.Name)
}

// mention adds an entity item and its properties; -1 when it has no name.
func (d *document) mention(c *chunk, e *graph.EntityItem) int {
	n := Name{e.Type, d.identifying(e)}
	if n.Key == "" {
		d.dropped.add(graph.Dropped{Kind: graph.KindEntity, Label: e.Type, Reason: graph.ReasonBadName, Count: 1})
		return -1
	}
	// What is written is the name of an entry: then it is no short form of another name, whatever the document has beside it.
	if own := (Name{e.Type, d.fold(e.Name)}); own != n {
		if said, ok := d.known[own]; ok && !said.Ambiguous && said.Key == own.Key {
			n = own
		}
	}
	said, told := d.known[n]
	if told && !said.Ambiguous {
		n.Key = said.Key
	}
	place, ok := d.places[n]
	if !ok {
		place = len(d.refs)
		d.places[n] = place
		d.refs = append(d.refs, graph.EntityRef{ID: fingerprint.EntityID(n.Label, n.Key), Label: n.Label, Key: n.Key})
	}
	if told {
		c.tell(spot{place, e.Start, e.End}, said.Ambiguous)
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

// tell notes what the registry says of a mention; of items that are one mention, one that is known is enough.
func (c *chunk) tell(at spot, ambiguous bool) {
	if c.told == nil {
		c.told = map[spot]bool{}
	}
	if was, seen := c.told[at]; !seen || was {
		c.told[at] = ambiguous
	}
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
