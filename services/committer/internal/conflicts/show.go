package conflicts

import (
	"fmt"
	"strconv"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Bounds of what is shown.
const (
	maxValues    = 50
	maxQuotes    = 5       // of a value
	maxUndecided = 10      // quotes
	maxStated    = 100_000 // documents with a value that are held while those without are looked for
	maxWords     = 3       // values in a group's line
	maxWord      = 40      // bytes of one there
)

// group is a conflict as the review list shows it.
func (r *reader) group(x *item) (g api.Group, err error) {
	var folds []store.PropertyFold
	p, err := r.place(x, func(f store.PropertyFold) { folds = append(folds, f) })
	if err != nil {
		return g, err
	}
	x.values = query.Show(x.rule, folds, x.ruling).Values()
	g = api.Group{
		Key: p.Key, Kind: api.KindConflict, Label: x.label, Text: x.name, SourceText: x.property(), TargetText: x.words(), SourceLabel: x.label,
		Reasons: []string{x.reason}, State: p.State, Count: p.Count, Confidence: p.Confidence, IDs: []string{x.ID},
	}
	if x.ruling != nil {
		g.Revision = x.ruling.Seq
	}
	var quotes []api.Surrounded
	if x.kind == ofMissing {
		g.Documents = x.documents
		quotes, err = r.mentioned(x, 1)
	} else if g.Documents, err = r.distinct(x, p.Count); err == nil && len(x.values) > 0 {
		quotes, err = r.quotes(x, x.values[0], 1)
	}
	for _, q := range quotes {
		g.Sample = api.Sample{Document: q.Document, Chunk: q.Chunk, Quote: q.Quote, Start: q.Start, End: q.End}
	}
	return g, err
}

func word(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// distinct counts the documents that give one of the values; each value counts them anew where there are many.
func (r *reader) distinct(x *item, sum int) (int, error) {
	if sum > desk.MaxDistinct {
		return sum, nil
	}
	docs, err := r.stated(x)
	return len(docs), err
}

// stated are the documents that give a value.
func (r *reader) stated(x *item) (map[string]bool, error) {
	docs := map[string]bool{}
	for _, f := range x.values {
		err := r.supports(x, f, func(s store.EvidenceSupport) error {
			docs[s.DocID] = true
			return r.tick()
		})
		if err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// quotes are a few places that give a value.
func (r *reader) quotes(x *item, f store.PropertyFold, limit int) ([]api.Surrounded, error) {
	var docs [][]desk.Span
	err := r.supports(x, f, func(s store.EvidenceSupport) error {
		spans := make([]desk.Span, 0, min(len(s.Spans), limit))
		for _, e := range s.Spans[:min(len(s.Spans), limit)] {
			spans = append(spans, desk.Span{Doc: s.DocID, Version: s.Version, Chunk: e.Chunk, Start: e.Start, End: e.End, Confidence: e.Confidence, Extractor: e.Extractor})
		}
		if docs = append(docs, spans); len(docs) == limit {
			return store.ErrStop
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return desk.Quotes(r.sn, docs, limit)
}

// whole is a conflict with the evidence of each value apart. Where the reply would become too large, later values have less evidence, and
// the last are left out.
func (r *reader) whole(x *item) (out api.ConflictItem, err error) {
	out = api.ConflictItem{ID: x.ID, Owner: x.Owner, Label: x.label, Name: x.name, Property: x.property(), Reason: x.reason,
		Apart: x.ruling != nil && x.ruling.Apart, Values: []api.ConflictValue{}, ValuesTotal: len(x.values), Undecided: []api.Surrounded{}}
	if x.reason == api.ReasonHomonym {
		if err := r.undecided(x, &out); err != nil {
			return out, err
		}
	}
	if x.kind == ofMissing {
		out.UndecidedDocuments = x.documents
		out.Undecided, err = r.mentioned(x, maxUndecided)
		return out, err
	}
	left := desk.ReplyBudget - size(out.Undecided)
	for _, f := range x.values[:min(len(x.values), maxValues)] {
		v := api.ConflictValue{Value: query.Rounded(f.Value), Documents: f.Documents, Confidence: graph.Round6(f.Best), Newest: f.Newest}
		k, err := store.ValueKey(f.Value)
		if err != nil {
			return out, err
		}
		v.Rejected = x.ruling.Rejects(k)
		switch {
		case x.kind == ofEdges:
			e := x.edges[f.Owner]
			v.Text, v.Entity = e.text, e.other
		case out.Apart:
			v.Entity = f.Owner
		case x.reason == api.ReasonHomonym && x.canBeApart() && !v.Rejected:
			v.Entity = store.HomonymOf(x.ref(), f.Value)
		}
		if v.Evidence, err = r.quotes(x, f, maxQuotes); err != nil {
			return out, err
		}
		for len(v.Evidence) > 1 && size(v.Evidence) > left/4 {
			v.Evidence = v.Evidence[:len(v.Evidence)-1]
		}
		s, _ := f.Value.(string)
		if left -= 200 + 2*len(s) + 2*len(v.Text) + size(v.Evidence); left < 0 && len(out.Values) > 1 {
			break
		}
		out.Values = append(out.Values, v)
	}
	return out, nil
}

// size is about how many bytes quotes take in a reply.
func size(quotes []api.Surrounded) (n int) {
	for _, q := range quotes {
		n += 300 + 2*(len(q.Quote)+len(q.Before)+len(q.After)+len(q.Document))
	}
	return n
}

// undecided finds mentions in documents that give no value.
func (r *reader) undecided(x *item, out *api.ConflictItem) error {
	sum := 0
	if x.ruling != nil && x.ruling.Apart {
		return r.stillUndecided(x, out)
	}
	for _, f := range x.values {
		sum += f.Documents
	}
	if sum > maxStated {
		out.UndecidedDocuments = max(0, x.documents-sum)
		return nil
	}
	stated, err := r.stated(x)
	if err != nil {
		return err
	}
	if out.UndecidedDocuments = x.documents - len(stated); out.UndecidedDocuments <= 0 {
		out.UndecidedDocuments = 0
		return nil
	}
	var docs [][]desk.Span
	err = r.sn.Mentions(x.Owner, "", func(s store.MentionSupport) error {
		if stated[s.DocID] {
			return r.tick()
		}
		if docs = append(docs, desk.Mentions(s)); len(docs) == min(maxUndecided, out.UndecidedDocuments) {
			return store.ErrStop
		}
		return r.tick()
	})
	if err != nil {
		return err
	}
	out.Undecided, err = desk.Quotes(r.sn, docs, maxUndecided)
	return err
}
