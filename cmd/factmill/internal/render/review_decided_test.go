package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// An outcome of many names the first and counts all; text of documents is escaped.
func TestOutcomeOfCandidates(t *testing.T) {
	var b strings.Builder
	r := api.DecideReply{Outcome: api.Outcome{Changed: []string{"entity|ship|ark\x1b[2J"}, ChangedTotal: 10_000, Skipped: map[string]string{"old": "unknown id", "relation|owns|a|b": "endpoint_unresolved"},
		SkippedTotal: 7, CurrentKeys: map[string]string{"old": "entity|ship|ark"}}, Records: map[string]string{}}
	require.NoError(t, Outcome(&b, r, "approved"))
	for _, want := range []string{"10,000 candidates approved\n", `entity|ship|ark\x1b[2J`, "  and 9,999 more\n", "skipped old: unknown id, its key is entity|ship|ark\n", "skipped relation|owns|a|b: endpoint_unresolved\n", "and 5 more skipped\n"} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), "\x1b")
	b.Reset()
	require.NoError(t, Outcome(&b, api.DecideReply{Outcome: api.Outcome{Skipped: map[string]string{"entity|x|y": "already approved"}, SkippedTotal: 1}}, "approved"))
	require.Equal(t, "0 candidates approved\nskipped entity|x|y: already approved\n", b.String())
}

func TestPruned(t *testing.T) {
	for want, r := range map[string]api.ReviewPruneReply{
		"nothing to forget\n": {},
		"  entity|ship|ark\n1 candidate would be forgotten; --apply does it\n":         {Matched: []string{"entity|ship|ark"}, MatchedTotal: 1},
		"  entity|ship|ark\n  and 2 more\n3 candidates forgotten, 5 records deleted\n": {Matched: []string{"entity|ship|ark"}, MatchedTotal: 3, Deleted: 5, Applied: true},
	} {
		var b strings.Builder
		require.NoError(t, Pruned(&b, r))
		require.Equal(t, want, b.String())
	}
}

func TestAuditShown(t *testing.T) {
	n := 4
	r := api.ReviewAuditReply{Records: []events.Audit{{No: 4, At: "2026-01-02T03:04:05Z", Actor: "eva", Decision: "reject", Key: "entity|ship|ark", Before: "pending", After: "rejected", Record: "r4", Reason: "a\x1b[2Jb"}},
		Total: 4, Next: "4", Verified: &n, Problems: []api.Problem{{Kind: "audit", Key: "audit record 2", Message: "it is not what was decided then"}}}
	var b strings.Builder
	require.NoError(t, Audit(&b, r))
	for _, want := range []string{"NO  TIME", "eva", "reject", "entity|ship|ark", "r4", `a\x1b[2Jb`, "1 of 4 records\n", "more: --cursor 4\n", "audit record 2: it is not what was decided then\n", "checked 4 records: 1 problem\n"} {
		require.Contains(t, b.String(), want)
	}
	b.Reset()
	r.Problems = nil
	require.NoError(t, Audit(&b, r))
	require.Contains(t, b.String(), "checked 4 records: the chain is whole\n")
}
