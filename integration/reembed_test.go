package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer"
)

// A graph whose vectors are another embedder's than its settings name is not searched by them, and says both sizes and the way out; facts are committed
// all the same. reembed mends it, decisions stay, and what did not change is not embedded again.
func TestReembed(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 12})
	f := newFleet(t, fleetOptions{Committer: committer.Config{ModelURL: m.URL()}})
	names, schema := quills(2)
	f.putSchema("g", schema)
	docs := []map[string]any{doc("a", names[0]+" lived here."), doc("b", names[2]+" lived there.")}
	f.run("g", map[string]any{"documents": docs})
	first := ask[api.VectorsReply](f.cluster, "g", "vectors.status", nil)
	require.Equal(t, []any{"hash-1", 256, 4, uint64(0)}, []any{first.Embedder, first.Size, first.Vectors, first.Behind})
	search := func() (api.SearchReply, error) {
		var r api.SearchReply
		err := f.conn.Request(context.Background(), "factmill.g.query.search", api.Search{Q: "who lived there", Mode: "vector"}, &r)
		return r, err
	}
	_, err := search()
	require.NoError(t, err)

	f.putSettings("g", map[string]string{"embedder": "ollama", "ollama.embed_model": "fake:1"})
	_, err = search()
	var refused *api.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 412, refused.Status)
	require.Equal(t, "embedder_mismatch", refused.Code)
	for _, part := range []string{"256", "12", "reembed"} {
		require.Contains(t, refused.Message, part)
	}
	job := f.publish("g", map[string]any{"documents": []map[string]any{doc("c", names[1]+" lived elsewhere.")}})
	var s api.JobStatus
	testkit.Await(t, "a job that says what hinders its links", func() bool {
		s = ask[api.JobStatus](f.cluster, "g", "jobs.get", api.JobGet{Job: job, Wait: "1s"})
		return api.Settled(s) && len(s.Progress) > 0
	})
	require.Equal(t, api.JobCommitted, s.State)
	require.Contains(t, s.Progress[0].Why, "reembed")

	done := ask[api.VectorsReply](f.cluster, "g", "vectors.reembed", nil)
	require.Equal(t, []any{12, 6}, []any{done.Size, done.Vectors})
	s = f.settled("g", job)
	require.Empty(t, s.Progress)
	_, err = search()
	require.NoError(t, err)
	calls := len(m.EmbedCalls())
	f.run("g", map[string]any{"documents": docs, "force": true})
	f.run("g", map[string]any{"documents": []map[string]any{{"key": "a", "text": docs[0]["text"], "title": "Another title"}}})
	require.Len(t, m.EmbedCalls(), calls, "in place and metadata only embed nothing")
	require.Len(t, parseExport(t, f.exported("g", 0)).matches, 2)
	f.sound("g")
	f.restart("committer")
	again := ask[api.VectorsReply](f.cluster, "g", "vectors.status", nil)
	require.Equal(t, []any{12, 6, uint64(0)}, []any{again.Size, again.Vectors, again.Behind})
	require.Len(t, m.EmbedCalls(), calls+1, "a restart asks for the size, and reads what is stored")
}
