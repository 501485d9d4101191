package query

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

const example = "../../../../examples/observatories/"

// eachLine reads a file of JSON lines.
func eachLine[R any](t *testing.T, name string, fn func(R)) {
	t.Helper()
	b, err := os.ReadFile(example + name)
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r R
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		fn(r)
	}
	require.NoError(t, lines.Err())
}

// exampleDesk holds the chunks of the example corpus as the pipeline cut them, out of its expected export. Texts have blanks
// where no chunk lies.
func exampleDesk(t *testing.T) *desk {
	d := newDesk(t)
	var order []string
	docs := map[string]*doc{}
	eachLine(t, "expected.jsonl", func(r struct {
		graph.ChunkRow
		Key         string
		Title       string
		ContentHash string `json:"content_hash"`
	}) {
		switch r.Kind {
		case "document":
			x := newDoc(r.Key, "")
			x.c.Meta.Title, x.c.ContentHash, x.c.Chunks = r.Title, r.ContentHash, nil
			docs[r.Key], order = x, append(order, r.Key)
		case "chunk":
			x := docs[r.Document]
			x.c.Text += strings.Repeat(" ", r.Start-len(x.c.Text)) + r.Text
			x.c.Chunks = append(x.c.Chunks, graph.Chunk{Start: r.Start, End: r.End, Prefix: r.Prefix, Heading: r.Heading, Content: r.Content, Tokens: 1})
		}
	})
	var all []*doc
	for _, k := range order {
		all = append(all, docs[k])
	}
	d.commit(all...)
	return d
}

// TestSearchAnswersTheExample: of the example's questions, how many have the chunk with the sentence that answers them among the
// first five hits, by mode. The vectors are of hash, which knows spelling alone.
func TestSearchAnswersTheExample(t *testing.T) {
	d := exampleDesk(t)
	n, hashes := &near{}, map[string]string{}
	eachLine(t, "expected.jsonl", func(r struct {
		graph.ChunkRow
		Key         string
		ContentHash string `json:"content_hash"`
	}) {
		switch r.Kind {
		case "document":
			hashes[r.Key] = r.ContentHash
		case "chunk":
			n.put(vectors.Chunk, fingerprint.ChunkID(fingerprint.DocumentID(r.Document), hashes[r.Document], "c1", r.Index), "", r.Text)
		}
	})
	d.q.WithVectors(n)
	const first = 5
	for mode, least := range map[string]int{"lexical": 36, "vector": 28, "hybrid": 36} {
		found, best, asked := 0, 0, 0
		eachLine(t, "questions.jsonl", func(q struct{ Question, Document, Quote string }) {
			asked++
			got, err := d.q.Search(t.Context(), g, api.Search{Q: q.Question, Mode: mode, Kinds: []string{"chunk"}, Limit: 20})
			require.NoError(t, err)
			rank := 0
			for i, h := range got.Hits {
				var c graph.ChunkRow
				require.NoError(t, json.Unmarshal(h.Row, &c))
				if c.Document == "docs/"+q.Document && strings.Contains(c.Text, q.Quote) {
					rank = i + 1
					break
				}
			}
			if rank > 0 && rank <= first {
				found++
			}
			if rank == 1 {
				best++
			}
			if rank != 1 && mode == "lexical" {
				t.Logf("rank %d: %s", rank, q.Question)
			}
		})
		t.Logf("%s: %d of %d questions: the sentence's chunk is among the first %d hits, %d times the first", mode, found, asked, first, best)
		require.Equal(t, 40, asked)
		require.GreaterOrEqual(t, found, least, mode)
	}
}
