package milvus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/milvus-io/milvus-sdk-go/v2/client"
	"github.com/milvus-io/milvus-sdk-go/v2/entity"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// Search returns at most top hits, and at most 16,384, whose exact score is drop or more, best first, of equal ones the least id first. A query of
// all zeros is near nothing: it has no hits.
//
// It sees what this process wrote before, and what earlier ones did: the first search behind a write waits until the server has it. The
// server's session level does not say as much, since the removals that an upsert makes are younger than the time that it answers.
func (c *Copy) Search(ctx context.Context, k vectors.Kind, label string, vector []float32, top int, drop float64) ([]vectors.Hit, error) {
	if len(vector) != c.cfg.Size || top < 1 {
		return nil, fmt.Errorf("milvus: search %s %q: %w: %d numbers instead of %d, %d hits", k, label, vectors.ErrBadItem, len(vector), c.cfg.Size, top)
	}
	hits := []vectors.Hit{}
	if zero(vector) {
		return hits, nil
	}
	if _, err := c.Ensure(ctx); err != nil {
		return nil, err
	}
	flat, err := entity.NewIndexFlatSearchParam()
	if err != nil {
		return nil, fmt.Errorf("milvus: search: %w", err)
	}
	wrote, level := c.wrote.Load(), entity.ClSession
	if c.seen.Load() < wrote {
		level = entity.ClStrong
	}
	err = c.call(ctx, "search", 1, func(ctx context.Context, a api) error {
		rs, err := a.Search(ctx, c.name, nil, fieldSlot+" == "+strconv.Quote(slotOf(k, label)), []string{fieldVector},
			[]entity.Vector{entity.FloatVector(vector)}, fieldVector, entity.COSINE, min(top, maxTop), flat,
			client.WithSearchQueryConsistencyLevel(level))
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Err != nil && r.ResultCount > 0 { // of an answer without hits the client says that the vectors are missing
				return r.Err
			}
			if err := c.read(&hits, r, vector, drop); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for n := c.seen.Load(); n < wrote && !c.seen.CompareAndSwap(n, wrote); n = c.seen.Load() {
	}
	slices.SortFunc(hits, func(a, b vectors.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return hits, nil
}

// read takes the hits of an answer: each score from the vector that came with the id, never from another place.
func (c *Copy) read(hits *[]vectors.Hit, r client.SearchResult, vector []float32, drop float64) error {
	if r.ResultCount == 0 {
		return nil
	}
	ids, ok := r.IDs.(*entity.ColumnVarChar)
	stored, isVector := r.Fields.GetColumn(fieldVector).(*entity.ColumnFloatVector)
	if !ok || !isVector || ids.Len() != stored.Len() {
		return errors.New("the answer lacks ids or vectors")
	}
	for i, key := range ids.Data() {
		if len(key) < 2 {
			return fmt.Errorf("the answer has the id %q", key)
		}
		if s := embed.Cosine(vector, stored.Data()[i]); s >= drop {
			*hits = append(*hits, vectors.Hit{ID: key[1:], Score: s})
		}
	}
	return nil
}
