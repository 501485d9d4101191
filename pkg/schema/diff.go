package schema

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Effect says which fingerprint a change moves, and so what an ingest does about stored documents.
type Effect string

// The effects, the strongest first. A change has one: what moves the schema fingerprint makes new versions, whatever
// else it moves.
const (
	EffectSchema     Effect = "schema"     // the schema fingerprint: new versions
	EffectExtraction Effect = "extraction" // the extraction fingerprint alone: extracted again in place
	EffectReview     Effect = "review"     // the review policy alone
	EffectNone       Effect = "none"       // no fingerprint
)

// Change is one difference between two schemas.
type Change struct {
	Path    string `json:"path"` // in the map form: entities.Person.properties.born.type
	Message string `json:"message"`
	Effect  Effect `json:"effect"`
}

// Diff returns what has to change in before to get after, types first, each list by label. It is empty exactly if the
// two are Equal.
func Diff(before, after *Schema) []Change {
	d := &differ{}
	d.text("name", before.name, after.name, EffectNone)
	d.text("version", before.version, after.version, EffectNone)
	d.text("description", before.description, after.description, EffectNone)
	both("entities", before.entities, after.entities, func(e Entity) string { return e.Label }, d.whole("entity type", EffectSchema), d.entity)
	both("relations", before.relations, after.relations, func(r Relation) string { return r.Label }, d.whole("relation type", EffectSchema), d.relation)
	d.rules("rules.entities", asMap(before.rules.Entities), asMap(after.rules.Entities))
	d.rules("rules.relations", asMap(before.rules.Relations), asMap(after.rules.Relations))
	d.review(before.review, after.review)
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) add(path string, effect Effect, format string, args ...any) {
	d.changes = append(d.changes, Change{path, fmt.Sprintf(format, args...), effect})
}

func (d *differ) text(path, before, after string, effect Effect) {
	switch {
	case before == after:
	case before == "":
		d.add(path, effect, "added: %s", quote(after))
	case after == "":
		d.add(path, effect, "removed, was %s", quote(before))
	default:
		d.add(path, effect, "changed from %s to %s", quote(before), quote(after))
	}
}

// set reports the members that came and went.
func (d *differ) set(path, what string, before, after []string, effect Effect) {
	had, has := map[string]bool{}, map[string]bool{}
	for _, member := range before {
		had[member] = true
	}
	for _, member := range after {
		has[member] = true
		if !had[member] {
			d.add(path, effect, "%s %s added", what, member)
		}
	}
	for _, member := range before {
		if !has[member] {
			d.add(path, effect, "%s %s removed", what, member)
		}
	}
}

func (d *differ) flag(path string, before, after bool, effect Effect) {
	if before != after {
		d.add(path, effect, "changed from %t to %t", before, after)
	}
}

func (d *differ) whole(what string, effect Effect) func(path, label, verb string) {
	return func(path, label, verb string) { d.add(path, effect, "%s %s %s", what, label, verb) }
}

// both walks two lists that are sorted by name.
func both[T any](path string, before, after []T, name func(T) string, whole func(path, label, verb string), pair func(path string, x, y T)) {
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		order := 0
		switch {
		case i == len(before):
			order = 1
		case j == len(after):
			order = -1
		default:
			order = strings.Compare(name(before[i]), name(after[j]))
		}
		switch {
		case order < 0:
			whole(join(path, name(before[i])), name(before[i]), "removed")
			i++
		case order > 0:
			whole(join(path, name(after[j])), name(after[j]), "added")
			j++
		default:
			pair(join(path, name(before[i])), before[i], after[j])
			i++
			j++
		}
	}
}

func (d *differ) entity(path string, x, y Entity) {
	d.set(path+".parents", "parent", x.Parents, y.Parents, EffectSchema)
	d.text(path+".description", x.Description, y.Description, EffectExtraction)
	d.properties(path, x.Properties, y.Properties, EffectSchema)
}

func (d *differ) relation(path string, x, y Relation) {
	d.set(path+".patterns", "pattern", patternTexts(x.Patterns), patternTexts(y.Patterns), EffectSchema)
	d.bound(path+".cardinality.max_per_source", x.Cardinality.MaxPerSource, y.Cardinality.MaxPerSource)
	d.bound(path+".cardinality.max_per_target", x.Cardinality.MaxPerTarget, y.Cardinality.MaxPerTarget)
	d.flag(path+".symmetric", x.Symmetric, y.Symmetric, EffectSchema)
	d.flag(path+".self", x.Self, y.Self, EffectExtraction)
	d.set(path+".inverse", "inverse", x.Inverse, y.Inverse, EffectExtraction)
	d.text(path+".description", x.Description, y.Description, EffectExtraction)
	d.properties(path, x.Properties, y.Properties, EffectExtraction)
}

func patternTexts(list []Pattern) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Source + "->" + p.Target
	}
	return out
}

func (d *differ) bound(path string, before, after int) {
	word := func(n int) string {
		if n == 0 {
			return "no bound"
		}
		return fmt.Sprint(n)
	}
	if before != after {
		d.add(path, EffectSchema, "changed from %s to %s", word(before), word(after))
	}
}

// properties compares own properties; shape is the effect of what the schema fingerprint covers on entities.
func (d *differ) properties(path string, before, after []Property, shape Effect) {
	both(path+".properties", before, after, func(p Property) string { return p.Name }, d.whole("property", shape), func(path string, x, y Property) {
		d.text(path+".type", string(x.Type), string(y.Type), shape)
		d.flag(path+".required", x.Required, y.Required, shape)
		switch {
		case x.Enum == nil && y.Enum != nil:
			d.add(path+".enum", shape, "added: %s", strings.Join(y.Enum, ", "))
		case x.Enum != nil && y.Enum == nil:
			d.add(path+".enum", shape, "removed, was %s", strings.Join(x.Enum, ", "))
		default:
			d.set(path+".enum", "value", x.Enum, y.Enum, shape)
		}
		d.text(path+".description", x.Description, y.Description, EffectExtraction)
		d.text(path+".merge", string(x.Merge), string(y.Merge), EffectNone)
		d.flag(path+".identifies", x.Identifies, y.Identifies, EffectNone)
		d.flag(path+".sensitive", x.Sensitive, y.Sensitive, EffectNone)
	})
}

func asMap[T any](m map[string]T) map[string]any {
	out := make(map[string]any, len(m))
	for label, rules := range m {
		out[label] = rules
	}
	return out
}

func (d *differ) rules(path string, before, after map[string]any) {
	labels := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(labels)
	for _, label := range slices.Compact(labels) {
		x, had := before[label]
		y, has := after[label]
		switch {
		case !had:
			d.add(join(path, label), EffectExtraction, "rules added")
		case !has:
			d.add(join(path, label), EffectExtraction, "rules removed")
		case !reflect.DeepEqual(x, y):
			d.add(join(path, label), EffectExtraction, "rules changed")
		}
	}
}

func (d *differ) review(x, y Review) {
	d.text("review.version", x.Version, y.Version, EffectReview)
	d.text("review.stale", x.Stale, y.Stale, EffectReview)
	list := func(name string, x, y []Condition) {
		if len(x)+len(y) > 0 && !reflect.DeepEqual(x, y) {
			d.add("review."+name, EffectReview, "changed: %d condition(s), were %d", len(y), len(x))
		}
	}
	list("auto_reject", x.AutoReject, y.AutoReject)
	list("manual", x.Manual, y.Manual)
	list("auto_accept", x.AutoAccept, y.AutoAccept)
}
