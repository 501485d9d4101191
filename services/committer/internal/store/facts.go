package store

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// Statements are assertions with their entities named by id instead of by place, so that those of two versions can be put
// together. old marks what an earlier reading said and this one could not read.
type (
	mentionS struct {
		chunk int
		ent   string
		old   bool
		graph.Mention
	}
	propertyS struct {
		chunk int
		ent   string
		value string // valueKey
		old   bool
		graph.PropertyA
	}
	relationS struct {
		chunk    int
		src, dst string
		old      bool
		graph.RelationA
	}
	statements struct {
		refs   map[string]graph.EntityRef
		states map[int]string // chunks that were not read whole
		ms     []mentionS
		ps     []propertyS
		rs     []relationS
	}
)

// flatten takes assertions apart. Relations of symmetric types get their ends in the order of their ids.
func flatten(doc string, a graph.Assertions, symmetric func(string) bool) (*statements, error) {
	s := &statements{refs: make(map[string]graph.EntityRef, len(a.Entities)), states: map[int]string{}}
	for _, e := range a.Entities {
		if _, ok := parseID(e.ID); !ok {
			return nil, badChange(doc, "entity id %.60q", e.ID)
		}
		s.refs[e.ID] = e
	}
	at := func(n int) (string, error) {
		if n < 0 || n >= len(a.Entities) {
			return "", badChange(doc, "entity number %d of %d", n, len(a.Entities))
		}
		return a.Entities[n].ID, nil
	}
	for _, c := range a.Chunks {
		if c.State != "" && c.State != graph.Complete {
			s.states[c.Index] = c.State
		}
		for _, m := range c.Mentions {
			ent, err := at(m.Entity)
			if err != nil {
				return nil, err
			}
			s.ms = append(s.ms, mentionS{chunk: c.Index, ent: ent, Mention: m})
		}
		for _, p := range c.Properties {
			ent, err := at(p.Entity)
			if err != nil {
				return nil, err
			}
			p.Value = canonicalValue(p.Value)
			v, err := valueKey(p.Value)
			if err != nil {
				return nil, badChange(doc, "property %s: %v", p.Name, err)
			}
			s.ps = append(s.ps, propertyS{chunk: c.Index, ent: ent, value: v, PropertyA: p})
		}
		for _, r := range c.Relations {
			src, err := at(r.Source)
			if err != nil {
				return nil, err
			}
			dst, err := at(r.Target)
			if err != nil {
				return nil, err
			}
			if dst < src && symmetric != nil && symmetric(r.Type) {
				src, dst = dst, src
			}
			for k, v := range r.Properties {
				if _, err := valueKey(v); err != nil {
					return nil, badChange(doc, "property %s of %s: %v", k, r.Type, err)
				}
			}
			s.rs = append(s.rs, relationS{chunk: c.Index, src: src, dst: dst, RelationA: r})
		}
	}
	return s, nil
}

// check proves that every span lies in its chunk on rune borders and that every name stands at its span.
func (s *statements) check(doc, text string, chunks []graph.Chunk) error {
	for _, m := range s.ms {
		if err := checkSpan(doc, text, chunks, m.chunk, m.Start, m.End); err != nil {
			return err
		}
		if got := text[m.Start:m.End]; got != m.Name && fingerprint.Fold(got) != fingerprint.Fold(m.Name) {
			return badChange(doc, "the name %.60q does not stand at %d…%d", m.Name, m.Start, m.End)
		}
	}
	for _, p := range s.ps {
		if err := checkSpan(doc, text, chunks, p.chunk, p.Start, p.End); err != nil {
			return err
		}
	}
	for _, r := range s.rs {
		if err := checkSpan(doc, text, chunks, r.chunk, r.Start, r.End); err != nil {
			return err
		}
	}
	return nil
}

func checkSpan(doc, text string, chunks []graph.Chunk, chunk, start, end int) error {
	if chunk < 0 || chunk >= len(chunks) {
		return badChange(doc, "chunk %d of %d", chunk, len(chunks))
	}
	c := chunks[chunk]
	if start < c.Start || end > c.End || start >= end {
		return badChange(doc, "span %d…%d outside chunk %d (%d…%d)", start, end, chunk, c.Start, c.End)
	}
	if !runeBorder(text, start) || !runeBorder(text, end) {
		return badChange(doc, "span %d…%d cuts a character", start, end)
	}
	return nil
}

