package reviewer

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func (c *deskOfMatches) Held(_ context.Context, _ string, req api.HeldList) (api.HeldListReply, error) {
	r := api.HeldListReply{Seq: 9, Groups: []api.Group{}, Waiting: len(c.jobs)}
	for _, g := range c.jobs {
		if len(req.IDs) > 0 && !slices.Contains(req.IDs, g.Text) {
			continue
		}
		r.Total++
		if req.After == nil || req.After.Before(g.Place()) {
			if len(r.Groups) == req.Limit {
				r.More = true
				break
			}
			r.Groups = append(r.Groups, g)
		}
	}
	return r, nil
}

func (c *deskOfMatches) HeldJob(_ context.Context, _ string, req api.HeldGet) (api.HeldReply, error) {
	for _, g := range c.jobs {
		if g.Key == req.Key || g.Text == req.ID {
			return api.HeldReply{Seq: 9, Item: g, Job: api.JobItem{Job: g.Text, Documents: []api.JobDocument{{Key: req.Document}}},
				History: []events.Audit{{Actor: "eva"}}, Planned: api.Planned{Fingerprint: "f9"}}, nil
		}
	}
	return api.HeldReply{}, api.Errorf(412, "job_not_held", "no")
}

func (c *deskOfMatches) DecideHeld(_ context.Context, _ string, req api.HeldDecide) (api.DecideReply, error) {
	c.passed = append(c.passed, req)
	return api.DecideReply{Seq: 10, Outcome: api.Outcome{Changed: []string{req.Key}}}, nil
}

// Held jobs stand among the others in one order, are shown with their plan, and decisions about them are forwarded as they are.
func TestHeldJobs(t *testing.T) {
	d, c, _ := mixed(t, 3, 1)
	c.jobs = []api.Group{
		{Key: "job|j7", Kind: api.KindJob, Text: "j7", IDs: []string{"j7"}, State: api.StatePending, Count: 900, Revision: 2},
		{Key: "job|j8", Kind: api.KindJob, Text: "j8", IDs: []string{"j8"}, State: api.StatePending, Count: 1},
	}
	v, err := d.list(t.Context(), "g", []byte(`{"kinds":["job","conflict"],"limit":2}`))
	require.NoError(t, err)
	r := v.(api.ReviewListReply)
	require.Equal(t, []any{"job|j7", 5}, []any{r.Groups[0].Key, r.Total})
	v, err = d.list(t.Context(), "g", []byte(`{"kinds":["job"],"state":"approved"}`))
	require.NoError(t, err)
	require.Empty(t, v.(api.ReviewListReply).Groups)
	v, err = d.stats(t.Context(), "g", nil)
	require.NoError(t, err)
	require.Equal(t, 2, v.(api.ReviewStatsReply).Jobs)
	for _, body := range []string{`{"key":"job|j7","document":"d"}`, `{"id":"j7","document":"d"}`} {
		v, err = d.show(t.Context(), "g", []byte(body))
		require.NoError(t, err, body)
		x := v.(api.ReviewShowReply)
		require.Equal(t, []any{"job|j7", "f9", "d", uint64(2), "eva"}, []any{x.Item.Key, x.Fingerprint, x.Job.Documents[0].Key, x.Revision, x.History[0].Actor})
	}

	revision := uint64(2)
	edits := []api.JobEdit{{Document: "d", Item: "r1", Drop: true}}
	_, err = d.approve(t.Context(), "g", []byte(`{"keys":["job|j7"],"fingerprint":"f","decision":"accept","actor":"eva","reason":"r","request_id":"q","revision":2}`))
	require.NoError(t, err)
	_, err = d.reject(t.Context(), "g", []byte(`{"ids":["j8"],"fingerprint":"f","actor":"eva"}`))
	require.NoError(t, err)
	for _, verb := range []func(context.Context, string, []byte) (any, error){d.approve, d.reject} {
		_, err = verb(t.Context(), "g", []byte(`{"keys":["job|j7"],"fingerprint":"f","decision":"send_back","edits":[{"document":"d","item":"r1","drop":true}],"actor":"eva"}`))
		require.NoError(t, err)
	}
	// One that was decided is known by its record, so that the same request again gets there.
	c.said = []events.Audit{{Record: "rec", Kind: api.KindJob, Key: "job|j6", ItemID: "j6", Decision: "accept"}}
	_, err = d.approve(t.Context(), "g", []byte(`{"ids":["j6"],"fingerprint":"f","actor":"eva"}`))
	require.NoError(t, err)
	sent := api.HeldDecide{Key: "job|j7", Decision: "send_back", Fingerprint: "f", Edits: edits, Actor: "eva"}
	require.Equal(t, []any{
		api.HeldDecide{Key: "job|j7", Decision: "accept", Fingerprint: "f", Actor: "eva", Reason: "r", RequestID: "q", Revision: &revision},
		api.HeldDecide{ID: "j8", Decision: "reject", Fingerprint: "f", Actor: "eva"}, sent, sent,
		api.HeldDecide{ID: "j6", Decision: "accept", Fingerprint: "f", Actor: "eva"},
	}, c.passed)
	for body, want := range map[string]string{
		`{"keys":["job|j7","job|j8"],"actor":"eva"}`:            "bad_value",
		`{"keys":["job|j7"],"decision":"keep","actor":"eva"}`:   "bad_value",
		`{"keys":["job|j7"],"value":"x","actor":"eva"}`:         "bad_value",
		`{"keys":["job|j7","match|1|2"],"actor":"eva"}`:         "not_supported",
		`{"query":{"kinds":["job"]},"actor":"eva"}`:             "not_supported",
		`{"keys":["entity|l|1"],"edits":[{}],"actor":"eva"}`:    "bad_value",
		`{"keys":["job|j7"],"decision":"reject","actor":"eva"}`: "bad_value",
	} {
		_, err := d.approve(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, want, e.Code, body)
	}
	for _, decision := range []string{"accept", "reject", "send_back"} {
		c.said[0].Decision = decision
		_, err = d.undo(t.Context(), "g", []byte(`{"decision":"rec","actor":"bo"}`))
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "not_supported", e.Code)
		require.Contains(t, e.Message, "job j6 was")
	}
}
