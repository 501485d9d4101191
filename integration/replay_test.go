package integration

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer"
)

// wanted are the things that must have happened in the histories of a test, or it proves little.
var wanted = []string{
	"crash", "superseded", "unchanged", "stale kept", "stale asked", "deleted", "delete asked", "delete withdrew decided", "converted relations",
	"not_stated review.approve", "not_stated review.reject", "document_deleted review.approve", "document_deleted review.reject",
	"entity approve", "entity reject", "entity edit", "entity convert", "entity prune", "entity undo",
	"relation approve", "relation reject", "relation edit", "relation convert", "relation prune", "relation undo",
	"match same", "match different", "match choose", "undo of match same", "undo of match different", "undo of match choose",
	"conflict property_conflict choose", "conflict property_conflict keep_all", "conflict property_conflict reject",
	"undo of conflict property_conflict choose", "undo of conflict property_conflict keep_all", "undo of conflict property_conflict reject",
	"conflict homonym choose", "conflict homonym keep_all", "conflict homonym reject", "conflict homonym different",
	"undo of conflict homonym choose", "undo of conflict homonym keep_all", "undo of conflict homonym reject", "undo of conflict homonym different",
	"conflict cardinality choose", "conflict cardinality keep_all", "conflict cardinality reject",
	"undo of conflict cardinality choose", "undo of conflict cardinality keep_all", "undo of conflict cardinality reject",
	"held", "held by the policy", "job accept", "job reject", "job send_back",
	"stale withdraw", "stale keep", "undo of stale withdraw", "undo of stale keep",
	"stale of a deletion withdraw", "stale of a deletion keep", "undo of stale of a deletion withdraw", "undo of stale of a deletion keep",
	"prune keys", "by policy approve", "by policy reject",
}

// histories runs random histories, one a seed, and replays each: the same documents and the audit trail give the same canonical export,
// byte by byte, after each step. next gives the graph's history where it runs.
func histories(t *testing.T, list []uint64, steps int, next func(graph string) *history, second *fleet) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, seed := range list {
		began := time.Now()
		h := next(fmt.Sprint("h", seed))
		h.rng, h.seen = random(seed, "history"), seen
		t.Logf("seed %d", seed)
		h.run(steps)
		trail := h.trail(h.g)
		decided := map[string]events.Audit{}
		for _, a := range trail {
			decided[a.Record] = a
			seen[what(a)]++
			if a.Undoes != "" {
				seen["undo of "+what(decided[a.Undoes])]++
			}
			if a.Policy != nil {
				seen["by policy "+a.Decision]++
			}
		}
		took := time.Since(began)
		replayed(second, fmt.Sprint("r", seed), h.all, trail, h.marks)
		t.Logf("seed %d: %d records, %s, replayed in %s", seed, len(trail), took.Round(time.Millisecond), (time.Since(began) - took).Round(time.Millisecond))
	}
	return seen
}

// sideBySide splits histories over a few pairs of fleets, since a crash takes time in which nothing happens. It gives the kinds of things that
// happened in none of them.
func sideBySide(t *testing.T, list []uint64, fleets, steps, crashes int) (missing []string) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	t.Run("histories", func(t *testing.T) {
		for n := range fleets {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				first := newFleet(t, fleetOptions{})
				second := newFleet(t, fleetOptions{Committer: committer.Config{PolicyOff: true}})
				var mine []uint64
				for i := n; i < len(list); i += fleets {
					mine = append(mine, list[i])
				}
				more := histories(t, mine, steps, func(graph string) *history {
					return &history{cluster: first.cluster, g: graph, crashes: crashes, crash: first.fall}
				}, second)
				mu.Lock()
				defer mu.Unlock()
				for k, n := range more {
					seen[k] += n
				}
			})
		}
	})
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%-36s %d", k, seen[k])
	}
	for _, what := range wanted {
		if seen[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// After any sequence of ingests, deletions, decisions, edits, undos, schemas and crashes, the audit trail over the same documents gives the
// same graph. The histories are pinned; make test/proof runs others.
func TestReplay(t *testing.T) {
	missing := sideBySide(t, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, 4, 60, 3)
	require.Empty(t, missing, "it did not happen")
}

// fall cuts the committer off and starts another one.
func (f *fleet) fall() {
	f.t.Helper()
	for i, m := range f.list() {
		if m.name == "committer" {
			require.NoError(f.t, f.replace(i, true))
		}
	}
	f.ready("committer")
}
