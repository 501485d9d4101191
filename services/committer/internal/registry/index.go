package registry

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/factmill/factmill/services/committer/internal/store"
)

// A name row says at which revisions an entry had a name or alias, so that a job finds what was known at its own revision, however
// often it asks. Its value is pairs of uvarints: from this revision on, up to but without that one (0: still).

// span is the revisions from .. to-1; to 0 is open.
type span struct{ from, to uint64 }

func (s span) has(rev uint64) bool { return s.from <= rev && (s.to == 0 || rev < s.to) }

// maxSpans of one row: of a name that comes and goes more often the oldest are forgotten.
const maxSpans = 8

func encodeSpans(in []span) []byte {
	in = in[max(0, len(in)-maxSpans):]
	var b []byte
	for _, s := range in {
		b = binary.AppendUvarint(binary.AppendUvarint(b, s.from), s.to)
	}
	return b
}

func decodeSpans(b []byte) ([]span, error) {
	var out []span
	for len(b) > 0 {
		from, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: a name of the registry", store.ErrCorrupt)
		}
		to, k := binary.Uvarint(b[n:])
		if k <= 0 {
			return nil, fmt.Errorf("%w: a name of the registry", store.ErrCorrupt)
		}
		out, b = append(out, span{from, to}), b[n+k:]
	}
	return out, nil
}

// spansIn is spans as a change leaves them so far.
func (r *Registry) spansIn(b *batch, key []byte) ([]span, error) {
	if s, moved := b.left[string(key)]; moved {
		return s, nil
	}
	return r.spans(b.graph, key)
}

func (r *Registry) spans(graph string, key []byte) ([]span, error) {
	b, err := r.st.Get(graph, space, key)
	if err != nil || b == nil {
		return nil, err
	}
	return decodeSpans(b)
}

// gained makes a name the entry's from the change on.
func (r *Registry) gained(b *batch, label, name, key string) error {
	k := nameKey(label, name, key)
	s, err := r.spansIn(b, k)
	if err != nil {
		return err
	}
	b.ops = append(b.ops, store.Op{Graph: b.graph, Space: space, Key: k, Value: encodeSpans(append(s, span{from: b.head.Revision}))})
	return nil
}

// lost ends a name of the entry's with the change. The row stays for the jobs that run, until forgotten.
func (r *Registry) lost(b *batch, label, name, key string) error {
	k, rev := nameKey(label, name, key), b.head.Revision
	s, err := r.spansIn(b, k)
	if err != nil {
		return err
	}
	if n := len(s); n > 0 && s[n-1].to == 0 {
		s[n-1].to = rev
	}
	gone := append(binary.BigEndian.AppendUint64([]byte{rowGone}, rev), k...)
	b.ops = append(b.ops,
		store.Op{Graph: b.graph, Space: space, Key: k, Value: encodeSpans(s)},
		store.Op{Graph: b.graph, Space: space, Key: gone, Value: binary.BigEndian.AppendUint64(nil, uint64(r.now().Unix()))})
	return nil
}

const (
	// remembered is how long a name that was taken away is kept for the jobs that run.
	remembered = 30 * 24 * time.Hour
	// maxForgotten names of one change.
	maxForgotten = 2 * 1000
)

// forget drops names that were taken away long ago. It comes first in a change.
func (r *Registry) forget(b *batch) error {
	type gone struct {
		row, key []byte
		rev      uint64
	}
	var old []gone
	before := uint64(max(r.now().Add(-remembered).Unix(), 0))
	err := r.st.Scan(b.graph, space, []byte{rowGone}, nil, maxForgotten, func(k, v []byte) error {
		if len(k) < 9 || len(v) != 8 {
			return fmt.Errorf("%w: a former name of the registry", store.ErrCorrupt)
		}
		if binary.BigEndian.Uint64(v) > before { // rows stand in the order of their times
			return store.ErrStop
		}
		old = append(old, gone{bytes.Clone(k), bytes.Clone(k[9:]), binary.BigEndian.Uint64(k[1:])})
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range old {
		s, err := r.spansIn(b, g.key)
		if err != nil {
			return err
		}
		s = slices.DeleteFunc(s, func(s span) bool { return s.to != 0 && s.to <= g.rev })
		b.left[string(g.key)] = s
		b.ops = append(b.ops,
			store.Op{Graph: b.graph, Space: space, Key: g.row, Delete: true},
			store.Op{Graph: b.graph, Space: space, Key: g.key, Value: encodeSpans(s), Delete: len(s) == 0})
	}
	return nil
}

// having calls fn with the folded name of every entry of a label that had a name at rev, in order, until fn returns an error.
// A rev of 0 is now. It is one seek.
func (r *Registry) having(graph string, rev uint64, label, name string, fn func(key string) error) error {
	prefix := nameKey(label, name, "")
	return r.st.Scan(graph, space, prefix, nil, 0, func(k, v []byte) error {
		s, err := decodeSpans(v)
		if err != nil {
			return err
		}
		for _, x := range s {
			if rev == 0 && x.to == 0 || rev > 0 && x.has(rev) {
				return fn(string(k[len(prefix):]))
			}
		}
		return nil
	})
}
