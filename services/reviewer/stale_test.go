package reviewer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func gone(key, id string, count int) api.Group {
	return api.Group{Key: key, Kind: api.KindStale, IDs: []string{id}, State: api.StatePending, Count: count, Confidence: 0.8, Label: "KNOWS"}
}

// Stale facts stand among the others in one order, are shown with their plan, and decisions about them are forwarded as they are.
func TestStaleFacts(t *testing.T) {
	d, c, _ := mixed(t, 3, 1)
	c.gone = []api.Group{gone("stale|1|a", "s1", 900), gone("stale|1|b", "s2", 1)}
	v, err := d.list(t.Context(), "g", []byte(`{"kinds":["stale","conflict"],"limit":2}`))
	require.NoError(t, err)
	r := v.(api.ReviewListReply)
	require.Equal(t, []any{"stale|1|a", 5}, []any{r.Groups[0].Key, r.Total})
	v, err = d.list(t.Context(), "g", []byte(`{"kinds":["stale"],"state":"approved"}`))
	require.NoError(t, err)
	require.Empty(t, v.(api.ReviewListReply).Groups)
	v, err = d.stats(t.Context(), "g", nil)
	require.NoError(t, err)
	require.Equal(t, 2, v.(api.ReviewStatsReply).Stale)

	for _, body := range []string{`{"key":"stale|1|b"}`, `{"id":"s2"}`} {
		v, err = d.show(t.Context(), "g", []byte(body))
		require.NoError(t, err, body)
		x := v.(api.ReviewShowReply)
		require.Equal(t, []any{"stale|1|b", "f9", 1, "said", "also", "eva"}, []any{x.Item.Key, x.Fingerprint, *x.Others, x.Evidence[0].Quote, x.OtherSources[0].Quote, x.History[0].Actor})
	}

	_, err = d.approve(t.Context(), "g", []byte(`{"keys":["stale|1|a"],"fingerprint":"f","actor":"eva","reason":"r","request_id":"q","revision":7}`))
	require.NoError(t, err)
	_, err = d.reject(t.Context(), "g", []byte(`{"keys":["stale|1|b"],"decision":"keep","fingerprint":"f","actor":"eva"}`))
	require.NoError(t, err)
	c.said = []events.Audit{{Record: "rec", Kind: api.KindStale, Key: "stale|1|a"}}
	_, err = d.undo(t.Context(), "g", []byte(`{"decision":"rec","actor":"bo"}`))
	require.NoError(t, err)
	require.Equal(t, []any{
		api.StaleDecide{Key: "stale|1|a", Decision: "withdraw", Fingerprint: "f", Actor: "eva", Reason: "r", RequestID: "q", Revision: 7},
		api.StaleDecide{Key: "stale|1|b", Decision: "keep", Fingerprint: "f", Actor: "eva"},
		api.StaleDecide{Undo: "rec", Actor: "bo"},
	}, c.passed)
	for body, want := range map[string]string{
		`{"keys":["stale|1|a","stale|1|b"],"actor":"eva"}`:       "bad_value",
		`{"keys":["stale|1|a"],"decision":"keep","actor":"eva"}`: "bad_value",
		`{"keys":["stale|1|a"],"value":"x","actor":"eva"}`:       "bad_value",
		`{"keys":["stale|1|a","match|1|2"],"actor":"eva"}`:       "not_supported",
		`{"query":{"kinds":["stale"]},"actor":"eva"}`:            "not_supported",
	} {
		_, err := d.approve(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, want, e.Code, body)
	}
}
