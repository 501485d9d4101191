package query

import (
	"context"
	"errors"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Citations answers query.citations: what became of evidence, by id. An id whose document or fact the limits do not admit is answered as one that never was.
func (q *Queries) Citations(ctx context.Context, name string, req api.CitationsGet) (api.CitationsReply, error) {
	out := api.CitationsReply{Citations: []api.Citation{}}
	if len(req.IDs) == 0 || len(req.IDs) > api.MaxCitations {
		return out, badValue("ids has %d ids: give 1 to %d", len(req.IDs), api.MaxCitations)
	}
	err := q.within(ctx, name, 0, "", req.Within, func(v *view) error {
		b := newBudget()
		if v != nil {
			out.Seq = v.sn.Seq()
		}
		for _, id := range req.IDs {
			c, err := v.citation(id)
			if err != nil {
				return err
			}
			cost := 600 + textCost(c.ID) + textCost(c.Quote) + textCost(c.Passage) + textCost(c.Title) + textCost(c.Document) + sizeOf(c.Entity) + sizeOf(c.Relation) + sizeOf(c.Value)
			if !b.take(cost) {
				if len(out.Citations) == 0 {
					return api.Errorf(413, "too_large", "the evidence is larger than a reply")
				}
				break
			}
			out.Citations = append(out.Citations, c)
		}
		return nil
	})
	return out, err
}

const (
	whyMalformed   = "this is no evidence id: copy it whole, as a result gave it"
	whyUnavailable = "there is no such evidence, its document was deleted, or it is outside what may be seen here"
	whyNewer       = "the document has a newer version, which this is not of: search again"
	whyNotRead     = "the text is still there, but the fact is not read from it any more: search again"
)

func notCited(id, status, why string) api.Citation {
	return api.Citation{ID: clip(id), Status: status, Why: why}
}

func (v *view) citation(id string) (api.Citation, error) {
	p, ok := api.ParseEvidenceID(id)
	if !ok {
		return notCited(id, api.CitationMalformed, whyMalformed), nil
	}
	gone := notCited(id, api.CitationUnavailable, whyUnavailable)
	if v == nil {
		return gone, nil
	}
	ref, ok, err := v.sn.ChunkRef(p.Chunk)
	if err != nil || !ok {
		return gone, err
	}
	doc, err := v.doc(ref.DocID)
	if err != nil {
		return gone, err
	}
	d, err := v.at(ref.DocID, ref.Version)
	if err != nil || ref.Index >= len(d.meta.Chunks) {
		return gone, err
	}
	c := api.Citation{ID: id, Status: api.CitationOK, Document: d.key, Title: doc.Meta.Title, Version: ref.Version, Chunk: p.Chunk, Start: p.Start, End: p.End}
	var stands bool
	if p.Fact == "" {
		if !v.sn.showsText() {
			return gone, nil
		}
		stands = ref.Open
	} else if stands, err = v.factAt(p, ref, &c); err != nil {
		return gone, err
	}
	switch chunk := d.meta.Chunks[ref.Index]; {
	case !stands && (!doc.Open || v.sn.limited() && v.sn.in.labels != nil): // the fact may be outside
		return gone, nil
	case !stands && !ref.Open:
		return notCited(id, api.CitationSuperseded, whyNewer), nil
	case !stands:
		return notCited(id, api.CitationSuperseded, whyNotRead), nil
	case p.Fact == "" && (p.Start < chunk.Start || p.End > chunk.End):
		return gone, nil
	}
	c.Kept = !ref.Open
	err = v.cite(d, ref.Index, &c)
	return c, err
}

// cite fills in the texts of a citation that stands.
func (v *view) cite(d *docView, index int, c *api.Citation) (err error) {
	if c.Quote, err = v.slice(d, c.Start, c.End); err != nil {
		return err
	}
	if !v.sn.showsText() {
		return nil
	}
	chunk := d.meta.Chunks[index]
	if c.Passage, err = v.slice(d, chunk.Start, chunk.End); err != nil {
		return err
	}
	c.PassageStart = chunk.Start
	return nil
}

// factAt says whether the fact of a place stands on it, and fills in the fact.
func (v *view) factAt(p api.Cited, ref store.ChunkRef, c *api.Citation) (bool, error) {
	at := func(s store.EvidenceSupport) bool {
		if s.DocID != ref.DocID || s.Version != ref.Version {
			return false
		}
		for _, x := range s.Spans {
			if x.Chunk == ref.Index && x.Start == p.Start && x.End == p.End {
				return true
			}
		}
		return false
	}
	found := false
	look := func(s store.EvidenceSupport) error {
		if found = at(s); found || s.DocID >= ref.DocID { // by document id
			return store.ErrStop
		}
		return v.tick()
	}
	if f, ok, err := v.sn.Relation(p.Fact); err != nil || ok {
		if err == nil && p.Property == "" {
			err = v.sn.Evidence(p.Fact, before(ref.DocID), look)
		}
		if err != nil || !found {
			return false, err
		}
		c.Relation = &graph.RelationRow{ID: f.ID, Kind: "relation", Type: f.Type, Source: f.Source, Target: f.Target}
		if c.Relation.SourceName, err = v.nameOf(f.Source); err == nil {
			c.Relation.TargetName, err = v.nameOf(f.Target)
		}
		if err == nil {
			c.Relation.Hidden, err = v.hidden(f.ID, f.Type, f.Source, f.Target)
		}
		return err == nil && c.Relation.Hidden == "", err
	}
	e, ok, err := v.sn.Entity(p.Fact)
	if err != nil || !ok {
		return false, err
	}
	c.Entity = &api.Member{ID: e.ID, Name: e.Display(), Type: e.Label}
	if p.Property == "" {
		err = v.sn.Mentions(e.ID, before(ref.DocID), func(m store.MentionSupport) error { return look(asEvidence(m)) })
		return found, err
	}
	folds, err := v.sn.PropertyFolds(e.ID)
	if err != nil {
		return false, err
	}
	for _, f := range folds {
		if api.PropertyMark(f.Name) != p.Property {
			continue
		}
		if err := v.sn.PropertySupports(f.Owner, f.Name, f.Value, look); err != nil && !errors.Is(err, store.ErrStop) {
			return false, err
		}
		if found {
			c.Property, c.Value = f.Name, rounded(f.Value)
			return true, nil
		}
	}
	return false, nil
}

// before is an id that sorts right before a document's, so that a scan begins at that.
func before(docID string) string {
	id, ok := store.ParseID(docID)
	if !ok {
		return ""
	}
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			return id.String()
		}
	}
	return ""
}
