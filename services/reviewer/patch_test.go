package reviewer

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
)

// Patch answers with a patch whose ids are the keys, or as the test wants it.
func (c *deskOfMatches) Patch(_ context.Context, _ string, req api.CandidatesPatch) (patch.Patch, error) {
	c.patches = append(c.patches, req)
	if c.noPatch != nil {
		return patch.Patch{}, c.noPatch
	}
	return patch.Patch{PatchID: "0123456789abcdef", CandidateIDs: append(req.Keys, req.IDs...)}, nil
}

func TestPatchIsForwarded(t *testing.T) {
	d, c, _ := mixed(t, 1, 1)
	for body, want := range map[string]api.CandidatesPatch{"": {}, "{}": {}, `{"ids":["c0"],"cursor":"c"}`: {IDs: []string{"c0"}, Cursor: "c"}} {
		c.patches = nil
		_, err := d.patch(t.Context(), "g", []byte(body))
		require.NoError(t, err, body)
		require.Equal(t, []api.CandidatesPatch{want}, c.patches)
	}
	var e *api.Error
	for body, want := range map[string]string{`{"ids":[]}`: "ids is empty", `{"id":"c0"}`: "id", `[`: ""} {
		_, err := d.patch(t.Context(), "g", []byte(body))
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, 400, e.Status)
		require.ErrorContains(t, err, want)
	}
}

// An approval's reply has the patch of what changed, unless it does not fit.
func TestAnApprovalHasItsPatch(t *testing.T) {
	d, c, _ := mixed(t, 1, 1)
	reply := func(keys ...string) *api.DecideReply {
		return &api.DecideReply{Outcome: api.Outcome{Changed: keys, ChangedTotal: len(keys)}}
	}
	r := reply("entity|a|b")
	d.addPatch(t.Context(), "g", "", r)
	require.Equal(t, []string{"entity|a|b"}, r.Patch.CandidateIDs)
	require.InDelta(t, maxApproval, c.patches[0].Budget, 500)

	r = reply()
	d.addPatch(t.Context(), "g", "", r)
	require.Nil(t, r.Patch, "nothing changed")
	r = reply("entity|a|b")
	r.Outcome.ChangedTotal = 2
	d.addPatch(t.Context(), "g", "", r)
	require.Nil(t, r.Patch, "not all keys are named")
	r = reply(strings.Repeat("x", maxApproval))
	d.addPatch(t.Context(), "g", "", r)
	require.Nil(t, r.Patch, "no room")
	c.noPatch = api.Errorf(413, "too_large", "no")
	r = reply("entity|a|b")
	d.addPatch(t.Context(), "g", "", r)
	require.Nil(t, r.Patch)
	require.Len(t, c.patches, 2)
}
