package candidates

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxShown bytes of keys, ids and reasons are in a reply; the rest is counted.
const maxShown = 600 << 10

func check(req api.CandidatesDecide) error {
	ways := 0
	for _, given := range []bool{len(req.IDs) > 0, len(req.Keys) > 0, req.Query != nil} {
		if given {
			ways++
		}
	}
	switch {
	case req.Decision != api.DecideApprove && req.Decision != api.DecideReject:
		return api.Errorf(400, "bad_value", "decision is %.40q: a candidate is approved or rejected", req.Decision)
	case ways != 1:
		return api.Errorf(400, "bad_value", "say about what: exactly one of ids, keys and query")
	case len(req.IDs)+len(req.Keys) > api.MaxCandidates:
		return tooMany(len(req.IDs) + len(req.Keys))
	case req.Revision != 0 && len(req.IDs)+len(req.Keys) != 1:
		return api.Errorf(400, "bad_value", "revision is that of one candidate: give it with one id or key")
	case req.Fingerprint != "" && len(req.IDs)+len(req.Keys) != 1:
		return api.Errorf(400, "bad_value", "fingerprint is that of the plan of one candidate: give it with one id or key")
	}
	for _, k := range req.Keys {
		if kindOf(k) == "" {
			return api.Errorf(400, "bad_value", "%.120q is no candidate's key", k)
		}
	}
	return nil
}

// progress is how far a request got: what it did until now, and the key that it goes on behind.
type progress struct {
	Reply api.DecideReply `json:"reply"`
	After string          `json:"after"`
	Began bool            `json:"began"`
	Shown int             `json:"shown"`
}

// Decide answers candidates.decide.
func (d *Desk) Decide(ctx context.Context, graph string, req api.CandidatesDecide) (reply api.DecideReply, err error) {
	if err := checkWho(req.Actor, req.Reason); err != nil {
		return reply, err
	}
	return d.DecideBy(ctx, graph, req, nil)
}

// Ruling says, in the commit of a decision, whether the policy decides so about a key, and by what, as the audit record has it; nil: the
// key is left alone.
type Ruling func(sn *store.Snapshot, key string) (*events.AuditPolicy, error)

// DecideBy is Decide for the policy: the ruling (nil: none) is asked about each key when nobody else changes the graph any more.
func (d *Desk) DecideBy(ctx context.Context, graph string, req api.CandidatesDecide, ruling Ruling) (reply api.DecideReply, err error) {
	if err := check(req); err != nil {
		return reply, err
	}
	w := &deciding{desk: d, graph: graph, req: req, ruling: ruling}
	if req.Query != nil {
		if w.filter, err = d.newFilter(graph, *req.Query); err != nil {
			return reply, err
		}
	}
	w.at.Reply = api.DecideReply{Outcome: api.Outcome{Changed: []string{}, Skipped: map[string]string{}, CurrentKeys: map[string]string{}}, Records: map[string]string{}}
	err = d.deps.Operations.Steps(ctx, graph, "candidates.decide", req.RequestID, req, &reply, &w.at, func(remember func(bool) ([]store.Op, error)) (bool, error) {
		done := false
		err := d.write(ctx, graph, who{req.Actor, req.Reason, req.RequestID}, func(c *commit) (err error) {
			done, err = w.step(c)
			return err
		}, w.fill, func() ([]store.Op, error) {
			reply = w.at.Reply
			return remember(done)
		})
		if errors.Is(err, store.ErrNoGraph) {
			if req.Query != nil {
				reply = w.at.Reply
				return true, nil
			}
			return true, api.Errorf(404, "candidate_not_found", "graph %s has no candidate %.120s", graph, strings.Join(append(req.IDs, req.Keys...), " "))
		}
		return done, err
	})
	return reply, err
}

// deciding is one request.
type deciding struct {
	desk   *Desk
	graph  string
	req    api.CandidatesDecide
	filter filter
	ruling Ruling // nil: people decide
	at     progress
}

