package store

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// GraphSeq is a graph and its current sequence.
type GraphSeq struct {
	Graph string
	Seq   uint64
}

// Checkpoint puts the store as it is at one moment into dir, which must not exist: a data directory of its own, of links to the same tables where
// the file system can. Commits go on. What a transaction under way has written so far is in it, and is undone when it is opened. The sequences are
// those that are current in it at least.
func (s *Store) Checkpoint(ctx context.Context, dir string) (format uint64, graphs []GraphSeq, err error) {
	if err := s.enter(); err != nil {
		return 0, nil, err
	}
	defer s.exit()
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	for _, name := range s.Graphs() {
		g, err := s.graph(name)
		if err != nil {
			return 0, nil, err
		}
		graphs = append(graphs, GraphSeq{name, g.current.Load()})
	}
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return 0, nil, fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	return formatVersion, graphs, nil
}
