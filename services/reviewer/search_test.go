package reviewer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// over is a desk over records, which is asked at most 64 times.
func over(records ...api.Record) (*desk, *storyteller) {
	c := &storyteller{seqs: make(chan api.SeqReply, 64), asked: make(chan struct{}, 64), pages: []api.RecordsReply{{Seq: 1, No: 1, Records: records}}}
	return newDesk(c), c
}

func candidate(key, state, label, text string, count int) api.Record {
	kind, _, _ := strings.Cut(key, "|")
	return api.Record{Seq: 1, CandidateItem: events.CandidateItem{ID: key, Document: "d", DocumentID: "d", ChunkID: "chunk", Quote: "a quote", State: state,
		Candidate: graph.Candidate{Key: key, Kind: kind, Label: label, Text: text, Count: count, Confidence: 0.5, Reasons: []string{graph.ReasonUndeclaredLabel}, Start: 1, End: 2}}}
}

// A search finds pending and approved candidates, the newest decisions included, marks what nobody reviewed, and gives nothing to cite.
func TestSearchCandidates(t *testing.T) {
	larch := candidate("entity|instrument|larch", api.StatePending, "Instrument", "LARCH spectrograph", 2)
	d, c := over(larch, candidate("entity|tree|larch", api.StateApproved, "Tree", "Lärch", 5), candidate("entity|town|larch", api.StateRejected, "Town", "Larch", 9),
		candidate("relation|feeds on|larch moth|larch", api.StatePending, "FEEDS_ON", "", 1))
	no := uint64(1)
	search := func(body string) api.SearchCandidatesReply {
		t.Helper()
		c.seqs <- api.SeqReply{Seq: no, No: no}
		v, err := d.search(t.Context(), "g", []byte(body))
		require.NoError(t, err)
		return v.(api.SearchCandidatesReply)
	}
	r := search(`{"q":"the LARCH (spectrograph)?"}`)
	require.Equal(t, api.SearchCandidatesReply{Seq: 1, Total: 2, Note: api.CandidatesNote, Results: []api.CandidateHit{
		{Key: "entity|instrument|larch", Kind: "entity", Label: "Instrument", Text: "LARCH spectrograph", State: "pending", Count: 2, Confidence: 0.5, Reasons: []string{"undeclared_label"},
			Documents: 1, Matched: 2, Unreviewed: true},
		{Key: "entity|tree|larch", Kind: "entity", Label: "Tree", Text: "Lärch", State: "approved", Count: 5, Confidence: 0.5, Reasons: []string{"undeclared_label"}, Documents: 1, Matched: 1},
	}}, r)
	b, err := json.Marshal(r)
	require.NoError(t, err)
	for _, cite := range []string{"chunk", "quote", `"start"`, `"document"`} {
		require.NotContains(t, string(b), cite)
	}
	require.Equal(t, "relation|feeds on|larch moth|larch", search(`{"q":"feeds","kind":"relation"}`).Results[0].Key)
	require.Empty(t, search(`{"q":"larch","kind":"property"}`).Results)
	one := search(`{"q":"larch","limit":1}`)
	require.Equal(t, []any{1, 2, "entity|tree|larch"}, []any{len(one.Results), one.Total, one.Results[0].Key})

	larch.State = api.StateRejected
	d.apply(&events.CandidateEvent{Graph: "g", Verb: "rejected", Kind: "entity", Seq: 2, No: 2, Items: []events.CandidateItem{larch.CandidateItem}})
	no = 2
	require.Equal(t, 1, search(`{"q":"larch"}`).Total)

	for body, want := range map[string]string{
		`{}`: "no word of over two characters", `{"q":"it is C#"}`: "no word of over two characters", `{"q":"larch","kind":"match"}`: `kind is "match"`,
		`{"q":"larch","limit":0}`: "limit is 0", `{"q":"larch","limit":101}`: "between 1 and 100", `{"q":"` + strings.Repeat("larch ", 200) + `"}`: "q has 1200 bytes",
	} {
		_, err := d.search(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, "400 bad_value", fmt.Sprintf("%d %s", e.Status, e.Code), body)
		require.Contains(t, e.Message, want)
	}
	_, err = d.search(t.Context(), "g", []byte(`{"q":"larch","state":"pending"}`))
	require.ErrorContains(t, err, "unknown field")
}

// Texts that take six times their bytes in JSON make pages shorter, never too large for a message, and a cursor goes through them all.
func TestPagesFitIntoMessages(t *testing.T) {
	var records []api.Record
	for i := range 300 {
		r := candidate(fmt.Sprintf("entity|bell|%d", i), api.StatePending, "Bell", "bell "+strings.Repeat("\x01<\u2028", 1000), 1)
		r.Quote = strings.Repeat("\x02", 2000)
		records = append(records, r)
	}
	d, c := over(records...)
	ask := func(verb string, req map[string]any, reply any) {
		t.Helper()
		c.seqs <- api.SeqReply{Seq: 1, No: 1}
		body, err := json.Marshal(req)
		require.NoError(t, err)
		v, err := map[string]func() (any, error){
			"list": func() (any, error) { return d.list(t.Context(), "g", body) }, "search": func() (any, error) { return d.search(t.Context(), "g", body) },
		}[verb]()
		require.NoError(t, err)
		out, err := json.Marshal(v)
		require.NoError(t, err)
		require.Less(t, len(out), 1<<20)
		require.NoError(t, json.Unmarshal(out, reply))
	}
	seen, req := 0, map[string]any{"limit": 300}
	for {
		var page api.ReviewListReply
		ask("list", req, &page)
		require.NotEmpty(t, page.Groups)
		seen += len(page.Groups)
		if req["cursor"] = page.Next; page.Next == "" {
			break
		}
	}
	require.Equal(t, 300, seen)
	var found api.SearchCandidatesReply
	ask("search", map[string]any{"q": "bell", "limit": 100}, &found)
	require.Equal(t, 300, found.Total)
	require.NotEmpty(t, found.Results)
}

// A text takes as many bytes as is said.
func TestTextSize(t *testing.T) {
	for _, s := range []string{"", "plain", "\"\\/<>&\n\r\t\b\f\x00\x1f\x7f", "é東\u2028\u2029\ufffd😀", "\xff\xc3(\xed\xa0\x80"} {
		b, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, len(b), textSize(s), "%q", s)
	}
}
