//go:build proof

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/services/committer"
)

// As TestReplay, with histories that nobody has seen. What is rare happens in most of them, not in each: that everything happens is demanded
// of the pinned ones.
func TestReplayMany(t *testing.T) {
	if missing := sideBySide(t, seeds(t, 24), 6, 60, 3); len(missing) > 0 {
		t.Logf("did not happen this time: %q", missing)
	}
}

// The same with processes, the committer being killed: what it had in hand is done once.
func TestReplayKilled(t *testing.T) {
	first := sixProcesses(t, 1)
	second := newFleet(t, fleetOptions{Committer: committer.Config{PolicyOff: true}})
	seen := histories(t, seeds(t, 4), 45, func(graph string) *history {
		return &history{cluster: first, g: graph, crashes: 10, crash: func() {
			first.the("committer").kill()
			first.start("committer")
			first.ready("committer")
		}}
	}, second)
	require.NotZero(t, seen["crash"])
}
