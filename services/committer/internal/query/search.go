package query

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Kinds of hits.
const (
	hitEntity   = "entity"
	hitRelation = "relation"
	hitChunk    = "chunk"
)

const (
	maxQuery      = 4096 // bytes
	maxQueryTerms = 32
	defaultHits   = 10
	maxHits       = 100
	perHit        = 5 // mentions or quotes of one hit
)

// hit is a result before its row is made.
type hit struct {
	kind    string
	id      string
	score   float64
	snippet string // of a relation: the quote that matched
	doc     *docView
	index   int // of a chunk
}

// search is one search under way.
type search struct {
	v      *view
	q      string
	terms  []string
	weight map[string]float64 // of the terms, by how rare they are in chunks
	total  float64
	labels []string
	// relTypes are those asked for; empty: all.
	relTypes   []string
	kinds      map[string]bool
	lists      *lists
	aliases    Aliases
	want       int // chunks looked at closely
	hits       []hit
	read       map[docAt]store.Stated
	failed     []api.FailedMethod // methods that hybrid did without
	cut        bool               // the filters left too few of the chunks, names or nearest vectors that are looked at
	names      map[string]float64 // of the terms, by how rare they are in names
	namesTotal float64
	raw        bool                // every entity is a hit of its own
	part       map[string]*cluster // by member: the clusters that were met
}

// Search answers query.search: entities by their names (the whole name, its beginning, its words), relations by the words of
// their quotes, chunks by the words of their text (BM25, and how much of the query one passage has under its headings and title),
// best first. Question words and other function words count only where the query has nothing else. Scores lie between 0 and
// about 2 and compare hits of one reply only. Mode vector finds entities and chunks by the cosine of their name or text to the query, which is the score, 0…1; mode
// hybrid fuses that with the list of the words by ranks (fuse), with scores up to 2/61. Nothing that waits for review is found. Filters: a label admits entities of that type or below it, relations of
// that type, and chunks that mention such an entity; the others admit documents, and what is shown rests on those alone. Unless the request
// is raw, the entities of one cluster are one hit, the best of them.
func (q *Queries) Search(ctx context.Context, name string, req api.Search) (api.SearchReply, error) {
	out := api.SearchReply{Hits: []api.Hit{}}
	limit, bad := limited("limit", req.Limit, defaultHits, maxHits)
	if bad != nil {
		return out, bad
	}
	kinds, bad := checkSearch(req)
	if bad != nil {
		return out, bad
	}
	docs, bad := newFilter(req.Filters)
	if bad != nil {
		return out, bad
	}
	err := q.within(ctx, name, req.AsOf, req.Offsets, req.Within, func(v *view) error {
		if v == nil {
			return nil
		}
		v.filter = docs
		out.Seq = v.sn.Seq()
		s := &search{v: v, q: req.Q, want: max(100, 2*limit), read: map[docAt]store.Stated{}, weight: map[string]float64{},
			raw: req.Raw, part: map[string]*cluster{}, kinds: kinds, lists: q.lists, aliases: q.aliases}
		s.setFilters(req.Filters)
		if !v.sn.showsText() {
			delete(kinds, hitChunk)
		}
		if err := q.find(s, req.Mode, limit); err != nil {
			return err
		}
		out.Incomplete, out.Failed = s.cut, s.failed
		if err := s.fill(limit, &out); err != nil {
			return err
		}
		v.ranks(out.Hits)
		out.Outside = v.nothing(len(out.Hits))
		return nil
	})
	return out, err
}

// find fills s.hits, best first.
func (q *Queries) find(s *search, mode string, limit int) error {
	switch mode {
	case modeVector:
		if err := s.weigh(); err != nil {
			return err
		}
		if s.raw {
			return s.near(q.vectors, limit, s.nearEntity)
		}
		return s.near(q.vectors, limit, s.nearCluster)
	case modeHybrid:
		return s.hybrid(q.vectors)
	}
	return s.run()
}

func checkSearch(req api.Search) (map[string]bool, *api.Error) {
	if strings.TrimSpace(req.Q) == "" {
		return nil, badValue("q is empty")
	}
	if len(req.Q) > maxQuery {
		return nil, badValue("q has %d bytes: at most %d", len(req.Q), maxQuery)
	}
	switch req.Mode {
	case "", modeLexical:
	case modeVector, modeHybrid:
		if req.AsOf != 0 {
			return nil, badValue("as_of with mode %s: vectors are of now; search with mode lexical", req.Mode)
		}
	default:
		return nil, badValue("mode is %q: it must be lexical, vector or hybrid", clip(req.Mode))
	}
	kinds := map[string]bool{}
	for _, k := range req.Kinds {
		switch k {
		case hitEntity, hitRelation, hitChunk:
			kinds[k] = true
		default:
			return nil, badValue("kinds has %q: it takes entity, relation, chunk", clip(k))
		}
	}
	if req.Mode == modeVector && len(kinds) == 1 && kinds[hitRelation] {
		return nil, badValue("kinds is relation: relations have no vectors; search with mode lexical or hybrid")
	}
	if len(kinds) == 0 {
		kinds[hitEntity], kinds[hitRelation], kinds[hitChunk] = true, true, true
	}
	return kinds, nil
}

