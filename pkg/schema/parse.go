package schema

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// maxExtends is how many files may stand on each other.
const maxExtends = 8

// Resolver reads a file that a schema extends. path is slash-separated and already joined with the directory of the
// file that names it.
type Resolver func(path string) ([]byte, error)

// Parse reads a schema file, YAML or JSON. name is the file's path: it gives the schema's default name (its stem), the
// place that `extends` is relative to, and the format (.json is JSON alone). resolve may be nil; then `extends` is a
// problem. A file has at most 1 MiB, 32 levels and, with all it extends, 2000 types.
//
// The error is an *Error with every problem that was found (the first 200 in full).
//
// A file that extends another starts from its types. `exclude` takes types away, together with the patterns, parents
// and rules that name them; a relation that loses all its patterns goes too. A type that is declared again needs
// `override: true` and keeps what it does not mention; it may not loosen the base: parents, inverse names and
// properties are only added; a property keeps its type, does not give up required, identifies or sensitive, and its
// enum only loses values; patterns lie within the base's; a cardinality only sinks; symmetric stays; self is not
// switched on. `add_patterns` is the one way to widen, and needs no override. Rules are joined, review conditions too
// (the file's own first). Name, version and description are the file's own.
//
// A property that a parent has already may be declared again under the same rule.
func Parse(data []byte, name string, resolve Resolver) (*Schema, error) {
	rep := &report{}
	l := &loader{report: rep, resolve: resolve}
	d := l.load(data, path.Clean(name), "", nil)
	if d.name == "" {
		d.name = stem(name)
	}
	if d.version == "" {
		d.version = "1"
	}
	if d.review.Stale == "" {
		d.review.Stale = StaleWithdraw
	}
	b := &builder{report: rep, draft: d}
	s := b.build()
	if rep.failed() {
		return nil, rep.err(name)
	}
	s.warnings = rep.warnings
	return s, nil
}

func stem(name string) string {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	base = strings.TrimSpace(strings.TrimSuffix(base, path.Ext(base)))
	if base == "" || base == "." || base == "/" || checkHeading(base) != "" || !utf8.ValidString(base) {
		return "schema"
	}
	return base
}

type loader struct {
	*report
	resolve Resolver
}

// load reads one file and what it extends. chain holds the files that led here.
func (l *loader) load(data []byte, name, prefix string, chain []string) *draft {
	tree, err := read(data, name)
	if err != nil {
		l.add(prefix, "%v", err)
		d := newDraft()
		d.broken = true
		return d
	}
	r := &reader{report: l.report, prefix: prefix}
	d := r.file(tree)
	chain = append(slices.Clone(chain), name)
	if d.extends == "" {
		return l.alone(d)
	}
	target := path.Join(path.Dir(name), d.extends)
	switch {
	case path.IsAbs(d.extends) || strings.ContainsAny(d.extends, "\\:"):
		l.add(d.extendsPath, "must be a relative path, not %s", quote(d.extends))
	case l.resolve == nil:
		l.add(d.extendsPath, "cannot be followed here: send the whole schema")
	case slices.Contains(chain, target):
		l.add(d.extendsPath, "the files extend each other: %s", strings.Join(append(chain, target), " -> "))
	case len(chain) > maxExtends:
		l.add(d.extendsPath, "is over the limit of %d files on each other", maxExtends)
	default:
		raw, err := l.resolve(target)
		if err != nil {
			l.add(d.extendsPath, "%s: %v", target, err)
			break
		}
		return l.overlay(l.load(raw, target, target+"#", chain), d)
	}
	d.broken = true
	return d
}

// alone finishes a file that extends nothing.
func (l *loader) alone(d *draft) *draft {
	if len(d.excluded) > 0 {
		l.add(d.excludePath, "there is no base to exclude from")
	}
	for _, e := range d.entities {
		if e.override {
			l.add(e.path, "there is no base to override")
		}
	}
	for _, rel := range d.relations {
		l.first(rel)
	}
	return d
}

// first finishes a relation that no base has.
func (l *loader) first(rel *relationDraft) {
	if rel.override {
		l.add(rel.path, "there is no %s in a base to override", quote(rel.label))
	} else if rel.addsPatterns && !rel.ownPatterns {
		l.add(rel.path, "add_patterns needs a relation of a base, or patterns beside it")
	}
	rel.patterns = append(rel.patterns, rel.added...)
	rel.added = nil
}