func runeBorder(text string, at int) bool {
	return at == len(text) || at < len(text) && utf8.RuneStart(text[at])
}

func checkChunks(doc, text string, chunks []graph.Chunk) error {
	for i, c := range chunks {
		if c.Start < 0 || c.End > len(text) || c.Start >= c.End || !runeBorder(text, c.Start) || !runeBorder(text, c.End) {
			return badChange(doc, "chunk %d is %d…%d of %d bytes", i, c.Start, c.End, len(text))
		}
	}
	return nil
}

// assemble is the inverse of flatten: sorted, without repeats, entities that nothing refers to left out. Equal assertions
// give equal results, whatever order they came in.
func (s *statements) assemble() graph.Assertions {
	s.sort()
	place := map[string]int{}
	for _, m := range s.ms {
		place[m.ent] = 0
	}
	for _, p := range s.ps {
		place[p.ent] = 0
	}
	for _, r := range s.rs {
		place[r.src], place[r.dst] = 0, 0
	}
	var a graph.Assertions
	for e := range place {
		a.Entities = append(a.Entities, s.refs[e])
	}
	slices.SortFunc(a.Entities, func(x, y graph.EntityRef) int { return strings.Compare(x.ID, y.ID) })
	for i, e := range a.Entities {
		place[e.ID] = i
	}
	byChunk := map[int]*graph.ChunkAssertions{}
	at := func(i int) *graph.ChunkAssertions {
		if byChunk[i] == nil {
			byChunk[i] = &graph.ChunkAssertions{Index: i, State: s.states[i]}
		}
		return byChunk[i]
	}
	for i := range s.states {
		at(i)
	}
	for _, m := range s.ms {
		m.Entity = place[m.ent]
		c := at(m.chunk)
		c.Mentions = append(c.Mentions, m.Mention)
	}
	for _, p := range s.ps {
		p.Entity = place[p.ent]
		c := at(p.chunk)
		c.Properties = append(c.Properties, p.PropertyA)
	}
	for _, r := range s.rs {
		r.Source, r.Target = place[r.src], place[r.dst]
		c := at(r.chunk)
		c.Relations = append(c.Relations, r.RelationA)
	}
	for _, c := range byChunk {
		a.Chunks = append(a.Chunks, *c)
	}
	slices.SortFunc(a.Chunks, func(x, y graph.ChunkAssertions) int { return x.Index - y.Index })
	return a
}

// sort orders the statements and drops repeats: of equal ones the new, then the surest stays.
func (s *statements) sort() {
	ms := func(a, b mentionS) int {
		return cmp.Or(a.chunk-b.chunk, a.Start-b.Start, a.End-b.End, strings.Compare(a.ent, b.ent))
	}
	slices.SortFunc(s.ms, func(a, b mentionS) int {
		return cmp.Or(ms(a, b), oldLast(a.old, b.old), cmp.Compare(b.Confidence, a.Confidence), strings.Compare(a.Extractor, b.Extractor), strings.Compare(a.Rule, b.Rule))
	})
	s.ms = slices.CompactFunc(s.ms, func(a, b mentionS) bool { return ms(a, b) == 0 })
	ps := func(a, b propertyS) int {
		return cmp.Or(a.chunk-b.chunk, a.Start-b.Start, a.End-b.End, strings.Compare(a.ent, b.ent), strings.Compare(a.PropertyA.Name, b.PropertyA.Name), strings.Compare(a.value, b.value))
	}
	slices.SortFunc(s.ps, func(a, b propertyS) int {
		return cmp.Or(ps(a, b), oldLast(a.old, b.old), cmp.Compare(b.Confidence, a.Confidence), strings.Compare(a.Extractor, b.Extractor))
	})
	s.ps = slices.CompactFunc(s.ps, func(a, b propertyS) bool { return ps(a, b) == 0 })
	rs := func(a, b relationS) int {
		return cmp.Or(a.chunk-b.chunk, a.Start-b.Start, a.End-b.End, strings.Compare(a.Type, b.Type), strings.Compare(a.src, b.src), strings.Compare(a.dst, b.dst),
			strings.Compare(a.AssertionKind(), b.AssertionKind()), strings.Compare(a.Extractor, b.Extractor))
	}
	slices.SortFunc(s.rs, func(a, b relationS) int {
		return cmp.Or(rs(a, b), oldLast(a.old, b.old), cmp.Compare(b.Confidence, a.Confidence), strings.Compare(a.Rule, b.Rule))
	})
	s.rs = slices.CompactFunc(s.rs, func(a, b relationS) bool { return rs(a, b) == 0 })
}

func oldLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// docFacts is what one document version supports, fact by fact.
type docFacts struct {
	ents  map[id]*entFact
	rels  map[id]*relFact
	props map[propID]*propFact
}

type entFact struct {
	ref     graph.EntityRef
	spans   []MentionSpan
	version int // that the spans are of; 0: the one that states them
}

type relFact struct {
	typ      string
	src, dst id
	spans    []EvidenceSpan
	version  int // as entFact's
}

type propFact struct {
	value   any
	spans   []EvidenceSpan
	version int    // as entFact's
	date    string // that the value counts with, when version is not 0
}

// propID names one value of one property of an entity or relation.
type propID struct {
	owner       id
	name, value string
}

func (p *propFact) confidence() float64 {
	best := 0.0
	for _, s := range p.spans {
		best = max(best, s.Confidence)
	}
	return best
}

var noFacts = &docFacts{}

// factsOf groups assertions by fact. Assertions that were assembled give spans in order.
func factsOf(a graph.Assertions) (*docFacts, error) {
	f := &docFacts{ents: make(map[id]*entFact, len(a.Entities)), rels: map[id]*relFact{}, props: map[propID]*propFact{}}
	ids := make([]id, len(a.Entities))
	for i, e := range a.Entities {
		v, err := mustID(e.ID)
		if err != nil {
			return nil, err
		}
		ids[i] = v
		f.ents[v] = &entFact{ref: e}
	}
	for _, c := range a.Chunks {
		for _, m := range c.Mentions {
			if m.Entity < 0 || m.Entity >= len(ids) {
				return nil, ErrCorrupt
			}
			e := f.ents[ids[m.Entity]]
			e.spans = append(e.spans, MentionSpan{c.Index, m.Start, m.End, m.Confidence, m.Name, m.Extractor, m.Rule})
		}
		for _, p := range c.Properties {
			if p.Entity < 0 || p.Entity >= len(ids) {
				return nil, ErrCorrupt
			}
			if err := f.addProp(ids[p.Entity], p.Name, p.Value, EvidenceSpan{Chunk: c.Index, Start: p.Start, End: p.End,
				Confidence: p.Confidence, Extractor: p.Extractor}); err != nil {
				return nil, err
			}
		}
		for _, r := range c.Relations {
			if min(r.Source, r.Target) < 0 || max(r.Source, r.Target) >= len(ids) {
				return nil, ErrCorrupt
			}
			if err := f.addRelation(c.Index, r, a.Entities[r.Source].ID, a.Entities[r.Target].ID, ids[r.Source], ids[r.Target]); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (f *docFacts) addRelation(chunk int, r graph.RelationA, srcText, dstText string, src, dst id) error {
	// The ends of symmetric relations are sorted already, so the plain formula gives their one id.
	rid, err := mustID(fingerprint.RelationID(r.Type, srcText, dstText, false))
	if err != nil {
		return err
	}
	rel := f.rels[rid]
	if rel == nil {
		rel = &relFact{typ: r.Type, src: src, dst: dst}
		f.rels[rid] = rel
	}
	rel.spans = append(rel.spans, EvidenceSpan{chunk, r.Start, r.End, r.Confidence, r.AssertionKind(), r.Extractor, r.Rule, r.Properties})
	for name, v := range r.Properties {
		err := f.addProp(rid, name, v, EvidenceSpan{Chunk: chunk, Start: r.Start, End: r.End, Confidence: r.Confidence, Extractor: r.Extractor})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *docFacts) addProp(owner id, name string, value any, span EvidenceSpan) error {
	vk, err := valueKey(value)
	if err != nil {
		return err
	}
	k := propID{owner, name, vk}
	p := f.props[k]
	if p == nil {
		p = &propFact{value: canonicalValue(value)}
		f.props[k] = p
	}
	p.spans = append(p.spans, span)
	return nil
}
