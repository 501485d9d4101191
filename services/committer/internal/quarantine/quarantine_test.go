package quarantine_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func TestRecords(t *testing.T) {
	st, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	st.Graph("g", true)
	st.Graph("other", true)
	at := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	job := events.Job{Graph: "g", ID: "load"}
	fail := &graph.Failure{Stage: "loader", Item: "x.dat", Code: "unsupported_format", Message: "no", TraceID: "t1"}
	of := quarantine.Of(&events.Ended{Job: job, Source: "tok", Name: "x.dat", Outcome: events.OutcomeQuarantined, Failure: fail,
		Body: "FACTMILL_BODIES/load/aa", BodyKind: events.KindFound, Items: 3}, 7, at)
	want := quarantine.Record{Job: "load", Seq: 7, Key: "x.dat", Source: "x.dat", Stage: "loader", Code: "unsupported_format", Reason: "no",
		TraceID: "t1", At: at, Body: "FACTMILL_BODIES/load/aa", Event: events.KindFound, Items: 3}
	require.Equal(t, want, of)
	doc := quarantine.Of(&events.Ended{Job: job, Doc: &events.DocRef{Key: "k"}, Source: "tok", Failure: fail}, 7, at)
	require.Equal(t, []string{"k", ""}, []string{doc.Key, doc.Source})

	upload := quarantine.Record{Job: "load", Key: "u", Source: "object:FACTMILL_UPLOADS/a/b", At: at}
	write := func(g string, seq uint64, rs ...quarantine.Record) {
		ops, err := quarantine.Ops(g, seq, rs)
		require.NoError(t, err)
		require.NoError(t, st.Write(t.Context(), ops, true))
	}
	write("g", 7, of, upload)
	write("g", 12, doc)
	write("other", 9, upload)

	ids := func(after string) (out []string) {
		require.NoError(t, quarantine.Scan(st, "g", after, func(r quarantine.Record) error { out = append(out, r.ID); return nil }))
		return out
	}
	require.Equal(t, []string{"q12-1", "q7-1", "q7-2"}, ids(""), "the newest commit first")
	require.Equal(t, []string{"q7-2"}, ids("q7-1"))
	require.Error(t, quarantine.Scan(st, "g", "7", func(quarantine.Record) error { return nil }))
	var of7 []string
	require.NoError(t, quarantine.OfCommit(st, "g", 7, func(r quarantine.Record) error { of7 = append(of7, r.Key); return nil }))
	require.Equal(t, []string{"x.dat", "u"}, of7)

	got, err := quarantine.Get(st, "g", "q7-1")
	require.NoError(t, err)
	want.ID = "q7-1"
	require.Equal(t, &want, got)
	for _, id := range []string{"q7-3", "q8-1", "7", "q7", "q-1", "q99999999999999999999-1", "q7-99999999999"} {
		got, err := quarantine.Get(st, "g", id)
		require.NoError(t, err)
		require.Nil(t, got, id)
	}

	named := func(object string) bool {
		n, err := quarantine.NamesUpload(st, object)
		require.NoError(t, err)
		return n
	}
	require.True(t, named("a/b"))
	require.False(t, named("a"), "a name is not its beginning")
	for g, id := range map[string]string{"g": "q7-2", "other": "q9-1"} {
		require.True(t, named("a/b"), "until no graph has it")
		r, err := quarantine.Get(st, g, id)
		require.NoError(t, err)
		require.NoError(t, st.Write(t.Context(), quarantine.DropOps(g, *r), true))
	}
	require.False(t, named("a/b"))
	require.Equal(t, []string{"q12-1", "q7-1"}, ids(""))
	require.Equal(t, []bool{true, false, false}, []bool{quarantine.IsID("q7-2"), quarantine.IsID("12"), quarantine.IsID("q7-")})

	// Numbers of one commit sort as numbers.
	many := make([]quarantine.Record, 300)
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	write("g", 20, many...)
	n := 0
	require.NoError(t, quarantine.OfCommit(st, "g", 20, func(r quarantine.Record) error {
		require.Equal(t, fmt.Sprint(n), r.Key)
		n++
		return nil
	}))
	require.Equal(t, 300, n)
}
