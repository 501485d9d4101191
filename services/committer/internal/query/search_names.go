package query

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/factmill/factmill/services/committer/internal/lexical"
)

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
	total := 0.0
	lists := make([]wordList, len(s.terms))
	s.names = map[string]float64{}
	for i, t := range s.terms {
		if lists[i].ids, err = s.lists.names(s.v, t); err != nil {
			return err
		}
		w := lexical.IDF(entities, len(lists[i].ids))
		lists[i].weight, s.names[t] = w, w
		total += w
	}
	s.namesTotal = total
	top := maxNamed
	if s.filtered() {
		top = maxNear
	}
	found, err := mostWords(lists, top, s.v.tick)
	if err != nil {
		return err
	}
	seen := 0
	for _, f := range found {
		if seen == maxNamed {
			break
		}
		if err := s.v.tick(); err != nil {
			return err
		}
		e, ok, err := s.v.sn.Entity(f.id.String())
		if err != nil {
			return err
		}
		if !ok || !s.admitsLabel(e.Label) {
			continue
		}
		if ok, err := s.standsIn(e.ID); err != nil {
			return err
		} else if !ok {
			continue
		}
		seen++
		if score := nameScore(e, s.names, total); score > 0 {
			best[e.ID] = max(best[e.ID], score)
		}
	}
	s.cut = s.cut || len(found) == maxNear && seen < maxNamed
	return nil
}

// wordList is the entities with a word in a name, in order, and what the word weighs.
type wordList struct {
	ids    []entityNo
	weight float64
}

// wordHit is an entity with the weight of its words.
type wordHit struct {
	id     entityNo
	weight float64
}

// wordHeap has the worst hit first.
type wordHeap []wordHit

func (h wordHeap) Len() int           { return len(h) }
func (h wordHeap) Less(i, j int) bool { return better(h[j], h[i]) < 0 }
func (h wordHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wordHeap) Push(x any)        { w, _ := x.(wordHit); *h = append(*h, w) }
func (h *wordHeap) Pop() any          { x := (*h)[len(*h)-1]; *h = (*h)[:len(*h)-1]; return x }

// better orders hits: the weight, then the id.
func better(a, b wordHit) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), a.id.compare(b.id))
}

// mostWords are the k entities with most weight, best first. Rare words come first; a list is read no further once nothing in it can be
// among the best.
func mostWords(lists []wordList, k int, tick func() error) ([]wordHit, error) {
	lists = slices.Clone(lists)
	slices.SortStableFunc(lists, func(a, b wordList) int { return len(a.ids) - len(b.ids) })
	h := make(wordHeap, 0, k)
	for i, l := range lists {
		most := 0.0
		for _, x := range lists[i:] {
			most += x.weight
		}
		at := make([]int, len(lists))
		for _, id := range l.ids {
			if len(h) == k && h[0].weight >= most {
				break
			}
			if err := tick(); err != nil {
				return nil, err
			}
			sum, known := 0.0, false
			for j := range lists {
				if has := j == i || seek(lists[j].ids, &at[j], id); has && j < i {
					known = true
					break
				} else if has {
					sum += lists[j].weight
				}
			}
			switch hit := (wordHit{id, sum}); {
			case known:
			case len(h) < k:
				heap.Push(&h, hit)
			case better(hit, h[0]) < 0:
				h[0] = hit
				heap.Fix(&h, 0)
			}
		}
	}
	slices.SortFunc(h, better)
	return h, nil
}

// seek moves at to the first id that is not before one, and says whether it is that.
func seek(ids []entityNo, at *int, id entityNo) bool {
	step, lo := 1, *at
	for lo+step < len(ids) && ids[lo+step].compare(id) < 0 {
		lo += step
		step *= 2
	}
	i, found := slices.BinarySearchFunc(ids[min(lo, len(ids)):min(lo+step+1, len(ids))], id, entityNo.compare)
	*at = lo + i
	return found
}
