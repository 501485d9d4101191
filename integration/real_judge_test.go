//go:build real

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/resolver"
)

// TestRealJudge: pairs of the gold set before a real, small model that knows little. Each pair gets its own verdict, whatever it is worth.
func TestRealJudge(t *testing.T) {
	url := realOllama(t)
	f, err := os.ReadFile(filepath.Join(root, "bench", "testdata", "resolution", "pairs.jsonl"))
	require.NoError(t, err)
	var req api.JudgeRequest
	for i, line := range strings.Split(strings.TrimSpace(string(f)), "\n") {
		if i%45 == 0 && len(req.Pairs) < api.MaxJudgePairs { // of every kind
			var p api.JudgePair
			require.NoError(t, json.Unmarshal([]byte(line), &p))
			req.Pairs = append(req.Pairs, p)
		}
	}
	require.Len(t, req.Pairs, api.MaxJudgePairs)
	req.Model = realModel
	j, err := resolver.NewJudge(resolver.Config{ModelURL: url}, app.Deps{})
	require.NoError(t, err)
	defer j.Close()
	reply, err := j.Ask(t.Context(), "g", req)
	require.NoError(t, err)
	require.Len(t, reply.Verdicts, len(req.Pairs))
	require.Zero(t, reply.Failed, "%+v", reply.Verdicts)
	require.Positive(t, reply.PromptTokens)
	require.Positive(t, reply.CompletionTokens)
	var b strings.Builder
	for i, v := range reply.Verdicts {
		require.Empty(t, v.Why, "the format has a place for each answer")
		fmt.Fprintf(&b, "\n  %-9s %-32q %-32q %s", v.Verdict, req.Pairs[i].A, req.Pairs[i].B, v.Reason)
	}
	t.Logf("%d requests, %d + %d tokens%s", reply.Requests, reply.PromptTokens, reply.CompletionTokens, b.String())
}
