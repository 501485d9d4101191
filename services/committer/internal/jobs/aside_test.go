package jobs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// traced sends events of one trace.
func (w *world) traced(trace string, evs ...events.Event) {
	w.t.Helper()
	var in []bus.Delivery
	for _, e := range evs {
		b, err := events.Encode(e)
		require.NoError(w.t, err)
		in = append(in, bus.Delivery{Event: e, Body: b, Trace: trace})
	}
	for _, r := range w.m.HandleBatch(w.t.Context(), in) {
		require.NoError(w.t, r.Err)
	}
}

func skip(j *api.JobOpen) { j.ErrorPolicy = events.PolicySkip }

// Why a job ended is listed with its stage, be it found by the committer itself.
func TestSummaryListsWhatEndedTheJob(t *testing.T) {
	w := newWorld(t)
	job := w.accept("twice", 1, skip)
	w.traced("trace-a", document(job, "same", "x", "Ada")...)
	w.traced("trace-b", document(job, "same", "y", "Ada")...)
	s := w.wait("twice", api.JobRolledBack)
	require.Equal(t, []graph.Failure{{Stage: "committer", Item: "same", Code: "duplicate_key", Message: `the key "same" comes from two sources of one job`,
		TraceID: "trace-b"}}, s.Stages.Storage.Failures.List)
	require.Equal(t, 1, s.Stages.Storage.Failures.Total)

	job = w.accept("refused", 2)
	seal := sealed(job)
	seal.Refused = &graph.Failure{Stage: "loader", Item: "refused", Code: "bad_bundle", Message: "broken", TraceID: "trace-c"}
	w.traced("trace-d", seal)
	s = w.wait("refused", api.JobRolledBack)
	require.Equal(t, []graph.Failure{*seal.Refused}, s.Stages.Ingestion.Failures.List)

	job = w.accept("mismatch", 3)
	w.traced("trace-e", &events.Ended{Job: job, Source: fingerprint.Token("rows"), Outcome: events.OutcomeListed, Documents: 0, Digest: "00"}, sealed(job, "rows"))
	s = w.wait("mismatch", api.JobRolledBack)
	require.Equal(t, []graph.Failure{{Stage: "committer", Item: fingerprint.Token("rows"), Code: "source_mismatch",
		Message: "the documents that arrived are not the ones that the source listed", TraceID: "trace-e"}}, s.Stages.Storage.Failures.List)
}

// A summary lists at most 200 failures of a stage and counts all; every stage has a list of its own.
func TestSummaryOfManyFailures(t *testing.T) {
	w := newWorld(t)
	job := w.accept("many", 1, skip)
	var evs []events.Event
	var names []string
	for i := range 205 {
		n := fmt.Sprint("s", i)
		names = append(names, n)
		evs = append(evs, &events.Ended{Job: job, Source: fingerprint.Token(n), Name: n, Outcome: events.OutcomeSkipped,
			Failure: &graph.Failure{Stage: "loader", Item: n, Code: "unsupported_format", Message: "no", TraceID: n}})
	}
	for _, stage := range []string{"chunker", "extractor", "resolver"} {
		ref := docRef(stage, stage, stage)
		names = append(names, stage)
		evs = append(evs, &events.Ended{Job: job, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeFailed,
			Failure: &graph.Failure{Stage: stage, Item: stage, Code: "panic", Message: "boom", TraceID: "t-" + stage}})
	}
	w.traced("", append(evs, sealed(job, names...))...)
	s := w.wait("many", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 208, Skipped: 205, Failed: 3}, s.Documents)
	in := s.Stages.Ingestion.Failures
	require.Equal(t, []int{200, 205}, []int{len(in.List), in.Total})
	require.Equal(t, "s199", in.List[199].TraceID)
	for stage, f := range map[string]api.Failures{"chunker": s.Stages.Chunking.Failures, "extractor": s.Stages.Extraction.Failures, "resolver": s.Stages.Resolution.Failures} {
		require.Equal(t, 1, f.Total, stage)
		require.Equal(t, "t-"+stage, f.List[0].TraceID)
	}
}

// A document event that the loader gave up before it could open its job ends that job all the same.
func TestJobThatWasNeverOpenedEnds(t *testing.T) {
	w := newWorld(t)
	seal := &events.Sealed{Job: events.Job{Graph: "g", ID: "never", Attempt: 1, ErrorPolicy: events.PolicyRaise, At: graph.Order{Time: 5, Seq: 7}},
		Refused: &graph.Failure{Stage: "loader", Item: "never", Code: "panic", Message: "the handler panicked: boom", TraceID: "t"}}
	w.traced("t", seal, seal)
	s := w.wait("never", api.JobRolledBack)
	require.Equal(t, "panic: the handler panicked: boom", s.Reason)
	require.Equal(t, []graph.Failure{*seal.Refused}, s.Stages.Ingestion.Failures.List)
	w.restart()
	w.traced("t", seal)
	require.Equal(t, s, w.wait("never", api.JobRolledBack))

	w.accept("open", 8)
	plain := *seal
	plain.Job.ID, plain.Refused = "nobody", nil
	w.traced("t", &plain)
	_, err := w.m.Get(t.Context(), "g", "nobody")
	require.Error(t, err, "a seal alone opens nothing")
}
