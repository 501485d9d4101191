package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/extractor"
)

// TestCancelledJobGivesBackItsSlot: the call that hangs ends with its job, the rest of the document is not asked about, another job goes on,
// and what was paid is in the summary of both.
func TestCancelledJobGivesBackItsSlot(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		r := testkit.ModelReply{Content: `{"entities":[],"relations":[]}`, PromptTokens: 100, CompletionTokens: 20}
		if c.N == 3 {
			r.Wait = hang
		}
		return r
	}})
	f := asking(t, fleetOptions{Extractor: extractor.Config{Slots: 1}}, m, "g")
	f.putSettings("g", map[string]string{"chunker.size": "32", "chunker.min_size": "1"})
	job := f.publish("g", longDocument("long", 30))
	m.Await(t, 3)
	f.publish("g", map[string]any{"documents": []map[string]any{doc("short", "It rained.")}, "job": "other"})
	s := ask[api.JobStatus](f.cluster, "g", "jobs.cancel", api.JobCancel{Job: job})
	require.Equal(t, api.JobRolledBack, s.State)
	s = f.await("g", "other", api.JobCommitted)
	require.Equal(t, []int{1, 120}, []int{s.Stages.Escalation.SpentRequests, s.Stages.Escalation.SpentTokens})
	require.Equal(t, 4, m.Count(), "two answered, one that hung, one of the other job")
	s = ask[api.JobStatus](f.cluster, "g", "jobs.get", api.JobGet{Job: job})
	require.Equal(t, []int{3, 240}, []int{s.Stages.Escalation.SpentRequests, s.Stages.Escalation.SpentTokens})
	require.Equal(t, "llm", s.Stages.Escalation.Mode)
	f.noDeadLetters()
}

// TestRolledBackJobSaysWhatItCost: requests were paid for, though nothing of the job is in the graph.
func TestRolledBackJobSaysWhatItCost(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{
		Content: "I'm sorry, I cannot help with that.", PromptTokens: 70, CompletionTokens: 7,
	})})
	f := asking(t, fleetOptions{}, m, "g")
	job := f.publish("g", doc("d", "Bob works at Acme."))
	s := f.await("g", job, api.JobRolledBack)
	require.Contains(t, s.Reason, "reply_refused")
	require.Equal(t, []int{1, 77}, []int{s.Stages.Escalation.SpentRequests, s.Stages.Escalation.SpentTokens})
	require.Equal(t, 1, m.Count())
}

// TestTokensOfAJob: what waited for a slot looks at the sum again; what is spent too much is one call a slot at most.
func TestTokensOfAJob(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{
		Content: `{"entities":[],"relations":[]}`, PromptTokens: 140, CompletionTokens: 10,
	})})
	f := asking(t, fleetOptions{Extractor: extractor.Config{Slots: 1}}, m, "g")
	f.putSettings("g", map[string]string{"extractor.max_tokens": "700"})
	var docs []map[string]any
	for i := range 12 {
		docs = append(docs, doc(fmt.Sprint("d", i), fmt.Sprintf("It rained on day %d.", i)))
	}
	s := f.run("g", map[string]any{"documents": docs, "error_policy": "skip"})
	x := s.Stages.Escalation
	require.Equal(t, []int{5, 750, 5, 12, 5, 7}, []int{x.SpentRequests, x.SpentTokens, m.Count(), x.Escalated, x.Asked, x.EscalationStats.Failed})
	require.Equal(t, 7, s.Stages.Extraction.ChunksFailed)
	for _, failure := range s.Stages.Extraction.List {
		require.Equal(t, "token_budget", failure.Code)
	}
}

// longDocument is a document of n chunks, for a chunk size of 32.
func longDocument(key string, n int) map[string]any {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "# %s part %d\n\nIt rained on %s for a while, and then the wind turned round and it rained once more there.\n\n", key, i, key)
	}
	return doc(key, b.String())
}
