package integration

import (
	"cmp"
	"context"
	endian "encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/golang/protobuf/proto"
	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"
	"github.com/milvus-io/milvus-proto/go-api/v2/schemapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/factmill/factmill/pkg/testkit"
)

// milvus is the part of a Milvus server that a copy of vectors uses, over gRPC at an address of its own. It can be stopped and started again, with
// its data or without, and stopped by a call. Expressions are the few that the committer writes.
type milvus struct {
	milvuspb.UnimplementedMilvusServiceServer
	t    testing.TB
	addr string

	mu          sync.Mutex // guards what follows
	made        int64
	collections map[string]*milvusCollection
	upserts     []string // ids, in the order in which they came
	before      func(op string) error
	after       func(op string) error

	run    sync.Mutex // guards what follows
	server *grpc.Server
	done   chan struct{}
}

type milvusCollection struct {
	id     int64
	schema *schemapb.CollectionSchema
	rows   map[string]milvusRow
}

type milvusRow struct {
	fields map[string]string
	vector []float32
}

// newMilvus is one that runs.
func newMilvus(t testing.TB) *milvus {
	t.Helper()
	m := &milvus{t: t, addr: freeAddress(t), collections: map[string]*milvusCollection{}}
	m.start()
	t.Cleanup(m.stop)
	return m
}

// start listens; what is stored is as it was.
func (m *milvus) start() {
	m.t.Helper()
	m.run.Lock()
	defer m.run.Unlock()
	var l net.Listener
	testkit.Await(m.t, "the address of Milvus", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", m.addr)
		return err == nil
	})
	m.server, m.done = grpc.NewServer(grpc.MaxRecvMsgSize(64<<20)), make(chan struct{})
	milvuspb.RegisterMilvusServiceServer(m.server, m)
	go func(s *grpc.Server, done chan struct{}) {
		defer close(done)
		if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			m.t.Errorf("Milvus: %v", err)
		}
	}(m.server, m.done)
}

// stop cuts every connection, as a killed process does; calls that run get no answer.
func (m *milvus) stop() {
	m.run.Lock()
	defer m.run.Unlock()
	if m.server == nil {
		return
	}
	m.server.Stop()
	<-m.done
	m.server = nil
}