// overlay puts a file on what it extends. base is used up.
func (l *loader) overlay(base, own *draft) *draft {
	out := &draft{
		name: own.name, version: own.version, description: own.description, broken: base.broken || own.broken,
		entities: base.entities, relations: base.relations,
		rulePaths: append(base.rulePaths, own.rulePaths...),
	}
	l.drop(out, base, own)
	out.rules = joinRules(base.rules, own.rules)
	out.review = joinReview(base.review, own.review)

	byLabel, byFold := map[string]int{}, map[string]string{}
	for i, e := range out.entities {
		byLabel[e.label], byFold[foldLabel(e.label)] = i, e.label
	}
	labels := slices.Sorted(maps.Keys(byLabel))
	for _, e := range own.entities {
		if i, ok := byLabel[e.label]; ok {
			out.entities[i] = l.overEntity(out.entities[i], e)
			continue
		}
		l.fresh(e.path, e.label, byFold)
		if e.override {
			l.unknown(e.path, "type to override", e.label, labels)
		}
		out.entities = append(out.entities, e)
	}
	clear(byLabel)
	clear(byFold)
	for i, rel := range out.relations {
		byLabel[rel.label], byFold[foldLabel(rel.label)] = i, rel.label
	}
	for _, rel := range own.relations {
		if i, ok := byLabel[rel.label]; ok {
			out.relations[i] = l.overRelation(out.relations[i], rel)
			continue
		}
		l.fresh(rel.path, rel.label, byFold)
		l.first(rel)
		out.relations = append(out.relations, rel)
	}
	return out
}

func (l *loader) fresh(path, label string, byFold map[string]string) {
	if first, ok := byFold[foldLabel(label)]; ok {
		l.add(path, "%s cannot be told from %s of the base: case, spaces, _ and - do not count", quote(label), quote(first))
	}
}

// drop takes the excluded types, and what names them, out of a base.
func (l *loader) drop(out, base, own *draft) {
	known := map[string]map[string]bool{KindEntity: {}, KindRelation: {}}
	for _, e := range base.entities {
		known[KindEntity][e.label] = true
	}
	for _, rel := range base.relations {
		known[KindRelation][rel.label] = true
	}
	gone := map[string]map[string]bool{KindEntity: {}, KindRelation: {}}
	sorted := map[string][]string{
		KindEntity: slices.Sorted(maps.Keys(known[KindEntity])), KindRelation: slices.Sorted(maps.Keys(known[KindRelation])),
	}
	sorted[""] = slices.Sorted(slices.Values(slices.Concat(sorted[KindEntity], sorted[KindRelation])))
	for _, x := range own.excluded {
		found := false
		for _, kind := range []string{KindEntity, KindRelation} {
			if x.kind != "" && x.kind != kind {
				continue
			}
			if known[kind][x.label] {
				found = true
				gone[kind][x.label] = true
			}
		}
		if !found && !base.broken {
			l.unknown(x.path, "type", x.label, sorted[x.kind])
		}
	}
	for _, e := range own.entities {
		if gone[KindEntity][e.label] {
			l.add(e.path, "%s is excluded and declared: use override instead", quote(e.label))
		}
	}
	for _, rel := range own.relations {
		if gone[KindRelation][rel.label] {
			l.add(rel.path, "%s is excluded and declared: use override instead", quote(rel.label))
		}
	}
	goneEntity := func(label string) bool { return gone[KindEntity][label] }
	gonePattern := func(p Pattern) bool { return goneEntity(p.Source) || goneEntity(p.Target) }
	out.entities = slices.DeleteFunc(base.entities, func(e *entityDraft) bool {
		e.parents = slices.DeleteFunc(e.parents, goneEntity)
		return goneEntity(e.label)
	})
	out.relations = slices.DeleteFunc(base.relations, func(rel *relationDraft) bool {
		before := len(rel.patterns)
		rel.patterns = slices.DeleteFunc(rel.patterns, gonePattern)
		rel.narrowed = slices.DeleteFunc(rel.narrowed, func(n narrowing) bool { return gonePattern(n.pattern) })
		if gone[KindRelation][rel.label] || before > 0 && len(rel.patterns) == 0 {
			gone[KindRelation][rel.label] = true
			return true
		}
		return false
	})
	for label := range gone[KindEntity] {
		delete(base.rules.Entities, label)
	}
	for label := range gone[KindRelation] {
		delete(base.rules.Relations, label)
	}
}

func (l *loader) overEntity(base, own *entityDraft) *entityDraft {
	if !own.override {
		l.add(own.path, "%s is a type of the base: say override: true to change it", quote(own.label))
	}
	out := newEntityDraft(base.label, own.path)
	out.description, out.described = base.description, base.described
	if own.described {
		out.description, out.described = own.description, true
	}
	for _, from := range []*entityDraft{base, own} {
		for _, parent := range from.parents {
			if _, ok := out.parentPaths[parent]; !ok {
				out.parents = append(out.parents, parent)
				out.parentPaths[parent] = from.parentPaths[parent]
			}
		}
	}
	out.props = l.overProperties(base.props, own.props)
	return out
}

