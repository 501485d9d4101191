package reviewer

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/patch"
)

// approvals is a desk over records of a relation that the schema does not know, one a document, in these states.
func approvals(t *testing.T, states ...string) *desk {
	t.Helper()
	c := &storyteller{seqs: make(chan api.SeqReply, 64), asked: make(chan struct{}, 64)}
	for range cap(c.seqs) {
		c.seqs <- api.SeqReply{Seq: 9, No: 1}
	}
	page := api.RecordsReply{Seq: 9, No: 1}
	for i, state := range states {
		page.Records = append(page.Records, api.Record{CandidateItem: events.CandidateItem{ID: fmt.Sprint("c", i), DocumentID: fmt.Sprint("d", i), Document: fmt.Sprint("d", i), State: state,
			Candidate: graph.Candidate{Key: "relation|knows|a|b", Kind: graph.KindRelation, Label: "KNOWS", SourceLabel: "Person", TargetLabel: "Person", SourceText: "A", TargetText: "B", Count: i + 1}}})
	}
	c.pages = []api.RecordsReply{page}
	return newDesk(c)
}

func patched(t *testing.T, d *desk, body string) (*patch.Patch, error) {
	t.Helper()
	v, err := d.patch(t.Context(), "g", []byte(body))
	if err != nil {
		return nil, err
	}
	return v.(*patch.Patch), nil
}

func TestPatchOfWhatIsApproved(t *testing.T) {
	d := approvals(t, api.StateApproved, api.StateApproved, api.StatePending, api.StateApproved, api.StateRejected)
	p, err := patched(t, d, "")
	require.NoError(t, err)
	require.Equal(t, []string{"c0", "c1", "c3"}, p.CandidateIDs)
	require.Equal(t, map[string]int{"relation:KNOWS": 7}, p.Evidence)
	require.Equal(t, []patch.Relation{{Label: "KNOWS", Patterns: []string{"Person->Person"}}}, p.Additions.Relations)
	require.Equal(t, patch.ID(p.BaseSchema.Fingerprint, p.CandidateIDs), p.PatchID)
	require.Equal(t, "x", p.BaseSchema.Name)

	again, err := patched(t, d, "{}")
	require.NoError(t, err)
	require.Equal(t, p, again)

	p, err = patched(t, d, `{"ids":["c3"]}`)
	require.NoError(t, err)
	require.Equal(t, []string{"c3"}, p.CandidateIDs)
	require.Equal(t, map[string]int{"relation:KNOWS": 4}, p.Evidence)
}

func TestPatchRefuses(t *testing.T) {
	d := approvals(t, api.StateApproved, api.StatePending, api.StateRejected)
	_, err := patched(t, d, `{"ids":["c0","c1","c2","gone"]}`)
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 412, e.Status)
	require.Equal(t, "not_approved", e.Code)
	require.Equal(t, map[string]any{"skipped": map[string]string{"c1": "is pending", "c2": "is rejected", "gone": "unknown id"}}, e.Details)
	for body, want := range map[string]string{`{"ids":[]}`: "ids is empty", `{"id":"c0"}`: "id", `[`: ""} {
		_, err := patched(t, d, body)
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, 400, e.Status)
		require.ErrorContains(t, err, want)
	}
}

// A patch with more ids than a reply holds comes in pages of one patch.
func TestPatchInPages(t *testing.T) {
	c := &storyteller{seqs: make(chan api.SeqReply, 64), asked: make(chan struct{}, 64)}
	for range cap(c.seqs) {
		c.seqs <- api.SeqReply{Seq: 1, No: 1}
	}
	page := api.RecordsReply{Seq: 1, No: 1}
	var want []string
	for i := range 50_000 {
		want = append(want, fmt.Sprintf("00000000-0000-5000-8000-%012d", i))
		page.Records = append(page.Records, api.Record{CandidateItem: events.CandidateItem{ID: want[i], DocumentID: fmt.Sprint(i), State: api.StateApproved, Candidate: graph.Candidate{Key: "k", Kind: graph.KindEntity, Label: "Ship", Count: 1}}})
	}
	c.pages = []api.RecordsReply{page}
	d := newDesk(c)
	var got []string
	pages, cursor := 0, ""
	for {
		p, err := patched(t, d, fmt.Sprintf(`{"cursor":%q}`, cursor))
		require.NoError(t, err)
		b, err := json.Marshal(p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), maxPatch)
		require.Equal(t, map[string]int{"entity:Ship": 50_000}, p.Evidence)
		require.Equal(t, patch.ID(p.BaseSchema.Fingerprint, want), p.PatchID, "of all ids")
		got = append(got, p.CandidateIDs...)
		pages++
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, 3, pages)
}

// What is added alone is larger than a reply.
func TestPatchTooLarge(t *testing.T) {
	c := &storyteller{seqs: make(chan api.SeqReply, 4), asked: make(chan struct{}, 4)}
	c.seqs <- api.SeqReply{Seq: 1, No: 1}
	page := api.RecordsReply{Seq: 1, No: 1}
	for i := range 5000 {
		label := fmt.Sprintf("T%0*d", 110, i)
		page.Records = append(page.Records, api.Record{CandidateItem: events.CandidateItem{ID: fmt.Sprint(i), DocumentID: fmt.Sprint(i), State: api.StateApproved, Candidate: graph.Candidate{Key: label, Kind: graph.KindEntity, Label: label}}})
	}
	c.pages = []api.RecordsReply{page}
	_, err := patched(t, newDesk(c), "")
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 413, e.Status)
	require.ErrorContains(t, err, "name fewer ids")
}

// The empty patch has its lists, as programs expect.
func TestPatchOfNothing(t *testing.T) {
	p, err := patched(t, approvals(t, api.StatePending), "")
	require.NoError(t, err)
	b, err := json.Marshal(p)
	require.NoError(t, err)
	require.Contains(t, string(b), `"additions":{"entities":[],"relations":[]},"add_properties":[],"evidence":{},"candidate_ids":[]`)
}
