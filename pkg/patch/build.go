package patch

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// Item is an approved candidate record. The labels of its ends are those of what they resolve to, where they do.
type Item struct {
	ID string
	graph.Candidate
}

// Why an item adds nothing although the schema does not hold it.
const (
	LeftLabel    = "label_refused"       // reserved or malformed
	LeftEndpoint = "endpoint_unresolved" // an end is of no declared type and of no approved entity of the patch
)

// Build makes the patch of approved candidates onto a schema. What only a threshold kept out needs no addition. left says, by
// id, which items the patch makes no room for and why; they are among the patch's candidates all the same.
func Build(items []Item, s *schema.Schema) (p *Patch, left map[string]string) {
	b := &build{
		s: s, left: map[string]string{}, evidence: map[string]int{}, entities: &spellings{}, relations: &spellings{},
		texts: map[string]map[string]bool{}, pairs: map[string]map[string]bool{}, values: map[property]*values{},
	}
	items = slices.Clone(items)
	slices.SortFunc(items, func(x, y Item) int { return strings.Compare(x.ID, y.ID) })
	items = slices.CompactFunc(items, func(x, y Item) bool { return x.ID == y.ID })
	ids := make([]string, 0, len(items))
	for _, it := range items {
		ids = append(ids, it.ID)
		b.spell(it)
	}
	for _, it := range items {
		if it.Kind == graph.KindEntity {
			b.entity(it)
		}
	}
	for _, it := range items {
		switch it.Kind {
		case graph.KindRelation:
			b.relation(it)
		case graph.KindProperty:
			b.property(it)
		}
	}
	p = &Patch{
		Readme: readme, Format: Format, PatchID: ID(s.Fingerprint(), ids), CandidateIDs: ids, Evidence: b.evidence,
		BaseSchema: Base{s.Name(), s.Version(), s.Fingerprint()},
		Additions:  Additions{Entities: b.newEntities(), Relations: b.newRelations()}, AddProperties: b.newProperties(),
	}
	return p, b.left
}

type property struct{ entity, folded string }

type build struct {
	s                   *schema.Schema
	left                map[string]string
	evidence            map[string]int
	entities, relations *spellings
	texts               map[string]map[string]bool // folded text of an approved entity → its labels
	pairs               map[string]map[string]bool // relation → patterns to add
	values              map[property]*values
}

// spellings are the new labels of a kind: of those that the schema cannot tell apart one is taken, the most seen one.
type spellings struct{ seen map[string]map[string]int }

func (sp *spellings) add(label string, n int) {
	if sp.seen == nil {
		sp.seen = map[string]map[string]int{}
	}
	f := schema.FoldLabel(label)
	if sp.seen[f] == nil {
		sp.seen[f] = map[string]int{}
	}
	sp.seen[f][label] += n
}

func (sp *spellings) of(label string) (string, bool) {
	in := sp.seen[schema.FoldLabel(label)]
	if len(in) == 0 {
		return "", false
	}
	return most(in), true
}

func (sp *spellings) all() []string {
	var out []string
	for _, in := range sp.seen {
		out = append(out, most(in))
	}
	slices.Sort(out)
	return out
}

// most is the key with the highest count, the smallest of several.
func most(in map[string]int) string {
	return slices.MinFunc(slices.Collect(maps.Keys(in)), func(x, y string) int {
		return cmp.Or(cmp.Compare(in[y], in[x]), strings.Compare(x, y))
	})
}

// spell collects new labels before anything is named by them.
func (b *build) spell(it Item) {
	switch it.Kind {
	case graph.KindEntity:
		if _, ok := b.s.Canon(schema.KindEntity, it.Label); !ok {
			b.fresh(b.entities, schema.KindEntity, it)
		}
	case graph.KindRelation:
		if _, _, ok := b.s.CanonRelation(it.Label); !ok {
			b.fresh(b.relations, schema.KindRelation, it)
		}
	}
}

func (b *build) fresh(sp *spellings, kind string, it Item) {
	if schema.CheckLabel(kind, it.Label) != nil {
		b.left[it.ID] = LeftLabel
		return
	}
	sp.add(it.Label, it.Count)
}

// typed is the declared or new type of a label as seen.
func (b *build) typed(label string) (string, bool) {
	if label == "" {
		return "", false
	}
	if canon, ok := b.s.Canon(schema.KindEntity, label); ok {
		return canon, true
	}
	return b.entities.of(label)
}

func (b *build) entity(it Item) {
	label, ok := b.typed(it.Label)
	if !ok {
		return
	}
	b.evidence["entity:"+label] += it.Count
	t := fingerprint.CNorm(it.Text)
	if b.texts[t] == nil {
		b.texts[t] = map[string]bool{}
	}
	b.texts[t][label] = true
}

