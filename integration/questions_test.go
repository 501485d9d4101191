package integration

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// hitText is all that a hit shows of documents: a chunk's text, the quotes of an entity or a relation.
func hitText(t testing.TB, h api.Hit) string {
	t.Helper()
	var row struct {
		Text     string
		Evidence []struct{ Quote string }
	}
	require.NoError(t, json.Unmarshal(h.Row, &row))
	out := row.Text
	for _, e := range row.Evidence {
		out += "\n" + e.Quote
	}
	return out
}

// Of the example's 40 questions, which were written before the ranking, the sentence that answers each is among the first five hits of
// query.search, as it is asked over NATS with the embedder that every graph begins with: for at least 36 in mode hybrid, and 32 in mode
// lexical. Both among the chunks, and where entities and relations take places too.
func TestTheExampleIsAnswered(t *testing.T) {
	c := allInOne(t)
	c.ingestExample()
	require.Equal(t, "hash", ask[api.SettingsReply](c, "default", "settings.get", nil).Settings["embedder"])
	testkit.Await(t, "the vectors", func() bool {
		v := ask[api.VectorsReply](c, "default", "vectors.status", nil)
		return v.Behind == 0 && v.Vectors > 0
	})
	b, err := os.Open(filepath.Join(root, "examples", "observatories", "questions.jsonl"))
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	asked, found := 0, map[string]int{}
	for lines := bufio.NewScanner(b); lines.Scan(); asked++ {
		q := loose[struct{ Question, Document, Quote string }](t, lines.Text())
		for _, mode := range []string{"lexical", "hybrid"} {
			for _, kinds := range [][]string{{"chunk"}, nil} {
				r := ask[api.SearchReply](c, "default", "query.search", api.Search{Q: q.Question, Mode: mode, Kinds: kinds, Limit: 5})
				require.LessOrEqual(t, len(r.Hits), 5)
				require.Empty(t, r.Failed)
				require.NotZero(t, r.Seq)
				for _, h := range r.Hits {
					if strings.Contains(hitText(t, h), q.Quote) {
						found[mode+" "+strings.Join(kinds, "")]++
						break
					}
				}
			}
		}
	}
	t.Logf("of %d questions: %v", asked, found)
	require.Equal(t, 40, asked)
	require.GreaterOrEqual(t, found["hybrid chunk"], 36)
	require.GreaterOrEqual(t, found["lexical chunk"], 32)
	require.GreaterOrEqual(t, found["hybrid "], 36)
	require.GreaterOrEqual(t, found["lexical "], 32)
}
