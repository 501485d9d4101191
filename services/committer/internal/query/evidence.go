package query

import (
	"context"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const verbEvidence = "evidence"

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
// Total counts statements; those of several extractors about one span are one piece of evidence. With history, documents that
// once said it count too: by document id, version, place, each piece with its version and, where it is said no longer, the commit
// that ended it (a new version, a delete, or a second reading of the version that did not find it); total still counts what is
// current. The pages of one cursor show one sequence.
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
	err := q.within(ctx, name, at.Seq, req.Offsets, req.Within, func(v *view) error {
		if v == nil {
			return noFact(req.ID)
		}
		f, err := v.fact(strings.ToLower(req.ID), req.History)
		if err != nil {
			return err
		}
		out.Seq, out.ID, out.Kind, out.Total = v.sn.Seq(), f.id, f.kind, f.total
		at.Seq = out.Seq
		p := evidencePage{v: v, at: at, skip: at.Given, list: listing{limit: limit, budget: newBudget()}}
		if req.History {
			err = p.history(f, at.Doc)
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
	if !history {
		return fact{}, noFact(id)
	}
	was := false
	err = v.sn.EverMentioned(id, "", func(string, []store.Past[store.MentionSupport]) error { was = true; return store.ErrStop })
	if err != nil || was {
		return fact{id: id, kind: "entity"}, err
	}
	err = v.sn.EverStated(id, "", func(string, []store.Past[store.EvidenceSupport]) error { was = true; return store.ErrStop })
	if err != nil || was {
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
		return fn(asEvidence(m))
	})
}

// asEvidence is mentions as statements.
func asEvidence(m store.MentionSupport) store.EvidenceSupport {
	s := store.EvidenceSupport{DocID: m.DocID, Version: m.Version}
	for _, x := range m.Spans {
		s.Spans = append(s.Spans, store.EvidenceSpan{Chunk: x.Chunk, Start: x.Start, End: x.End, Confidence: x.Confidence, Extractor: x.Extractor})
	}
	return s
}

// evidencePage gathers one page. skip is how many pieces of the first document earlier pages gave.
type evidencePage struct {
	v    *view
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

// history gives what documents ever said of a fact.
func (p *evidencePage) history(f fact, after string) error {
	if f.kind == "relation" {
		return p.v.sn.EverStated(f.id, after, p.past)
	}
	return p.v.sn.EverMentioned(f.id, after, func(docID string, said []store.Past[store.MentionSupport]) error {
		list := make([]store.Past[store.EvidenceSupport], len(said))
		for i, s := range said {
			list[i] = store.Past[store.EvidenceSupport]{From: s.From, Until: s.Until, Said: asEvidence(s.Said)}
		}
		return p.past(docID, list)
	})
}

// past gives what one document said, version by version. A version that was read more than once counts with its last reading;
// what only earlier readings found has the commit that dropped it.
func (p *evidencePage) past(docID string, said []store.Past[store.EvidenceSupport]) error {
	if err := p.v.tick(); err != nil {
		return err
	}
	for len(said) > 0 {
		version := said[0].Said.Version
		n := 1
		for n < len(said) && said[n].Said.Version == version {
			n++
		}
		if err := p.version(docID, version, said[:n]); err != nil {
			return err
		}
		said = said[n:]
	}
	p.done(docID)
	return nil
}

func (p *evidencePage) version(docID string, version int, readings []store.Past[store.EvidenceSupport]) error {
	d, err := p.v.at(docID, version)
	if err != nil {
		return err
	}
	type ended struct {
		merged
		until uint64
	}
	type place struct {
		chunk, start, end int
		assertion         string
	}
	var list []ended
	seen := map[place]bool{}
	for i := len(readings) - 1; i >= 0; i-- {
		for _, m := range mergeSpans(readings[i].Said.Spans) {
			if at := (place{m.chunk, m.start, m.end, m.assertion}); !seen[at] {
				seen[at] = true
				list = append(list, ended{m, readings[i].Until})
			}
		}
	}
	slices.SortFunc(list, func(a, b ended) int { return comparePlaces(a.merged, b.merged) })
	for _, m := range list {
		e, err := p.v.evidence(d, m.merged)
		if err != nil {
			return err
		}
		e.Version, e.ClosedSeq, e.Kept = version, m.until, e.Kept && m.until == 0
		if err := p.add(e); err != nil {
			return err
		}
	}
	return nil
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