// step decides about the next keys in one commit, and says whether they were the last.
func (w *deciding) step(c *commit) (done bool, err error) {
	s, err := w.desk.deps.Schemas.Schema(w.graph, 0)
	if err != nil {
		return false, err
	}
	plans := w.desk.planner(c.ctx, w.graph, c.sn, NewEnds(c.ctx, c.sn, s))
	targets, done, err := w.targets(c)
	if err != nil {
		return false, err
	}
	w.at.Began = true
	records := 0
	for i, t := range targets {
		if records >= w.desk.records {
			return false, nil
		}
		n, err := w.decide(c, plans, t)
		if err != nil {
			return false, err
		}
		records += n
		w.at.After = targets[i].key
	}
	return done, nil
}

// target is a key to decide about, and how the request names it.
type target struct{ key, asked string }

// targets are the keys of the next commit, in order; last says that no more follow.
func (w *deciding) targets(c *commit) (out []target, last bool, err error) {
	if w.req.Query != nil {
		err := w.desk.groups(c.sn, w.at.After, func(key string, groups []group) error {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			for _, g := range groups {
				ok, err := w.filter.chooses(c.sn, g)
				if err != nil {
					return err
				}
				if !ok {
					continue
				}
				if len(out) == w.desk.keys {
					return errMore
				}
				out = append(out, target{key, key})
				break
			}
			return nil
		})
		if errors.Is(err, errMore) {
			return out, false, nil
		}
		return out, true, err
	}
	all, err := w.named(c)
	if err != nil {
		return nil, false, err
	}
	at, _ := slices.BinarySearchFunc(all, w.at.After, func(t target, key string) int { return strings.Compare(t.key, key) })
	for at < len(all) && all[at].key <= w.at.After {
		at++
	}
	if all = all[at:]; len(all) > w.desk.keys {
		return all[:w.desk.keys], false, nil
	}
	return all, true, nil
}

var errMore = errors.New("more follow")

// named are the keys that the request names, each once, sorted.
func (w *deciding) named(c *commit) (out []target, err error) {
	for _, k := range w.req.Keys {
		out = append(out, target{k, k})
	}
	for _, id := range w.req.IDs {
		_, key, current, err := c.sn.CandidateByID(strings.ToLower(id))
		if err != nil {
			return nil, err
		}
		if current {
			out = append(out, target{key, id})
			continue
		}
		if w.at.Began {
			continue
		}
		w.skip(id, api.SkippedUnknownID)
		if key != "" {
			w.at.Reply.Outcome.CurrentKeys[id] = key
		}
	}
	slices.SortStableFunc(out, func(a, b target) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(out, func(a, b target) bool { return a.key == b.key }), nil
}

// revision refuses a decision on what moved since it was looked at.
func (w *deciding) revision(c *commit, key string) error {
	if w.req.Revision == 0 {
		return nil
	}
	newest := map[string]uint64{}
	err := c.sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
		newest[r.State] = max(newest[r.State], r.Seq)
		return nil
	})
	if err != nil {
		return err
	}
	most := uint64(0)
	for _, seq := range newest {
		if seq == w.req.Revision {
			return nil
		}
		most = max(most, seq)
	}
	e := api.Errorf(409, "stale_revision", "candidate %.200s is at revision %d, not %d: it moved meanwhile; look again", key, most, w.req.Revision)
	state, err := stateOf(c.sn, key)
	e.Details = map[string]any{"revision": most, "state": state}
	return errors.Join(err, e)
}

