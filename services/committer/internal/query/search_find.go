package query

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	maxScored   = 200_000 // chunks or names that one search keeps scores of
	maxPrefixed = 200     // names that begin with the query
	maxNamed    = 500     // entities looked at for the words of their names

	// passageShare is how much of a chunk's score its best passage gives; the rest is BM25 of the whole chunk.
	passageShare = 0.5
)

type chunkHit struct {
	no    uint32
	score float64
	terms int
	doc   *docView
	index int
}

// chunks finds the open, admitted chunks that fit the query best, best first, with scores from 0 to 1. Rare terms come first;
// once maxScored chunks have a score, more common terms only raise those.
func (s *search) chunks() ([]chunkHit, error) {
	df, err := s.frequencies()
	if err != nil {
		return nil, err
	}
	rare := slices.Clone(s.terms)
	slices.SortStableFunc(rare, func(a, b string) int { return df[a] - df[b] })
	scores := map[uint32]float64{}
	for _, t := range rare {
		full := len(scores) >= maxScored
		err := s.v.sn.Postings(t, func(p store.Posting) error {
			was, ok := scores[p.No]
			if ok || !full {
				scores[p.No] = was + lexical.BM25(s.weight[t], p.TF, 0, 0)
			}
			return s.v.tick()
		})
		if err != nil {
			return nil, err
		}
	}
	picked, err := s.pick(scores)
	if err != nil {
		return nil, err
	}
	return picked, s.score(picked)
}

// frequencies says how many chunks each term is in, and sets the weights.
func (s *search) frequencies() (map[string]int, error) {
	counts, err := s.v.sn.Counts()
	if err != nil {
		return nil, err
	}
	df := map[string]int{}
	for _, t := range s.terms {
		err := s.v.sn.Postings(t, func(store.Posting) error { df[t]++; return s.v.tick() })
		if err != nil {
			return nil, err
		}
		s.weight[t] = lexical.IDF(int(counts.ChunkNo), df[t])
		s.total += s.weight[t]
	}
	return df, nil
}

// pick resolves the best scored chunks until enough of them are open and admitted.
func (s *search) pick(scores map[uint32]float64) ([]chunkHit, error) {
	order := make([]chunkHit, 0, len(scores))
	for no, sc := range scores {
		order = append(order, chunkHit{no: no, score: sc})
	}
	slices.SortFunc(order, func(a, b chunkHit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.no, b.no)) })
	var out []chunkHit
	for _, c := range order {
		if len(out) == s.want {
			break
		}
		if err := s.v.tick(); err != nil {
			return nil, err
		}
		ref, ok, err := s.v.sn.ChunkAt(c.no)
		if err != nil {
			return nil, err
		}
		if !ok || !ref.Open {
			continue
		}
		if ok, err := s.v.admits(ref.DocID); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		if c.doc, err = s.v.at(ref.DocID, ref.Version); err != nil {
			return nil, err
		}
		if ref.Index >= len(c.doc.meta.Chunks) {
			continue
		}
		c.index, c.terms, c.score = ref.Index, ref.Terms, 0
		out = append(out, c)
	}
	return out, nil
}

// score gives the picked chunks their scores: BM25 with their lengths, over the best that a chunk could have, and what their
// best passage has.
func (s *search) score(picked []chunkHit) error {
	if len(picked) == 0 || s.total == 0 {
		return nil
	}
	at := make(map[uint32]int, len(picked))
	sum := 0
	for i, c := range picked {
		at[c.no] = i
		sum += c.terms
	}
	average := float64(sum) / float64(len(picked))
	for _, t := range s.terms {
		err := s.v.sn.Postings(t, func(p store.Posting) error {
			if i, ok := at[p.No]; ok {
				picked[i].score += lexical.BM25(s.weight[t], p.TF, picked[i].terms, average)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i := range picked {
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

// chunkLabel says whether a chunk mentions an entity that the labels admit.
func (s *search) chunkLabel(c chunkHit) (bool, error) {
	if len(s.labels) == 0 {
		return true, nil
	}
	st, err := s.stated(c.doc)
	if err != nil {
		return false, err
	}
	for _, ca := range st.Chunks {
		if ca.Index != c.index {
			continue
		}
		for _, m := range ca.Mentions {
			if m.Entity >= 0 && m.Entity < len(st.Entities) && s.admitsLabel(st.Entities[m.Entity].Label) {
				return true, nil
			}
		}
	}
	return false, nil
}

// admitsLabel says whether an entity type passes the labels.
func (s *search) admitsLabel(label string) bool {
	if len(s.labels) == 0 || slices.Contains(s.labels, label) {
		return true
	}
	return slices.ContainsFunc(s.v.labels(label), func(l string) bool { return slices.Contains(s.labels, l) })
}

func (s *search) stated(d *docView) (store.Stated, error) {
	k := docAt{d.id, d.meta.Version}
	if st, ok := s.read[k]; ok {
		return st, nil
	}
	st, _, err := s.v.sn.Assertions(d.id, d.meta.Version)
	if err == nil {
		s.read[k] = st
	}
	return st, err
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
	for id, score := range best {
		e, ok, err := s.v.sn.Entity(id)
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

// words raises entities by the share of the query's words that stand in one of their names.
func (s *search) words(best map[string]float64) error {
	counts, err := s.v.sn.Counts()
	if err != nil {
		return err
	}
	entities := 0
	for _, n := range counts.Entities {
		entities += n
	}
	weight, total := map[string]float64{}, 0.0
	found := map[string]float64{}
	for _, t := range s.terms {
		ids := map[string]bool{}
		err := s.v.sn.NamePostings(t, func(id string) error {
			if len(ids) < maxScored {
				ids[id] = true
			}
			return s.v.tick()
		})
		if err != nil {
			return err
		}
		weight[t] = lexical.IDF(entities, len(ids))
		total += weight[t]
		full := len(found) >= maxScored
		for id := range ids {
			if _, ok := found[id]; ok || !full {
				found[id] += weight[t]
			}
		}
	}
	ids := make([]string, 0, len(found))
	for id := range found {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(found[b], found[a]), strings.Compare(a, b)) })
	seen := 0
	for _, id := range ids {
		if seen == maxNamed {
			break
		}
		e, ok, err := s.v.sn.Entity(id)
		if err != nil {
			return err
		}
		if !ok || !s.admitsLabel(e.Label) {
			continue
		}
		seen++
		if score := nameScore(e, weight, total); score > 0 {
			best[id] = max(best[id], score)
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
				if len(s.labels) > 0 && !slices.Contains(s.labels, r.Type) {
					continue
				}
				quote, err := s.v.slice(c.doc, r.Start, r.End)
				if err != nil {
					return err
				}
				score := s.quoteScore(quote)
				id := relationID(st.Assertions, r)
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
