package policy

import (
	"context"
	"errors"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/coverage"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/candidates"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	defaultSamples = 5
	// maxConditions and maxSampleBytes keep a reply in one message.
	maxConditions  = 1000
	maxSampleBytes = 300 << 10
)

// Try answers candidates.policy: what a policy would do about all that waits, at one sequence, in the order in which the follower goes over
// it. Nothing is written.
func (f *Follower) Try(ctx context.Context, graph string, req api.ReviewPolicy) (api.ReviewPolicyReply, error) {
	t := trial{limit: defaultSamples}
	if req.Limit != nil {
		t.limit = *req.Limit
	}
	if t.limit < 0 || t.limit > api.MaxPolicySamples {
		return t.reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", t.limit, api.MaxPolicySamples)
	}
	active, err := f.rules(graph)
	if err != nil {
		return t.reply, err
	}
	t.rules = active
	chosen, err := coverage.Chosen(req.Schema, coverage.Of(active.schema))
	if err != nil {
		return t.reply, err
	}
	if chosen != nil && chosen.Rule() != active.schema {
		t.rules = NewRules(chosen.Rule())
	}
	t.begin(active)
	sn, err := f.deps.Store.Snapshot(graph, 0)
	if errors.Is(err, store.ErrNoGraph) {
		return t.end(), nil
	}
	if err != nil {
		return t.reply, err
	}
	t.reply.Seq = sn.Seq()
	t.rd = f.reading(ctx, graph, sn)
	t.ends = candidates.NewEnds(ctx, sn, t.rules.schema)
	err = t.all()
	if err = errors.Join(err, sn.Close()); err != nil {
		return t.reply, err
	}
	return t.end(), nil
}

// trial is one dry run.
type trial struct {
	rules *Rules
	rd    reading
	ends  *candidates.Ends
	limit int
	reply api.ReviewPolicyReply
	begun map[schema.Verdict]int // where a list's conditions begin
	shown int                    // bytes of samples
}

func (t *trial) begin(active *Rules) {
	s := t.rules.schema
	t.reply = api.ReviewPolicyReply{
		Schema: s.Name(), SchemaVersion: s.Version(), SchemaFingerprint: s.Fingerprint(), Version: t.rules.review.Version, Fingerprint: s.ReviewFingerprint(),
		Active: t.rules.mark == active.mark, Conditions: []api.PolicyCondition{}, People: map[string]int{}, Blocked: map[string]int{}, Unused: []api.PolicyRule{},
	}
	t.begun = map[schema.Verdict]int{}
	for _, l := range t.rules.lists() {
		t.begun[l.verdict] = len(t.reply.Conditions)
		for i, c := range l.conditions {
			t.reply.Conditions = append(t.reply.Conditions, api.PolicyCondition{PolicyRule: api.PolicyRule{List: string(l.verdict), Index: i}, Condition: c, Samples: []string{}})
		}
	}
}

// all goes over the keys in their order, which has entities first.
func (t *trial) all() error {
	for after := ""; ; {
		const page = 1000
		keys, err := waiting(t.rd.ctx, t.rd.sn, after, page)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := t.key(k); err != nil {
				return err
			}
			after = k
		}
		if len(keys) < page {
			return nil
		}
	}
}

func (t *trial) key(key string) error {
	o, err := t.rules.look(t.rd, key, func(_ *store.CandidateRecord, it schema.Item) {
		for i := range t.reply.Conditions {
			if c := &t.reply.Conditions[i]; c.Condition.Fits(it) {
				c.Fits++
			}
		}
	})
	if err != nil {
		return err
	}
	t.reply.Keys++
	t.reply.Records += o.Records
	var c *api.PolicyCondition
	if i := o.first(); i >= 0 && (o.Why == "" || o.Why == api.PeopleManual) {
		c = &t.reply.Conditions[t.begun[o.Verdict]+i]
	}
	records := o.Records
	switch {
	case !o.decides():
		t.reply.People[o.Why]++
	case o.Verdict == schema.VerdictAccept:
		why := ""
		if records, why, err = t.rd.approvable(t.ends, key); err != nil {
			return err
		}
		if records == 0 {
			t.reply.Blocked[why]++
			c.Blocked++
			return nil
		}
		t.ends.Approved(key)
		t.reply.Decided++
	default:
		t.reply.Decided++
	}
	if c == nil {
		return nil
	}
	c.Keys++
	c.Records += records
	if len(c.Samples) < t.limit && t.shown+len(key) <= maxSampleBytes {
		t.shown += len(key)
		c.Samples = append(c.Samples, key)
	}
	return nil
}

// end tells what fits nothing, and bounds the reply.
func (t *trial) end() api.ReviewPolicyReply {
	r := t.reply
	for _, c := range r.Conditions {
		if c.Fits == 0 && c.Condition.OfCandidates() {
			r.Unused = append(r.Unused, c.PolicyRule)
		}
	}
	r.ConditionsTotal, r.UnusedTotal = len(r.Conditions), len(r.Unused)
	r.Conditions, r.Unused = r.Conditions[:min(len(r.Conditions), maxConditions)], r.Unused[:min(len(r.Unused), maxConditions)]
	return r
}
