package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
)

// Kinds of changes that only a document's effect has.
const (
	changeDocument  = "document"
	changeCandidate = "candidate"
	changeStale     = "stale"
	changeKept      = "kept"
)

// Effect is what this commit did to one document, as a plan says it: the revision that it had before, and the changes in canonical order. It is
// asked for when every document of the commit is applied, so that Left counts what is true then; res is what Apply said. Nothing is written, and
// what is read is not kept.
func (t *Txn) Effect(ctx context.Context, docKey string, res DocResult) (base plan.Base, changes []plan.Change, err error) {
	if err := t.lock(); err != nil {
		return base, nil, err
	}
	defer t.unlock()
	if err := ctx.Err(); err != nil {
		return base, nil, err
	}
	e := &documentEffect{t: t, docKey: docKey, texts: map[int]string{}}
	if err := e.read(); err != nil {
		return base, nil, fmt.Errorf("effect on document %.200q: %w", docKey, err)
	}
	if err := e.diff(res); err != nil {
		return base, nil, fmt.Errorf("effect on document %.200q: %w", docKey, err)
	}
	p := (&plan.Plan{Changes: e.out}).Canonical()
	return plan.Base{Document: docKey, Revision: e.was.doc.Revision}, p.Changes, nil
}

// docSide is a document before or after the commit.
type docSide struct {
	doc   Doc
	st    Stated
	facts *docFacts
	kept  map[string]*Kept // by fact
}

type documentEffect struct {
	t        *Txn
	docKey   string
	id       id
	was, now docSide
	texts    map[int]string // by version
	out      []plan.Change
	restated int
}

// baseRow is load as of the sequence that this commit follows.
func (t *Txn) baseRow(k key) ([]byte, bool, error) {
	it, err := t.iter(false)
	if err != nil {
		return nil, false, err
	}
	return seekRow(it, k, t.current)
}

func (e *documentEffect) read() (err error) {
	if e.id, err = mustID(fingerprint.DocumentID(e.docKey)); err != nil {
		return err
	}
	if err = e.side(&e.was, e.t.baseRow); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	return e.side(&e.now, e.t.load)
}

// side reads the document and what it supports.
func (e *documentEffect) side(s *docSide, load func(key) ([]byte, bool, error)) error {
	s.facts, s.kept = noFacts, map[string]*Kept{}
	row, ok, err := load(newKey(e.t.g.id, spaceDoc).id(e.id))
	if err != nil || !ok {
		return err
	}
	if err := decodeJSON(row, &s.doc); err != nil {
		return err
	}
	from := leftKey(e.t.g.id, e.id)
	here := side{}
	if s.doc.Open {
		from = newKey(e.t.g.id, spaceAssert).id(e.id).u32(uint32(s.doc.Version))
		here = side{version: s.doc.Version, date: s.doc.Date()}
	}
	row, ok, err = load(from)
	if err == nil && !ok && s.doc.Open {
		err = fmt.Errorf("%w: the assertions of version %d are missing", ErrCorrupt, s.doc.Version)
	}
	if err != nil || !ok {
		return err
	}
	if s.st, err = decodeStated(row); err != nil {
		return err
	}
	if here.facts, err = factsOfStated(s.st); err != nil {
		return err
	}
	here.stated = s.st
	if s.facts, err = e.t.fold(here); err != nil {
		return err
	}
	for i := range s.st.Kept {
		fact, err := s.st.Kept[i].FactID()
		if err != nil {
			return err
		}
		s.kept[fact] = &s.st.Kept[i]
	}
	return nil
}

func (e *documentEffect) diff(res DocResult) error {
	for _, part := range []func() error{e.entities, e.relations, e.values, e.stale, e.candidates} {
		if err := part(); err != nil {
			return err
		}
	}
	return e.document(res)
}

// change begins a change of this document.
func (e *documentEffect) change(op, kind, label string) plan.Change {
	return plan.Change{Op: op, Kind: kind, Label: label, Document: e.docKey}
}

// span is bytes of a version.
type span struct{ version, start, end int }

func (e *documentEffect) quote(c *plan.Change, spans []span) error {
	for _, s := range spans {
		text, ok := e.texts[s.version]
		if !ok {
			var err error
			if text, err = e.t.text(e.id, s.version); err != nil {
				return err
			}
			e.texts[s.version] = text
		}
		if s.start < 0 || s.start > s.end || s.end > len(text) {
			return fmt.Errorf("%w: a span of version %d is outside its text", ErrCorrupt, s.version)
		}
		c.Quotes = append(c.Quotes, plan.Quote{Version: s.version, Start: s.start, End: s.end, Text: text[s.start:s.end]})
	}
	return nil
}

