package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/testkit"
)

// A committer on another volume than the one whose events lie in the streams does not start: it would make one graph out of two. It may be told
// to take them over, and then the former one's volume is the other one.
func TestAnotherVolume(t *testing.T) {
	c := sixProcesses(t, 1)
	c.add("default", doc("first", "Ada Lovelace works for Acme Ltd."))
	owner := func() string {
		name, err := c.conn.Owner(t.Context())
		require.NoError(t, err)
		require.Regexp(t, "^[0-9a-f]{16}$", name)
		return name
	}
	first, dir := owner(), c.dir
	ends := func(args ...string) string {
		t.Helper()
		c.start("committer", args...)
		p := c.the("committer")
		select {
		case <-p.done:
		case <-time.After(testkit.Patience):
			require.Fail(t, "it goes on")
		}
		require.Equal(t, 2, p.cmd.ProcessState.ExitCode())
		return p.output()
	}
	c.the("committer").stop(t)
	c.dir = t.TempDir()
	said := ends()
	require.Contains(t, said, "the streams at this NATS server belong to the store "+first+", and "+c.dir)
	require.Contains(t, said, "--store.adopt true gives the streams to this one for good")
	require.Equal(t, first, owner())
	require.Contains(t, ends(), "belong to the store "+first, "it does not become another one by starting again")

	r := run(t, "", "serve", "committer", "--data", c.dir, "--nats", c.url, "--bus.ack_wait", ackWait)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "belong to the store "+first)

	c.start("committer", "--store.adopt", "true")
	c.ready("committer")
	require.NotEqual(t, first, owner())
	require.Contains(t, c.the("committer").output(), "the streams of another store are this one's now")
	c.the("committer").stop(t)
	c.start("committer") // and once is enough
	c.ready("committer")
	c.the("committer").stop(t)
	c.dir = dir
	require.Contains(t, ends(), "belong to the store "+owner())
	c.start("committer", "--store.adopt", "true")
	c.ready("committer")
	require.Equal(t, first, owner())
	c.add("default", doc("second", "Grace Hopper works for Navy Corp."))
	c.sound("default")
}
