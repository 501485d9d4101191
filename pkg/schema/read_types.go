package schema

import (
	"cmp"
	"fmt"
	"strings"
)

// The limits of a schema.
const (
	maxTypes      = 2000  // entity and relation types together
	maxPatterns   = 50000 // pairs of all relations of a file
	maxProperties = 200   // own ones of one type
	maxEnum       = 1000
)

var (
	entityFields   = []string{"label", "parents", "description", "properties", "override"}
	relationFields = []string{
		"label", "patterns", "add_patterns", "description", "cardinality", "symmetric", "self", "inverse", "properties", "override",
	}
	propertyFields = []string{"type", "description", "required", "enum", "merge", "identifies", "sensitive"}
	types          = []string{string(TypeString), string(TypeInteger), string(TypeFloat), string(TypeBoolean), string(TypeDate)}
	merges         = []string{string(MergeMostSupported), string(MergeNewest), string(MergeMostConfident), string(MergeAll)}
)

func (r *reader) entities(d *draft, path string, n *node) {
	taken := map[string]string{}
	r.types(path, n, entityFields, func(label, path string, value *node) {
		if !r.declare(KindEntity, label, path, taken, len(d.entities)+len(d.relations)) {
			return
		}
		e := newEntityDraft(label, path)
		d.entities = append(d.entities, e)
		if value.kind == textNode {
			e.description, e.described = r.describe(path, value), true
			return
		}
		r.fields(path, value, entityFields[1:], func(key, path string, value *node) {
			switch key {
			case "description":
				e.description, e.described = r.describe(path, value), true
			case "override":
				e.override = r.boolean(path, value)
			case "parents":
				r.names(path, value, e.parentPaths, func(text string) { e.parents = append(e.parents, text) })
			case "properties":
				e.props = r.properties(path, value, true)
			}
		})
	})
}

// names reads a list of labels without repeats and notes the path of each.
func (r *reader) names(path string, n *node, paths map[string]string, each func(text string)) {
	if len(n.items) > maxAncestors {
		r.add(path, "is over the limit of %d names", maxAncestors)
		return
	}
	r.texts(path, n, func(path, text string) {
		if _, ok := paths[text]; ok {
			r.add(path, "%s stands here twice", quote(text))
			return
		}
		paths[text] = path
		each(text)
	})
}

// declare checks a new label; taken holds the folded labels of the section. It returns false for a repeated one, whose
// content is not read.
func (r *reader) declare(kind, label, path string, taken map[string]string, count int) bool {
	if count >= maxTypes {
		if !r.full {
			r.add(path, "is over the limit of %d types", maxTypes)
		}
		r.full = true
		return false
	}
	if err := CheckLabel(kind, label); err != nil {
		r.add(path, "label %v", err)
	}
	folded := foldLabel(label)
	if first, ok := taken[folded]; ok {
		if first == label {
			r.add(path, "%s is declared twice", quote(label))
		} else {
			r.add(path, "%s cannot be told from %s: case, spaces, _ and - do not count", quote(label), quote(first))
		}
		return false
	}
	taken[folded] = label
	return true
}

func (r *reader) properties(path string, n *node, ofEntity bool) []*propertyDraft {
	var list []*propertyDraft
	taken := map[string]string{}
	r.pairs(path, n, func(name, path string, value *node) {
		if len(list) == maxProperties {
			r.add(path, "is over the limit of %d properties of a type", maxProperties)
			return
		}
		if err := checkName(name); err != nil {
			r.add(path, "property %v", err)
			return
		}
		if first, ok := taken[foldLabel(name)]; ok {
			r.add(path, "%s cannot be told from %s: case, spaces, _ and - do not count", quote(name), quote(first))
			return
		}
		taken[foldLabel(name)] = name
		list = append(list, r.property(name, path, value, ofEntity))
	})
	return list
}

