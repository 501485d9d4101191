package reviewer

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

// storyteller is a committer that says how far it is as a test wants it.
type storyteller struct {
	seqs  chan api.SeqReply // what Seq answers, one after the other
	asked chan struct{}
	pages []api.RecordsReply
	deskOfMatches
}

func (s *storyteller) Seq(ctx context.Context, _ string) (api.SeqReply, error) {
	s.asked <- struct{}{}
	select {
	case r := <-s.seqs:
		return r, nil
	case <-ctx.Done():
		return api.SeqReply{}, ctx.Err()
	}
}

func (s *storyteller) Records(context.Context, string, api.RecordsGet) (api.RecordsReply, error) {
	p := s.pages[0]
	s.pages = s.pages[1:]
	return p, nil
}

func (s *storyteller) Schema(context.Context, string) (api.SchemaReply, error) {
	return api.SchemaReply{Fingerprint: "x", Schema: json.RawMessage(`{"name":"x","entities":[{"label":"Person"}]}`)}, nil
}

func proposed(seq, no uint64, kind, key string) *events.CandidateEvent {
	it := events.CandidateItem{ID: key, Document: "d", DocumentID: "d", State: api.StatePending,
		Candidate: graph.Candidate{Key: key, Kind: kind, Label: "L", Text: key, Count: 1, Confidence: 0.5}}
	return &events.CandidateEvent{Graph: "g", Verb: "proposed", Kind: kind, Seq: seq, No: no, Items: []events.CandidateItem{it}}
}

// TestAListShowsWholeCommits: a list that asked how far the committer is before a commit, and reads the model while half of that
// commit's events are applied, waits for the other half.
func TestAListShowsWholeCommits(t *testing.T) {
	c := &storyteller{seqs: make(chan api.SeqReply, 4), asked: make(chan struct{}, 4), pages: []api.RecordsReply{{Seq: 1, No: 1}}}
	d := newDesk(c)
	list := func() api.ReviewListReply {
		r, err := d.list(t.Context(), "g", nil)
		require.NoError(t, err)
		return r.(api.ReviewListReply)
	}
	c.seqs <- api.SeqReply{Seq: 1, No: 1}
	require.Empty(t, list().Groups)
	<-c.asked

	// Commit 2 has the events 2 and 3.
	c.seqs <- api.SeqReply{Seq: 1, No: 1}
	d.apply(proposed(2, 2, graph.KindEntity, "entity|l|a"))
	got := make(chan api.ReviewListReply, 1)
	go func() { got <- list() }()
	testkit.Receive(t, "the first question", c.asked)
	testkit.Receive(t, "the question how far the next commit goes", c.asked)
	c.seqs <- api.SeqReply{Seq: 2, No: 3}
	d.apply(proposed(2, 3, graph.KindRelation, "relation|l|a|b"))
	r := testkit.Receive(t, "the list", got)
	require.Equal(t, uint64(2), r.Seq)
	require.Len(t, r.Groups, 2)
}

// TestAModelOfAnotherHistoryIsLoadedAnew: after a restore the committer is behind what the desk has seen.
func TestAModelOfAnotherHistoryIsLoadedAnew(t *testing.T) {
	c := &storyteller{seqs: make(chan api.SeqReply, 4), asked: make(chan struct{}, 4), pages: []api.RecordsReply{{Seq: 5, No: 9}, {Seq: 3, No: 4}}}
	d := newDesk(c)
	c.seqs <- api.SeqReply{Seq: 5, No: 9}
	_, err := d.list(t.Context(), "g", nil)
	require.NoError(t, err)
	c.seqs <- api.SeqReply{Seq: 3, No: 4}
	c.seqs <- api.SeqReply{Seq: 3, No: 4}
	r, err := d.list(t.Context(), "g", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(3), r.(api.ReviewListReply).Seq)
	require.Empty(t, c.pages)
}
