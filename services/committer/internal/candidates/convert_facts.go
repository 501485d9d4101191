package candidates

import (
	"errors"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// of calls fn for the items of a kind that are converted so far, by key, then document.
func (v *conversion) of(kind string, fn func(it *item) error) error {
	var list []*item
	for _, it := range v.items {
		if it.r.Kind == kind && it.why == "" {
			list = append(list, it)
		}
	}
	slices.SortStableFunc(list, func(a, b *item) int { return strings.Compare(a.r.Key, b.r.Key) })
	for _, it := range list {
		if err := errors.Join(v.c.ctx.Err(), fn(it)); err != nil {
			return err
		}
	}
	return nil
}

// byDocument calls fn for the items of each document.
func (v *conversion) byDocument(fn func(docID string, items []*item) error) error {
	for rest := v.items; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].r.DocID == rest[0].r.DocID {
			n++
		}
		if err := errors.Join(v.c.ctx.Err(), fn(rest[0].r.DocID, rest[:n])); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// anchor finds where the items stand in the open versions of their documents.
func (v *conversion) anchor() error {
	return v.byDocument(func(docID string, items []*item) error {
		d, _, err := v.c.sn.Doc(docID)
		if err != nil {
			return err
		}
		if !d.Open {
			for _, it := range items {
				it.why = api.EvidenceGone
			}
			return nil
		}
		open, _, err := v.c.sn.Version(docID, d.Version)
		if err != nil {
			return err
		}
		text, _, err := v.c.sn.Text(docID, d.Version)
		if err != nil {
			return err
		}
		was, version := "", 0 // the text of another version, read once
		for _, it := range items {
			old := text
			if it.r.Version != d.Version {
				if version != it.r.Version {
					if was, _, err = v.c.sn.Text(docID, it.r.Version); err != nil {
						return err
					}
					version = it.r.Version
				}
				old = was
			}
			it.places = places(it.r, old, text, open.Chunks, it.r.Version == d.Version)
			if len(it.places) == 0 {
				it.why = api.EvidenceGone
			}
		}
		return nil
	})
}

// places are the spans of a record's sightings in text: where they were in the same version, where their quotes stand in another one.
func places(r store.CandidateRecord, was, text string, chunks []graph.Chunk, same bool) (out []place) {
	for _, m := range append([][3]int{{r.Chunk, r.Start, r.End}}, r.More...) {
		p := place{chunk: m[0], start: m[1], end: m[2]}
		if p.start < 0 || p.start >= p.end || p.end > len(was) {
			continue
		}
		if !same {
			var ok bool
			if p.chunk, p.start, p.end, ok = store.FindQuote(text, chunks, was[p.start:p.end]); !ok {
				continue
			}
		}
		if r.Kind == graph.KindEntity {
			p = named(r.Text, p, text)
		}
		p.name = strings.Join(strings.Fields(text[p.start:p.end]), " ")
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// named narrows the evidence of an entity to its name, where that stands in it. It need not: who corrects a name may know it from
// elsewhere; the mention is what is written then.
func named(name string, p place, text string) place {
	if fingerprint.Fold(text[p.start:p.end]) == fingerprint.Fold(name) {
		return p
	}
	if _, start, end, ok := store.FindQuote(text, []graph.Chunk{{Start: p.start, End: p.end}}, name); ok {
		p.start, p.end = start, end
	}
	return p
}

// entities finds out which entities the entity candidates are.
func (v *conversion) entities() error {
	return v.of(graph.KindEntity, func(it *item) (err error) {
		label, declared := v.s.Canon(schema.KindEntity, it.r.Label)
		if !declared {
			it.why = api.LabelNotInSchema
			return nil
		}
		if it.source, err = identity(v.c.desk.deps.Identify, v.c.graph, label, it.r.Text); err != nil {
			return err
		}
		it.label = label
		if slices.Contains(v.made[it.r.Key], it.source) {
			return nil
		}
		v.made[it.r.Key] = append(v.made[it.r.Key], it.source)
		_, there, err := v.c.sn.Entity(it.source.id)
		if err != nil {
			return err
		}
		if there || v.counted[it.source.id] {
			v.reply.Folded++
		} else {
			v.reply.ConvertedEntities++
		}
		v.counted[it.source.id] = true
		return nil
	})
}

// identity is the entity of a name: the known one, where the registry knows exactly one, else that of the name itself.
func identity(identify func(graph, label, key string) (string, error), graphName, label, name string) (ref, error) {
	key := fingerprint.Fold(name)
	if identify != nil {
		known, err := identify(graphName, label, key)
		if err != nil {
			return ref{}, err
		}
		if known != "" {
			key = known
		}
	}
	return ref{fingerprint.EntityID(label, key), label, key}, nil
}

// end resolves an end anew: to an entity of the graph, or to one that this conversion makes.
func (v *conversion) end(x end) (r ref, why string, err error) {
	a, err := v.ends.find(x)
	switch {
	case err != nil || a.why != "":
		return r, a.why, err
	case a.candidate != "":
		return v.fresh(a.candidate, x.label)
	}
	f, _, err := v.c.sn.Entity(a.entity)
	return ref{a.entity, f.Label, f.Key}, "", err
}

// fresh is the entity that a candidate has become; of several, that of the end's label.
func (v *conversion) fresh(key, label string) (r ref, why string, err error) {
	list := v.made[key]
	if label, ok := v.s.Canon(schema.KindEntity, label); ok && len(list) > 1 {
		list = slices.DeleteFunc(slices.Clone(list), func(m ref) bool { return m.label != label })
	}
	switch len(list) {
	case 0:
		return r, api.EndpointMissing, nil
	case 1:
		return list[0], "", nil
	}
	return r, api.EndpointAmbiguous, nil
}

func (v *conversion) relations() error {
	return v.of(graph.KindRelation, func(it *item) (err error) {
		label, swapped, ok := v.s.CanonRelation(it.r.Label)
		if !ok {
			it.why = api.LabelNotInSchema
			return nil
		}
		if it.source, it.why, err = v.end(end{it.r.SourceText, it.r.SourceLabel, it.r.SourceEntity}); err != nil || it.why != "" {
			return err
		}
		if it.target, it.why, err = v.end(end{it.r.TargetText, it.r.TargetLabel, it.r.TargetEntity}); err != nil || it.why != "" {
			return err
		}
		if swapped {
			it.source, it.target = it.target, it.source
		}
		if !v.s.Allows(label, it.source.label, it.target.label) || it.source.id == it.target.id && !v.s.SelfAllowed(label) {
			it.why = api.PatternNotApplied
			return nil
		}
		it.label = label
		id := fingerprint.RelationID(label, it.source.id, it.target.id, v.symmetric(label))
		if v.counted[id] {
			return nil
		}
		v.counted[id] = true
		_, there, err := v.c.sn.Relation(id)
		if there {
			v.reply.JoinedRelations++
		} else {
			v.reply.CreatedRelations++
		}
		return err
	})
}

func (v *conversion) symmetric(relation string) bool {
	r, ok := v.s.Relation(relation)
	return ok && r.Symmetric
}

// properties types the values, and leaves alone what would make a property say two things that the schema gives one value.
func (v *conversion) properties() error {
	type property struct{ owner, name string }
	byProperty := map[property][]*item{}
	var order []property
	err := v.of(graph.KindProperty, func(it *item) (err error) {
		if it.source, it.why, err = v.end(end{it.r.SourceText, it.r.SourceLabel, it.r.SourceEntity}); err != nil || it.why != "" {
			return err
		}
		spec, ok := v.s.Property(it.source.label, it.r.Label)
		if !ok {
			it.why = api.PropertyNotDeclared
			return nil
		}
		it.value, err = schema.ParseValue(spec, it.r.Text)
		switch {
		case errors.Is(err, schema.ErrNotInEnum):
			it.why = graph.ReasonNotInEnum
			return nil
		case err != nil:
			it.why = graph.ReasonBadValue
			return nil
		}
		it.label = spec.Name
		p := property{it.source.id, spec.Name}
		if byProperty[p] == nil {
			order = append(order, p)
		}
		byProperty[p] = append(byProperty[p], it)
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range order {
		items := byProperty[p]
		has := map[string]bool{}
		err := v.c.sn.PropertyValues(p.owner, p.name, func(f store.PropertyFold) error {
			has[schema.ValueText(f.Value)] = true
			return nil
		})
		if err != nil {
			return err
		}
		fresh := map[string]bool{}
		for _, it := range items {
			if text := schema.ValueText(it.value); !has[text] {
				fresh[text] = true
			}
		}
		spec, _ := v.s.Property(items[0].source.label, p.name)
		if spec.Merge != schema.MergeAll && len(has)+len(fresh) > 1 {
			for _, it := range items {
				if fresh[schema.ValueText(it.value)] {
					it.why = api.ReasonPropertyConflict
				}
			}
			continue
		}
		v.reply.SetProperties += len(fresh)
	}
	return nil
}

// state writes the statements into their documents, and takes the records away.
func (v *conversion) state() error {
	return v.byDocument(func(docID string, items []*item) error {
		var b statements
		for _, it := range items {
			if it.why == "" {
				b.add(it)
			}
		}
		if len(b.chunks) == 0 {
			return nil
		}
		if _, err := v.c.txn.Amend(v.c.ctx, docID, b.assertions(), v.symmetric); err != nil {
			return err
		}
		for _, it := range items {
			if it.why != "" {
				continue
			}
			if err := v.c.txn.ConvertCandidate(v.c.ctx, docID, it.r.Key); err != nil {
				return err
			}
		}
		return nil
	})
}

// statements of one document.
type statements struct {
	refs   []graph.EntityRef
	at     map[string]int // entity id → place in refs
	chunks map[int]*graph.ChunkAssertions
}

func (b *statements) ref(r ref) int {
	if n, ok := b.at[r.id]; ok {
		return n
	}
	if b.at == nil {
		b.at = map[string]int{}
	}
	b.at[r.id] = len(b.refs)
	b.refs = append(b.refs, graph.EntityRef{ID: r.id, Label: r.label, Key: r.key})
	return len(b.refs) - 1
}

func (b *statements) chunk(i int) *graph.ChunkAssertions {
	if b.chunks == nil {
		b.chunks = map[int]*graph.ChunkAssertions{}
	}
	if b.chunks[i] == nil {
		b.chunks[i] = &graph.ChunkAssertions{Index: i}
	}
	return b.chunks[i]
}

func (b *statements) add(it *item) {
	r := &it.r
	for _, p := range it.places {
		c := b.chunk(p.chunk)
		switch r.Kind {
		case graph.KindEntity:
			c.Mentions = append(c.Mentions, graph.Mention{Entity: b.ref(it.source), Name: p.name, Start: p.start, End: p.end,
				Confidence: r.Confidence, Extractor: r.Extractor, Rule: r.Rule})
		case graph.KindRelation:
			c.Relations = append(c.Relations, graph.RelationA{Type: it.label, Source: b.ref(it.source), Target: b.ref(it.target), Start: p.start, End: p.end,
				Confidence: r.Confidence, Assertion: assertion(r.Assertion), Extractor: r.Extractor, Rule: r.Rule})
		default:
			c.Properties = append(c.Properties, graph.PropertyA{Entity: b.ref(it.source), Name: it.label, Value: it.value, Start: p.start, End: p.end,
				Confidence: r.Confidence, Extractor: r.Extractor})
		}
	}
}

// assertion is an assertion kind as statements have it: the common one is left out.
func assertion(kind string) string {
	if kind == "explicit" {
		return ""
	}
	return kind
}

func (b *statements) assertions() graph.Assertions {
	a := graph.Assertions{Entities: b.refs}
	for _, c := range b.chunks {
		a.Chunks = append(a.Chunks, *c)
	}
	return a
}