func (r *reader) property(name, path string, n *node, ofEntity bool) *propertyDraft {
	p := &propertyDraft{Property: Property{Name: name}, path: path, has: map[string]bool{}}
	short := false // `p: integer`
	if n.kind == textNode {
		n = &node{kind: mapNode, fields: []field{{"type", n}}}
		short = true
	}
	var enum []string
	badType := false
	r.fields(path, n, propertyFields, func(key, at string, value *node) {
		p.has[key] = value.kind != nullNode || key == "enum"
		if !p.has[key] {
			return
		}
		switch key {
		case "type":
			if short {
				at = path
			}
			p.Type = Type(r.word(at, value, "property type", types))
			badType = p.Type == ""
		case "description":
			p.Description = r.describe(at, value)
		case "required":
			p.Required = r.boolean(at, value)
		case "merge":
			p.Merge = Merge(r.word(at, value, "merge rule", merges))
		case "identifies":
			p.Identifies = r.boolean(at, value)
			if p.Identifies && !ofEntity {
				r.add(at, "only a property of an entity identifies")
			}
		case "sensitive":
			p.Sensitive = r.boolean(at, value)
		case "enum":
			p.enumPath = at
			if value.kind != listNode && value.kind != nullNode {
				r.add(at, "must be a list, not %s", value.describe())
				return
			}
			if value.kind == listNode && len(value.items) == 0 {
				r.add(at, "is empty: no value would fit")
			}
			r.texts(at, value, func(_, text string) { enum = append(enum, text) })
		}
	})
	if !badType { // the values cannot be judged
		p.Enum = r.enum(p.enumPath, enum, cmp.Or(p.Type, TypeString))
	}
	return p
}

