// Package rules is the embedded extractor: no model, deterministic, and each item names the rule that found it. Words, names
// and phrases are data files; they are compiled once for a schema into tables that one pass over the text uses.
package rules

import (
	"regexp"
	"strings"
	"sync"

	"github.com/factmill/factmill/pkg/schema"
)

// The types of plain prose, by their names in the data files, with what schemas call them.
var builtinTypes = []struct {
	name string
	also string
}{
	{"Person", "Human People Individual PersonName"},
	{"Organization", "Organisation Company Org Institution Agency Business Enterprise Employer Firm Corporation"},
	{"Location", "Place GPE Site City Region Area"},
	{"Event", "Happening Conference Occasion"},
	{"Product", "Goods Article Item Device"},
	{"Software", "Program Application Library Tool System Package"},
	{"Publication", "Book Paper Document_ Work WrittenWork Article Report"},
	{"Dataset", "DataSet Data Corpus"},
	{"Project", "Programme Initiative Mission Undertaking"},
}

// Places of the builtin types in ruleset.types, plus one.
const (
	tPerson uint16 = iota + 1
	tOrganization
	tLocation
	tEvent
	tProduct
	tSoftware
	tPublication
	tDataset
	tProject
)

type typeRule struct {
	label    string
	declared bool
	patterns []*regexp.Regexp
}

type cueRule struct {
	types  []uint16
	prop   schema.Property
	isYear bool
	own    bool // the word is the property's own name
}

// ruleset is the tables for one schema. It never changes after compile.
type ruleset struct {
	schema  *schema.Schema
	words   table
	types   []typeRule // by type number minus one
	builtin map[string]uint16
	byLabel map[string]uint16
	under   map[[2]uint16]bool // (type, ancestor)
	names   map[uint64]uint16  // whole names of the schema's rules
	// smallNames are the first words of such names as are not written with a capital; bareNames are those that begin with an article,
	// by their key without it.
	smallNames map[uint64]bool
	bareNames  map[uint64]string
	hintWords  []hintWord
	places     map[uint64]bool
	longest    int // words of the longest name in names and places
	relations  []relationRule
	phrases    []phrase
	starts     [][]int32
	roleStart  []int32 // phrases that begin with a class of words
	cues       [][]cueRule
	patterns   bool
	worksFor   int // relation number or -1
	located    int
	partOf     int
	authored   int
	owns       int
	supplies   int
	depends    int
	attended   int
	verbs      map[string]forms
	pasts      map[uint64]bool // irregular past forms
	roleProps  map[uint16]string

	thingMu sync.Mutex
	things  map[string]uint16 // types that no schema declares, by label; guarded by thingMu
	undone  []string          // their labels; guarded by thingMu
}

// maxThings bounds the types that are made of nouns.
const maxThings = 1000

// thing returns the number of the undeclared type with this label, or the declared one of that name.
func (rs *ruleset) thing(label string) uint16 {
	if known, ok := rs.schema.Canon(schema.KindEntity, label); ok {
		return rs.byLabel[known]
	}
	rs.thingMu.Lock()
	defer rs.thingMu.Unlock()
	t, ok := rs.things[label]
	if !ok && len(rs.undone) < maxThings {
		rs.undone = append(rs.undone, label)
		t = uint16(len(rs.types) + len(rs.undone))
		rs.things[label] = t
	}
	return t
}

func (rs *ruleset) label(t uint16) string {
	if int(t) <= len(rs.types) {
		return rs.types[t-1].label
	}
	rs.thingMu.Lock()
	defer rs.thingMu.Unlock()
	return rs.undone[int(t)-len(rs.types)-1]
}

// before orders types in a way that is the same in every process.
func (rs *ruleset) before(a, b uint16) bool {
	if int(a) <= len(rs.types) || int(b) <= len(rs.types) {
		return a < b
	}
	return rs.label(a) < rs.label(b)
}

