package query

import (
	"cmp"
	"math"
	"slices"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	maxLooked   = 20_000 // chunks looked at for those that the filters admit
	maxPrefixed = 200    // names that begin with the query
	maxNamed    = 500    // entities looked at for the words of their names

	// passageShare is how much of a chunk's score its best passage gives; the rest is BM25 of the whole chunk.
	passageShare = 0.5
)

type chunkHit struct {
	no    uint32
	score float64
	terms int
	doc   *docView
	index int
	shown bool // it may be a hit itself, not only where relations are found
}

// chunks finds the open, admitted chunks that fit the query best, best first, with scores from 0 to 1. The best by BM25 without regard
// to their lengths are looked at closely, more and more of them until enough are admitted.
func (s *search) chunks() ([]chunkHit, error) {
	lists, err := s.postings()
	if err != nil {
		return nil, err
	}
	spans, err := s.spans()
	if err != nil {
		return nil, err
	}
	weights := make([]float64, len(s.terms))
	for i, t := range s.terms {
		weights[i] = s.weight[t]
	}
	var picked []chunkHit
	top := s.want
	if s.filtered() || !s.kinds[hitChunk] {
		top *= 4
	}
	for seen := 0; ; {
		top = min(top, maxLooked)
		found, err := lexical.Best(lists, weights, top, spans, s.v.ctx.Err)
		if err != nil {
			return nil, err
		}
		for _, f := range found[min(seen, len(found)):] {
			if err := s.v.tick(); err != nil {
				return nil, err
			}
			c, ok, err := s.admit(f.No)
			if err != nil {
				return nil, err
			}
			if ok {
				picked = append(picked, c)
			}
			if len(picked) == s.want {
				return picked, s.score(picked, lists)
			}
		}
		if len(found) < top || top == maxLooked {
			s.cut = s.cut || len(found) == maxLooked
			return picked, s.score(picked, lists)
		}
		seen, top = len(found), 4*top
	}
}

// postings are the lists of the terms, in their order; it sets the weights.
func (s *search) postings() ([]*lexical.Postings, error) {
	counts, err := s.v.sn.Counts()
	if err != nil {
		return nil, err
	}
	lists := make([]*lexical.Postings, len(s.terms))
	s.total = 0
	for i, t := range s.terms {
		if lists[i], err = s.lists.chunks(s.v, t, counts.ChunkNo); err != nil {
			return nil, err
		}
		s.weight[t] = lexical.IDF(int(counts.ChunkNo), lists[i].Len())
		s.total += s.weight[t]
	}
	return lists, nil
}

// score gives the picked chunks their scores: BM25 with their lengths, over the best that a chunk could have, and what their
// best passage has.
func (s *search) score(picked []chunkHit, lists []*lexical.Postings) error {
	if len(picked) == 0 || s.total == 0 {
		return nil
	}
	sum := 0
	for _, c := range picked {
		sum += c.terms
	}
	average := float64(sum) / float64(len(picked))
	for i := range picked {
		for j, t := range s.terms {
			picked[i].score += lexical.BM25(s.weight[t], lists[j].TF(picked[i].no), picked[i].terms, average)
		}
		p, err := s.passage(picked[i])
		if err != nil {
			return err
		}
		bm25 := picked[i].score / (s.total * (lexical.K1 + 1))
		picked[i].score = (1-passageShare)*bm25 + passageShare*p
	}
	slices.SortStableFunc(picked, func(a, b chunkHit) int { return cmp.Compare(b.score, a.score) })
	return nil
}

// passage is the share of the query's weight that the densest place of a chunk has, read as a person reads it: under its headings
// and the document's title.
func (s *search) passage(c chunkHit) (float64, error) {
	chunk := c.doc.meta.Chunks[c.index]
	text, err := s.v.slice(c.doc, chunk.Start, chunk.End)
	if err != nil {
		return 0, err
	}
	doc, err := s.v.doc(c.doc.id)
	if err != nil {
		return 0, err
	}
	_, _, words := densest(text, s.weight)
	has := map[string]bool{}
	for _, w := range words {
		has[w] = true
	}
	for _, head := range append([]string{doc.Meta.Title, chunk.Prefix}, chunk.Heading...) {
		lexical.Spans(head, func(term []byte, _, _ int) { has[string(term)] = true })
	}
	sum := 0.0
	for _, t := range s.terms { // in one order: sums of floats differ by it
		if has[t] {
			sum += s.weight[t]
		}
	}
	return sum / s.total, nil
}