func (s *search) run() error {
	s.terms = lexical.Content(lexical.QueryTerms(s.q, maxQueryTerms))
	for _, t := range s.terms { // to be marked, where nothing weighs them
		s.weight[t] = 1
	}
	var chunks []chunkHit
	if s.kinds[hitChunk] || s.kinds[hitRelation] {
		var err error
		if chunks, err = s.chunks(); err != nil {
			return err
		}
	}
	if s.kinds[hitEntity] {
		if err := s.entities(); err != nil {
			return err
		}
	}
	if s.kinds[hitRelation] {
		if err := s.relations(chunks); err != nil {
			return err
		}
	}
	if s.kinds[hitChunk] {
		for _, c := range chunks {
			if c.shown {
				s.hits = append(s.hits, hit{kind: hitChunk, score: c.score, doc: c.doc, index: c.index})
			}
		}
	}
	return s.order()
}

// order sorts the hits: score, then kind, then id.
func (s *search) order() error {
	for i := range s.hits {
		h := &s.hits[i]
		h.score = graph.Round6(h.score)
		if h.kind == hitChunk {
			var err error
			if h.id, err = h.doc.chunkID(h.index); err != nil {
				return err
			}
		}
	}
	rank := map[string]int{hitEntity: 0, hitRelation: 1, hitChunk: 2}
	slices.SortFunc(s.hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), rank[a.kind]-rank[b.kind], strings.Compare(a.id, b.id))
	})
	return nil
}

// fill makes the rows of the best hits.
func (s *search) fill(limit int, out *api.SearchReply) error {
	b := newBudget()
	shown := map[*cluster]bool{}
	for _, h := range s.hits {
		if len(out.Hits) == limit {
			break
		}
		before := *b
		c, err := s.clusterOf(h)
		if err != nil {
			return err
		}
		if c != nil && shown[c] {
			continue
		}
		row, snip, ok, err := s.row(h, b)
		if err != nil {
			return err
		}
		if !ok {
			*b = before
			continue
		}
		raw, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("encode hit %s: %w", h.id, err)
		}
		if !b.take(160 + textCost(snip.text) + 40*len(snip.marks)) {
			break
		}
		hit := api.Hit{Kind: h.kind, ID: h.id, Score: h.score, Snippet: snip.text, Matches: s.v.matches(snip), Row: raw}
		if c != nil {
			shown[c] = true
			if hit.Cluster, err = s.members(c, b); err != nil {
				return err
			}
		}
		out.Hits = append(out.Hits, hit)
	}
	return nil
}

// row makes a hit's row and snippet; ok is false when it does not fit or the filter leaves nothing of it.
func (s *search) row(h hit, b *budget) (row any, cut snip, ok bool, err error) {
	switch h.kind {
	case hitEntity:
		e, ok, err := s.v.sn.Entity(h.id)
		if err != nil || !ok {
			return nil, snip{}, false, err
		}
		row, ok, err := s.v.entityRow(e, perHit, b)
		if err != nil || !ok {
			return nil, snip{}, false, err
		}
		cut, err := s.mentionSnippet(e.ID)
		return row, cut, true, err
	case hitRelation:
		f, ok, err := s.v.sn.Relation(h.id)
		if err != nil || !ok {
			return nil, snip{}, false, err
		}
		row, ok, err := s.v.relationRow(f, perHit, b)
		return row, snippet(h.snippet, s.weight), ok, err
	}
	r, err := s.v.chunkRow(h.doc, h.index)
	if err != nil || !b.take(chunkCost(r)) {
		return nil, snip{}, false, err
	}
	return r, snippet(r.Text, s.weight), true, nil
}

// mentionSnippet is the text around an entity's first mention that the filter admits. Without a word of the query in it, the mention is
// what is marked.
func (s *search) mentionSnippet(id string) (out snip, err error) {
	err = s.v.sn.Mentions(id, "", func(m store.MentionSupport) error {
		if ok, err := s.v.admits(m.DocID); err != nil || !ok || len(m.Spans) == 0 {
			return err
		}
		d, err := s.v.at(m.DocID, m.Version)
		if err != nil {
			return err
		}
		span := m.Spans[0]
		if span.Chunk >= len(d.meta.Chunks) {
			return nil
		}
		c := d.meta.Chunks[span.Chunk]
		text, err := s.v.slice(d, c.Start, c.End)
		if err != nil {
			return err
		}
		from, to := span.Start-c.Start, span.End-c.Start
		if !s.v.sn.showsText() {
			out = around(text[from:to], 0, to-from, [][2]int{{0, to - from}})
			return store.ErrStop
		}
		if out = around(text, from, to, matches(text, s.weight)); len(out.marks) == 0 {
			out = around(text, from, to, [][2]int{{from, to}})
		}
		return store.ErrStop
	})
	return out, err
}
