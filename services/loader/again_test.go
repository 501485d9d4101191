package loader

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

const twoDocuments = `{"documents":[{"key":"a","text":"Ada."},{"key":"b","text":"Bob."}]}`

func TestRelistGivesTheSameSourcesUnderTheNewAttempt(t *testing.T) {
	b := newBench(t, Config{})
	b.kept = document7(twoDocuments, nil)
	first, _, seal := found(t, must(b.listed(twoDocuments, nil)))
	again := testJob(func(j *events.Job) { j.Attempt, j.At = 2, graph.Order{Seq: 7} })
	out, err := b.fetched(again, events.Source{Token: "relist", Relist: true})
	require.NoError(t, err)
	sources, _, seal2 := found(t, out)
	require.Equal(t, first, sources)
	require.Equal(t, seal.Sources, seal2.Sources)
	require.Equal(t, 2, seal2.Job.Attempt)
	for _, e := range out {
		require.Contains(t, e.ID(), ":j7:2:", "ids of another attempt are other ids")
	}

	b.kept = nil
	out, err = b.fetched(again, events.Source{Token: "relist", Relist: true})
	require.NoError(t, err)
	_, _, seal = found(t, out)
	require.Equal(t, "event_gone", seal.Refused.Code)
}

func TestDocumentIsFoundAgainInItsEvent(t *testing.T) {
	b := newBench(t, Config{})
	b.kept = document7(twoDocuments, nil)
	sources, _, _ := found(t, must(b.listed(twoDocuments, nil)))
	job := testJob(func(j *events.Job) { j.At = graph.Order{Seq: 7} })
	out, err := b.fetched(job, events.Source{Token: sources[1].Token, Name: "b", Only: "b", Try: 3})
	require.NoError(t, err)
	require.Len(t, out, 1)
	l := out[0].(*events.Loaded)
	require.Equal(t, "Bob.", l.Text)
	require.Equal(t, 3, l.Doc.Try)
	require.Contains(t, l.ID(), ":t3")

	_, err = b.fetched(job, events.Source{Token: "elsewhere", Only: "b", Try: 1})
	isFault(t, err, "source_gone", `the source of "b" is not what the document event names any more`)
	b.kept = nil
	_, err = b.fetched(job, events.Source{Token: sources[1].Token, Only: "b", Try: 1})
	isFault(t, err, "event_gone", "the document event 7 of job j7 is gone")
}

func must(out []events.Event, err error) []events.Event {
	if err != nil {
		panic(err)
	}
	return out
}
