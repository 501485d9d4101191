package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/testkit"
)

// hearing is what a graph was told from outside, in order: what its audit trail does not say.
type hearing struct {
	seq    uint64         // of the commit; of a schema the last commit before it
	event  map[string]any // a document event that was committed, or whose job was held
	held   bool           // seq is that of the last commit before it
	schema string         // a schema that was put
}

// standing is how a graph stood at a commit.
type standing struct {
	seq    uint64
	heard  int // what it was told by then: a schema makes no commit, and shows in exports
	export string
	what   string // that was done last
}

// trail are the audit records of a graph, the first one first.
func (c *cluster) trail(graph string) []events.Audit {
	c.t.Helper()
	var out []events.Audit
	req := api.ReviewAudit{}
	for {
		r := ask[api.ReviewAuditReply](c, graph, "review.audit", req)
		out = append(out, r.Records...)
		if req.Cursor = r.Next; req.Cursor == "" {
			slices.Reverse(out)
			return out
		}
	}
}

// still waits until nothing follows the graph's commits any more: names are compared, the policy has decided. It returns the sequence, and
// demands that verify finds nothing.
func (c *cluster) still(graph string, policy bool) (seq uint64) {
	c.t.Helper()
	testkit.AwaitFor(c.t, time.Minute, "graph "+graph+" stands still", func() bool {
		v := ask[api.VerifyReply](c, graph, "query.verify", nil)
		require.Empty(c.t, v.Problems, graph)
		if len(v.Unchecked) > 0 || policy && ask[api.ReviewPolicyReply](c, graph, "review.policy", map[string]any{"limit": 1}).Decided > 0 {
			return false
		}
		seq = ask[api.StatsReply](c, graph, "query.stats", nil).Seq
		return seq == v.Seq
	})
	return seq
}

// replay is a graph that is made anew from documents and an audit trail.
type replay struct {
	f       *fleet // without a policy: the trail has its decisions
	graph   string
	records map[string]string // of the trail → of this graph
	n       int
}

// replayed makes a graph anew: it does what was told and what the trail says in the order of their commits, and demands at each mark that
// the canonical export is the same, byte by byte.
func replayed(f *fleet, graph string, all []hearing, trail []events.Audit, marks []standing) {
	f.t.Helper()
	r := &replay{f: f, graph: graph, records: map[string]string{}}
	told := 0
	for _, m := range marks {
		for {
			decided := len(trail) > 0 && trail[0].Seq <= m.seq
			if told < m.heard && (!decided || all[told].seq < trail[0].Seq) {
				r.tell(all[told])
				told++
				continue
			}
			if !decided {
				break
			}
			n := 1
			for n < len(trail) && trail[n].Seq == trail[0].Seq {
				n++
			}
			r.decide(trail[:n])
			trail = trail[n:]
		}
		f.still(graph, false)
		if got := f.exported(graph, 0); got != m.export {
			require.Equal(f.t, m.export, got, "the replay parts from the graph %s at commit %d, behind: %s", graph, m.seq, m.what)
		}
	}
	require.Empty(f.t, all[told:])
	require.Empty(f.t, trail)
}

func (r *replay) tell(x hearing) {
	r.f.t.Helper()
	if x.event == nil {
		r.f.putSchema(r.graph, x.schema)
		return
	}
	state := api.JobCommitted
	if x.held {
		state = api.JobHeld
	}
	r.f.await(r.graph, r.f.publish(r.graph, x.event), state)
}