// hook has the calls ask fn first, or when they have done what they do; its error is the answer. Nil: nobody is asked.
func (m *milvus) hook(before, after func(op string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// lost is the answer that nobody gets.
func lost() error { return status.Error(codes.Unavailable, "the connection is gone") }

// do runs a call with mu held.
func (m *milvus) do(op string, fn func() error) error {
	m.mu.Lock()
	before, after := m.before, m.after
	m.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	m.mu.Lock()
	err := fn()
	m.mu.Unlock()
	if err == nil && after != nil {
		err = after(op)
	}
	return err
}

// count of the rows of a kind ("e", "c") in all collections, and their ids.
func (m *milvus) count(kind string) (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.collections {
		for id, r := range c.rows {
			if r.fields["kind"] == kind {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// sent is how often each id came since the last call.
func (m *milvus) sent() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for _, id := range m.upserts {
		out[id]++
	}
	m.upserts = nil
	return out
}

// row is what is stored of an id, in whichever collection.
func (m *milvus) row(id string) milvusRow {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.collections {
		if r, ok := c.rows[id]; ok {
			return r
		}
	}
	m.t.Fatalf("Milvus has no row %s", id)
	return milvusRow{}
}

// put stores a row in every collection.
func (m *milvus) put(id string, r milvusRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.collections {
		c.rows[id] = r
	}
}

var milvusOK = &commonpb.Status{}

func (m *milvus) of(name string) (*milvusCollection, error) {
	c := m.collections[name]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "collection not found: %s", name)
	}
	return c, nil
}

func (m *milvus) Connect(context.Context, *milvuspb.ConnectRequest) (*milvuspb.ConnectResponse, error) {
	return &milvuspb.ConnectResponse{Status: milvusOK, ServerInfo: &commonpb.ServerInfo{}}, m.do("connect", func() error { return nil })
}

func (m *milvus) HasCollection(_ context.Context, r *milvuspb.HasCollectionRequest) (b *milvuspb.BoolResponse, err error) {
	return b, m.do("has", func() error {
		b = &milvuspb.BoolResponse{Status: milvusOK, Value: m.collections[r.CollectionName] != nil}
		return nil
	})
}

func (m *milvus) CreateCollection(_ context.Context, r *milvuspb.CreateCollectionRequest) (*commonpb.Status, error) {
	return milvusOK, m.do("create", func() error {
		c := &milvusCollection{schema: &schemapb.CollectionSchema{}, rows: map[string]milvusRow{}}
		m.made++
		c.id = m.made
		m.collections[r.CollectionName] = c
		return proto.Unmarshal(r.Schema, c.schema)
	})
}

func (m *milvus) DescribeCollection(_ context.Context, r *milvuspb.DescribeCollectionRequest) (d *milvuspb.DescribeCollectionResponse, err error) {
	return d, m.do("describe", func() error {
		c, err := m.of(r.CollectionName)
		if err == nil {
			d = &milvuspb.DescribeCollectionResponse{Status: milvusOK, Schema: c.schema, CollectionID: c.id, ShardsNum: 1}
		}
		return err
	})
}

func (m *milvus) DropCollection(_ context.Context, r *milvuspb.DropCollectionRequest) (*commonpb.Status, error) {
	return milvusOK, m.do("drop", func() error { delete(m.collections, r.CollectionName); return nil })
}

func (m *milvus) CreateIndex(context.Context, *milvuspb.CreateIndexRequest) (*commonpb.Status, error) {
	return milvusOK, m.do("index", func() error { return nil })
}

func (m *milvus) DescribeIndex(_ context.Context, r *milvuspb.DescribeIndexRequest) (*milvuspb.DescribeIndexResponse, error) {
	return &milvuspb.DescribeIndexResponse{Status: milvusOK, IndexDescriptions: []*milvuspb.IndexDescription{{FieldName: r.FieldName, State: commonpb.IndexState_Finished}}}, nil
}

func (m *milvus) LoadCollection(context.Context, *milvuspb.LoadCollectionRequest) (*commonpb.Status, error) {
	return milvusOK, m.do("load", func() error { return nil })
}

func (m *milvus) GetLoadingProgress(context.Context, *milvuspb.GetLoadingProgressRequest) (*milvuspb.GetLoadingProgressResponse, error) {
	return &milvuspb.GetLoadingProgressResponse{Status: milvusOK, Progress: 100}, nil
}

func (m *milvus) Upsert(_ context.Context, r *milvuspb.UpsertRequest) (out *milvuspb.MutationResult, err error) {
	return out, m.do("upsert", func() error {
		c, err := m.of(r.CollectionName)
		if err != nil {
			return err
		}
		rows := make([]milvusRow, r.NumRows)
		for i := range rows {
			rows[i].fields = map[string]string{}
		}
		for _, f := range r.FieldsData {
			for i := range rows {
				if v := f.GetVectors(); v != nil {
					n := int(v.Dim)
					rows[i].vector = v.GetFloatVector().Data[i*n : (i+1)*n]
				} else {
					rows[i].fields[f.FieldName] = f.GetScalars().GetStringData().Data[i]
				}
			}
		}
		var ids []string
		for _, row := range rows {
			ids = append(ids, row.fields["id"])
			c.rows[row.fields["id"]] = row
		}
		m.upserts = append(m.upserts, ids...)
		out = &milvuspb.MutationResult{Status: milvusOK, UpsertCnt: int64(len(ids)),
			IDs: &schemapb.IDs{IdField: &schemapb.IDs_StrId{StrId: &schemapb.StringArray{Data: ids}}}}
		return nil
	})
}

func (m *milvus) Delete(_ context.Context, r *milvuspb.DeleteRequest) (*milvuspb.MutationResult, error) {
	return &milvuspb.MutationResult{Status: milvusOK}, m.do("delete", func() error {
		c, err := m.of(r.CollectionName)
		if err != nil {
			return err
		}
		list, ok := strings.CutPrefix(r.Expr, "id in [")
		if !ok {
			return fmt.Errorf("expression %s", r.Expr)
		}
		for _, q := range strings.Split(strings.TrimSuffix(list, "]"), ",") {
			id, err := strconv.Unquote(q)
			if err != nil {
				return err
			}
			delete(c.rows, id)
		}
		return nil
	})
}

// where lists the rows that an expression admits, by id.
func (c *milvusCollection) where(expr string) (ids []string, err error) {
	field, q, _ := strings.Cut(expr, " == ")
	want, err := strconv.Unquote(q)
	if err != nil {
		return nil, fmt.Errorf("expression %s: %w", expr, err)
	}
	for id, r := range c.rows {
		if r.fields[field] == want {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (m *milvus) Search(_ context.Context, r *milvuspb.SearchRequest) (out *milvuspb.SearchResults, err error) {
	return out, m.do("search", func() error {
		c, err := m.of(r.CollectionName)
		if err != nil {
			return err
		}
		var asked commonpb.PlaceholderGroup
		if err := proto.Unmarshal(r.PlaceholderGroup, &asked); err != nil {
			return err
		}
		raw := asked.Placeholders[0].Values[0]
		q := make([]float32, len(raw)/4)
		for i := range q {
			q[i] = math.Float32frombits(endian.LittleEndian.Uint32(raw[4*i:]))
		}
		ids, err := c.where(r.Dsl)
		if err != nil {
			return err
		}
		score := func(id string) (s float32) {
			for i, x := range c.rows[id].vector {
				s += x * q[i]
			}
			return s
		}
		slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(score(b), score(a)) })
		top := len(ids)
		for _, kv := range r.SearchParams {
			if kv.Key == "topk" {
				n, err := strconv.Atoi(kv.Value)
				if err != nil {
					return err
				}
				top = min(top, n)
			}
		}
		data := &schemapb.SearchResultData{NumQueries: 1, TopK: int64(top), Topks: []int64{int64(top)}}
		var vectors []float32
		for _, id := range ids[:top] {
			data.Scores = append(data.Scores, score(id))
			vectors = append(vectors, c.rows[id].vector...)
		}
		if top > 0 {
			data.Ids = &schemapb.IDs{IdField: &schemapb.IDs_StrId{StrId: &schemapb.StringArray{Data: ids[:top]}}}
			data.FieldsData = []*schemapb.FieldData{{Type: schemapb.DataType_FloatVector, FieldName: "vector", Field: &schemapb.FieldData_Vectors{Vectors: &schemapb.VectorField{
				Dim: int64(len(q)), Data: &schemapb.VectorField_FloatVector{FloatVector: &schemapb.FloatArray{Data: vectors}}}}}}
		}
		out = &milvuspb.SearchResults{Status: milvusOK, Results: data}
		return nil
	})
}

func TestFakeMilvusStops(t *testing.T) {
	m := newMilvus(t)
	m.stop()
	_, err := net.Dial("tcp", m.addr)
	require.Error(t, err)
	m.start()
	conn, err := net.Dial("tcp", m.addr)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
