package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// reader turns the tree of one file into a draft; it reports everything that a file alone shows to be wrong.
type reader struct {
	*report
	prefix       string // of paths: empty, or the name of an extended file and "#"
	full         bool   // the limit of types was told
	patternCount int    // patterns of all relations
}

func join(path, key string) string {
	if checkName(key) != nil {
		return path + "[" + quote(key) + "]"
	}
	if path == "" || strings.HasSuffix(path, "#") {
		return path + key
	}
	return path + "." + key
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// fields calls read for each known field of a map, once.
func (r *reader) fields(path string, n *node, known []string, read func(key, path string, value *node)) {
	r.pairs(path, n, func(key, at string, value *node) {
		if !slices.Contains(known, key) {
			if key == "<<" {
				r.add(at, "merge keys are not supported")
				return
			}
			r.add(at, "unknown field%s", hint(key, known))
			return
		}
		read(key, at, value)
	})
}

// pairs calls read for each key of a map, once.
func (r *reader) pairs(path string, n *node, read func(key, path string, value *node)) {
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		r.add(path, "must be a map, not %s", n.describe())
		return
	}
	seen := make(map[string]bool, len(n.fields))
	for _, f := range n.fields {
		if seen[f.key] {
			r.add(join(path, f.key), "stands here twice")
			continue
		}
		seen[f.key] = true
		read(f.key, join(path, f.key), f.value)
	}
}

// text reads a scalar as its text, without the space around it; nothing is "".
func (r *reader) text(path string, n *node) string {
	switch n.kind {
	case nullNode:
		return ""
	case textNode:
		return strings.TrimSpace(n.text)
	}
	r.add(path, "must be text, not %s", n.describe())
	return ""
}

// texts reads a list of texts, or one text as a list of one.
func (r *reader) texts(path string, n *node, each func(path, text string)) {
	switch n.kind {
	case nullNode:
	case textNode:
		each(path, strings.TrimSpace(n.text))
	case listNode:
		for i, item := range n.items {
			if item.kind != textNode || strings.TrimSpace(item.text) == "" {
				r.add(at(path, i), "must be text, not %s", item.describe())
				continue
			}
			each(at(path, i), strings.TrimSpace(item.text))
		}
	default:
		r.add(path, "must be a list, not %s", n.describe())
	}
}

func (r *reader) boolean(path string, n *node) bool {
	if n.kind == textNode && !n.quoted {
		switch strings.ToLower(n.text) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	r.add(path, "must be true or false, not %s", n.describe())
	return false
}

// bound reads a cardinality: null or a whole number from 1.
func (r *reader) bound(path string, n *node) int {
	if n.kind == nullNode {
		return 0
	}
	if n.kind == textNode && !n.quoted {
		if v, err := strconv.ParseInt(n.text, 10, 32); err == nil {
			if v < 1 {
				r.add(path, "must be at least 1, not %d", v)
				return 0
			}
			return int(v)
		}
	}
	r.add(path, "must be a whole number from 1 or null, not %s", n.describe())
	return 0
}

// word reads one of a few words.
func (r *reader) word(path string, n *node, what string, words []string) string {
	text := r.text(path, n)
	if text == "" || slices.Contains(words, text) {
		return text
	}
	r.add(path, "unknown %s %s%s (one of %s)", what, quote(text), hint(text, words), strings.Join(words, ", "))
	return ""
}

var fileFields = []string{"name", "version", "description", "extends", "exclude", "entities", "relations", "rules", "review"}

const (
	maxHeading     = 200  // bytes of name and version
	maxDescription = 8000 // bytes
)

func (r *reader) file(n *node) *draft {
	d := newDraft()
	if n.kind != mapNode {
		r.add(r.prefix, "a schema must be a map, not %s", n.describe())
		return d
	}
	r.fields(r.prefix, n, fileFields, func(key, path string, value *node) {
		switch key {
		case "name":
			d.name = r.heading(path, value)
		case "version":
			d.version = r.heading(path, value)
		case "description":
			d.description = r.describe(path, value)
		case "extends":
			d.extends, d.extendsPath = r.text(path, value), path
		case "exclude":
			r.exclude(d, path, value)
		case "entities":
			r.entities(d, path, value)
		case "relations":
			r.relations(d, path, value)
		case "rules":
			r.rules(d, path, value)
		case "review":
			r.review(d, path, value)
		}
	})
	return d
}

func (r *reader) heading(path string, n *node) string {
	text := r.text(path, n)
	if wrong := checkHeading(text); wrong != "" {
		r.add(path, "%s", wrong)
	}
	return text
}

// checkHeading says what is wrong with a name or version.
func checkHeading(text string) string {
	if len(text) > maxHeading {
		return fmt.Sprintf("is longer than %d bytes", maxHeading)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return "must not hold control characters"
	}
	return ""
}

func (r *reader) describe(path string, n *node) string {
	text := r.text(path, n)
	if len(text) > maxDescription {
		r.add(path, "is longer than %d bytes", maxDescription)
	}
	return text
}

func (r *reader) exclude(d *draft, path string, n *node) {
	d.excludePath = path
	add := func(kind string) func(path, text string) {
		return func(path, text string) { d.excluded = append(d.excluded, exclusion{kind, text, path}) }
	}
	if n.kind != mapNode {
		r.texts(path, n, add(""))
		return
	}
	r.fields(path, n, []string{"entities", "relations"}, func(key, path string, value *node) {
		kind := KindEntity
		if key == "relations" {
			kind = KindRelation
		}
		r.texts(path, value, add(kind))
	})
}

// types reads a section that is a map from label to type, or a list of labels, `{label: …}` objects and one-key maps.
func (r *reader) types(path string, n *node, fields []string, each func(label, path string, value *node)) {
	switch n.kind {
	case nullNode:
	case mapNode:
		r.pairs(path, n, each)
	case listNode:
		for i, item := range n.items {
			here := at(path, i)
			switch {
			case item.kind == textNode:
				each(strings.TrimSpace(item.text), here, &node{})
			case item.kind != mapNode || len(item.fields) == 0:
				r.add(here, "must be a label or a map with a label, not %s", item.describe())
			default:
				r.listed(here, item, fields, each)
			}
		}
	default:
		r.add(path, "must be a map or a list, not %s", n.describe())
	}
}

func (r *reader) listed(path string, item *node, fields []string, each func(label, path string, value *node)) {
	rest := &node{kind: mapNode}
	var label *node
	for _, f := range item.fields {
		if f.key == "label" && label == nil {
			label = f.value
			continue
		}
		rest.fields = append(rest.fields, f)
	}
	if label == nil && len(item.fields) == 1 && !slices.Contains(fields, item.fields[0].key) {
		each(item.fields[0].key, path, item.fields[0].value)
		return
	}
	if label == nil {
		r.add(path, "has no label%s", hintField(item, "label"))
		return
	}
	if text := r.text(path+".label", label); text != "" {
		each(text, path, rest)
	} else if label.kind != listNode && label.kind != mapNode {
		r.add(path+".label", "is empty")
	}
}

// hintField names the field of a map that was probably meant to be the wanted one.
func hintField(n *node, wanted string) string {
	for _, f := range n.fields {
		if hint(f.key, []string{wanted}) != "" {
			return fmt.Sprintf(", did you mean %q by %s?", wanted, quote(f.key))
		}
	}
	return ""
}