// decide takes the decisions of one commit again. All that it needs stands in the records.
func (r *replay) decide(records []events.Audit) {
	t := r.f.t
	t.Helper()
	first := records[0]
	before := len(r.f.trail(r.graph))
	var keys, ids []string
	for _, a := range records {
		keys, ids = append(keys, a.Key), append(ids, a.ItemID)
	}
	r.n++
	actor, request := "replay of "+first.Actor, "replay-"+strconv.Itoa(r.n)
	if fn := replays[first.Kind+" "+first.Decision]; fn != nil {
		fn(r, first, actor, request)
	} else {
		switch first.Decision {
		case events.DecisionUndo:
			ask[api.DecideReply](r.f.cluster, r.graph, "review.undo", api.ReviewUndo{Decision: r.records[first.Undoes], Actor: actor, RequestID: request})
		case events.DecisionApprove, events.DecisionReject, events.DecisionSame, events.DecisionDifferent:
			verb := map[string]string{events.DecisionSame: "approve", events.DecisionDifferent: "reject"}[first.Decision]
			if verb == "" {
				verb = first.Decision
			}
			ask[api.DecideReply](r.f.cluster, r.graph, "review."+verb, api.ReviewDecide{Keys: keys, Actor: actor, RequestID: request})
		case events.DecisionPrune:
			most := math.MaxInt32
			ask[api.ReviewPruneReply](r.f.cluster, r.graph, "review.prune", api.ReviewPrune{Keys: keys, Rejected: true, PendingBelowCount: &most, Apply: true, Actor: actor, RequestID: request})
		case events.DecisionConvert:
			p := ask[patch.Patch](r.f.cluster, r.graph, "review.patch", api.ReviewPatch{IDs: ids})
			ask[api.ConvertReport](r.f.cluster, r.graph, "review.convert", api.ReviewConvert{Patch: &p, Actor: actor, RequestID: request})
		default:
			require.Fail(t, "no way to replay", "%s of a %s", first.Decision, first.Kind)
		}
	}
	now := r.f.trail(r.graph)[before:]
	require.Equal(t, recorded(records), recorded(now), "the records of commit %d", first.Seq)
	for i := range records {
		r.records[records[i].Record] = now[i].Record
	}
}

// replays are the decisions that need more than their keys: by kind and decision.
var replays = map[string]func(r *replay, a events.Audit, actor, request string){
	"entity edit": edits, "relation edit": edits, "property edit": edits,
	"conflict choose": rules, "conflict keep_all": rules, "conflict reject": rules,
	"conflict different": rules, "stale withdraw": rules, "stale keep": rules,
	"match choose": chooses, "job accept": rules, "job reject": rules, "job send_back": rules,
}

func edits(r *replay, a events.Audit, actor, request string) {
	r.f.t.Helper()
	var set map[string]any
	require.NoError(r.f.t, json.Unmarshal(a.Set, &set))
	ask[api.ReviewEditReply](r.f.cluster, r.graph, "review.edit", api.ReviewEdit{ID: a.ItemID, Set: set, Actor: actor, RequestID: request})
}

// rules decides by a plan: the same one as then, which its fingerprint shows.
func rules(r *replay, a events.Audit, actor, request string) {
	r.f.t.Helper()
	shown := ask[api.ReviewShowReply](r.f.cluster, r.graph, "review.show", api.ReviewShow{Key: a.Key})
	req := api.ReviewDecide{Keys: []string{a.Key}, Decision: a.Decision, Value: a.Value, Fingerprint: shown.Fingerprint, Actor: actor, RequestID: request}
	if a.Decision == events.DecisionSendBack {
		require.NoError(r.f.t, json.Unmarshal(a.Set, &req.Edits))
	}
	verb := "approve"
	if slices.Contains([]string{events.DecisionReject, events.DecisionDifferent, events.DecisionSendBack, "keep"}, a.Decision) {
		verb = "reject"
	}
	ask[api.DecideReply](r.f.cluster, r.graph, "review."+verb, req)
}

// chooses one of the entities that fit a name: the record has both.
func chooses(r *replay, a events.Audit, actor, request string) {
	r.f.t.Helper()
	var item struct {
		Chosen struct {
			ID string `json:"id"`
		} `json:"chosen"`
	}
	require.NoError(r.f.t, json.Unmarshal(a.Item, &item))
	ask[api.DecideReply](r.f.cluster, r.graph, "review.approve", api.ReviewDecide{Keys: []string{a.Key}, Entity: item.Chosen.ID, Actor: actor, RequestID: request})
}

// recorded is what records say, without who, when and by which request.
func recorded(records []events.Audit) []string {
	var out []string
	for _, a := range records {
		out = append(out, fmt.Sprintf("%s %s %s: %s → %s %s%s", a.Kind, a.Decision, a.Key, a.Before, a.After, a.Value, a.Set))
	}
	return out
}

// asked sends a request that may be refused for what stands, never for what it is.
func asked[R any](c *cluster, graph, verb string, req any) (r R, ok bool) {
	c.t.Helper()
	err := c.conn.Request(c.t.Context(), "factmill."+graph+"."+verb, req, &r)
	var e *api.Error
	if errors.As(err, &e) && (e.Status == 409 || e.Status == 412 || e.Status == 404 || e.Status == 400) {
		return r, false
	}
	require.NoError(c.t, err, verb)
	return r, true
}

var _ testing.TB
