// Package schema holds the rule of a graph: which entity and relation types there are, what they may carry, and what a
// person must look at. It reads the schema language (YAML or JSON), reports every problem of a file at once, and answers
// the questions of the pipeline by look-ups.
package schema

import (
	"bytes"
	"slices"
	"sort"
)

// The kinds of types that Canon and CheckLabel take.
const (
	KindEntity   = "entity"
	KindRelation = "relation"
)

// Type is the type of a property's values.
type Type string

// The property types. TypeString is the default.
const (
	TypeString  Type = "string"
	TypeInteger Type = "integer"
	TypeFloat   Type = "float"
	TypeBoolean Type = "boolean"
	TypeDate    Type = "date"
)

// Merge is the rule that decides which of several values of a property is shown.
type Merge string

// The merge rules. MergeMostSupported is the default.
const (
	MergeMostSupported Merge = "most_supported"
	MergeNewest        Merge = "newest"
	MergeMostConfident Merge = "most_confident"
	MergeAll           Merge = "all"
)

// Property is what a type says about one of its properties.
type Property struct {
	Name        string
	Type        Type
	Required    bool
	Enum        []string // canonical texts (see ValueText) in value order; nil where any value is allowed
	Description string
	Merge       Merge
	Identifies  bool // differing values mean different things of one name
	Sensitive   bool
}

// Entity is one entity type as declared. Values that the schema hands out are shared: do not change them.
type Entity struct {
	Label       string
	Parents     []string // sorted
	Description string
	Properties  []Property // own ones, by name; Schema.Properties has the inherited ones too
}

// Pattern is one pair of entity types that a relation may join. Descendants of either end count as that end.
type Pattern struct {
	Source, Target string
}

// Cardinality bounds the relations of one type that a single entity may have. 0 means no bound.
type Cardinality struct {
	MaxPerSource, MaxPerTarget int
}

// Relation is one relation type as declared.
type Relation struct {
	Label       string
	Patterns    []Pattern // sorted, without repeats
	Description string
	Cardinality Cardinality
	Symmetric   bool
	Self        bool       // an entity may stand at both ends
	Inverse     []string   // names that say the same with the ends swapped, sorted
	Properties  []Property // by name; not part of the schema fingerprint
}

// Schema is a checked schema. It never changes after Parse and is safe for concurrent use. Whatever its methods return
// is shared and must not be changed by the caller.
type Schema struct {
	name, version, description string

	entities  []Entity   // by label
	relations []Relation // by label
	rules     Rules
	review    Review
	warnings  []Problem

	entityAt     map[string]int
	relationAt   map[string]int
	canonEntity  map[string]string       // folded label → label
	canonRel     map[string]canonical    // folded label or inverse → relation
	lineage      map[string][]string     // label → itself and its ancestors, sorted
	descendants  map[string][]string     // label → types below it, sorted
	allowed      map[string]patternSet   // relation → declared patterns
	entityProps  map[string]*propertySet // label → own and inherited properties
	relationProp map[string]*propertySet

	fingerprint, rulesFP, reviewFP string
	marshalled                     []byte
	descriptions                   any
}

type patternSet map[Pattern]struct{}

func patternSetOf(list []Pattern) patternSet {
	set := make(patternSet, len(list))
	for _, p := range list {
		set[p] = struct{}{}
	}
	return set
}

type canonical struct {
	label   string
	swapped bool
}

// propertySet is a list of properties by name, and where to find each.
type propertySet struct {
	list   []Property
	exact  map[string]int
	folded map[string]int
}

func newPropertySet(list []Property) *propertySet {
	set := &propertySet{list: list, exact: make(map[string]int, len(list)), folded: make(map[string]int, len(list))}
	for i, p := range list {
		set.exact[p.Name] = i
		if _, taken := set.folded[foldLabel(p.Name)]; !taken {
			set.folded[foldLabel(p.Name)] = i
		}
	}
	return set
}

func (set *propertySet) find(name string) (Property, bool) {
	if set == nil {
		return Property{}, false
	}
	i, ok := set.exact[name]
	if !ok {
		i, ok = set.folded[foldLabel(name)]
	}
	if !ok {
		return Property{}, false
	}
	return set.list[i], true
}

// Name returns the schema's name: what the file says, else the file's stem.
func (s *Schema) Name() string { return s.name }

// Version returns the schema's version, by default "1".
func (s *Schema) Version() string { return s.version }

// Description returns what the schema says about itself.
func (s *Schema) Description() string { return s.description }

// Entities returns the entity types by label.
func (s *Schema) Entities() []Entity { return s.entities }

// Relations returns the relation types by label.
func (s *Schema) Relations() []Relation { return s.relations }

// Rules returns the hints for the embedded extractor.
func (s *Schema) Rules() Rules { return s.rules }

// Review returns the review policy.
func (s *Schema) Review() Review { return s.review }

// Warnings returns what is allowed but probably not meant, such as a type without a description.
func (s *Schema) Warnings() []Problem { return s.warnings }

