package milvus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/milvus-io/milvus-sdk-go/v2/client"
	"github.com/milvus-io/milvus-sdk-go/v2/entity"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/vectors"
	"github.com/factmill/factmill/services/committer/internal/vectors/vectorstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is the part of a Milvus that a Copy uses, in memory; it reads the few expressions that a Copy writes.
type server struct {
	mu   sync.Mutex
	made int64
	rows map[string]map[string]any // nil: no collection
	// settled is what a search sees that does not ask for the strong level: what the last one saw that did.
	settled map[string]map[string]any
	fail    error
	calls   map[string]int
	dials   int
	shut    int
}

func newServer() *server { return &server{calls: map[string]int{}} }

func (s *server) called(op string) error {
	s.calls[op]++
	return s.fail
}

func (s *server) HasCollection(context.Context, string) (bool, error) {
	return s.rows != nil, s.called("has")
}

func (s *server) CreateCollection(_ context.Context, sch *entity.Schema, _ int32, _ ...client.CreateCollectionOption) error {
	s.rows, s.made = map[string]map[string]any{}, s.made+1
	if sch.PKFieldName() != fieldID || len(sch.Fields) != 6 {
		return errors.New("bad schema")
	}
	return s.called("create")
}

func (s *server) DescribeCollection(context.Context, string) (*entity.Collection, error) {
	return &entity.Collection{ID: s.made}, s.called("describe")
}

func (s *server) DropCollection(context.Context, string, ...client.DropCollectionOption) error {
	s.rows, s.settled = nil, nil
	return s.called("drop")
}

func (s *server) CreateIndex(context.Context, string, string, entity.Index, bool, ...client.IndexOption) error {
	return s.called("index")
}

func (s *server) LoadCollection(context.Context, string, bool, ...client.LoadCollectionOption) error {
	return s.called("load")
}

func (s *server) Upsert(_ context.Context, _, _ string, cols ...entity.Column) (entity.Column, error) {
	if err := s.called("upsert"); err != nil {
		return nil, err
	}
	if s.rows == nil {
		return nil, errors.New("collection not found")
	}
	for i := range cols[0].Len() {
		row := map[string]any{}
		for _, c := range cols {
			switch c := c.(type) {
			case *entity.ColumnVarChar:
				row[c.Name()] = c.Data()[i]
			case *entity.ColumnFloatVector:
				row[c.Name()] = c.Data()[i]
			}
		}
		s.rows[row[fieldID].(string)] = row
	}
	return cols[0], nil
}

func (s *server) Delete(_ context.Context, _, _, expr string) error {
	list, ok := strings.CutPrefix(strings.TrimSuffix(expr, "]"), "id in [")
	if !ok {
		return fmt.Errorf("expression %s", expr)
	}
	for _, q := range strings.Split(list, ",") {
		k, err := strconv.Unquote(q)
		if err != nil {
			return err
		}
		delete(s.rows, k)
	}
	return s.called("delete")
}

func where(all map[string]map[string]any, expr string) ([]map[string]any, error) {
	field, q, ok := strings.Cut(expr, " == ")
	v, err := strconv.Unquote(q)
	if !ok || err != nil {
		return nil, fmt.Errorf("expression %s", expr)
	}
	var out []map[string]any
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if all[k][field] == v {
			out = append(out, all[k])
		}
	}
	return out, nil
}

func (s *server) Search(ctx context.Context, _ string, _ []string, expr string, _ []string, vs []entity.Vector, _ string, _ entity.MetricType, top int,
	_ entity.SearchParam, opts ...client.SearchQueryOptionFunc) ([]client.SearchResult, error) {
	if err := cmp.Or(s.called("search"), ctx.Err()); err != nil {
		return nil, err
	}
	var opt client.SearchQueryOption
	for _, o := range opts {
		o(&opt)
	}
	if opt.ConsistencyLevel == entity.ClStrong {
		s.settled = maps.Clone(s.rows)
	}
	rows, err := where(s.settled, expr)
	if err != nil {
		return nil, err
	}
	q := vs[0].(entity.FloatVector)
	score := func(r map[string]any) float64 { return embed.Cosine(q, r[fieldVector].([]float32)) }
	slices.SortStableFunc(rows, func(a, b map[string]any) int { return cmp.Compare(score(b), score(a)) })
	rows = rows[:min(top, len(rows))]
	if len(rows) == 0 {
		return []client.SearchResult{{Err: errors.New("extra output fields [vector] found and result does not dynamic field")}}, nil
	}
	var ids []string
	var vectors [][]float32
	for _, r := range rows {
		ids, vectors = append(ids, r[fieldID].(string)), append(vectors, r[fieldVector].([]float32))
	}
	return []client.SearchResult{{ResultCount: len(ids), IDs: entity.NewColumnVarChar(fieldID, ids),
		Fields: client.ResultSet{entity.NewColumnFloatVector(fieldVector, len(q), vectors)}}}, nil
}

