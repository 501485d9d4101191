package schema

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

const (
	maxAncestors = 64  // of one type
	maxEffective = 500 // properties of one type, inherited ones included
)

// builder checks a whole draft across its types and makes the schema with its tables.
type builder struct {
	*report
	draft  *draft
	schema *Schema
	byName map[string]*entityDraft
	labels []string // of entities, sorted
}

func (b *builder) build() *Schema {
	d := b.draft
	b.schema = &Schema{
		name: d.name, version: d.version, description: d.description, review: d.review,
		entityAt: map[string]int{}, relationAt: map[string]int{},
		canonEntity: map[string]string{}, canonRel: map[string]canonical{},
		lineage: map[string][]string{}, descendants: map[string][]string{}, allowed: map[string]patternSet{},
		entityProps: map[string]*propertySet{}, relationProp: map[string]*propertySet{},
	}
	b.byName = make(map[string]*entityDraft, len(d.entities))
	for _, e := range d.entities {
		b.byName[e.label] = e
	}
	b.labels = slices.Sorted(maps.Keys(b.byName))
	if n := len(d.entities) + len(d.relations); n > maxTypes {
		b.add("", "%d types, the limit is %d", n, maxTypes)
	}
	if len(d.entities) == 0 && !d.broken {
		b.warn("entities", "no entity types: everything waits as a candidate")
	}
	b.parents()
	if order, ok := b.order(); ok {
		for _, e := range order {
			b.entity(e)
		}
	}
	slices.SortFunc(b.schema.entities, func(x, y Entity) int { return strings.Compare(x.Label, y.Label) })
	for i, e := range b.schema.entities {
		b.schema.entityAt[e.Label] = i
		b.schema.canonEntity[foldLabel(e.Label)] = e.Label
		for _, above := range b.schema.lineage[e.Label] {
			if above != e.Label {
				b.schema.descendants[above] = append(b.schema.descendants[above], e.Label)
			}
		}
	}
	b.relations()
	b.rules()
	b.conditions()
	if b.failed() {
		return nil
	}
	b.finish()
	return b.schema
}

// parents reports parents that are not declared.
func (b *builder) parents() {
	for _, e := range b.draft.entities {
		e.parents = slices.DeleteFunc(e.parents, func(parent string) bool {
			if b.byName[parent] != nil {
				return false
			}
			if !b.draft.broken {
				b.unknown(e.parentPaths[parent], "type", parent, b.labels)
			}
			return true
		})
	}
}

// order returns the entities parents first, or reports the circles.
func (b *builder) order() (order []*entityDraft, ok bool) {
	const walking, done = 1, 2
	state := make(map[string]int, len(b.byName))
	ok = true
	var trail []string
	var walk func(e *entityDraft)
	walk = func(e *entityDraft) {
		state[e.label] = walking
		trail = append(trail, e.label)
		for _, parent := range e.parents {
			switch state[parent] {
			case walking:
				ok = false
				circle := append(slices.Clone(trail[slices.Index(trail, parent):]), parent)
				b.add(e.parentPaths[parent], "parents go in a circle: %s", strings.Join(circle, " -> "))
			case done:
			default:
				walk(b.byName[parent])
			}
		}
		trail = trail[:len(trail)-1]
		state[e.label] = done
		order = append(order, e)
	}
	for _, e := range b.draft.entities {
		if state[e.label] == 0 {
			walk(e)
		}
	}
	return order, ok
}