// Entity returns the entity type with exactly this label.
func (s *Schema) Entity(label string) (Entity, bool) {
	i, ok := s.entityAt[label]
	if !ok {
		return Entity{}, false
	}
	return s.entities[i], true
}

// Relation returns the relation type with exactly this label.
func (s *Schema) Relation(label string) (Relation, bool) {
	i, ok := s.relationAt[label]
	if !ok {
		return Relation{}, false
	}
	return s.relations[i], true
}

// Ancestors returns the types above an entity type, sorted, without itself.
func (s *Schema) Ancestors(label string) []string {
	return without(s.lineage[label], label)
}

// Descendants returns the types below an entity type, sorted, without itself.
func (s *Schema) Descendants(label string) []string { return s.descendants[label] }

// Labels returns an entity type and its ancestors, sorted: the labels that an entity of the type carries.
func (s *Schema) Labels(label string) []string { return s.lineage[label] }

// Properties returns the own and inherited properties of an entity type, by name.
func (s *Schema) Properties(label string) []Property {
	if set := s.entityProps[label]; set != nil {
		return set.list
	}
	return nil
}

// Property returns one own or inherited property of an entity type. Where no property has exactly that name, case,
// spaces, "_" and "-" are folded.
func (s *Schema) Property(label, name string) (Property, bool) {
	return s.entityProps[label].find(name)
}

// RelationProperty is Property for a relation type.
func (s *Schema) RelationProperty(label, name string) (Property, bool) {
	return s.relationProp[label].find(name)
}

// Allows tells whether a relation of this type may join entities of these types: a pattern names them or ancestors of
// them, in either direction when the relation is symmetric. Labels are exact; unknown ones are not allowed.
func (s *Schema) Allows(relation, source, target string) bool {
	i, ok := s.relationAt[relation]
	if !ok {
		return false
	}
	set := s.allowed[relation]
	return s.matches(set, source, target) || s.relations[i].Symmetric && s.matches(set, target, source)
}

func (s *Schema) matches(set patternSet, source, target string) bool {
	if _, ok := set[Pattern{source, target}]; ok {
		return true
	}
	for _, a := range s.lineage[source] {
		for _, b := range s.lineage[target] {
			if _, ok := set[Pattern{a, b}]; ok {
				return true
			}
		}
	}
	return false
}

// SelfAllowed tells whether one entity may stand at both ends of a relation of this type: the type says `self: true`.
// A pattern such as Organization->Organization alone does not allow it.
func (s *Schema) SelfAllowed(relation string) bool {
	i, ok := s.relationAt[relation]
	return ok && s.relations[i].Self
}

// Canon returns the declared label that a label as seen stands for: case, spaces, "_" and "-" are folded, so that
// "Sports Team" is SportsTeam. kind is KindEntity or KindRelation. Inverse names are not found; see CanonRelation.
func (s *Schema) Canon(kind, seen string) (label string, ok bool) {
	switch kind {
	case KindEntity:
		if _, ok := s.entityAt[seen]; ok {
			return seen, true
		}
		label, ok = s.canonEntity[foldLabel(seen)]
		return label, ok
	case KindRelation:
		label, swapped, ok := s.CanonRelation(seen)
		if !ok || swapped {
			return "", false
		}
		return label, true
	}
	return "", false
}

// CanonRelation is Canon for relation types with their inverse names: for one of those, swapped says that source and
// target of what was seen change places.
func (s *Schema) CanonRelation(seen string) (label string, swapped, ok bool) {
	if _, ok := s.relationAt[seen]; ok {
		return seen, false, true
	}
	found, ok := s.canonRel[foldLabel(seen)]
	return found.label, found.swapped, ok
}

// Fingerprint returns the schema fingerprint: H16 of types, parents, property types, required, enum, patterns,
// cardinality and symmetry. No name, version, description, merge rule, rules, review or order changes it.
func (s *Schema) Fingerprint() string { return s.fingerprint }

// RulesFingerprint returns H16 of the `rules:` section. It belongs in the extraction fingerprint of the modes rules and
// hybrid.
func (s *Schema) RulesFingerprint() string { return s.rulesFP }

// ReviewFingerprint returns H16 of the `review:` section.
func (s *Schema) ReviewFingerprint() string { return s.reviewFP }

// Descriptions returns what belongs in the extraction fingerprint of every mode: the descriptions of types and
// properties, and what else changes items without being in the schema fingerprint (inverse names, self, properties of
// relations). The value is made of maps, slices and strings, for H16.
func (s *Schema) Descriptions() any { return s.descriptions }

// Marshal returns the whole effective schema as canonical JSON: nothing is left to extend. Parse gives an equal schema
// back from it. The caller owns the bytes.
func (s *Schema) Marshal() []byte { return slices.Clone(s.marshalled) }

// Equal tells whether two schemas say the same, names, descriptions, rules and policy included.
func (s *Schema) Equal(other *Schema) bool {
	return other != nil && bytes.Equal(s.marshalled, other.marshalled)
}

func without(list []string, label string) []string {
	i := sort.SearchStrings(list, label)
	if i == len(list) || list[i] != label {
		return list
	}
	return slices.Concat(list[:i], list[i+1:])
}
