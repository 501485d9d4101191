package store

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Op is one change of a raw row. Spaces are upper-case letters and digits, each its user's own; keys are any bytes.
type Op struct {
	Graph string
	Space byte
	Key   []byte
	Value []byte
	// Delete removes the row; DeletePrefix every row whose key begins with Key.
	Delete       bool
	DeletePrefix bool

	outbox bool // Value is an outbox row without its head; the number is given when it is written
}

func checkSpace(space byte) error {
	if 'A' <= space && space <= 'Z' || '0' <= space && space <= '9' {
		return nil
	}
	return fmt.Errorf("space %q is not one for raw rows", space)
}

// Write changes raw rows of existing graphs at once. With sync it returns when they are on disk. ErrNoSpace refuses it
// unless every change is a deletion.
func (s *Store) Write(ctx context.Context, ops []Op, sync bool) error {
	if slices.ContainsFunc(ops, func(o Op) bool { return !o.Delete && !o.DeletePrefix }) {
		if err := s.space.check(); err != nil {
			return err
		}
	}
	return s.WriteReserved(ctx, ops, sync)
}

// WriteReserved is Write that may use the reserve: for the little that ends work, and for what Room was asked about.
func (s *Store) WriteReserved(ctx context.Context, ops []Op, sync bool) error {
	if len(ops) == 0 {
		return nil
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer b.Close()
	release, err := s.addOps(b, ops)
	defer release()
	if err != nil {
		return err
	}
	return s.apply(b, sync)
}

// addOps puts raw changes into a batch. release must be called when the batch is committed or given up.
func (s *Store) addOps(b *pebble.Batch, ops []Op) (release func(), err error) {
	var taken []func()
	var spaces [4]uint64
	release = func() {
		for i, set := range spaces {
			for ; set != 0; set &= set - 1 {
				s.changed[i*64+bits.TrailingZeros64(set)].Add(1)
			}
		}
		for _, f := range taken {
			f()
		}
	}
	for _, o := range ops {
		g, err := s.graph(o.Graph)
		if err != nil {
			return release, err
		}
		if o.outbox {
			no := g.out.take()
			taken = append(taken, func() { g.out.release(no) })
			k := outboxKey(g.id, no)
			v := seal(k, append(writer(nil).u64(0), o.Value...))
			if err := b.Set(k.end(), v, nil); err != nil {
				return release, fmt.Errorf("write outbox: %w", err)
			}
			continue
		}
		if err := checkSpace(o.Space); err != nil {
			return release, err
		}
		spaces[o.Space/64] |= 1 << (o.Space % 64)
		k := newKey(g.id, o.Space).raw(o.Key)
		switch {
		case o.DeletePrefix:
			err = b.DeleteRange(k.clone().end(), after(k).end(), nil)
		case o.Delete:
			err = b.Delete(k.end(), nil)
		default:
			err = b.Set(k.end(), o.Value, nil)
		}
		if err != nil {
			return release, fmt.Errorf("write row of space %c: %w", o.Space, err)
		}
	}
	return release, nil
}

// Put writes one raw row without waiting for the disk.
func (s *Store) Put(ctx context.Context, graph string, space byte, key, value []byte) error {
	return s.Write(ctx, []Op{{Graph: graph, Space: space, Key: key, Value: value}}, false)
}

// Delete removes one raw row without waiting for the disk.
func (s *Store) Delete(ctx context.Context, graph string, space byte, key []byte) error {
	return s.Write(ctx, []Op{{Graph: graph, Space: space, Key: key, Delete: true}}, false)
}

// Get returns a copy of a raw row's value; nil without an error when there is none, or no such graph.
func (s *Store) Get(graph string, space byte, key []byte) (out []byte, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	if err := checkSpace(space); err != nil {
		return nil, err
	}
	g, err := s.graph(graph)
	if err != nil {
		return nil, nil
	}
	// Not by Pebble's own look-up, which passes the filters of the lowest level by: for a row that is not there it would unpack the block
	// where it would be, and the next row may be a document's.
	it, err := s.db.NewIter(&iterOptions)
	if err != nil {
		return nil, fmt.Errorf("read row of space %c: %w", space, err)
	}
	defer func() { err = errorsJoin(err, it.Close()) }()
	k := newKey(g.id, space).raw(key).end()
	if !it.SeekPrefixGE(k) || !bytes.Equal(it.Key(), k) {
		return nil, it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("read row of space %c: %w", space, err)
	}
	out = make([]byte, len(v))
	copy(out, v)
	return out, nil
}

// Scan calls fn for the raw rows whose key begins with prefix and follows after (nil: from the first), in key order, at most
// limit of them (0: all), until fn returns an error; ErrStop ends it without one. The slices are valid during the call. An
// unknown graph has no rows.
func (s *Store) Scan(graph string, space byte, prefix, after []byte, limit int, fn func(key, value []byte) error) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	if err := checkSpace(space); err != nil {
		return err
	}
	g, err := s.graph(graph)
	if err != nil {
		return nil
	}
	n := 0
	head := newKey(g.id, space)
	return s.scanFrom(head.clone().raw(prefix), head.clone().raw(after), func(k key, v []byte) error {
		if after != nil && bytes.Compare(k[headLen:], after) <= 0 {
			return nil
		}
		if err := fn(k[headLen:], v); err != nil {
			return err
		}
		if n++; n == limit {
			return ErrStop
		}
		return nil
	})
}

// scanFrom is scanDB beginning at from when that lies behind the prefix's first key.
func (s *Store) scanFrom(prefix, from key, fn func(k key, v []byte) error) error {
	return s.scanRaw(prefix, from, func(k, v []byte) error {
		base, _, fact := splitRow(k)
		if fact {
			return fmt.Errorf("%w: %s has a sequence", ErrCorrupt, describe(k))
		}
		return fn(base, v)
	})
}

// scanRaw calls fn with Pebble's key of every row of a prefix, from the first that is not before from.
func (s *Store) scanRaw(prefix, from key, fn func(k, v []byte) error) (err error) {
	lower := prefix
	if bytes.Compare(from, lower) > 0 {
		lower = from
	}
	upper := after(prefix)
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower.clone().end(), UpperBound: upper.end()})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = fmt.Errorf("read: %w", e)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(it.Key()), err)
		}
		if err := fn(it.Key(), v); err != nil {
			return stopped(err)
		}
	}
	return nil
}

// Probe calls fn for the keys of raw rows that begin with one of the prefixes, of each at most limit (0: all), with the prefix's place.
// Prefixes in the order of keys are found fastest. The key is valid during the call. An unknown graph has no rows.
func (s *Store) Probe(graph string, space byte, prefixes [][]byte, limit int, fn func(i int, key []byte) error) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	if err := checkSpace(space); err != nil {
		return err
	}
	g, err := s.graph(graph)
	if err != nil {
		return nil
	}
	head := newKey(g.id, space)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: head.clone().end(), UpperBound: after(head).end()})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	defer func() { err = errorsJoin(err, it.Close()) }()
	var from key
	for i, p := range prefixes {
		from = append(append(from[:0], head...), p...)
		n := 0
		for ok := it.SeekGE(from.clone().end()); ok && bytes.HasPrefix(it.Key(), from); ok = it.Next() {
			base, _, _ := splitRow(it.Key())
			if err := fn(i, base[headLen:]); err != nil {
				return stopped(err)
			}
			if n++; n == limit {
				break
			}
		}
		if err := it.Error(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	return nil
}