// end is the type of an end: that of its label, else that of the one approved entity of its text.
func (b *build) end(label, text string) (string, bool) {
	if t, ok := b.typed(label); ok {
		return t, true
	}
	if in := b.texts[fingerprint.CNorm(text)]; len(in) == 1 {
		return slices.Collect(maps.Keys(in))[0], true
	}
	return "", false
}

func (b *build) relation(it Item) {
	label, swapped, declared := b.s.CanonRelation(it.Label)
	if !declared {
		var ok bool
		if label, ok = b.relations.of(it.Label); !ok || b.left[it.ID] != "" {
			return
		}
	}
	b.evidence["relation:"+label] += it.Count
	source, okS := b.end(it.SourceLabel, it.SourceText)
	target, okT := b.end(it.TargetLabel, it.TargetText)
	if !okS || !okT {
		b.left[it.ID] = LeftEndpoint
		return
	}
	if swapped {
		source, target = target, source
	}
	if declared && b.s.Allows(label, source, target) {
		return
	}
	if b.pairs[label] == nil {
		b.pairs[label] = map[string]bool{}
	}
	b.pairs[label][source+"->"+target] = true
}

func (b *build) newEntities() []Entity {
	out := []Entity{}
	for _, label := range b.entities.all() {
		out = append(out, Entity{Label: label})
	}
	return out
}

// newRelations are new ones first, then patterns of declared ones, each by label. A new relation no pair of which is known is left out.
func (b *build) newRelations() []Relation {
	fresh, more := []Relation{}, []Relation{}
	for _, label := range slices.Sorted(maps.Keys(b.pairs)) {
		pairs := slices.Sorted(maps.Keys(b.pairs[label]))
		if _, declared := b.s.Relation(label); declared {
			more = append(more, Relation{Label: label, AddPatterns: pairs})
		} else {
			fresh = append(fresh, Relation{Label: label, Patterns: pairs})
		}
	}
	return append(fresh, more...)
}

// values of one property that the schema does not have.
type values struct {
	names map[string]int
	texts []string
}

func (b *build) property(it Item) {
	holder, ok := b.end(it.SourceLabel, it.SourceText)
	if !ok {
		b.left[it.ID] = LeftEndpoint
		return
	}
	if p, ok := b.s.Property(holder, it.Label); ok {
		b.evidence["property:"+holder+"."+p.Name] += it.Count
		return
	}
	if schema.CheckName(it.Label) != nil {
		b.left[it.ID] = LeftLabel
		return
	}
	k := property{holder, schema.FoldLabel(it.Label)}
	v := b.values[k]
	if v == nil {
		v = &values{names: map[string]int{}}
		b.values[k] = v
	}
	v.names[it.Label] += it.Count
	v.texts = append(v.texts, it.Text)
}

// newProperties are by entity and name. A type whose ancestor gets the same property inherits it.
func (b *build) newProperties() []AddProperty {
	keys := slices.SortedFunc(maps.Keys(b.values), func(x, y property) int {
		return cmp.Or(strings.Compare(x.entity, y.entity), strings.Compare(x.folded, y.folded))
	})
	gone := map[property]bool{}
	for _, k := range keys {
		for _, above := range b.s.Ancestors(k.entity) {
			top := property{above, k.folded}
			if b.values[top] == nil || b.inherits(top) {
				continue
			}
			b.values[top].texts = append(b.values[top].texts, b.values[k].texts...)
			for name, n := range b.values[k].names {
				b.values[top].names[name] += n
			}
			gone[k] = true
			break
		}
	}
	out := []AddProperty{}
	for _, k := range keys {
		v := b.values[k]
		if gone[k] {
			continue
		}
		name := most(v.names)
		for _, n := range v.names {
			b.evidence["property:"+k.entity+"."+name] += n
		}
		out = append(out, AddProperty{Entity: k.entity, Name: name, Spec: Spec{Type: string(guess(v.texts))}})
	}
	return out
}

// inherits says whether an ancestor gets the same property.
func (b *build) inherits(k property) bool {
	return slices.ContainsFunc(b.s.Ancestors(k.entity), func(above string) bool { return b.values[property{above, k.folded}] != nil })
}

// padded texts lose something as numbers: 007, +49.
var padded = regexp.MustCompile(`^\s*([+]|-?0[0-9])`)

// guess is the narrowest type that all values have; a lone year is a number.
func guess(texts []string) schema.Type {
	for _, t := range []schema.Type{schema.TypeInteger, schema.TypeFloat, schema.TypeBoolean, schema.TypeDate} {
		all := len(texts) > 0
		for _, text := range texts {
			_, err := schema.ParseValue(schema.Property{Type: t}, text)
			all = all && err == nil && (t == schema.TypeBoolean || t == schema.TypeDate || !padded.MatchString(text))
		}
		if all {
			return t
		}
	}
	return schema.TypeString
}