// entity makes one entity type whose parents are made.
func (b *builder) entity(e *entityDraft) {
	s := b.schema
	slices.Sort(e.parents)
	lineage := []string{e.label}
	inherited := map[string]Property{}
	var names []string
	for _, parent := range e.parents {
		lineage = append(lineage, s.lineage[parent]...)
		for _, p := range s.Properties(parent) {
			was, ok := inherited[p.Name]
			if !ok {
				names = append(names, p.Name)
				inherited[p.Name] = p
				continue
			}
			inherited[p.Name] = b.meet(e, parent, was, p)
		}
	}
	slices.Sort(lineage)
	lineage = slices.Compact(lineage)
	if len(lineage)-1 > maxAncestors {
		b.add(e.path, "has %d ancestors, the limit is %d", len(lineage)-1, maxAncestors)
		lineage = []string{e.label}
	}
	s.lineage[e.label] = lineage

	out := Entity{Label: e.label, Parents: slices.Clone(e.parents), Description: e.description}
	for _, p := range e.props {
		prop := p.Property
		if base, ok := inherited[p.Name]; ok {
			var loose []string
			prop, loose = p.onto(base)
			for _, message := range loose {
				b.add(p.path, "an inherited property %s", message)
			}
		} else {
			for _, name := range names {
				if foldLabel(name) == foldLabel(p.Name) {
					b.add(p.path, "%s cannot be told from the inherited %s: case, spaces, _ and - do not count", quote(p.Name), quote(name))
				}
			}
		}
		prop = b.property(p, prop)
		inherited[p.Name] = prop
		out.Properties = append(out.Properties, prop)
	}
	sortProperties(out.Properties)
	all := slices.Collect(maps.Values(inherited))
	sortProperties(all)
	if len(all) > maxEffective {
		b.add(e.path, "has %d properties with the inherited ones, the limit is %d", len(all), maxEffective)
		all = nil
	}
	s.entityProps[e.label] = newPropertySet(all)
	s.entities = append(s.entities, out)
	if e.description == "" {
		b.warn(e.path, "%s has no description", e.label)
	}
}

// meet joins a property that two parents have.
func (b *builder) meet(e *entityDraft, parent string, x, y Property) Property {
	if x.Type != y.Type {
		b.add(e.parentPaths[parent], "%s is %s here and %s in another parent", quote(x.Name), y.Type, x.Type)
		return x
	}
	x.Required = x.Required || y.Required
	x.Identifies = x.Identifies || y.Identifies
	x.Sensitive = x.Sensitive || y.Sensitive
	switch {
	case x.Enum == nil:
		x.Enum = y.Enum
	case y.Enum != nil:
		both := slices.DeleteFunc(slices.Clone(x.Enum), func(value string) bool { return !slices.Contains(y.Enum, value) })
		if len(both) == 0 {
			b.add(e.parentPaths[parent], "the enum of %s has no value in common with that of another parent", quote(x.Name))
			return x
		}
		x.Enum = both
	}
	return x
}

// property gives a property its defaults and checks what hangs on its final type.
func (b *builder) property(p *propertyDraft, prop Property) Property {
	prop.Type = cmp.Or(prop.Type, TypeString)
	prop.Merge = cmp.Or(prop.Merge, MergeMostSupported)
	if !p.has["type"] && prop.Type != TypeString {
		prop.Enum = b.enum(cmp.Or(p.enumPath, p.path), prop.Enum, prop.Type)
	}
	return prop
}

func sortProperties(list []Property) {
	slices.SortFunc(list, func(x, y Property) int { return strings.Compare(x.Name, y.Name) })
}

func sortPatterns(list []Pattern) {
	slices.SortFunc(list, func(x, y Pattern) int {
		return cmp.Or(strings.Compare(x.Source, y.Source), strings.Compare(x.Target, y.Target))
	})
}

