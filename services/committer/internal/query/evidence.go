package query

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const verbEvidence = "evidence"

// historian lists the documents that ever stated a fact, by id, behind afterDoc: what history needs of a snapshot besides the
// open documents.
type historian interface {
	EverMentioned(entityID, afterDoc string, fn func(docID string) error) error
	EverStated(relationID, afterDoc string, fn func(docID string) error) error
}

// evidenceAt is where a page of evidence ends: the last document that was given whole, and how many pieces of the next.
type evidenceAt struct {
	Seq   uint64 `json:"s"`
	Doc   string `json:"d"`
	Given int    `json:"n"`
}

// fact is what evidence is asked for.
type fact struct {
	id    string
	kind  string // entity or relation
	total int
}

// Evidence answers query.evidence: every place that states an entity or a relation, by document id, chunk index, start and end.
// Total counts statements; those of several extractors about one span are one piece of evidence. With history, what closed
// versions said follows the same order, each piece with its version; total still counts what is current. The pages of one
// cursor show one sequence.
func (q *Queries) Evidence(ctx context.Context, name string, req api.EvidenceGet) (api.EvidenceReply, error) {
	out := api.EvidenceReply{Evidence: []graph.Evidence{}}
	limit, bad := limited("limit", req.Limit, defaultPage, maxPage)
	if bad != nil {
		return out, bad
	}
	if req.ID == "" {
		return out, badValue("give the id of an entity or relation")
	}
	at := evidenceAt{Seq: req.AsOf}
	if req.Cursor != "" {
		if err := decodeCursor(verbEvidence, req.Cursor, &at); err != nil {
			return out, err
		}
		if at.Given < 0 {
			return out, badValue("cursor is not one that %s gave", verbEvidence)
		}
		if req.AsOf != 0 && req.AsOf != at.Seq {
			return out, badValue("as_of is %d: the cursor is of sequence %d", req.AsOf, at.Seq)
		}
	}
	err := q.with(ctx, name, at.Seq, req.Offsets, func(v *view) error {
		if v == nil {
			return noFact(req.ID)
		}
		f, err := v.fact(strings.ToLower(req.ID), req.History)
		if err != nil {
			return err
		}
		out.Seq, out.ID, out.Kind, out.Total = v.sn.Seq(), f.id, f.kind, f.total
		at.Seq = out.Seq
		p := evidencePage{v: v, fact: f.id, at: at, skip: at.Given, list: listing{limit: limit, budget: newBudget()}}
		if req.History {
			err = v.everSaid(f, at.Doc, p.history)
		} else {
			err = v.said(f, at.Doc, p.current)
		}
		if err != nil {
			return err
		}
		if len(p.list.list) == 0 && p.list.cut {
			return api.Errorf(413, "too_large", "a quote is larger than a reply")
		}
		out.Evidence = append(out.Evidence, p.list.list...)
		if p.list.cut {
			out.Next = encodeCursor(verbEvidence, p.at)
		}
		return nil
	})
	return out, err
}

func noFact(id string) error {
	return api.Errorf(404, "entity_not_found", "no entity or relation has the id %q", clip(id))
}

// fact finds out what an id names. With history a fact may be gone.
func (v *view) fact(id string, history bool) (fact, error) {
	e, ok, err := v.sn.Entity(id)
	if err != nil || ok {
		return fact{id, "entity", e.Mentions}, err
	}
	r, ok, err := v.sn.Relation(id)
	if err != nil || ok {
		return fact{id, "relation", r.Evidence}, err
	}
	h, can := any(v.sn).(historian)
	if !history || !can {
		return fact{}, noFact(id)
	}
	was := false
	first := func(string) error { was = true; return store.ErrStop }
	if err := h.EverMentioned(id, "", first); err != nil || was {
		return fact{id: id, kind: "entity"}, err
	}
	if err := h.EverStated(id, "", first); err != nil || was {
		return fact{id: id, kind: "relation"}, err
	}
	return fact{}, noFact(id)
}