func mentionSpans(version int, list []MentionSpan) []span {
	out := make([]span, len(list))
	for i, m := range list {
		out[i] = span{version, m.Start, m.End}
	}
	return out
}

func evidenceSpans(version int, list []EvidenceSpan) []span {
	out := make([]span, len(list))
	for i, m := range list {
		out[i] = span{version, m.Start, m.End}
	}
	return out
}

// entityNow is an entity as it is after the commit; one that goes, as it was before.
func (e *documentEffect) entityNow(v id) (f EntityFold, err error) {
	if a := e.t.ents[v]; a != nil {
		f = a.fold
	} else if row, ok, err := e.t.load(newKey(e.t.g.id, spaceEntity).id(v)); err != nil {
		return f, err
	} else if ok {
		if err := decodeEntity(row, &f); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (e *documentEffect) name(v id) (string, error) {
	f, err := e.entityNow(v)
	if err != nil {
		return "", err
	}
	if f.Documents == 0 {
		row, ok, err := e.t.baseRow(newKey(e.t.g.id, spaceEntity).id(v))
		if err != nil {
			return "", err
		}
		f = EntityFold{}
		if ok {
			if err := decodeEntity(row, &f); err != nil {
				return "", err
			}
		}
	}
	if name := f.Display(); name != "" {
		return name, nil
	}
	for _, s := range []docSide{e.now, e.was} {
		if x := s.facts.ents[v]; x != nil {
			return x.ref.Key, nil
		}
	}
	return v.String(), nil
}

// left is how many other documents state a fact that so many state after the commit.
func left(op string, documents int) int {
	if op == plan.Remove {
		return documents
	}
	return max(0, documents-1)
}

func (e *documentEffect) entities() error {
	for op, list := range map[string]docSide{plan.Add: e.now, plan.Remove: e.was} {
		other := e.was
		if op == plan.Remove {
			other = e.now
		}
		for _, v := range inOrder(list.facts.ents) {
			x := list.facts.ents[v]
			if y := other.facts.ents[v]; y != nil {
				if op == plan.Add && !bytes.Equal(encodeMentions(&MentionSupport{Version: e.now.at(x.version), Spans: x.spans}),
					encodeMentions(&MentionSupport{Version: e.was.at(y.version), Spans: y.spans})) {
					e.restated++
				}
				continue
			}
			f, err := e.entityNow(v)
			if err != nil {
				return err
			}
			c := e.change(op, graph.KindEntity, x.ref.Label)
			c.SourceID, c.Left = v.String(), left(op, f.Documents)
			if c.Source, err = e.name(v); err != nil {
				return err
			}
			if err := e.quote(&c, mentionSpans(list.at(x.version), x.spans)); err != nil {
				return err
			}
			e.out = append(e.out, c)
		}
	}
	return nil
}

// at is the version that a fact's quotes are of.
func (s docSide) at(version int) int { return s.facts.versionOf(version, s.doc.Version) }

func (e *documentEffect) relations() error {
	for op, list := range map[string]docSide{plan.Add: e.now, plan.Remove: e.was} {
		other := e.was
		if op == plan.Remove {
			other = e.now
		}
		for _, v := range inOrder(list.facts.rels) {
			x := list.facts.rels[v]
			if y := other.facts.rels[v]; y != nil {
				if op == plan.Add && (e.now.at(x.version) != e.was.at(y.version) || !slices.EqualFunc(x.spans, y.spans, sameSpan)) {
					e.restated++
				}
				continue
			}
			documents, err := e.relationDocuments(v)
			if err != nil {
				return err
			}
			c := e.change(op, graph.KindRelation, x.typ)
			c.Left = left(op, documents)
			if err := e.ends(&c, x.src, x.dst); err != nil {
				return err
			}
			if err := e.quote(&c, evidenceSpans(list.at(x.version), x.spans)); err != nil {
				return err
			}
			e.out = append(e.out, c)
		}
	}
	return nil
}

func sameSpan(a, b EvidenceSpan) bool {
	p, q := a.Properties, b.Properties
	a.Properties, b.Properties = nil, nil
	return a.Chunk == b.Chunk && a.Start == b.Start && a.End == b.End && a.Confidence == b.Confidence && a.Assertion == b.Assertion && a.Extractor == b.Extractor &&
		a.Rule == b.Rule && maps.EqualFunc(p, q, func(x, y any) bool { return x == y })
}

func (e *documentEffect) relationDocuments(v id) (int, error) {
	if a := e.t.rels[v]; a != nil {
		return a.fold.Documents, nil
	}
	var f RelationFold
	row, ok, err := e.t.load(newKey(e.t.g.id, spaceRelation).id(v))
	if err != nil || !ok {
		return 0, err
	}
	err = decodeRelation(row, &f)
	return f.Documents, err
}

func (e *documentEffect) ends(c *plan.Change, src, dst id) (err error) {
	c.SourceID, c.TargetID = src.String(), dst.String()
	if c.Source, err = e.name(src); err != nil {
		return err
	}
	c.Target, err = e.name(dst)
	return err
}

func (e *documentEffect) values() error {
	for op, list := range map[string]docSide{plan.Add: e.now, plan.Remove: e.was} {
		other := e.was
		if op == plan.Remove {
			other = e.now
		}
		for _, k := range propsInOrder(list.facts.props) {
			x := list.facts.props[k]
			if y := other.facts.props[k]; y != nil {
				if op == plan.Add && (e.now.at(x.version) != e.was.at(y.version) || e.now.date(x) != e.was.date(y) || !slices.EqualFunc(x.spans, y.spans, sameSpan)) {
					e.restated++
				}
				continue
			}
			documents, err := e.valueDocuments(k)
			if err != nil {
				return err
			}
			c := e.change(op, graph.KindProperty, k.name)
			c.SourceID, c.Value, c.Left = k.owner.String(), x.value, left(op, documents)
			if r := list.facts.rels[k.owner]; r != nil {
				ends := plan.Change{}
				if err := e.ends(&ends, r.src, r.dst); err != nil {
					return err
				}
				c.Source = ends.Source + " " + r.typ + " " + ends.Target
			} else if c.Source, err = e.name(k.owner); err != nil {
				return err
			}
			if err := e.quote(&c, evidenceSpans(list.at(x.version), x.spans)); err != nil {
				return err
			}
			e.out = append(e.out, c)
		}
	}
	return nil
}

func (s docSide) date(p *propFact) string { return side{date: s.doc.Date()}.dateOf(p) }

func (e *documentEffect) valueDocuments(k propID) (int, error) {
	if a := e.t.props[k]; a != nil {
		return a.fold.Documents, nil
	}
	var f PropertyFold
	row, ok, err := e.t.load(newKey(e.t.g.id, spacePropFold).id(k.owner).str(k.name).str(k.value))
	if err != nil || !ok {
		return 0, err
	}
	err = decodePropFold(row, &f)
	return f.Documents, err
}

// document says what becomes of the document itself. Its value has digests of what the other changes do not show: text, metadata, each
// statement with its place and confidence, candidates that are only read again.
func (e *documentEffect) document(res DocResult) error {
	c := e.change(plan.Set, changeDocument, res.Outcome)
	switch res.Outcome {
	case Added, Deleted:
		if c.Op = plan.Add; res.Outcome == Deleted {
			c.Op = plan.Remove
		}
	case Updated:
		if c.Label = "new version"; e.now.doc.Version == e.was.doc.Version {
			c.Label = "read again"
		}
	}
	if e.now.doc.Open && res.Outcome != Superseded {
		d := e.now.doc
		v, err := e.t.version(e.id, d.Version)
		if err != nil {
			return err
		}
		records, err := e.t.docRecords(e.id)
		if err != nil {
			return err
		}
		list := []CandidateRecord{}
		for _, k := range slices.Sorted(maps.Keys(records)) {
			r := records[k]
			r.Seq, r.At, r.Job = 0, "", ""
			list = append(list, r)
		}
		b, err := json.Marshal([]any{e.now.st, v.Chunks, list})
		if err != nil {
			return fmt.Errorf("encode what it states: %w", err)
		}
		sum := sha256.Sum256(b)
		c.Value = map[string]any{"content_hash": d.ContentHash, "metadata": d.MetaHash, "schema": d.SchemaFP, "chunker": d.ChunkerFP,
			"extraction": d.ExtractionFP, "statements": hex.EncodeToString(sum[:]), "restated": int64(e.restated)}
	}
	e.out = append(e.out, c)
	return nil
}
