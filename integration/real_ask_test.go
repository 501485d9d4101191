//go:build real

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRealAsk: questions over the example corpus to a real, small model that is often wrong. Each research ends within its bounds, and
// whatever it shows as an answer is a slice of the text it names; what the model is worth is only written down.
func TestRealAsk(t *testing.T) {
	url := realOllama(t)
	dir := filepath.Join(t.TempDir(), "graph")
	r := runIn(t, example(t), "", "run", "docs", "--schema", "schema.yaml", "--data", dir)
	require.Zero(t, r.code, r.stderr)
	const tokens, limit = 3000, 4 * time.Minute // little is shown for so few tokens: it reads slowly
	f, err := os.ReadFile(filepath.Join(example(t), "questions.jsonl"))
	require.NoError(t, err)
	for i, line := range strings.Split(strings.TrimSpace(string(f)), "\n") {
		if i%20 != 1 {
			continue
		}
		var q struct{ Question, Quote string }
		require.NoError(t, json.Unmarshal([]byte(line), &q))
		begin := time.Now()
		r := run(t, "", "ask", q.Question, "--data", dir, "--model", realModel, "--ollama.url", url, "--max-steps", "2", "--max-tokens", fmt.Sprint(tokens), "--max-time", limit.String(), "--json")
		require.Zero(t, r.code, r.stderr)
		var a answer
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &a), r.stdout)
		t.Logf("%s\n%s%s\n%s", q.Question, r.stderr, a.StoppedBy+" "+a.Why, r.stdout)
		require.Less(t, time.Since(begin), limit+time.Minute)
		require.LessOrEqual(t, len(a.Steps), 2)
		require.LessOrEqual(t, a.Tokens.Prompt+a.Tokens.Completion, 2*tokens, "the estimate of a call, and a repair, are off by less")
		require.NotEmpty(t, a.Evidence)
		require.Contains(t, []string{"answered", "steps", "tokens", "time", "loop", "reply"}, a.StoppedBy, a.Why)
		checkedAll(t, a, "--data", dir)
	}
}
