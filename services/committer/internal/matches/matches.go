// Package matches answers what people ask about pairs of entities that may be one, and carries out what they decide: a decision, the
// audit record of it, its event and the memory of the request are one commit.
package matches

import (
	"context"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Deps of New; Store and Operations are required.
type Deps struct {
	Store      *store.Store
	Operations *operations.Operations
	// Committed is told that a graph has another sequence.
	Committed func(graph string)
	Now       func() time.Time
}

// Desk answers the verbs. Safe for concurrent use.
type Desk struct{ deps Deps }

// New makes a desk.
func New(d Deps) *Desk {
	if d.Committed == nil {
		d.Committed = func(string) {}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Desk{d}
}

// The review desk's words for the states of matches.
var words = map[string]string{
	store.MatchActive: api.StateActive, store.MatchUnclear: api.StatePending,
	store.MatchConfirmed: api.StateApproved, store.MatchRejected: api.StateRejected,
}

// decisions are the words for decided states.
var decisions = map[string]string{store.MatchConfirmed: events.DecisionSame, store.MatchRejected: events.DecisionDifferent}

func (d *Desk) with(graph string, fn func(sn *store.Snapshot) error) error {
	return desk.With(d.deps.Store, graph, fn)
}

// pairOf reads a match's key.
func pairOf(key string) (a, b string, ok bool) {
	rest, is := strings.CutPrefix(key, "match|")
	a, b, two := strings.Cut(rest, "|")
	if !is || !two {
		return "", "", false
	}
	_, ok1 := store.ParseID(a)
	_, ok2 := store.ParseID(b)
	if b < a {
		a, b = b, a
	}
	return a, b, ok1 && ok2 && a != b
}

func keyOf(m store.Match) string { return fingerprint.MatchKey(m.A, m.B) }

func notFound(graph, what string) *api.Error {
	return api.Errorf(404, "match_not_found", "graph %s has no match %.120q: its entities do not match, or not any more", graph, what)
}

// Get answers matches.get.
func (d *Desk) Get(ctx context.Context, graph string, req api.MatchGet) (reply api.MatchReply, err error) {
	if (req.ID == "") == (req.Key == "") {
		return reply, api.Errorf(400, "bad_value", "give either id or key")
	}
	err = d.with(graph, func(sn *store.Snapshot) error {
		if sn == nil {
			return notFound(graph, req.ID+req.Key)
		}
		m, ok, err := find(sn, req.ID, req.Key)
		if err != nil {
			return err
		}
		if !ok {
			return notFound(graph, req.ID+req.Key)
		}
		reply.Seq = sn.Seq()
		r := reader{ctx: ctx, sn: sn}
		if reply.Item, err = r.group(m); err != nil {
			return err
		}
		if reply.Match, err = r.item(m); err != nil {
			return err
		}
		if reply.Planned, err = r.planned(graph, m); err != nil {
			return err
		}
		reply.History, err = r.history(audit.Trail{Store: d.deps.Store, Graph: graph}, m)
		return err
	})
	return reply, err
}

func find(sn *store.Snapshot, id, key string) (store.Match, bool, error) {
	if id != "" {
		return sn.MatchByID(strings.ToLower(id))
	}
	a, b, ok := pairOf(key)
	if !ok {
		return store.Match{}, false, nil
	}
	return sn.Match(a, b)
}
