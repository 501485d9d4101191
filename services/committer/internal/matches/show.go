package matches

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Bounds of what is shown.
const (
	maxNames  = 20
	maxQuotes = 10 // of a side
	maxKept   = 1 << 15
)

// reader reads matches of a snapshot. For one goroutine.
type reader struct {
	ctx   context.Context
	sn    *store.Snapshot
	ticks int
	kept  map[string]entity
}

type entity struct {
	label, name string
	documents   int
}

func (r *reader) tick() error {
	if r.ticks++; r.ticks%256 == 0 {
		return r.ctx.Err()
	}
	return nil
}

func (r *reader) fold(id string) (store.EntityFold, error) {
	e, ok, err := r.sn.Entity(id)
	if err == nil && !ok {
		err = fmt.Errorf("%w: a match of entity %s, which is not there", store.ErrCorrupt, id)
	}
	return e, err
}

func (r *reader) entity(id string) (entity, error) {
	if e, ok := r.kept[id]; ok {
		return e, nil
	}
	f, err := r.fold(id)
	if err != nil {
		return entity{}, err
	}
	if len(r.kept) >= maxKept || r.kept == nil {
		r.kept = map[string]entity{}
	}
	e := entity{f.Label, f.Display(), f.Documents}
	r.kept[id] = e
	return e, nil
}

// group is a match as the review list shows it.
func (r *reader) group(m store.Match) (g api.Group, err error) {
	a, err := r.entity(m.A)
	if err != nil {
		return g, err
	}
	b, err := r.entity(m.B)
	if err != nil {
		return g, err
	}
	g = api.Group{
		Key: keyOf(m), Kind: api.KindMatch, Label: a.label, Text: a.name + " ~ " + b.name, SourceText: a.name, TargetText: b.name,
		SourceLabel: a.label, TargetLabel: b.label, Reasons: []string{m.Method}, State: words[m.State()],
		Count: a.documents + b.documents, Confidence: graph.Round6(m.Score), IDs: []string{fingerprint.MatchID(m.A, m.B)},
	}
	if g.Documents, err = r.distinct(m, g.Count); err != nil {
		return g, err
	}
	quotes, err := r.quotes(m.A, 1)
	if err != nil {
		return g, err
	}
	for _, q := range quotes {
		g.Sample = api.Sample{Document: q.Document, Chunk: q.Chunk, Quote: q.Quote, Start: q.Start, End: q.End}
	}
	for _, e := range []string{m.A, m.B} {
		n, err := r.countFits(e)
		if err != nil {
			return g, err
		}
		if n > 1 {
			g.Fits = max(g.Fits, n)
		}
	}
	if m.Decided != "" {
		v, _, err := r.sn.Verdict(m.A, m.B)
		g.Revision = v.Seq
		return g, err
	}
	return g, nil
}

// distinct counts the documents that mention one of the two, or both.
func (r *reader) distinct(m store.Match, sum int) (int, error) {
	if sum > desk.MaxDistinct {
		return sum, nil
	}
	docs := map[string]bool{}
	for _, e := range []string{m.A, m.B} {
		err := r.sn.Mentions(e, "", func(s store.MentionSupport) error {
			docs[s.DocID] = true
			return r.tick()
		})
		if err != nil {
			return 0, err
		}
	}
	return len(docs), nil
}

// item is a match whole.
func (r *reader) item(m store.Match) (out api.MatchItem, err error) {
	out = api.MatchItem{ID: fingerprint.MatchID(m.A, m.B), Method: m.Method, Score: graph.Round6(m.Score), Found: words[m.Found]}
	if out.A, err = r.side(m.A); err != nil {
		return out, err
	}
	if out.B, err = r.side(m.B); err != nil {
		return out, err
	}
	if out.Fits, err = r.fits(m); err != nil || m.Decided == "" {
		return out, err
	}
	v, ok, err := r.sn.Verdict(m.A, m.B)
	if ok {
		out.Decided = &api.MatchDecided{Decision: decisions[v.State], Actor: v.Actor, Reason: v.Reason, At: v.At, Seq: v.Seq}
	}
	return out, err
}

func (r *reader) side(id string) (s api.MatchSide, err error) {
	e, err := r.fold(id)
	if err != nil {
		return s, err
	}
	s = api.MatchSide{ID: id, Label: e.Label, Name: e.Display(), Names: []string{}, Documents: e.Documents, Mentions: e.Mentions}
	names := slices.Clone(e.Names)
	slices.SortStableFunc(names, func(a, b store.NameCount) int { return cmp.Compare(b.Count, a.Count) })
	for _, n := range names[:min(len(names), maxNames)] {
		s.Names = append(s.Names, n.Name)
	}
	s.Evidence, err = r.quotes(id, maxQuotes)
	return s, err
}

// maxSeen is how many mentions of each end an audit record has.
const maxSeen = 3

// evidence are the first mentions of both ends, of a document one.
func (r *reader) evidence(m store.Match) (out []events.AuditEvidence, err error) {
	for _, e := range []string{m.A, m.B} {
		n := 0
		err := r.sn.Mentions(e, "", func(s store.MentionSupport) error {
			d, ok, err := r.sn.Doc(s.DocID)
			if err != nil || !ok || len(s.Spans) == 0 {
				return err
			}
			text, ok, err := r.sn.Text(s.DocID, s.Version)
			if err != nil {
				return err
			}
			x := s.Spans[0]
			if !ok || x.Start > x.End || x.End > len(text) {
				return fmt.Errorf("%w: a place in version %d of document %s is not in its text", store.ErrCorrupt, s.Version, s.DocID)
			}
			out = append(out, events.AuditEvidence{Document: d.Meta.Key, Version: s.Version, Start: x.Start, End: x.End, Quote: text[x.Start:x.End]})
			if n++; n == maxSeen {
				return store.ErrStop
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// quotes are a few mentions with the text around, the first of each document before second ones.
func (r *reader) quotes(id string, limit int) ([]api.Surrounded, error) {
	var docs [][]desk.Span
	err := r.sn.Mentions(id, "", func(s store.MentionSupport) error {
		if docs = append(docs, desk.Mentions(s)); len(docs) == limit {
			return store.ErrStop
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return desk.Quotes(r.sn, docs, limit)
}
