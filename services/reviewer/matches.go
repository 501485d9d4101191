package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// page is a piece of a list; next is the place of its last group when more follow.
type page struct {
	groups []api.Group
	next   *model.Place
	total  int
	seq    uint64
}

// What a list asks for.
const (
	onlyCandidates = iota
	onlyMatches
	candidatesAndMatches
)

func asksFor(kinds []string) int {
	matches := 0
	for _, k := range kinds {
		if k == api.KindMatch {
			matches++
		}
	}
	switch matches {
	case 0:
		return onlyCandidates
	case len(kinds):
		return onlyMatches
	}
	return candidatesAndMatches
}

// maxSkip of a list with matches in it; a cursor goes as far as one likes.
const maxSkip = 10_000

// skipping leaves groups out before a page.
func (d *desk) skipping(skip int, after *model.Place, limit int, get func(after *model.Place, limit int) (page, error)) (page, error) {
	if skip > maxSkip {
		return page{}, api.Errorf(400, "bad_value", "skip is %d: at most %d in a list with matches; go on by cursor", skip, maxSkip)
	}
	for skip > 0 {
		p, err := get(after, min(skip, maxLimit))
		if err != nil || p.next == nil {
			p.groups = []api.Group{}
			return p, err
		}
		after, skip = p.next, skip-len(p.groups)
	}
	if limit > 0 {
		return get(after, limit)
	}
	p, err := get(after, 1)
	p.groups, p.next = []api.Group{}, nil
	return p, err
}

// matches is a page of matches. The committer answers, so it includes every decision that was answered before.
func (d *desk) matches(ctx context.Context, graph string, f model.Filter, after *model.Place, limit int) (p page, err error) {
	req := api.MatchesList{MatchFilter: api.MatchFilter{Label: f.Label, MinScore: f.MinScore, MinCount: f.MinCount}, Limit: limit, After: after}
	if f.State != "" {
		req.States = []string{f.State}
	}
	r, err := d.committer.Matches(ctx, graph, req)
	if err != nil {
		return p, err
	}
	p = page{groups: r.Groups, total: r.Total, seq: r.Seq}
	if r.More && len(r.Groups) > 0 {
		last := r.Groups[len(r.Groups)-1].Place()
		p.next = &last
	}
	return p, nil
}

// both is a page of candidates and matches, in one order.
func (d *desk) both(ctx context.Context, graph string, f model.Filter, after *model.Place, limit int) (page, error) {
	a, err := d.candidates(ctx, graph, f, after, 0, limit)
	if err != nil {
		return page{}, err
	}
	b, err := d.matches(ctx, graph, f, after, limit)
	if err != nil {
		return page{}, err
	}
	return merged(a, b, limit), nil
}

// merged takes the first groups of two pages. Where one of them ends and more follow, nothing behind its end is in order.
func merged(a, b page, limit int) page {
	out := page{groups: []api.Group{}, total: a.total + b.total, seq: max(a.seq, b.seq)}
	used := 0
	for len(out.groups) < limit {
		from := &a
		switch {
		case len(a.groups) == 0 && (a.next != nil || len(b.groups) == 0), len(b.groups) == 0 && b.next != nil:
			from = nil
		case len(a.groups) == 0, len(b.groups) > 0 && b.groups[0].Place().Before(a.groups[0].Place()):
			from = &b
		}
		if from == nil {
			break
		}
		g := from.groups[0]
		if used += groupSize(g); used > replyBudget && len(out.groups) > 0 {
			break
		}
		out.groups, from.groups = append(out.groups, g), from.groups[1:]
	}
	if n := len(out.groups); n > 0 && (len(a.groups)+len(b.groups) > 0 || a.next != nil || b.next != nil) {
		last := out.groups[n-1].Place()
		out.next = &last
	}
	return out
}

// match shows one match whole.
func (d *desk) match(ctx context.Context, graph string, req api.MatchGet) (any, error) {
	m, err := d.committer.Match(ctx, graph, req)
	if err != nil {
		return nil, err
	}
	reply := api.ReviewShowReply{Seq: m.Seq, Item: m.Item, Records: []api.Record{}, Evidence: m.Match.A.Evidence, OtherSources: []api.SourceQuote{},
		Revision: m.Item.Revision, Match: &m.Match, History: m.History}
	for _, e := range m.Match.B.Evidence {
		reply.OtherSources = append(reply.OtherSources, api.SourceQuote{Document: e.Document, Chunk: e.Chunk, Quote: e.Quote})
	}
	return reply, nil
}
