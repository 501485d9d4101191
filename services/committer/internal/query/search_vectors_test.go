package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// near is Vectors over what it was given, with hash.
type near struct {
	items []vectors.Item
	asked []int // tops
	fail  error
}

func (n *near) put(k vectors.Kind, id, label, text string) {
	v, _ := embed.NewHash().Embed(context.Background(), []string{text})
	n.items = append(n.items, vectors.Item{Ref: vectors.Ref{Kind: k, ID: id}, Label: label, Text: text, Vector: v[0]})
}

// doc puts a document's chunks and the entities that it names.
func (n *near) doc(d *doc) {
	for i, c := range d.c.Chunks {
		n.put(vectors.Chunk, d.chunkID(i), "", d.c.Text[c.Start:c.End])
	}
	for _, e := range d.c.Assertions.Entities {
		if !slices.ContainsFunc(n.items, func(it vectors.Item) bool { return it.ID == e.ID }) {
			n.put(vectors.Entity, e.ID, e.Label, e.Key)
		}
	}
}

func (n *near) Search(_ context.Context, _ string, k vectors.Kind, labels []string, text string, top int) ([]vectors.Hit, error) {
	n.asked = append(n.asked, top)
	if n.fail != nil {
		return nil, n.fail
	}
	q, _ := embed.NewHash().Embed(context.Background(), []string{text})
	var out []vectors.Hit
	for _, it := range n.items {
		if s := embed.Cosine(q[0], it.Vector); it.Kind == k && (k == vectors.Chunk || slices.Contains(labels, it.Label)) && s > 0 {
			out = append(out, vectors.Hit{ID: it.ID, Score: s})
		}
	}
	slices.SortFunc(out, func(a, b vectors.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return out[:min(top, len(out))], nil
}

func vectorDesk(t *testing.T) (*desk, *near) {
	t.Helper()
	d, n := newDesk(t), &near{}
	a, b := corpus()
	d.commit(a, b)
	n.doc(a)
	n.doc(b)
	d.q.WithVectors(n)
	return d, n
}

func TestSearchByVector(t *testing.T) {
	d, n := vectorDesk(t)
	n.put(vectors.Entity, fingerprint.EntityID("Person", "gone"), "Person", "lovelase ada") // in the index, no longer in the graph
	n.put(vectors.Chunk, fingerprint.ChunkID("x", "y", "z", 0), "", "ada lovelase")
	for _, c := range []struct {
		name string
		req  api.Search
		want []string
	}{
		{"a slip", api.Search{Q: "Lovelase Ada", Kinds: []string{"entity"}, Limit: 1}, []string{"entity Ada Lovelace"}},
		{"chunks", api.Search{Q: "lovelase borne 1815", Kinds: []string{"chunk"}, Limit: 1}, []string{"chunk ada#1"}},
		{"both kinds", api.Search{Q: "charles babage", Limit: 2}, []string{"entity Charles Babbage", "chunk bab#0"}},
		{"label", api.Search{Q: "lovelase", Kinds: []string{"entity"}, Filters: api.Filters{Labels: []string{"organization"}}}, []string{"entity Acme Ltd"}},
		{"label above", api.Search{Q: "lovelase", Kinds: []string{"entity"}, Limit: 1, Filters: api.Filters{Labels: []string{"Agent"}}}, []string{"entity Ada Lovelace"}},
		{"label of chunks", api.Search{Q: "lovelase", Kinds: []string{"chunk"}, Filters: api.Filters{Labels: []string{"Location"}}}, []string{"chunk bab#0"}},
		{"document", api.Search{Q: "lovelase", Kinds: []string{"chunk"}, Filters: api.Filters{Documents: []string{"bab"}}}, []string{"chunk bab#0"}},
		{"entity of a document", api.Search{Q: "babage", Kinds: []string{"entity"}, Limit: 1, Filters: api.Filters{Documents: []string{"ada"}}}, []string{"entity Ada Lovelace"}},
		{"scope", api.Search{Q: "lovelase", Kinds: []string{"chunk"}, Filters: api.Filters{Scope: []string{"public"}}}, []string{"chunk bab#0"}},
		{"metadata", api.Search{Q: "lovelase", Filters: api.Filters{Metadata: map[string]any{"lang": "fr"}}}, []string{}},
		{"nothing", api.Search{Q: "!?"}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Mode = "vector"
			got, err := d.q.Search(t.Context(), g, c.req)
			require.NoError(t, err)
			require.Equal(t, c.want, found(t, got))
			for _, h := range got.Hits {
				require.NotEmpty(t, h.Snippet)
				require.LessOrEqual(t, h.Score, 1.0)
			}
			require.False(t, got.Incomplete)
		})
	}
	lexical, err := d.q.Search(t.Context(), g, api.Search{Q: "Lovelase", Mode: "lexical"})
	require.NoError(t, err)
	require.Empty(t, lexical.Hits, "words do not find a slip")
}

func TestSearchHybridFusesRanks(t *testing.T) {
	d, _ := vectorDesk(t)
	got, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelase", Mode: "hybrid", Limit: 100})
	require.NoError(t, err)
	byWords, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelase", Limit: 100})
	require.NoError(t, err)
	byVector, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelase", Mode: "vector", Limit: 100})
	require.NoError(t, err)
	want := map[string]float64{}
	for _, l := range []api.SearchReply{byWords, byVector} {
		for i, h := range l.Hits {
			want[h.ID] += 1 / float64(60+i+1)
		}
	}
	require.Len(t, got.Hits, len(want))
	require.Greater(t, len(byWords.Hits), 2)
	require.Greater(t, len(byVector.Hits), 2)
	for i, h := range got.Hits {
		require.InDelta(t, want[h.ID], h.Score, 1e-6, h.ID)
		if i > 0 {
			before := got.Hits[i-1]
			require.True(t, before.Score > h.Score || before.Score == h.Score && before.ID < h.ID, "ties by id")
		}
	}
	require.Equal(t, "entity Ada Lovelace", found(t, got)[0])
	only, err := d.q.Search(t.Context(), g, api.Search{Q: "knew ada lovelace", Mode: "hybrid", Kinds: []string{"relation"}})
	require.NoError(t, err)
	require.Equal(t, "relation Charles Babbage KNOWS Ada Lovelace", found(t, only)[0])
	require.InDelta(t, 1.0/61, only.Hits[0].Score, 1e-6)
}

func TestSearchLooksOnBehindWhatIsFilteredOut(t *testing.T) {
	d, n := newDesk(t), &near{}
	d.q.WithVectors(n)
	var docs []*doc
	for i := range 120 {
		docs = append(docs, newDoc(fmt.Sprintf("d%03d", i), fmt.Sprintf("The guide camera number %d.", i)))
	}
	last := newDoc("last", "A guide to the camera, or else "+strings.Repeat("many other words ", 9))
	d.commit(append(docs, last)...)
	for _, x := range append(docs, last) {
		n.doc(x)
	}
	req := api.Search{Q: "the guide camera number", Mode: "vector", Limit: 2, Filters: api.Filters{Documents: []string{"last"}}}
	got, err := d.q.Search(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, []string{"chunk last#0"}, found(t, got))
	require.Equal(t, []int{8, 32, 128}, n.asked)
	for i := range maxNear { // all of one text that no document has any more
		n.put(vectors.Chunk, fingerprint.ChunkID("gone", "x", "y", i), "", "the guide camera number")
	}
	got, err = d.q.Search(t.Context(), g, req)
	require.NoError(t, err)
	require.Empty(t, got.Hits)
	require.True(t, got.Incomplete, "the reply says that it looked no further")
}

func TestSearchByVectorWithoutVectorsIsRefused(t *testing.T) {
	d, n := vectorDesk(t)
	by := func(mode string) error {
		_, err := d.q.Search(t.Context(), g, api.Search{Q: "ada", Mode: mode})
		return err
	}
	n.fail = fmt.Errorf("graph: %w: connection refused", vectors.ErrAway)
	requireRefused(t, by("vector"), 503, "no_vectors")
	require.ErrorContains(t, by("vector"), "connection refused; mode lexical needs none")
	n.fail = &vectors.EmbedderError{Graph: g, Stored: "hash-1", StoredN: 256, Given: "m", GivenN: 384}
	requireRefused(t, by("vector"), 412, "embedder_mismatch")
	require.ErrorContains(t, by("vector"), "`factmill reembed`")
	n.fail = errors.New("disk")
	require.EqualError(t, by("vector"), "disk", "an error is an error")
	d.q.WithVectors(nil)
	requireRefused(t, by("vector"), 503, "no_vectors")
	require.ErrorContains(t, by("vector"), "search with mode lexical")
	require.NoError(t, by("lexical"))
}

// Whatever fails by vector, hybrid gives what words find, in their order, and says what it did without.
func TestSearchHybridDoesWithoutAMethod(t *testing.T) {
	d, n := vectorDesk(t)
	lexical, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace"})
	require.NoError(t, err)
	require.Empty(t, lexical.Failed)
	for _, c := range []struct {
		fail          error
		code, message string
	}{
		{fmt.Errorf("graph: %w: connection refused", vectors.ErrAway), "no_vectors", "connection refused"},
		{vectors.ErrHubClosed, "no_vectors", "closed"},
		{&vectors.EmbedderError{Graph: g, Stored: "hash-1", StoredN: 256, Given: "m", GivenN: 384}, "embedder_mismatch", "`factmill reembed`"},
		{errors.New("disk"), "internal", "disk"},
		{nil, "no_vectors", "keeps no vectors"}, // none at all
	} {
		if n.fail = c.fail; c.fail == nil {
			d.q.WithVectors(nil)
		}
		got, err := d.q.Search(t.Context(), g, api.Search{Q: "Ada Lovelace", Mode: "hybrid"})
		require.NoError(t, err)
		require.Len(t, got.Failed, 1)
		require.Equal(t, []string{"vector", c.code}, []string{got.Failed[0].Method, got.Failed[0].Code})
		require.Contains(t, got.Failed[0].Message, c.message)
		require.Equal(t, found(t, lexical), found(t, got))
		require.InDelta(t, 1.0/61, got.Hits[0].Score, 1e-6)
	}
	got, err := d.q.Search(t.Context(), g, api.Search{Q: "ada", Mode: "hybrid", Kinds: []string{"relation"}})
	require.NoError(t, err)
	require.Empty(t, got.Failed, "relations have no vectors, which is no failure")
}

// A method that fails may be the one of the words; when all do, so does the search. A caller who is gone, and a store that is closed, end it.
func TestSearchFailsWithAllMethods(t *testing.T) {
	d, _ := vectorDesk(t)
	ctx, cancel := context.WithCancel(t.Context())
	v, err := d.q.open(ctx, g, 0, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.sn.Close()) }()
	away := api.Errorf(503, "no_vectors", "nobody answers")
	try := func(errs ...error) (*search, error) {
		s := &search{v: v, part: map[string]*cluster{}}
		var methods []method
		for i, err := range errs {
			methods = append(methods, method{[]string{"lexical", "vector"}[i], func() error {
				s.hits = append(s.hits, hit{kind: hitRelation, id: fmt.Sprint("r", i)})
				return err
			}})
		}
		return s, s.together(methods...)
	}
	s, err := try(errors.New("disk"), nil)
	require.NoError(t, err)
	require.Equal(t, []api.FailedMethod{{Method: "lexical", Code: "internal", Message: "disk"}}, s.failed)
	require.Len(t, s.hits, 1, "what a method found before it failed does not count")
	require.Equal(t, "r1", s.hits[0].id)
	_, err = try(errors.New("disk"), away)
	require.ErrorContains(t, err, "disk")
	require.ErrorContains(t, err, "nobody answers")
	require.NotErrorAs(t, err, new(*api.Error), "it is no refusal")
	_, err = try(away, away)
	requireRefused(t, err, 503, "no_vectors")
	_, err = try(store.ErrClosed, nil)
	require.ErrorIs(t, err, store.ErrClosed)
	cancel()
	_, err = try(context.Canceled, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// A list that has a thing several times votes for it once, at its best rank, and the ranks behind it move up.
func TestFuse(t *testing.T) {
	d, _ := vectorDesk(t)
	v, err := d.q.open(t.Context(), g, 0, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.sn.Close()) }()
	s := &search{v: v, part: map[string]*cluster{}}
	of := func(ids string) (out []hit) {
		for _, id := range strings.Fields(ids) {
			out = append(out, hit{kind: hitRelation, id: id, snippet: id})
		}
		return out
	}
	got, err := s.fuse(of("a a b a c"), of("c d d a"))
	require.NoError(t, err)
	var said []string
	for _, h := range got {
		said = append(said, fmt.Sprintf("%s %.6f", h.id, h.score))
	}
	require.Equal(t, []string{
		fmt.Sprintf("a %.6f", 1.0/61+1.0/63), // first, and third of c d a
		fmt.Sprintf("c %.6f", 1.0/63+1.0/61), // third of a b c, and first
		fmt.Sprintf("b %.6f", 1.0/62), fmt.Sprintf("d %.6f", 1.0/62)}, said)
}

// Vectors that have not followed the last commit yet lead to nothing that it ended.
func TestSearchByVectorsThatAreBehind(t *testing.T) {
	d, _ := vectorDesk(t)
	d.commit(newDoc("ada", "Nothing is left of it."), deleted("bab"))
	for _, mode := range []string{"vector", "hybrid"} {
		for _, q := range []string{"Ada Lovelace born in 1815", "Charles Babbage knew"} {
			got, err := d.q.Search(t.Context(), g, api.Search{Q: q, Mode: mode})
			require.NoError(t, err)
			require.Empty(t, got.Hits, "%s: %s", mode, q)
		}
	}
}
