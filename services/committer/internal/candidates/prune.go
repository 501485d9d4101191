package candidates

import (
	"context"
	"errors"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// unnamed acts in a prune that does not say who asks for it.
const unnamed = "unnamed"

func checkPrune(req *api.ReviewPrune) error {
	switch {
	case !req.Rejected && req.PendingOlderThanDays == nil && req.PendingBelowCount == nil:
		return api.Errorf(400, "bad_value", "say what to prune: rejected, pending_older_than_days or pending_below_count")
	case req.PendingOlderThanDays != nil && (*req.PendingOlderThanDays < 0 || *req.PendingOlderThanDays > maxDays):
		return api.Errorf(400, "bad_value", "pending_older_than_days is %d: it must be between 0 and %d", *req.PendingOlderThanDays, maxDays)
	case len(req.Keys) > api.MaxCandidates:
		return tooMany(len(req.Keys))
	case req.PendingBelowCount != nil && *req.PendingBelowCount < 0:
		return api.Errorf(400, "bad_value", "pending_below_count is %d: it must not be negative", *req.PendingBelowCount)
	}
	if req.Actor == "" {
		req.Actor = unnamed
	}
	return checkWho(req.Actor, req.Reason)
}

const maxDays = 100_000

// pruned is how far a request got. The rejected keys come first, then the pending ones.
type pruned struct {
	Reply   api.ReviewPruneReply `json:"reply"`
	Pending bool                 `json:"pending"`
	After   string               `json:"after"`
	Before  time.Time            `json:"before"` // what was seen at or behind it is young
	Shown   int                  `json:"shown"`
}

type pruning struct {
	desk  *Desk
	graph string
	req   api.ReviewPrune
	only  map[string]bool // keys that may go; nil: any
	at    pruned
	moved int // records of the commit under way
	keys  int
}

// Prune answers candidates.prune.
func (d *Desk) Prune(ctx context.Context, graph string, req api.ReviewPrune) (reply api.ReviewPruneReply, err error) {
	if err := checkPrune(&req); err != nil {
		return reply, err
	}
	p := &pruning{desk: d, graph: graph, req: req}
	if len(req.Keys) > 0 {
		p.only = map[string]bool{}
		for _, k := range req.Keys {
			p.only[k] = true
		}
	}
	p.at.Reply = api.ReviewPruneReply{Matched: []string{}, Applied: req.Apply}
	if req.PendingOlderThanDays != nil {
		p.at.Before = d.deps.Now().UTC().AddDate(0, 0, -*req.PendingOlderThanDays)
	}
	if !req.Apply {
		err = d.with(graph, func(sn *store.Snapshot) error {
			if sn == nil {
				return nil
			}
			p.at.Reply.Seq = sn.Seq()
			return p.each(ctx, sn, func(key, _ string) (bool, error) {
				p.show(key)
				return true, nil
			})
		})
		return p.at.Reply, err
	}
	err = d.deps.Operations.Steps(ctx, graph, "candidates.prune", req.RequestID, req, &reply, &p.at, func(remember func(bool) ([]store.Op, error)) (bool, error) {
		done := false
		p.moved, p.keys = 0, 0
		err := d.write(ctx, graph, who{req.Actor, req.Reason, req.RequestID}, func(c *commit) error {
			done = true
			return p.each(ctx, c.sn, func(key, state string) (bool, error) {
				if p.keys >= d.keys || p.moved >= d.records {
					done = false
					return false, nil
				}
				p.keys++
				return true, p.forget(c, key, state)
			})
		}, func(seq uint64, _ []events.Audit) { p.at.Reply.Seq = seq }, func() ([]store.Op, error) {
			reply = p.at.Reply
			return remember(done)
		})
		if errors.Is(err, store.ErrNoGraph) {
			reply = p.at.Reply
			return true, nil
		}
		return done, err
	})
	return reply, err
}

// each calls fn for the keys that go, behind the last one that it took, until it takes no more.
func (p *pruning) each(ctx context.Context, sn *store.Snapshot, fn func(key, state string) (took bool, err error)) error {
	if !p.at.Pending {
		took := true
		if p.req.Rejected {
			err := sn.DecisionsFrom("", p.at.After, func(d store.Decision) (err error) {
				if err := ctx.Err(); err != nil || d.Key == p.at.After || d.State != api.StateRejected || kindOf(d.Key) == "" || p.only != nil && !p.only[d.Key] {
					return err
				}
				if took, err = fn(d.Key, api.StateRejected); err != nil {
					return err
				}
				if !took {
					return store.ErrStop
				}
				p.at.After = d.Key
				return nil
			})
			if err != nil || !took {
				return err
			}
		}
		p.at.Pending, p.at.After = true, ""
	}
	return p.desk.groups(sn, p.at.After, func(key string, groups []group) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		goes, err := p.goes(sn, key, groups)
		if err != nil {
			return err
		}
		if goes {
			took, err := fn(key, api.StatePending)
			if err != nil {
				return err
			}
			if !took {
				return store.ErrStop
			}
		}
		p.at.After = key
		return nil
	})
}

// goes says whether a key's pending records meet a criterion. Those beside approved ones stay.
func (p *pruning) goes(sn *store.Snapshot, key string, groups []group) (bool, error) {
	if len(groups) != 1 || groups[0].state != api.StatePending || p.only != nil && !p.only[key] {
		return false, nil
	}
	if p.req.PendingBelowCount != nil && groups[0].count < *p.req.PendingBelowCount {
		return true, nil
	}
	if p.req.PendingOlderThanDays == nil {
		return false, nil
	}
	old := true
	err := sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
		at, err := time.Parse(time.RFC3339Nano, r.At)
		if err != nil || !at.Before(p.at.Before) {
			old = false
			return store.ErrStop
		}
		return nil
	})
	return old, err
}

// show takes a key into the reply; of many the first ones are named.
func (p *pruning) show(key string) {
	p.at.Reply.MatchedTotal++
	if size := len(key) + 4; p.at.Shown+size <= maxShown {
		p.at.Shown += size
		p.at.Reply.Matched = append(p.at.Reply.Matched, key)
	}
}

func (p *pruning) forget(c *commit, key, state string) error {
	item, err := c.group(key, state)
	if err != nil {
		return err
	}
	n, err := c.txn.ForgetCandidate(c.ctx, key, state)
	if err != nil {
		return err
	}
	p.show(key)
	p.moved += n
	p.at.Reply.Deleted += n
	a, err := c.record(key, item.id(), events.DecisionPrune, state, "", item)
	if err == nil {
		a.Saw(item.evidence...)
	}
	return err
}

// group is a key's records of one state as they were before.
func (c *commit) group(key, state string) (s seen, err error) {
	err = c.sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
		if r.State != state {
			return nil
		}
		return s.add(c, &r)
	})
	return s, err
}