func (l *loader) overProperties(base, own []*propertyDraft) []*propertyDraft {
	out := slices.Clone(base)
	for _, p := range own {
		i := slices.IndexFunc(out, func(b *propertyDraft) bool { return b.Name == p.Name })
		if i < 0 {
			for _, b := range out {
				if foldLabel(b.Name) == foldLabel(p.Name) {
					l.add(p.path, "%s cannot be told from %s of the base: case, spaces, _ and - do not count", quote(p.Name), quote(b.Name))
				}
			}
			out = append(out, p)
			continue
		}
		joined, loose := p.onto(out[i].Property)
		for _, message := range loose {
			l.add(p.path, "an override %s", message)
		}
		has := maps.Clone(out[i].has)
		maps.Copy(has, p.has)
		enumPath := p.enumPath
		if enumPath == "" {
			enumPath = out[i].enumPath
		}
		out[i] = &propertyDraft{Property: joined, path: p.path, enumPath: enumPath, has: has}
	}
	return out
}

func (l *loader) overRelation(base, own *relationDraft) *relationDraft {
	onlyAdds := own.addsPatterns && !own.ownPatterns && !own.described && !own.hasSource && !own.hasTarget &&
		!own.hasSymmetric && !own.hasSelf && own.inverse == nil && own.props == nil
	if !own.override && !onlyAdds {
		l.add(own.path, "%s is a type of the base: say override: true to change it, or add_patterns to allow more", quote(own.label))
	}
	out := *base
	out.path = own.path
	if own.described {
		out.description, out.described = own.description, true
	}
	if own.ownPatterns {
		within := patternSetOf(base.patterns)
		for _, p := range own.patterns {
			out.narrowed = append(out.narrowed, narrowing{p, own.patternPaths[p], within})
		}
		out.patterns = own.patterns
	}
	out.patterns = slices.Clone(out.patterns)
	out.patterns = append(out.patterns, own.added...) // repeats go when the schema is built
	out.patternPaths = maps.Clone(base.patternPaths)
	maps.Copy(out.patternPaths, own.patternPaths)
	out.card.MaxPerSource = l.sink(own, "max_per_source", base.card.MaxPerSource, own.card.MaxPerSource, own.hasSource)
	out.card.MaxPerTarget = l.sink(own, "max_per_target", base.card.MaxPerTarget, own.card.MaxPerTarget, own.hasTarget)
	if own.hasSymmetric && own.symmetric != base.symmetric {
		l.add(own.path+".symmetric", "an override may not change `symmetric`")
	}
	if own.hasSelf {
		if own.self && !base.self {
			l.add(own.path+".self", "an override may not switch `self` on")
		}
		out.self = own.self
	}
	out.inversePaths = maps.Clone(base.inversePaths)
	out.inverse = slices.Clone(base.inverse)
	for _, name := range own.inverse {
		if !slices.Contains(out.inverse, name) {
			out.inverse = append(out.inverse, name)
		}
		out.inversePaths[name] = own.inversePaths[name]
	}
	out.props = l.overProperties(base.props, own.props)
	return &out
}

// sink returns the bound of an override, which may only be lower; 0 is no bound.
func (l *loader) sink(own *relationDraft, name string, base, bound int, given bool) int {
	if !given {
		return base
	}
	if base > 0 && (bound == 0 || bound > base) {
		l.add(own.path+".cardinality."+name, "an override may only lower the bound, which is %d", base)
		return base
	}
	return bound
}

func joinRules(base, own Rules) Rules {
	out := Rules{Entities: maps.Clone(base.Entities), Relations: maps.Clone(base.Relations)}
	for label, add := range own.Entities {
		was := out.Entities[label]
		out.Entities[label] = EntityRules{
			Names: union(was.Names, add.Names), Suffixes: union(was.Suffixes, add.Suffixes), Prefixes: union(was.Prefixes, add.Prefixes),
			Honorifics: union(was.Honorifics, add.Honorifics), Roles: union(was.Roles, add.Roles), Patterns: union(was.Patterns, add.Patterns),
		}
	}
	for label, add := range own.Relations {
		was := out.Relations[label]
		out.Relations[label] = RelationRules{
			Phrases: union(was.Phrases, add.Phrases), InversePhrases: union(was.InversePhrases, add.InversePhrases),
		}
	}
	return out
}

func union(base, own []string) []string {
	had := make(map[string]bool, len(base))
	for _, text := range base {
		had[text] = true
	}
	out := slices.Clone(base)
	for _, text := range own {
		if !had[text] {
			out = append(out, text)
		}
	}
	return out
}

func joinReview(base, own Review) Review {
	out := Review{
		Version: own.Version, Stale: own.Stale,
		AutoReject: slices.Concat(own.AutoReject, base.AutoReject),
		Manual:     slices.Concat(own.Manual, base.Manual),
		AutoAccept: slices.Concat(own.AutoAccept, base.AutoAccept),
	}
	if out.Version == "" {
		out.Version = base.Version
	}
	if out.Stale == "" {
		out.Stale = base.Stale
	}
	return out
}

// fingerprintOf is H16 of a value that cannot fail to marshal.
func fingerprintOf(r *report, v any) string {
	fp, err := fingerprint.H16(v)
	if err != nil {
		r.add("", "%v", err)
	}
	return fp
}