// enum checks the values of an enum against the type and returns them as canonical texts in value order.
func (r *report) enum(path string, texts []string, t Type) []string {
	if len(texts) == 0 {
		return nil
	}
	if t == TypeBoolean {
		r.add(path, "a boolean takes no enum")
		return nil
	}
	if len(texts) > maxEnum {
		r.add(path, "is over the limit of %d values", maxEnum)
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for i, text := range texts {
		value, err := ParseValue(Property{Type: t}, text)
		if err != nil {
			r.add(at(path, i), "%s is no %s", quote(text), t)
			continue
		}
		canon := ValueText(value)
		if seen[canon] {
			r.add(at(path, i), "%s stands here twice", quote(text))
			continue
		}
		seen[canon] = true
		out = append(out, canon)
	}
	sortEnum(out, t)
	return out
}

func (r *reader) relations(d *draft, path string, n *node) {
	taken := map[string]string{}
	shorts := map[string]*relationDraft{}
	r.types(path, n, relationFields, func(label, path string, value *node) {
		pattern := ""
		if value.kind == nullNode && strings.Contains(label, "->") {
			pattern = label
			label = patternLabel(pattern)
			if rel := shorts[label]; rel != nil {
				r.pattern(rel, path, pattern, false)
				return
			}
			if label == "" {
				r.add(path, `%s names no relation, write "A-REL->B"`, quote(pattern))
				return
			}
		}
		if !r.declare(KindRelation, label, path, taken, len(d.entities)+len(d.relations)) {
			return
		}
		rel := newRelationDraft(label, path)
		d.relations = append(d.relations, rel)
		if pattern != "" {
			shorts[label] = rel
			rel.ownPatterns = true
			r.pattern(rel, path, pattern, false)
			return
		}
		r.relation(rel, path, value)
	})
}

func (r *reader) relation(rel *relationDraft, path string, n *node) {
	if n.kind == textNode || n.kind == listNode {
		rel.ownPatterns = true
		r.patterns(rel, path, n, false)
		return
	}
	r.fields(path, n, relationFields[1:], func(key, path string, value *node) {
		switch key {
		case "patterns":
			rel.ownPatterns = value.kind != nullNode
			r.patterns(rel, path, value, false)
		case "add_patterns":
			rel.addsPatterns = true
			r.patterns(rel, path, value, true)
		case "description":
			rel.description, rel.described = r.describe(path, value), true
		case "symmetric":
			rel.symmetric, rel.hasSymmetric = r.boolean(path, value), true
		case "self":
			rel.self, rel.hasSelf = r.boolean(path, value), true
		case "override":
			rel.override = r.boolean(path, value)
		case "properties":
			rel.props = r.properties(path, value, false)
		case "inverse":
			r.names(path, value, rel.inversePaths, func(text string) { rel.inverse = append(rel.inverse, text) })
		case "cardinality":
			r.fields(path, value, []string{"max_per_source", "max_per_target"}, func(key, path string, value *node) {
				if key == "max_per_source" {
					rel.card.MaxPerSource, rel.hasSource = r.bound(path, value), true
				} else {
					rel.card.MaxPerTarget, rel.hasTarget = r.bound(path, value), true
				}
			})
		}
	})
}

// patterns reads a pattern or a list of patterns: strings, [source, target] pairs or {source, target} maps.
func (r *reader) patterns(rel *relationDraft, path string, n *node, added bool) {
	switch n.kind {
	case nullNode:
	case textNode:
		r.pattern(rel, path, n.text, added)
	case mapNode:
		r.pair(rel, path, n, added)
	case listNode:
		for i, item := range n.items {
			switch item.kind {
			case textNode:
				r.pattern(rel, at(path, i), item.text, added)
			case nullNode:
				r.add(at(path, i), "must be a pattern, not nothing")
			default:
				r.pair(rel, at(path, i), item, added)
			}
		}
	}
}

func (r *reader) pair(rel *relationDraft, path string, n *node, added bool) {
	ends := [2]string{}
	if n.kind == mapNode {
		r.fields(path, n, []string{"source", "target"}, func(key, path string, value *node) {
			if key == "source" {
				ends[0] = r.text(path, value)
			} else {
				ends[1] = r.text(path, value)
			}
		})
	} else if len(n.items) == 2 {
		ends[0], ends[1] = r.text(at(path, 0), n.items[0]), r.text(at(path, 1), n.items[1])
	}
	if ends[0] == "" || ends[1] == "" {
		r.add(path, `must be a pattern such as "A->B", or a source and a target`)
		return
	}
	r.combine(rel, path, ends[:1], ends[1:], added)
}

// patternLabel returns the relation that "A-REL->B" names.
func patternLabel(pattern string) string {
	left, _, _ := strings.Cut(pattern, "->")
	if i := strings.LastIndexByte(left, '-'); i >= 0 {
		return strings.TrimSpace(left[i+1:])
	}
	return ""
}

// pattern reads "A|B->C" or "A|B-REL->C".
func (r *reader) pattern(rel *relationDraft, path, text string, added bool) {
	left, right, ok := strings.Cut(text, "->")
	if !ok || strings.Contains(right, "->") {
		r.add(path, `%s is no pattern, write "A->B" or "A|B->C"`, quote(text))
		return
	}
	if i := strings.LastIndexByte(left, '-'); i >= 0 {
		if label := strings.TrimSpace(left[i+1:]); label != rel.label {
			r.add(path, "%s is a pattern of %s, not of %s", quote(text), quote(label), quote(rel.label))
			return
		}
		left = left[:i]
	}
	sources, errS := alternatives(left)
	targets, errT := alternatives(right)
	if errS != nil || errT != nil {
		r.add(path, `%s is no pattern: an end is empty`, quote(text))
		return
	}
	r.combine(rel, path, sources, targets, added)
}

func alternatives(end string) ([]string, error) {
	labels := strings.Split(end, "|")
	for i, label := range labels {
		if labels[i] = strings.TrimSpace(label); labels[i] == "" {
			return nil, fmt.Errorf("an end is empty")
		}
	}
	return labels, nil
}

func (r *reader) combine(rel *relationDraft, path string, sources, targets []string, added bool) {
	for _, source := range sources {
		for _, target := range targets {
			p := Pattern{source, target}
			if _, ok := rel.patternPaths[p]; ok {
				continue
			}
			if r.patternCount++; r.patternCount > maxPatterns {
				if r.patternCount == maxPatterns+1 {
					r.add(path, "is over the limit of %d patterns", maxPatterns)
				}
				return
			}
			rel.patternPaths[p] = path
			if added {
				rel.added = append(rel.added, p)
			} else {
				rel.patterns = append(rel.patterns, p)
			}
		}
	}
}