func (s *server) Query(_ context.Context, _ string, _ []string, expr string, _ []string, _ ...client.SearchQueryOptionFunc) (client.ResultSet, error) {
	rows, err := where(s.rows, expr)
	return client.ResultSet{entity.NewColumnInt64("count(*)", []int64{int64(len(rows))})}, cmp.Or(err, s.called("query"))
}

func (s *server) Close() error { s.shut++; return nil }

func (s *server) open(now func() time.Time) *Copy {
	c := newCopy(Config{Address: "a:1", Graph: "g", Embedder: "hash-1", Size: 256, Now: now})
	c.dial = func(context.Context) (api, error) {
		s.dials++
		return s, s.fail
	}
	return c
}

func TestFakeConforms(t *testing.T) {
	s := newServer()
	conform(t, func() *Copy { return s.open(nil) })
}

func TestReconnects(t *testing.T) {
	s, now := newServer(), time.Unix(1000, 0)
	c := s.open(func() time.Time { return now })
	it := vectorstest.Item(1, "A", "a name")
	require.NoError(t, c.Put(t.Context(), []vectors.Item{it}))
	require.Equal(t, 1, s.dials)

	s.fail = fmt.Errorf("search: %w", status.Error(codes.Unavailable, "no route"))
	_, err := c.Search(t.Context(), vectors.Entity, "A", it.Vector, 5, 0.8)
	require.ErrorIs(t, err, vectors.ErrCopyDown)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, c.Collection(), e.Collection)
	require.Equal(t, 1, s.shut, "a connection that failed is given up")
	for range 5 {
		require.ErrorIs(t, c.Put(t.Context(), []vectors.Item{it}), vectors.ErrCopyDown)
	}
	require.Equal(t, 2, s.dials, "nobody waits for a connection that just failed")
	now = now.Add(201 * time.Millisecond)
	require.ErrorIs(t, c.Put(t.Context(), []vectors.Item{it}), vectors.ErrCopyDown)
	now = now.Add(201 * time.Millisecond)
	require.ErrorIs(t, c.Put(t.Context(), []vectors.Item{it}), vectors.ErrCopyDown)
	require.Equal(t, 3, s.dials, "the pause doubles")
	s.fail = nil
	now = now.Add(time.Minute)
	hits, err := c.Search(t.Context(), vectors.Entity, "A", it.Vector, 5, 0.8)
	require.NoError(t, err)
	require.Len(t, hits, 1)

	s.fail = errors.New("collection is locked")
	_, err = c.Search(t.Context(), vectors.Entity, "A", it.Vector, 5, 0.8)
	require.NotErrorIs(t, err, vectors.ErrCopyDown, "a server that refuses is there")
	require.EqualError(t, err, "milvus: search of collection "+c.Collection()+": collection is locked")
	s.fail = nil
	s.rows = nil // dropped by somebody
	require.NoError(t, c.Put(t.Context(), []vectors.Item{it}), "it is looked for again")
	made, err := c.Ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, "2", made, "and is another one")
	require.NoError(t, c.Close())
	require.Error(t, c.Put(t.Context(), []vectors.Item{it}))
}

func TestBigBatchesAreSplit(t *testing.T) {
	s := newServer()
	c := s.open(nil)
	var items []vectors.Item
	for i := range 1200 {
		items = append(items, vectorstest.Item(i, "A", fmt.Sprint("name ", i)))
	}
	items = append(items, items[0], vectors.Item{Ref: items[1].Ref, Label: "A", Vector: make([]float32, 256)})
	require.NoError(t, c.Put(t.Context(), items))
	require.Equal(t, 3, s.calls["upsert"])
	require.Len(t, s.rows, 1199, "all zeros are not kept")
	long := cut(strings.Repeat("ä", maxText))
	require.True(t, len(long) > maxText-16 && len(long) < maxText && utf8.ValidString(long), len(long))
	require.Equal(t, "a", cut("a"))
	_, err := New(Config{Address: "a"})
	require.Error(t, err)
}
