package store

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/factmill/factmill/pkg/events"
)

// outbox numbers a graph's outbox rows. Numbers rise; one that was taken and is not on disk yet holds back the reader, so that
// rows are read in the order of their numbers.
type outbox struct {
	mu   sync.Mutex
	next uint64              // guarded by mu
	busy map[uint64]struct{} // taken, not yet written or given up; guarded by mu
	low  uint64              // no live row is before it; guarded by mu
}

func (o *outbox) init(next uint64) { o.next, o.busy = next, map[uint64]struct{}{} }

func (o *outbox) take() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	no := o.next
	o.next++
	o.busy[no] = struct{}{}
	return no
}

func (o *outbox) release(no uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.busy, no)
}

// bounds returns where a reader begins and the number it must stay below.
func (o *outbox) bounds() (low, end uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	end = o.next
	for no := range o.busy {
		end = min(end, no)
	}
	return o.low, end
}

func (o *outbox) done(upTo uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.low = max(o.low, upTo+1)
}

func outboxKey(g uint32, no uint64) key { return newKey(g, spaceOutbox).u64(no) }

// OutboxRow is an event that waits to be published.
type OutboxRow struct {
	No      uint64
	Subject string
	ID      string // message id
	Body    []byte
}

// Event decodes the row.
func (r OutboxRow) Event() (events.Event, error) { return events.Decode(r.Subject, "", r.Body) }

func encodeEvent(e events.Event) ([]byte, error) {
	body, err := events.Encode(e)
	if err != nil {
		return nil, err
	}
	return make(writer, 0, len(body)+160).str(e.Where().String()).str(e.ID()).bytes(body), nil
}

// OutboxOps are the changes that put events into a graph's outbox, for Write and Txn.Finish.
func (s *Store) OutboxOps(graph string, evs ...events.Event) ([]Op, error) {
	ops := make([]Op, 0, len(evs))
	for _, e := range evs {
		v, err := encodeEvent(e)
		if err != nil {
			return nil, err
		}
		ops = append(ops, Op{Graph: graph, Value: v, outbox: true})
	}
	return ops, nil
}

// Outbox returns at most limit (0: 1000) events behind number after that wait to be published, in order: those of commits
// that are current and of plain writes. It stops before the events of a commit under way.
func (s *Store) Outbox(graph string, from uint64, limit int) ([]OutboxRow, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return nil, nil
	}
	if limit <= 0 {
		limit = 1000
	}
	low, end := g.out.bounds()
	current := g.current.Load()
	var out []OutboxRow
	err = s.scanFrom(newKey(g.id, spaceOutbox), outboxKey(g.id, max(low, from+1)), func(k key, v []byte) error {
		kr := readKey(k)
		no := kr.u64()
		if no >= end || len(out) == limit {
			return ErrStop
		}
		seq, row, err := readOutbox(k, v)
		if err != nil {
			return fmt.Errorf("graph %s: %w", graph, err)
		}
		if seq > current {
			return ErrStop
		}
		row.No = no
		out = append(out, row)
		return nil
	})
	return out, err
}

// readOutbox takes a row apart; seq is that of its commit, 0 for a plain write.
func readOutbox(k key, v []byte) (seq uint64, row OutboxRow, err error) {
	if v, err = unseal(k, v); err != nil {
		return 0, row, fmt.Errorf("outbox row %s: %w", describe(k), err)
	}
	r := reader{b: v}
	seq = r.u64()
	row = OutboxRow{Subject: r.str(), ID: r.str(), Body: append([]byte(nil), r.bytes()...)}
	return seq, row, r.err("outbox row " + describe(k))
}

// OutboxDone removes the events up to a number that Outbox returned: they were published. It does not wait for the disk: what
// comes back after a crash is published again under the same ids.
func (s *Store) OutboxDone(graph string, upTo uint64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return err
	}
	low, end := g.out.bounds()
	if upTo >= end {
		return fmt.Errorf("outbox of graph %s: number %d was not read", graph, upTo)
	}
	b := s.db.NewBatch()
	defer b.Close()
	// Range tombstones would pile up in front of the reader; the rows are few.
	err = s.scanFrom(newKey(g.id, spaceOutbox), outboxKey(g.id, low), func(k key, _ []byte) error {
		kr := readKey(k)
		if kr.u64() > upTo {
			return ErrStop
		}
		return b.Delete(k.end(), nil)
	})
	if err != nil {
		return fmt.Errorf("outbox of graph %s: %w", graph, err)
	}
	if err := s.apply(b, false); err != nil {
		return err
	}
	g.out.done(upTo)
	return nil
}

// lastOutbox is the highest number on disk; 0 when there is none.
func (s *Store) lastOutbox(g uint32) (no uint64, err error) {
	prefix := newKey(g, spaceOutbox)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix.clone().end(), UpperBound: after(prefix).end()})
	if err != nil {
		return 0, fmt.Errorf("read outbox: %w", err)
	}
	if it.Last() {
		k, _, _ := splitRow(it.Key())
		r := readKey(k)
		no = r.u64()
	}
	if err := errorsJoin(it.Error(), it.Close()); err != nil {
		return 0, fmt.Errorf("read outbox: %w", err)
	}
	return no, nil
}
