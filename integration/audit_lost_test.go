package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// TestARecordLostWithTheEndOfTheLog: a byte that changes in the last record of the store's log makes the store forget that commit when it is
// opened, and leaves no gap in the chain. The audit stream has kept the record, so that the check names it.
func TestARecordLostWithTheEndOfTheLog(t *testing.T) {
	c := sixProcesses(t, 1)
	ask[api.SchemaReply](c, "g", "schema.put", api.SchemaPut{Schema: guildWith("stale: review"), Name: "guild"})
	c.add("g", doc("doc-1", linInGuild), doc("doc-2", "They say that Lin works for Guild."))
	c.add("g", doc("doc-1", "Nobody works."), doc("doc-2", "They say that nobody works."))
	var records []string
	for _, g := range c.stale("g") {
		shown := ask[api.ReviewShowReply](c, "g", "review.show", api.ReviewShow{Key: g.Key})
		r := ask[api.DecideReply](c, "g", "review.reject", api.ReviewDecide{IDs: g.IDs, Fingerprint: shown.Fingerprint, Actor: "eva"})
		records = append(records, r.Records[g.Key])
	}
	require.Len(t, records, 2)
	testkit.Await(t, "both records to be published", func() bool { return c.messages(bus.StreamAudit) == 2 })
	require.Contains(t, c.cli(0, "review", "audit", "--verify", "--graph", "g").stdout, "the chain is whole")

	c.the("committer").kill()
	logs, err := filepath.Glob(filepath.Join(c.dir, "store", "*.log"))
	require.NoError(t, err)
	damaged := 0
	for _, name := range logs {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		if at := bytes.Index(raw, []byte(records[1])); at >= 0 { // what was written behind that commit is lost with it
			raw[at] ^= 1
			clear(raw[at+len(records[1]):])
			require.NoError(t, os.WriteFile(name, raw, 0o600))
			damaged++
		}
	}
	require.Equal(t, 1, damaged)
	c.start("committer")
	c.ready("committer")
	r := c.cli(1, "review", "audit", "--verify", "--graph", "g")
	require.Contains(t, r.stdout+r.stderr, "audit record 2")
	require.Contains(t, r.stdout+r.stderr, "it was published as "+records[1]+", which is not in the store")
	require.Contains(t, c.cli(1, "verify", "--graph", "g").stdout, records[1])
	require.EqualValues(t, 1, ask[api.ReviewAuditReply](c, "g", "review.audit", nil).Total)
}
