package store

import (
	"context"
	"errors"
	"fmt"
)

// The feed says what commits did to what is embedded and linked: which entities came, went or got another display name, and which chunks
// came or went. Its rows lie beside the facts, are written with them, and are taken away by TrimFeed.

// Kinds of a Touched.
const (
	TouchedEntity = 'e'
	TouchedChunk  = 'c'
)

// Touched is an entity or chunk of a feed.
type Touched struct {
	Kind byte
	ID   string
}

// FeedPage is a piece of the feed.
type FeedPage struct {
	// Seq is the commit that all of the page is of, and Job what committed.
	Seq     uint64
	Job     string
	Touched []Touched
	// Next is the offset of what follows in the same commit; 0: nothing does.
	Next int
}

// ErrFeedGone says that the feed does not reach back to a sequence.
var ErrFeedGone = errors.New("the feed does not reach back that far")

// feedPart is how many entries a row of the feed has at most.
const feedPart = 4096

func feedKey(g uint32, seq uint64, part int) key {
	return newKey(g, spaceFeed).u64(seq).u32(uint32(part))
}

// feed notes an entry. A fact that is changed again after a flush is noted again.
func (t *Txn) feed(kind byte, v id) {
	t.fed = append(append(t.fed, kind), v[:]...)
	t.size += 1 + idLen
}

// feedRows makes the rows of what was noted.
func (t *Txn) feedRows(set func(k, v []byte) error) error {
	for fed := t.fed; len(fed) > 0; t.fedParts++ {
		n := min(len(fed), feedPart*(1+idLen))
		w := make(writer, 0, 64+n).str(t.job)
		if err := set(feedKey(t.g.id, t.seq, t.fedParts).end(), append(w, fed[:n]...)); err != nil {
			return err
		}
		fed = fed[n:]
	}
	t.fed = t.fed[:0]
	return nil
}

// Feed returns what the first commit behind seq that touched anything did, beginning with its entry number offset (seq is then the
// commit before it), about limit entries. Seq is 0 when there is none. ErrFeedGone: rows behind seq were trimmed.
func (s *Store) Feed(ctx context.Context, graph string, seq uint64, offset, limit int) (page FeedPage, err error) {
	if err := s.enter(); err != nil {
		return page, err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return page, err
	}
	trimmed, err := s.feedTrimmed(g.id)
	if err != nil {
		return page, err
	}
	if seq < trimmed {
		return page, fmt.Errorf("%w: graph %s behind commit %d", ErrFeedGone, graph, seq)
	}
	current := g.current.Load()
	at := 0
	prefix := newKey(g.id, spaceFeed)
	err = s.scanFrom(prefix, prefix.clone().u64(seq+1), func(k key, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := readKey(k)
		of := r.u64()
		if of > current || page.Seq != 0 && of != page.Seq {
			return ErrStop
		}
		v, err := unseal(k, v)
		if err != nil {
			return fmt.Errorf("%s: %w", describe(k), err)
		}
		rd := reader{b: v}
		page.Seq, page.Job = of, rd.str()
		n := len(rd.b) / (1 + idLen)
		if rd.bad || len(rd.b) != n*(1+idLen) {
			return fmt.Errorf("%s: %w", describe(k), ErrCorrupt)
		}
		if at+n <= offset {
			at += n
			return nil
		}
		if len(page.Touched) >= limit {
			page.Next = at
			return ErrStop
		}
		for i := range n {
			if at++; at <= offset {
				continue
			}
			b := rd.b[i*(1+idLen):]
			page.Touched = append(page.Touched, Touched{b[0], id(b[1 : 1+idLen]).String()})
		}
		return nil
	})
	return page, err
}

func (s *Store) feedTrimmed(g uint32) (uint64, error) { return s.readNumber(newKey(g, spaceFeedTrim)) }

// TrimFeed takes the rows of both feeds, of commits up to seq, away.
func (s *Store) TrimFeed(ctx context.Context, graph string, seq uint64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return err
	}
	was, err := s.feedTrimmed(g.id)
	if err != nil || seq <= was {
		return err
	}
	b := s.db.NewBatch()
	defer b.Close()
	for _, prefix := range []key{newKey(g.id, spaceFeed), newKey(g.id, spaceCandFeed)} {
		err = errorsJoin(err, s.scanRaw(prefix, nil, func(k, _ []byte) error {
			base, _, _ := splitRow(k)
			r := readKey(base)
			if r.u64() > seq {
				return ErrStop
			}
			return b.Delete(append([]byte(nil), k...), nil)
		}))
	}
	if err != nil {
		return fmt.Errorf("trim feed of graph %s: %w", graph, err)
	}
	if b.Empty() {
		return nil
	}
	if err := b.Set(newKey(g.id, spaceFeedTrim).end(), number(seq), nil); err != nil {
		return fmt.Errorf("trim feed of graph %s: %w", graph, err)
	}
	return s.apply(b, false)
}
