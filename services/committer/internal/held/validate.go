package held

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// check validates what was edited, and what refers to it, as the extractor's validator does: declared types and patterns, values of their types,
// evidence that stands in the text.
func (e *editor) check() error {
	for c := range e.a.Chunks {
		chunk := &e.a.Chunks[c]
		for i := range chunk.Mentions {
			at := spot{itemMention, c, i}
			if e.gone[at] || !e.touched[at] {
				continue
			}
			m := &chunk.Mentions[i]
			if err := e.span(at, chunk.Index, m.Start, m.End); err != nil {
				return err
			}
			if m.Name = strings.Join(strings.Fields(e.s.text[m.Start:m.End]), " "); !strings.ContainsFunc(m.Name, word) {
				return e.refuse("item %s: there is no name at %d…%d", e.s.names[at], m.Start, m.End)
			}
		}
		for i := range chunk.Properties {
			at := spot{itemProperty, c, i}
			if x := chunk.Properties[i]; e.goes(at, x.Entity) || !e.touched[at] && !e.changed[x.Entity] {
				continue
			}
			if err := e.property(at, chunk); err != nil {
				return err
			}
		}
		for i := range chunk.Relations {
			at := spot{itemRelation, c, i}
			if x := chunk.Relations[i]; e.goes(at, x.Source, x.Target) || !e.touched[at] && !e.changed[x.Source] && !e.changed[x.Target] {
				continue
			}
			if err := e.relation(at, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// word says whether a rune makes a name: symbols alone are none.
func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// goes says whether an item is dropped: by an edit, or with an entity that it is about.
func (e *editor) goes(at spot, entities ...int) bool {
	if e.gone[at] {
		return true
	}
	return slices.ContainsFunc(entities, func(n int) bool { return e.gone[spot{itemEntity, 0, n}] })
}

// span checks a place that was set, and notes when it is in another chunk.
func (e *editor) span(at spot, index, start, end int) error {
	text := e.s.text
	if start >= end || end > len(text) || !utf8.RuneStart(text[start]) || end < len(text) && !utf8.RuneStart(text[end]) || strings.TrimSpace(text[start:end]) == "" {
		return e.refuse("item %s: start and end are %d and %d: they must enclose a piece of the document's %d bytes, whole characters", e.s.names[at], start, end, len(text))
	}
	chunks := e.s.Staged.Chunks
	inside := func(i int) bool { return i >= 0 && i < len(chunks) && chunks[i].Start <= start && end <= chunks[i].End }
	if inside(index) {
		return nil
	}
	for i := range chunks {
		if inside(i) {
			e.moved = append(e.moved, moved{at, i})
			return nil
		}
	}
	return e.refuse("item %s: start and end are %d and %d: no chunk holds all of it", e.s.names[at], start, end)
}

// property checks a value of an entity.
func (e *editor) property(at spot, chunk *graph.ChunkAssertions) error {
	p := &chunk.Properties[at.at]
	holder := e.a.Entities[p.Entity].Label
	spec, ok := e.schema.Property(holder, p.Name)
	if !ok {
		return e.refuse("item %s: %s has no property %.80q in the schema that the job was read with", e.s.names[at], holder, p.Name)
	}
	p.Name = spec.Name
	was := e.s.a.Chunks[at.chunk].Properties[at.at]
	v, err := parsed(spec, p.Value)
	if err != nil {
		return e.refuse("item %s: %s: %v", e.s.names[at], spec.Name, err)
	}
	p.Value = v
	if err := e.span(at, chunk.Index, p.Start, p.End); err != nil {
		return err
	}
	moved := was.Start != p.Start || was.End != p.End
	same := schema.ValueText(was.Value) == schema.ValueText(v)
	if (moved || !same) && !written(spec, v, e.s.text[p.Start:p.End]) {
		if moved {
			return e.refuse("item %s: %s is not in the text at %d…%d", e.s.names[at], schema.ValueText(v), p.Start, p.End)
		}
		if err := e.seek(spec, p, chunk.Index); err != nil {
			return e.refuse("item %s: %v", e.s.names[at], err)
		}
	}
	if was.Entity != p.Entity && !e.mentioned(chunk.Index, p.Entity) {
		return e.refuse("item %s: %s is not named in that chunk", e.s.names[at], e.s.called(p.Entity))
	}
	return nil
}

// parsed is a value of its type.
func parsed(spec schema.Property, v any) (any, error) {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		v = int64(f)
	}
	return schema.ParseValue(spec, v)
}

// seek finds another value in the chunk that its property stands in.
func (e *editor) seek(spec schema.Property, p *graph.PropertyA, index int) error {
	chunks := e.s.Staged.Chunks
	text := schema.ValueText(p.Value)
	if index >= 0 && index < len(chunks) {
		c := chunks[index]
		if i := strings.Index(e.s.text[c.Start:c.End], text); i >= 0 {
			p.Start, p.End = c.Start+i, c.Start+i+len(text)
			return nil
		}
	}
	return errors.New("the value " + text + " is not in the text: say where it stands (start, end)")
}

// written says whether a value stands in its quote: as it is, or as its type is written. One of a fixed set and a truth value need not.
func written(spec schema.Property, v any, quote string) bool {
	text := schema.ValueText(v)
	if len(spec.Enum) > 0 || spec.Type == schema.TypeBoolean || strings.Contains(strings.ToLower(quote), strings.ToLower(text)) {
		return true
	}
	if x, err := schema.ParseValue(spec, strings.TrimSpace(quote)); err == nil && schema.ValueText(x) == text {
		return true
	}
	if spec.Type == schema.TypeDate && len(text) >= 4 {
		return strings.Contains(quote, text[:4])
	}
	return strings.Contains(strings.ReplaceAll(quote, ",", ""), text)
}

// mentioned says whether a chunk names an entity.
func (e *editor) mentioned(index, entity int) bool {
	for c, chunk := range e.a.Chunks {
		if chunk.Index != index {
			continue
		}
		for i, m := range chunk.Mentions {
			if m.Entity == entity && !e.goes(spot{itemMention, c, i}, entity) {
				return true
			}
		}
	}
	return false
}

func (e *editor) relation(at spot, chunk *graph.ChunkAssertions) error {
	r := &chunk.Relations[at.at]
	item := e.s.names[at]
	spec, ok := e.schema.Relation(r.Type)
	if !ok {
		label, swapped, ok := e.schema.CanonRelation(r.Type)
		if !ok {
			return e.refuse("item %s: relation %.80q is not declared in the schema that the job was read with", item, r.Type)
		}
		if swapped {
			r.Source, r.Target = r.Target, r.Source
		}
		r.Type = label
		spec, _ = e.schema.Relation(label)
	}
	src, dst := e.a.Entities[r.Source], e.a.Entities[r.Target]
	if !e.schema.Allows(r.Type, src.Label, dst.Label) && !(spec.Symmetric && e.schema.Allows(r.Type, dst.Label, src.Label)) {
		return e.refuse("item %s: the schema has no %s from %s to %s", item, r.Type, src.Label, dst.Label)
	}
	if src.ID == dst.ID && !e.schema.SelfAllowed(r.Type) {
		return e.refuse("item %s: %s would lead from an entity to itself", item, r.Type)
	}
	if err := e.span(at, chunk.Index, r.Start, r.End); err != nil {
		return err
	}
	index := chunk.Index
	for _, m := range e.moved {
		if m.from == at {
			index = m.chunk
		}
	}
	was := e.s.a.Chunks[at.chunk].Relations[at.at]
	for _, x := range [][2]int{{was.Source, r.Source}, {was.Target, r.Target}} {
		if (x[0] != x[1] || index != chunk.Index) && !e.mentioned(index, x[1]) {
			return e.refuse("item %s: %s is not named in the chunk of the quote", item, e.s.called(x[1]))
		}
	}
	for name, v := range r.Properties {
		spec, ok := e.schema.RelationProperty(r.Type, name)
		if !ok {
			return e.refuse("item %s: %s has no property %.80q in the schema that the job was read with", item, r.Type, name)
		}
		x, err := parsed(spec, v)
		if err != nil {
			return e.refuse("item %s: %s: %v", item, name, err)
		}
		if old, had := was.Properties[name]; (!had || schema.ValueText(old) != schema.ValueText(x)) && !written(spec, x, e.s.text[r.Start:r.End]) {
			return e.refuse("item %s: %s is not in the quote", item, schema.ValueText(x))
		}
		r.Properties[name] = x
	}
	return nil
}

// tidy takes out what is dropped, and what stood on it: of an entity all that is said of it; where the last mention of one in a chunk goes, what
// the chunk says of it goes too. Items whose evidence is in another chunk now go there.
func (e *editor) tidy() {
	chunks := map[int]*graph.ChunkAssertions{}
	at := func(index int) *graph.ChunkAssertions {
		if chunks[index] == nil {
			chunks[index] = &graph.ChunkAssertions{Index: index}
		}
		return chunks[index]
	}
	to := func(s spot, index int) *graph.ChunkAssertions {
		for _, m := range e.moved {
			if m.from == s {
				index = m.chunk
			}
		}
		return at(index)
	}
	for c, chunk := range e.a.Chunks {
		at(chunk.Index).State = chunk.State
		lost := map[int]bool{} // entities of which the chunk named something, and does not any more
		for i, m := range chunk.Mentions {
			if s := (spot{itemMention, c, i}); e.goes(s, m.Entity) {
				lost[m.Entity] = true
			} else {
				x := to(s, chunk.Index)
				x.Mentions = append(x.Mentions, m)
			}
		}
		for n := range lost {
			lost[n] = !e.mentioned(chunk.Index, n)
		}
		for i, p := range chunk.Properties {
			if s := (spot{itemProperty, c, i}); !e.goes(s, p.Entity) && !lost[p.Entity] {
				x := to(s, chunk.Index)
				x.Properties = append(x.Properties, p)
			}
		}
		for i, r := range chunk.Relations {
			if s := (spot{itemRelation, c, i}); !e.goes(s, r.Source, r.Target) && !lost[r.Source] && !lost[r.Target] {
				x := to(s, chunk.Index)
				x.Relations = append(x.Relations, r)
			}
		}
	}
	list := e.a.Chunks[:0:0]
	for _, c := range chunks {
		if c.State != "" || len(c.Mentions)+len(c.Properties)+len(c.Relations) > 0 {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b graph.ChunkAssertions) int { return a.Index - b.Index })
	e.a.Chunks = list
	var kept []graph.Candidate
	for i, c := range e.a.Candidates {
		if !e.gone[spot{itemCandidate, 0, i}] {
			kept = append(kept, c)
		}
	}
	for i := range kept { // ends that are another entity now
		for n := range e.changed {
			for _, end := range []*string{&kept[i].SourceEntity, &kept[i].TargetEntity} {
				if *end == e.s.a.Entities[n].ID {
					*end = e.a.Entities[n].ID
				}
			}
		}
	}
	e.a.Candidates = kept
}
