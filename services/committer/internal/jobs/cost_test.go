package jobs_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/graphs"
)

// What a job cost is in its record, however it ended; where that is not known what its documents said remains, and nothing fails.
func TestCostOfAJob(t *testing.T) {
	w := newWorld(t)
	_, err := graphs.New(w.st, w.now.Now).SettingsPut(t.Context(), "g", api.SettingsPut{Settings: map[string]string{"extractor.mode": "llm", "ollama.model": "fake:1"}})
	require.NoError(t, err)
	w.restart()
	cost := func(requests, tokens int, err error) {
		w.out.mu.Lock()
		defer w.out.mu.Unlock()
		w.out.requests, w.out.tokens, w.out.lostCost = requests, tokens, err
	}
	run := func(id string, seq uint64) api.JobStatus {
		job := w.accept(id, seq)
		evs := document(job, id, id, "Ada")
		evs[1].(*events.Resolved).Escalation = &events.EscalationStats{Mode: "llm", Requests: 2, PromptTokens: 30, CompletionTokens: 3}
		w.send(append(evs, sealed(job, id))...)
		w.wait(id, api.JobCommitted)
		w.restart() // what is kept counts
		return w.wait(id, api.JobCommitted)
	}
	cost(7, 400, nil)
	x := run("resumed", 1).Stages.Escalation
	require.Equal(t, []int{2, 7, 400}, []int{x.Requests, x.SpentRequests, x.SpentTokens})

	cost(0, 0, errors.New("no broker"))
	x = run("uncounted", 2).Stages.Escalation
	require.Equal(t, []int{2, 2, 33}, []int{x.Requests, x.SpentRequests, x.SpentTokens})

	cost(4, 90, nil)
	w.accept("cancelled", 3)
	s, err := w.m.Cancel(t.Context(), "g", "cancelled", "")
	require.NoError(t, err)
	require.Equal(t, api.JobRolledBack, s.State)
	cost(0, 0, nil)
	x = w.wait("cancelled", api.JobRolledBack).Stages.Escalation
	require.Equal(t, []any{"llm", 0, 4, 90}, []any{x.Mode, x.Requests, x.SpentRequests, x.SpentTokens})
	cost(5, 120, nil) // a call that was in flight is counted later
	w.m.Cost(t.Context(), "g", "cancelled", &s)
	require.Equal(t, []int{5, 120}, []int{s.Stages.Escalation.SpentRequests, s.Stages.Escalation.SpentTokens})
}