func (b *builder) relations() {
	s := b.schema
	for _, rel := range b.draft.relations {
		set := patternSetOf(rel.patterns)
		for _, p := range rel.patterns {
			if b.draft.broken {
				break
			}
			if b.byName[p.Source] == nil {
				b.unknown(rel.patternPaths[p], "type", p.Source, b.labels)
			}
			if b.byName[p.Target] == nil && p.Target != p.Source {
				b.unknown(rel.patternPaths[p], "type", p.Target, b.labels)
			}
		}
		b.narrowed(rel)
		if len(set) == 0 && !b.draft.broken {
			b.warn(rel.path, "%s has no patterns: it may join nothing", rel.label)
		}
		if rel.description == "" {
			b.warn(rel.path, "%s has no description", rel.label)
		}
		out := Relation{
			Label: rel.label, Patterns: slices.Collect(maps.Keys(set)), Description: rel.description, Cardinality: rel.card,
			Symmetric: rel.symmetric, Self: rel.self, Inverse: slices.Sorted(slices.Values(rel.inverse)),
		}
		sortPatterns(out.Patterns)
		for _, p := range rel.props {
			out.Properties = append(out.Properties, b.property(p, p.Property))
		}
		sortProperties(out.Properties)
		s.allowed[rel.label] = set
		s.relationProp[rel.label] = newPropertySet(out.Properties)
		s.relations = append(s.relations, out)
		s.canonRel[foldLabel(rel.label)] = canonical{label: rel.label}
	}
	for _, rel := range b.draft.relations {
		b.inverse(rel)
	}
	slices.SortFunc(s.relations, func(x, y Relation) int { return strings.Compare(x.Label, y.Label) })
	for i, rel := range s.relations {
		s.relationAt[rel.Label] = i
	}
}

// narrowed reports patterns of an override that allow what its base does not.
func (b *builder) narrowed(rel *relationDraft) {
	for _, n := range rel.narrowed {
		if b.byName[n.pattern.Source] == nil || b.byName[n.pattern.Target] == nil {
			continue // reported
		}
		ok := b.schema.matches(n.within, n.pattern.Source, n.pattern.Target)
		if !ok && rel.symmetric {
			ok = b.schema.matches(n.within, n.pattern.Target, n.pattern.Source)
		}
		if !ok {
			b.add(n.path, "an override may not allow %s->%s, which the base does not: use add_patterns", n.pattern.Source, n.pattern.Target)
		}
	}
}

func (b *builder) inverse(rel *relationDraft) {
	for _, name := range rel.inverse {
		path := rel.inversePaths[name]
		if err := CheckLabel(KindRelation, name); err != nil {
			b.add(path, "inverse %v", err)
			continue
		}
		if rel.symmetric {
			b.add(path, "a symmetric relation is its own inverse")
			continue
		}
		if other, ok := b.schema.canonRel[foldLabel(name)]; ok {
			if other.swapped {
				b.add(path, "%s is the inverse of %s already", quote(name), quote(other.label))
			} else {
				b.add(path, "%s is a relation itself", quote(name))
			}
			continue
		}
		b.schema.canonRel[foldLabel(name)] = canonical{rel.label, true}
	}
}

// rules reports rules for types that are not declared, and keeps the rest.
func (b *builder) rules() {
	relations := make([]string, 0, len(b.draft.relations))
	for _, rel := range b.draft.relations {
		relations = append(relations, rel.label)
	}
	slices.Sort(relations)
	for _, at := range b.draft.rulePaths {
		labels, present := b.labels, false
		if at.kind == KindEntity {
			_, present = b.draft.rules.Entities[at.label]
		} else {
			labels = relations
			_, present = b.draft.rules.Relations[at.label]
		}
		if _, known := slices.BinarySearch(labels, at.label); !known && present && !b.draft.broken {
			b.unknown(at.path, "type", at.label, labels)
		}
	}
	b.schema.rules = b.draft.rules
	maps.DeleteFunc(b.schema.rules.Entities, func(_ string, r EntityRules) bool {
		return len(r.Names)+len(r.Suffixes)+len(r.Prefixes)+len(r.Honorifics)+len(r.Roles)+len(r.Patterns) == 0
	})
	maps.DeleteFunc(b.schema.rules.Relations, func(_ string, r RelationRules) bool {
		return len(r.Phrases)+len(r.InversePhrases) == 0
	})
}
