package query

import (
	"bytes"
	"container/list"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	// listCache is about how many bytes of posting lists are kept between searches.
	listCache = 64 << 20
	// minNames of a list that is kept; shorter ones are read again.
	minNames = 200
)

// lists keeps posting lists of terms in memory, those asked for last, so that a common term is read from the store once and not for each
// search. It is safe for concurrent use; what it gives out is not changed any more.
type lists struct {
	mu   sync.Mutex
	max  int
	size int                      // guarded by mu, as are the rest
	by   map[listOf]*list.Element // of keptList
	used *list.List               // last used first
}

// listOf names a list: of chunks, or of entities by the words of their names.
type listOf struct {
	graph, term string
	names       bool
}

// keptList is a list as of a chunk number, or of a sequence.
type keptList struct {
	of   listOf
	upTo uint32            // of chunks: the list has all chunks with numbers below
	seq  uint64            // of names: the list is of that sequence
	p    *lexical.Postings // of chunks
	ids  []entityNo        // of names, in order
}

func (k *keptList) size() int {
	n := 200 + len(k.of.graph) + len(k.of.term) + 16*cap(k.ids)
	if k.p != nil {
		n += k.p.Size()
	}
	return n
}

func newLists(most int) *lists {
	return &lists{max: most, by: map[listOf]*list.Element{}, used: list.New()}
}

func (l *lists) get(of listOf) *keptList {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.by[of]
	if e == nil {
		return nil
	}
	l.used.MoveToFront(e)
	k, _ := e.Value.(*keptList)
	return k
}

// put keeps a list unless a later one is kept already.
func (l *lists) put(k *keptList) {
	if k.size() > l.max/4 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.by[k.of]; e != nil {
		if was, _ := e.Value.(*keptList); was.upTo > k.upTo || was.seq > k.seq {
			return
		}
		l.drop(e)
	}
	l.by[k.of] = l.used.PushFront(k)
	l.size += k.size()
	for l.size > l.max {
		l.drop(l.used.Back())
	}
}

func (l *lists) drop(e *list.Element) {
	k, _ := l.used.Remove(e).(*keptList)
	delete(l.by, k.of)
	l.size -= k.size()
}

// chunks is the list of a term's chunks, those with numbers below upTo: all that the view's sequence has. Numbers rise with commits, so
// that a list of a later sequence holds that of an earlier one.
func (l *lists) chunks(v *view, term string, upTo uint32) (*lexical.Postings, error) {
	of := listOf{graph: v.sn.Graph(), term: term}
	if k := l.get(of); k != nil && k.upTo >= upTo {
		return k.p.Below(upTo), nil
	}
	p := &lexical.Postings{}
	err := v.sn.Postings(term, func(x store.Posting) error {
		p.Add(x.No, uint32(x.TF))
		return v.tick()
	})
	if err != nil {
		return nil, err
	}
	p.Sort()
	l.put(&keptList{of: of, upTo: upTo, p: p})
	return p, nil
}

// entityNo is the id of an entity.
type entityNo [16]byte

func entityNoOf(id string) (n entityNo, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(b) != len(n) {
		return n, fmt.Errorf("%w: an entity has the id %q", store.ErrCorrupt, clip(id))
	}
	return entityNo(b), nil
}

func (n entityNo) compare(m entityNo) int { return bytes.Compare(n[:], m[:]) }

func (n entityNo) String() string {
	h := hex.EncodeToString(n[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// names is the list of the entities that were ever found under a name with a term, in order.
func (l *lists) names(v *view, term string) ([]entityNo, error) {
	of := listOf{graph: v.sn.Graph(), term: term, names: true}
	if k := l.get(of); k != nil && k.seq == v.sn.Seq() {
		return k.ids, nil
	}
	var ids []entityNo
	err := v.sn.NamePostings(term, func(id string) error {
		n, err := entityNoOf(id)
		if err != nil {
			return err
		}
		ids = append(ids, n)
		return v.tick()
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ids, entityNo.compare)
	ids = slices.Clip(slices.Compact(ids))
	if len(ids) >= minNames {
		l.put(&keptList{of: of, seq: v.sn.Seq(), ids: ids})
	}
	return ids, nil
}