// entities finds entities by name: the query is the name, or begins it, or shares words with it.
func (s *search) entities() error {
	best := map[string]float64{}
	raise := func(n store.NamedEntity, score float64) {
		if s.admitsLabel(n.Label) {
			best[n.ID] = max(best[n.ID], score)
		}
	}
	folded := fingerprint.Fold(s.q)
	exact, err := s.v.sn.EntitiesNamed(folded)
	if err != nil {
		return err
	}
	for _, n := range exact {
		if n.Full {
			raise(n, 2)
		} else {
			raise(n, 1.8)
		}
	}
	begun, err := s.v.sn.EntityNamePrefix(folded, maxPrefixed)
	if err != nil {
		return err
	}
	for _, n := range begun {
		raise(n, 1+0.5*float64(len(folded))/float64(max(1, len(n.Name))))
	}
	if err := s.words(best); err != nil {
		return err
	}
	if err := s.called(best); err != nil {
		return err
	}
	for id, score := range best {
		e, ok, err := s.v.sn.Entity(id)
		if err == nil && ok {
			ok, err = s.standsIn(id)
		}
		if err != nil {
			return err
		}
		if ok {
			// Of equal fits, the one that is spoken of more.
			score += 0.05 * float64(e.Mentions) / float64(e.Mentions+10)
			s.hits = append(s.hits, hit{kind: hitEntity, id: id, score: score})
		}
	}
	return nil
}

// nameScore is at most 0.95: the share of the query's weight in the best of the entity's names, less what else that name says.
func nameScore(e store.EntityFold, weight map[string]float64, total float64) float64 {
	best := 0.0
	try := func(name string) {
		matched, words := map[string]bool{}, 0
		sum := 0.0
		lexical.Spans(name, func(term []byte, _, _ int) {
			words++
			w, ok := weight[string(term)]
			if ok && !matched[string(term)] {
				matched[string(term)] = true
				sum += w
			}
		})
		if total > 0 && words > 0 {
			share := sum / total
			best = max(best, 0.95*share*(0.6+0.4*float64(len(matched))/float64(words)))
		}
	}
	try(e.Key)
	for _, n := range e.Names {
		try(n.Name)
	}
	return best
}

// relations finds the relations whose quotes, in the chunks that were found, have words of the query.
func (s *search) relations(chunks []chunkHit) error {
	found := map[string]hit{}
	for _, c := range chunks {
		st, err := s.stated(c.doc)
		if err != nil {
			return err
		}
		for _, ca := range st.Chunks {
			if ca.Index != c.index {
				continue
			}
			for _, r := range ca.Relations {
				if !s.admitsRelation(st, r) {
					continue
				}
				quote, err := s.v.slice(c.doc, r.Start, r.End)
				if err != nil {
					return err
				}
				score := s.quoteScore(quote)
				id := relationID(st.Assertions, r)
				if why, err := s.v.hidden(id, r.Type, entityID(st.Assertions, r.Source), entityID(st.Assertions, r.Target)); err != nil {
					return err
				} else if why != "" { // as in neighbors and path
					continue
				}
				if score > found[id].score {
					found[id] = hit{kind: hitRelation, id: id, score: score, snippet: quote}
				}
			}
		}
	}
	for _, h := range found {
		s.hits = append(s.hits, h)
	}
	return nil
}

// quoteScore is at most 0.9: the share of the query's weight in the quote, less for long quotes.
func (s *search) quoteScore(quote string) float64 {
	if s.total == 0 {
		return 0
	}
	matched, words, sum := map[string]bool{}, 0, 0.0
	lexical.Spans(quote, func(term []byte, _, _ int) {
		words++
		if w, ok := s.weight[string(term)]; ok && !matched[string(term)] {
			matched[string(term)] = true
			sum += w
		}
	})
	if sum == 0 {
		return 0
	}
	return sum / s.total * (0.9 - 0.3*(1-math.Exp(-float64(words)/60)))
}