// below tells whether type t is declared below type a.
func (rs *ruleset) below(t, a uint16) bool { return rs.under[[2]uint16{t, a}] }

// compile makes the tables for a schema. A regular expression or phrase that cannot be used is left out: the schema's loader has
// refused it before.
func compile(s *schema.Schema) *ruleset {
	rs := &ruleset{
		smallNames: map[uint64]bool{}, bareNames: map[uint64]string{},
		schema: s, builtin: map[string]uint16{}, byLabel: map[string]uint16{}, under: map[[2]uint16]bool{}, names: map[uint64]uint16{},
		places: map[uint64]bool{}, verbs: loadVerbs(), pasts: map[uint64]bool{}, longest: 4, worksFor: -1, located: -1, partOf: -1, authored: -1, owns: -1,
		supplies: -1, depends: -1, attended: -1,
		roleProps: map[uint16]string{}, things: map[string]uint16{},
	}
	loadWords(&rs.words, rs.places)
	rs.declareTypes()
	rs.loadHeads()
	rs.schemaHeads()
	rs.hints()
	rs.loadRelations()
	rs.schemaRelations()
	rs.index()
	rs.loadCues()
	return rs
}

func (rs *ruleset) addType(label string, declared bool) uint16 {
	if t, ok := rs.byLabel[label]; ok {
		return t
	}
	rs.types = append(rs.types, typeRule{label: label, declared: declared})
	t := uint16(len(rs.types))
	rs.byLabel[label] = t
	return t
}

// declareTypes gives each builtin type the schema's label for it, and each further type of the schema a number.
func (rs *ruleset) declareTypes() {
	taken := map[string]bool{}
	for _, b := range builtinTypes {
		label, ok := rs.schema.Canon(schema.KindEntity, b.name)
		for _, also := range strings.Fields(b.also) {
			if ok {
				break
			}
			if label, ok = rs.schema.Canon(schema.KindEntity, also); ok && taken[label] {
				ok = false
			}
		}
		if !ok {
			label = b.name
		}
		taken[label] = true
		rs.types = append(rs.types, typeRule{label: label, declared: ok})
		t := uint16(len(rs.types))
		rs.builtin[b.name] = t
		if _, twice := rs.byLabel[label]; !twice {
			rs.byLabel[label] = t
		}
	}
	for _, e := range rs.schema.Entities() {
		rs.addType(e.Label, true)
	}
	for _, e := range rs.schema.Entities() {
		for _, a := range rs.schema.Ancestors(e.Label) {
			rs.under[[2]uint16{rs.byLabel[e.Label], rs.byLabel[a]}] = true
		}
	}
}

// loadRelations compiles the relations of plain prose, under the schema's label where it has one.
func (rs *ruleset) loadRelations() {
	relation := -1
	for _, l := range lines("relations.txt") {
		if l[0] != '>' && l[0] != '<' {
			head, types, _ := strings.Cut(l, " : ")
			name, also, _ := strings.Cut(head, " = ")
			source, target, _ := strings.Cut(types, ">")
			relation = rs.addRelation(name, strings.Fields(also), rs.parseSlot(source), rs.parseSlot(target))
			switch name {
			case "WORKS_FOR":
				rs.worksFor = relation
			case "LOCATED_IN":
				rs.located = relation
			case "PART_OF":
				rs.partOf = relation
			case "AUTHORED":
				rs.authored = relation
			case "OWNS":
				rs.owns = relation
			case "SUPPLIES":
				rs.supplies = relation
			case "PARTICIPATED_IN":
				rs.attended = relation
			case "DEPENDS_ON":
				rs.depends = relation
			}
			continue
		}
		p, err := rs.parsePhrase(l[1:], rs.verbs)
		if err != nil || relation < 0 {
			continue
		}
		if relation == rs.partOf && strings.Contains(l, "member") && rs.refusesMembers(relation) {
			continue
		}
		p.inverse = l[0] == '<'
		rs.addPhrase(p, relation, strings.TrimSpace(l[1:]))
	}
}

