package policy

import (
	"context"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/candidates"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// endpoint begins the reasons for which a candidate cannot be approved that other facts may end.
const endpoint = "endpoint_"

func waitingKey(key string) []byte { return append([]byte("w"), key...) }

// waits is a page of what could not be approved, behind a key.
func (f *Follower) waits(ctx context.Context, graph, key string) (keys []string, err error) {
	var after []byte
	if key != "" {
		after = waitingKey(key)
	}
	err = f.deps.Store.Scan(graph, space, waitingKey(""), after, f.cfg.Page, func(k, _ []byte) error {
		keys = append(keys, string(k[1:]))
		return ctx.Err()
	})
	return keys, err
}

// again looks again at what the policy would approve and could not, for an end that was not there: behind each commit at one page of it, in
// turns. Only what can be approved by now is asked for.
func (f *Follower) again(ctx context.Context, graph string, rules *Rules, g *following, head uint64) error {
	if g.retried == head {
		return nil
	}
	keys, err := f.waits(ctx, graph, g.next)
	if err == nil && len(keys) == 0 && g.next != "" {
		g.next = ""
		keys, err = f.waits(ctx, graph, "")
	}
	if err != nil {
		return err
	}
	waits := map[string]bool{}
	var ends *candidates.Ends
	batches, err := f.batches(ctx, graph, rules, keys, func(rd reading, key string, o Outcome) (bool, error) {
		if !o.decides() || o.Verdict != schema.VerdictAccept {
			return false, nil
		}
		if ends == nil {
			ends = candidates.NewEnds(ctx, rd.sn, rules.schema)
		}
		n, _, err := rd.approvable(ends, key)
		waits[key] = n == 0
		return n > 0, err
	})
	if err != nil {
		return err
	}
	blocked, err := f.decide(ctx, graph, rules, position{Mark: rules.mark, Seq: head, After: g.next, Again: true}, batches)
	if err != nil {
		return err
	}
	for _, k := range blocked {
		waits[k] = true
	}
	var ops []store.Op
	for _, k := range keys {
		if !waits[k] {
			ops = append(ops, store.Op{Graph: graph, Space: space, Key: waitingKey(k), Delete: true})
		}
	}
	if err := f.deps.Store.Write(ctx, ops, false); err != nil {
		return err
	}
	if g.retried, g.next = head, ""; len(keys) == f.cfg.Page {
		g.next = keys[len(keys)-1]
	}
	return nil
}