// said gives what open documents say of a fact, a document at a time.
func (v *view) said(f fact, after string, fn func(store.EvidenceSupport) error) error {
	if f.kind == "relation" {
		return v.sn.Evidence(f.id, after, fn)
	}
	return v.sn.Mentions(f.id, after, func(m store.MentionSupport) error {
		s := store.EvidenceSupport{DocID: m.DocID, Version: m.Version}
		for _, x := range m.Spans {
			s.Spans = append(s.Spans, store.EvidenceSpan{Chunk: x.Chunk, Start: x.Start, End: x.End, Confidence: x.Confidence, Extractor: x.Extractor})
		}
		return fn(s)
	})
}

// everSaid gives the documents that ever stated a fact. A snapshot that keeps no such list gives those that state it now.
func (v *view) everSaid(f fact, after string, fn func(docID string) error) error {
	h, ok := any(v.sn).(historian)
	if !ok {
		return v.said(f, after, func(s store.EvidenceSupport) error { return fn(s.DocID) })
	}
	if f.kind == "entity" {
		return h.EverMentioned(f.id, after, fn)
	}
	return h.EverStated(f.id, after, fn)
}

// evidencePage gathers one page. skip is how many pieces of the first document earlier pages gave.
type evidencePage struct {
	v    *view
	fact string // id
	at   evidenceAt
	skip int
	list listing
}

func (p *evidencePage) add(e graph.Evidence) error {
	if p.skip > 0 {
		p.skip--
		return nil
	}
	if !p.list.add(e) {
		return store.ErrStop
	}
	p.at.Given++
	return nil
}

// done notes that a document was given whole.
func (p *evidencePage) done(docID string) { p.at.Doc, p.at.Given, p.skip = docID, 0, 0 }

func (p *evidencePage) current(s store.EvidenceSupport) error {
	err := p.v.statements(s, func(d *docView, m merged) error {
		e, err := p.v.evidence(d, m)
		if err != nil {
			return err
		}
		return p.add(e)
	})
	if err == nil {
		p.done(s.DocID)
	}
	return err
}

func (p *evidencePage) history(docID string) error {
	if err := p.v.tick(); err != nil {
		return err
	}
	versions, err := p.v.sn.Versions(docID)
	if err != nil {
		return err
	}
	for _, ver := range versions {
		st, ok, err := p.v.sn.Assertions(docID, ver.Version)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		d, err := p.v.at(docID, ver.Version)
		if err != nil {
			return err
		}
		for _, m := range mergeSpans(spansOf(st.Assertions, p.fact)) {
			e, err := p.v.evidence(d, m)
			if err != nil {
				return err
			}
			e.Version, e.ClosedSeq = ver.Version, ver.ClosedSeq
			if err := p.add(e); err != nil {
				return err
			}
		}
	}
	p.done(docID)
	return nil
}

// spansOf is what assertions say of one fact.
func spansOf(a graph.Assertions, factID string) []store.EvidenceSpan {
	var out []store.EvidenceSpan
	for _, c := range a.Chunks {
		for _, m := range c.Mentions {
			if entityID(a, m.Entity) == factID {
				out = append(out, store.EvidenceSpan{Chunk: c.Index, Start: m.Start, End: m.End, Confidence: m.Confidence, Extractor: m.Extractor})
			}
		}
		for _, r := range c.Relations {
			if relationID(a, r) == factID {
				out = append(out, store.EvidenceSpan{Chunk: c.Index, Start: r.Start, End: r.End, Confidence: r.Confidence,
					Assertion: r.AssertionKind(), Extractor: r.Extractor})
			}
		}
	}
	return out
}

// relationID of stored assertions: the ends of symmetric relations are sorted there already.
func relationID(a graph.Assertions, r graph.RelationA) string {
	return fingerprint.RelationID(r.Type, entityID(a, r.Source), entityID(a, r.Target), false)
}

// entityID is the id at a place; "" at none, which a damaged row may name.
func entityID(a graph.Assertions, place int) string {
	if place < 0 || place >= len(a.Entities) {
		return ""
	}
	return a.Entities[place].ID
}