// refusesMembers tells whether the schema says of a relation that membership is none: "Membership in a consortium is not PART_OF."
func (rs *ruleset) refusesMembers(relation int) bool {
	for _, r := range rs.schema.Relations() {
		if r.Label != rs.relations[relation].label {
			continue
		}
		for _, sentence := range strings.Split(strings.ToLower(r.Description), ".") {
			if strings.Contains(sentence, "member") && strings.Contains(sentence, " not ") {
				return true
			}
		}
	}
	return false
}

func (rs *ruleset) addRelation(name string, also []string, source, target slot) int {
	label, declared := rs.schema.Canon(schema.KindRelation, name)
	for _, a := range also {
		if declared {
			break
		}
		label, declared = rs.schema.Canon(schema.KindRelation, a)
	}
	if !declared {
		label = name
	}
	r := relationRule{label: label, declared: declared, source: source, target: target, ends: [2]slot{source, target}}
	for _, own := range rs.schema.Relations() {
		if declared && own.Label == label {
			r.ends[0], r.ends[1] = rs.patternSlots(own)
		}
	}
	rs.relations = append(rs.relations, r)
	return len(rs.relations) - 1
}

func (rs *ruleset) addPhrase(p phrase, relation int, text string) {
	r := rs.relations[relation]
	p.relation = relation
	left, right := r.source, r.target
	if p.inverse {
		left, right = right, left
	}
	p.left, p.right = p.left.join(left), p.right.join(right)
	if at := strings.IndexByte(text, '['); at >= 0 {
		text = strings.TrimSpace(text[:at])
	}
	if at := strings.IndexByte(text, ' '); at > 0 && text[0] == '0' {
		text = text[at+1:]
	}
	p.rule = "phrase: " + text
	for i := range p.elems {
		if _, ok := p.elems[i].find(hashWithout); ok && p.elems[i].kind == literal {
			p.lack = true
		}
	}
	rs.phrases = append(rs.phrases, p)
}

// schemaRelations adds the phrases of the schema's `rules:`, and for each relation the words of its label.
func (rs *ruleset) schemaRelations() {
	known := map[string]bool{}
	for _, r := range rs.relations {
		known[r.label] = true
	}
	for _, r := range rs.schema.Relations() {
		at := -1
		for i := range rs.relations {
			if rs.relations[i].label == r.Label {
				at = i
				break
			}
		}
		var own relationRule
		own.label, own.declared = r.Label, true
		own.source, own.target = rs.patternSlots(r)
		own.ends = [2]slot{own.source, own.target}
		if at < 0 || known[r.Label] {
			rs.relations = append(rs.relations, own)
			at = len(rs.relations) - 1
		}
		hint := rs.schema.Rules().Relations[r.Label]
		if !known[r.Label] {
			hint.Phrases = append([]string{strings.Join(labelWords(r.Label), " ")}, hint.Phrases...)
			for _, inv := range r.Inverse {
				hint.InversePhrases = append(hint.InversePhrases, strings.Join(labelWords(inv), " "))
			}
		}
		for i, list := range [][]string{hint.Phrases, hint.InversePhrases} {
			for _, text := range list {
				same, other := rs.userPhrases(text)
				for _, p := range same {
					p.inverse = i == 1
					rs.addPhrase(p, at, text)
				}
				for _, p := range other {
					p.inverse = i == 0
					rs.addPhrase(p, at, text+", turned round")
				}
			}
		}
	}
}

// patternSlots returns what a relation's patterns say of unknown names: certain where all name one type.
func (rs *ruleset) patternSlots(r schema.Relation) (source, target slot) {
	add := func(s *slot, label string) {
		t := rs.byLabel[label]
		for _, k := range s.types {
			if k == t {
				return
			}
		}
		s.types = append(s.types, t)
		s.weak = len(s.types) > 1
	}
	for _, p := range r.Patterns {
		add(&source, p.Source)
		add(&target, p.Target)
		if r.Symmetric {
			add(&source, p.Target)
			add(&target, p.Source)
		}
	}
	return source, target
}

