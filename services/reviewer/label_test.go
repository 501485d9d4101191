package reviewer

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// A label is compared as the schema compares labels: case, spaces, _ and - do not count. Equal text that differs in more is another.
func TestTheLabelFilterIsFolded(t *testing.T) {
	page := api.RecordsReply{Seq: 1, No: 1}
	for key, label := range map[string]string{"entity|a": "SportsTeam", "entity|b": "Sports Team", "entity|c": "sports-team", "entity|d": "Team", "relation|e": "WORKS_FOR"} {
		page.Records = append(page.Records, api.Record{Seq: 1, CandidateItem: events.CandidateItem{ID: key, Document: "d", DocumentID: key,
			State: api.StatePending, Candidate: graph.Candidate{Key: key, Kind: graph.KindEntity, Label: label, Count: 1}}})
	}
	c := &storyteller{seqs: make(chan api.SeqReply, 16), asked: make(chan struct{}, 16), pages: []api.RecordsReply{page}}
	d := newDesk(c)
	for label, want := range map[string][]string{
		"sportsteam":   {"entity|a", "entity|b", "entity|c"},
		"SPORTS_TEAM":  {"entity|a", "entity|b", "entity|c"},
		" Sports-Team": {"entity|a", "entity|b", "entity|c"},
		"team":         {"entity|d"},
		"Teams":        {},
		"works for":    {"relation|e"},
		"":             {"entity|a", "entity|b", "entity|c", "entity|d", "relation|e"},
	} {
		c.seqs <- api.SeqReply{Seq: 1, No: 1}
		body, err := json.Marshal(api.ReviewList{Label: label})
		require.NoError(t, err)
		r, err := d.list(t.Context(), "g", body)
		require.NoError(t, err)
		got := []string{}
		for _, g := range r.(api.ReviewListReply).Groups {
			got = append(got, g.Key)
		}
		require.Equal(t, want, got, label)
		require.Equal(t, len(want), r.(api.ReviewListReply).Total, label)
	}
}