// decide takes the decision on one key, or says why not. It returns how many records moved.
func (w *deciding) decide(c *commit, plans *planner, t target) (int, error) {
	if err := w.revision(c, t.key); err != nil {
		return 0, err
	}
	var policy *events.AuditPolicy
	if w.ruling != nil {
		var err error
		if policy, err = w.ruling(c.sn, t.key); err != nil {
			return 0, err
		}
		if policy == nil {
			w.skip(t.asked, api.SkippedPolicy)
			return 0, nil
		}
	}
	p, err := w.plan(c, plans, t.key)
	if err != nil {
		return 0, err
	}
	was, decided, err := c.sn.Decision(t.key)
	if err != nil {
		return 0, err
	}
	state, done := api.StateApproved, api.SkippedApproved
	if w.req.Decision == api.DecideReject {
		state, done = api.StateRejected, api.SkippedRejected
	}
	if decided && was.State == api.StateRejected {
		w.skip(t.asked, api.SkippedRejected)
		return 0, nil
	}
	v := verdict{c: c, ends: plans.ends, approve: state == api.StateApproved, failed: map[string]string{}}
	d := store.Decision{Key: t.key, State: state, Actor: strings.TrimSpace(w.req.Actor), Reason: w.req.Reason}
	moved, err := c.txn.DecideCandidate(c.ctx, d, v.choose)
	if err = errors.Join(err, v.err); err != nil {
		return moved, err
	}
	if moved == 0 && decided && !v.approve {
		// All of its records became facts, or went. Those stay; whoever says it next is not believed any more.
		return c.revoke(d, t, p)
	}
	switch {
	case moved == 0 && v.first != "":
		w.skip(t.asked, v.first)
		return 0, nil
	case moved == 0 && decided && was.State == state:
		w.skip(t.asked, done)
		return 0, nil
	case moved == 0:
		w.skip(t.asked, api.SkippedNoCandidate)
		return 0, nil
	}
	for _, id := range sortedKeys(v.failed) {
		w.skip(id, v.failed[id])
	}
	plans.ends.Approved(t.key)
	before := api.StatePending
	if decided {
		before = was.State
	}
	a, err := c.record(t.key, v.seen.id(), w.req.Decision, before, state, v.seen)
	if err == nil {
		a.Policy, a.Plan = policy, p
		a.Saw(v.seen.evidence...)
	}
	return moved, err
}

// plan makes the key's plan anew and refuses a decision that quotes another one; it returns the fingerprint.
func (w *deciding) plan(c *commit, plans *planner, key string) (string, error) {
	p, err := plans.plan(key)
	if err != nil {
		return "", err
	}
	now := p.Fingerprint()
	if w.req.Fingerprint == "" || w.req.Fingerprint == now {
		return now, nil
	}
	state, err := stateOf(c.sn, key)
	if err != nil {
		return "", err
	}
	return "", moved(key, p, state)
}

// revoke rejects an approved key that has no records.
func (c *commit) revoke(d store.Decision, t target, p string) (int, error) {
	if _, err := c.txn.DecideCandidate(c.ctx, d, nil); err != nil {
		return 0, err
	}
	a, err := c.record(t.key, "", api.DecideReject, api.StateApproved, api.StateRejected, nil)
	if err == nil {
		a.Plan = p
	}
	return 1, err
}

// verdict looks at the records of one key.
type verdict struct {
	c       *commit
	ends    *Ends
	approve bool
	seen    seen
	first   string            // why the first one failed that did
	failed  map[string]string // why others did not move, by record id; some of many
	err     error
}

// maxFailed records of a key are named when they fail alone.
const maxFailed = 100

// choose admits a record.
func (v *verdict) choose(r *store.CandidateRecord) bool {
	if v.err != nil {
		return false
	}
	if v.approve {
		var why string
		if why, v.err = v.ends.Check(r); v.err != nil {
			return false
		}
		if why != "" {
			if v.first == "" {
				v.first = why
			}
			if len(v.failed) < maxFailed {
				v.failed[r.ID] = why
			}
			return false
		}
	}
	v.err = v.seen.add(v.c, r)
	return v.err == nil
}

// skip says why something did not change; of many the first ones are named.
func (w *deciding) skip(asked, why string) {
	o := &w.at.Reply.Outcome
	if _, ok := o.Skipped[asked]; ok {
		return
	}
	o.SkippedTotal++
	if size := len(asked) + len(why) + 8; w.at.Shown+size <= maxShown {
		w.at.Shown += size
		o.Skipped[asked] = why
	}
}

// fill takes what a commit changed into the reply.
func (w *deciding) fill(seq uint64, records []events.Audit) {
	r := &w.at.Reply
	r.Seq = seq
	for _, a := range records {
		r.Outcome.ChangedTotal++
		if size := 2*len(a.Key) + len(a.Record) + 12; w.at.Shown+size <= maxShown {
			w.at.Shown += size
			r.Outcome.Changed = append(r.Outcome.Changed, a.Key)
			r.Records[a.Key] = a.Record
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