// index lists the phrases by their first word.
func (rs *ruleset) index() {
	for i := range rs.phrases {
		first := &rs.phrases[i].elems[0]
		if first.kind == classWord {
			rs.roleStart = append(rs.roleStart, int32(i))
			continue
		}
		for _, w := range first.words {
			e := rs.words.put(w.hash)
			if first.kind != literal {
				e.flags |= finite
			}
			if e.phrases == 0 {
				rs.starts = append(rs.starts, nil)
				e.phrases = int32(len(rs.starts))
			}
			list := &rs.starts[e.phrases-1]
			if n := len(*list); n == 0 || (*list)[n-1] != int32(i) {
				*list = append(*list, int32(i))
			}
		}
	}
	for _, f := range rs.verbs {
		for _, w := range []string{f.past, f.participle} {
			rs.pasts[hashWord(w)] = true
		}
	}
}

// loadCues finds for each declared property the words that announce its value.
func (rs *ruleset) loadCues() {
	words := map[string][]string{}
	for _, l := range lines("properties.txt") {
		name, list, _ := strings.Cut(l, ":")
		words[name] = strings.Fields(list)
	}
	for _, e := range rs.schema.Entities() {
		t := rs.byLabel[e.Label]
		for _, p := range rs.schema.Properties(e.Label) {
			name := labelWords(p.Name)
			switch strings.Join(name, " ") {
			case "role", "job title", "position", "occupation", "profession", "job":
				rs.roleProps[t] = p.Name
			}
			if p.Type == schema.TypeBoolean || p.Type == schema.TypeString && p.Enum == nil && p.Name != "version" {
				continue
			}
			desc := strings.ToLower(p.Description)
			isYear := p.Type == schema.TypeInteger && (strings.Contains(desc, "year") || name[0] == "founded" || name[len(name)-1] == "year")
			seen := map[string]bool{}
			for i, w := range append(append([]string{}, words[strings.Join(name, "_")]...), name...) {
				own := i >= len(words[strings.Join(name, "_")])
				if seen[w] || len(w) < 2 && w != "v" || own && (w == "of" || w == "in" || w == "is" || w == "year" || w == "date" && len(name) > 1) {
					continue
				}
				seen[w] = true
				rs.addCue(w, cueRule{types: []uint16{t}, prop: p, isYear: isYear, own: own})
			}
		}
	}
}

func (rs *ruleset) addCue(word string, c cueRule) {
	e := rs.words.put(hashWord(word))
	e.flags |= cue
	if e.cues == 0 {
		rs.cues = append(rs.cues, nil)
		e.cues = int32(len(rs.cues))
	}
	list := &rs.cues[e.cues-1]
	*list = append(*list, c)
}

// cacheSize is how many schemas' tables are kept; one is about 300 KB.
const cacheSize = 8

// cache holds the tables of the schemas used last.
var cache struct {
	sync.Mutex
	list []*cached // last used first; guarded by Mutex
}

type cached struct {
	schema *schema.Schema
	once   sync.Once
	rs     *ruleset
}

// compiled returns the tables for a schema, from the cache where they are. Schemas are the same when they say the same, hints
// and descriptions included.
func compiled(s *schema.Schema) *ruleset {
	cache.Lock()
	var c *cached
	for i, k := range cache.list {
		if k.schema == s || k.schema.Equal(s) {
			c = k
			copy(cache.list[1:i+1], cache.list[:i])
			cache.list[0] = c
			break
		}
	}
	if c == nil {
		c = &cached{schema: s}
		cache.list = append([]*cached{c}, cache.list...)
		if len(cache.list) > cacheSize {
			cache.list = cache.list[:cacheSize]
		}
	}
	cache.Unlock()
	c.once.Do(func() { c.rs = compile(s) })
	return c.rs
}
