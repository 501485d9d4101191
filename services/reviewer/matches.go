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
type sources int

const (
	candidates sources = 1 << iota
	matches
	conflicts
	stale
	heldJobs
)

func asksFor(kinds []string) (s sources) {
	for _, k := range kinds {
		switch k {
		case api.KindMatch:
			s |= matches
		case api.KindConflict:
			s |= conflicts
		case api.KindStale:
			s |= stale
		case api.KindJob:
			s |= heldJobs
		default:
			s |= candidates
		}
	}
	if s == 0 {
		return candidates
	}
	return s
}

// maxSkip of a list with matches or conflicts in it; a cursor goes as far as one likes.
const maxSkip = 10_000

// skipping leaves groups out before a page.
func (d *desk) skipping(skip int, after *model.Place, limit int, get func(after *model.Place, limit int) (page, error)) (page, error) {
	if skip > maxSkip {
		return page{}, api.Errorf(400, "bad_value", "skip is %d: at most %d in a list with more than candidates; go on by cursor", skip, maxSkip)
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

// several is a page of groups of more kinds than candidates, in one order.
func (d *desk) several(ctx context.Context, graph string, asked sources, f model.Filter, after *model.Place, limit int) (p page, err error) {
	var pages []page
	if asked&candidates != 0 {
		if p, err = d.candidates(ctx, graph, f, after, 0, limit); err != nil {
			return p, err
		}
		pages = append(pages, p)
	}
	if asked&matches != 0 {
		if p, err = d.matches(ctx, graph, f, after, limit); err != nil {
			return p, err
		}
		pages = append(pages, p)
	}
	if asked&conflicts != 0 {
		if p, err = d.conflicts(ctx, graph, f, after, limit); err != nil {
			return p, err
		}
		pages = append(pages, p)
	}
	if asked&stale != 0 {
		if p, err = d.staleFacts(ctx, graph, f, after, limit); err != nil {
			return p, err
		}
		pages = append(pages, p)
	}
	if asked&heldJobs != 0 {
		if p, err = d.held(ctx, graph, f, after, limit); err != nil {
			return p, err
		}
		pages = append(pages, p)
	}
	out := pages[0]
	for _, p := range pages[1:] {
		out = merged(out, p, limit)
	}
	return out, nil
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
		Revision: m.Item.Revision, Match: &m.Match, Planned: m.Planned, History: m.History}
	for _, e := range m.Match.B.Evidence {
		reply.OtherSources = append(reply.OtherSources, api.SourceQuote{Document: e.Document, Chunk: e.Chunk, Quote: e.Quote})
	}
	return reply, nil
}
