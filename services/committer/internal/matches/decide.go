package matches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// check refuses what cannot be.
func check(req api.MatchDecide) error {
	ways := 0
	for _, given := range []bool{len(req.IDs) > 0, len(req.Keys) > 0, req.Query != nil, req.Record != ""} {
		if given {
			ways++
		}
	}
	undo, choose := req.Decision == events.DecisionUndo, req.Decision == events.DecisionChoose
	_, valid := store.ParseID(req.Entity)
	switch {
	case !undo && !choose && req.Decision != events.DecisionSame && req.Decision != events.DecisionDifferent:
		return api.Errorf(400, "bad_value", "decision is %.40q: it must be same, different, choose or undo", req.Decision)
	case choose && !valid:
		return api.Errorf(400, "bad_value", "entity is %.60q: to choose is to give the id of the entity that the name stands for; show lists those that fit", req.Entity)
	case !choose && req.Entity != "":
		return api.Errorf(400, "bad_value", "entity is of the decision choose alone: %s names none", req.Decision)
	case choose && len(req.IDs)+len(req.Keys) == 0:
		return api.Errorf(400, "bad_value", "say of which name: the ids or keys of matches of it")
	case ways != 1 || req.Record != "" && !undo || req.Query != nil && undo:
		return api.Errorf(400, "bad_value", "say about what: exactly one of ids, keys and query; to undo, of ids, keys and record")
	case len(req.IDs)+len(req.Keys) > api.MaxDecided:
		return api.Errorf(413, "too_large", "there are %d matches: at most %d a request", len(req.IDs)+len(req.Keys), api.MaxDecided)
	case strings.TrimSpace(req.Actor) == "":
		return api.Errorf(400, "bad_value", "actor is missing: say who decides")
	case strings.EqualFold(strings.TrimSpace(req.Actor), api.ActorPolicy):
		return api.Errorf(400, "bad_value", "actor is %q: so are the decisions of the policy signed; say who you are", req.Actor)
	case len(req.Actor) > api.MaxActor || !plain(req.Actor):
		return api.Errorf(400, "bad_value", "actor must be a name of at most %d bytes, without control characters", api.MaxActor)
	case len(req.Reason) > api.MaxReason || !utf8.ValidString(req.Reason):
		return api.Errorf(400, "bad_value", "reason must be a text of at most %d bytes", api.MaxReason)
	case (req.Revision != nil || req.Fingerprint != "") && len(req.IDs)+len(req.Keys) != 1:
		return api.Errorf(400, "bad_value", "revision and fingerprint are those of one match: give them with one id or key")
	}
	return nil
}

func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Decide answers matches.decide.
func (d *Desk) Decide(ctx context.Context, graphName string, req api.MatchDecide) (reply api.DecideReply, err error) {
	if err := check(req); err != nil {
		return reply, err
	}
	var f filter
	if req.Query != nil {
		if f, err = newFilter(*req.Query); err != nil {
			return reply, err
		}
	}
	err = d.deps.Operations.Within(ctx, graphName, "matches.decide", req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		reply = api.DecideReply{Outcome: api.Outcome{Changed: []string{}, Skipped: map[string]string{}}, Records: map[string]string{}}
		txn, err := d.deps.Store.Begin(ctx, graphName)
		if errors.Is(err, store.ErrNoGraph) {
			return notFound(graphName, strings.Join(append(req.IDs, req.Keys...), " ")+req.Record)
		}
		if err != nil {
			return err
		}
		w := &deciding{desk: d, graph: graphName, req: req, filter: f, txn: txn, reply: &reply}
		if err := w.do(ctx, remember); err != nil {
			return errors.Join(err, txn.Abort())
		}
		return nil
	})
	return reply, err
}

// deciding is one request, in its commit: nobody else changes the graph meanwhile.
type deciding struct {
	desk   *Desk
	graph  string
	req    api.MatchDecide
	filter filter
	txn    *store.Txn
	reply  *api.DecideReply

	reader  reader
	records []events.Audit
	many    []string      // keys of what one record changed, where that is several matches
	undoes  *events.Audit // the choice that is taken back
}

// target is a pair to decide about. there says whether it matches.
type target struct {
	asked   string // how the request names it
	match   store.Match
	there   bool
	verdict store.Verdict
	decided bool
	undoes  string
}

func (w *deciding) do(ctx context.Context, remember func() ([]store.Op, error)) error {
	err := w.desk.with(w.graph, func(sn *store.Snapshot) error {
		w.reader = reader{ctx: ctx, sn: sn}
		w.reply.Seq = sn.Seq()
		targets, err := w.targets()
		if err != nil {
			return err
		}
		if err := w.asSeen(targets); err != nil {
			return err
		}
		if w.req.Decision == events.DecisionChoose {
			return w.choose(targets)
		}
		if w.undoes != nil {
			return w.unchoose(w.undoes)
		}
		for _, t := range targets {
			if err := w.decide(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	trail := audit.Trail{Store: w.desk.deps.Store, Graph: w.graph}
	committed, err := trail.Commit(ctx, w.txn, w.records, func() {
		w.reply.Seq = w.txn.Seq()
		for _, r := range w.records {
			keys := w.many
			if keys == nil {
				keys = []string{r.Key}
			}
			for _, k := range keys {
				w.reply.Outcome.Changed = append(w.reply.Outcome.Changed, k)
				w.reply.Records[k] = r.Record
			}
		}
	}, remember)
	if committed {
		w.desk.deps.Committed(w.graph)
	}
	return err
}

// targets are the pairs that the request is about, each once.
func (w *deciding) targets() (out []target, err error) {
	switch {
	case w.req.Record != "":
		t, err := w.recorded()
		return []target{t}, err
	case w.req.Query != nil:
		err = w.reader.each(w.filter, func(m store.Match, _ int) error {
			if m.Decided != "" && decisions[m.Decided] == w.req.Decision {
				return nil
			}
			if len(out) == api.MaxDecided {
				return api.Errorf(413, "too_large", "the query chooses more than %d matches: narrow it, by label or min_score", api.MaxDecided)
			}
			t, err := w.target(keyOf(m), m, true)
			out = append(out, t)
			return err
		})
		return out, err
	}
	seen := map[string]bool{}
	for _, x := range w.req.IDs {
		m, ok, err := find(w.reader.sn, x, "")
		if err != nil {
			return nil, err
		}
		if out, err = w.named(out, seen, x, m, ok); err != nil {
			return nil, err
		}
	}
	for _, x := range w.req.Keys {
		m, ok, err := find(w.reader.sn, "", x)
		if err != nil {
			return nil, err
		}
		if a, b, pair := pairOf(x); !ok && pair && w.req.Decision == events.DecisionUndo {
			// A decision outlives its match.
			m = store.Match{A: a, B: b}
		}
		if out, err = w.named(out, seen, x, m, ok); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, notFound(w.graph, strings.Join(append(w.req.IDs, w.req.Keys...), " "))
	}
	if rev := w.req.Revision; rev != nil && out[0].verdict.Seq != *rev {
		return nil, api.Errorf(409, "stale_revision", "match %s is at revision %d, not %d: somebody decided meanwhile; look again", keyOf(out[0].match), out[0].verdict.Seq, *rev)
	}
	return out, nil
}

// named adds a pair that the request names.
func (w *deciding) named(out []target, seen map[string]bool, asked string, m store.Match, ok bool) ([]target, error) {
	var t target
	var err error
	if m.A != "" {
		if t, err = w.target(asked, m, ok); err != nil {
			return nil, err
		}
	}
	if !ok && !t.decided {
		w.reply.Outcome.Skipped[asked] = api.SkippedUnknown
		return out, nil
	}
	if k := keyOf(m); !seen[k] {
		seen[k] = true
		out = append(out, t)
	}
	return out, nil
}

func (w *deciding) target(asked string, m store.Match, there bool) (t target, err error) {
	t = target{asked: asked, match: m, there: there}
	t.verdict, t.decided, err = w.reader.sn.Verdict(m.A, m.B)
	return t, err
}

// recorded is the pair of the decision that the request takes back, when that decision is what counts now.
func (w *deciding) recorded() (t target, err error) {
	tr := audit.Trail{Store: w.desk.deps.Store, Graph: w.graph}
	r, ok, err := tr.Record(w.req.Record)
	if err != nil {
		return t, err
	}
	if !ok {
		return t, api.Errorf(404, "decision_not_found", "graph %s has no audit record %.80q", w.graph, w.req.Record)
	}
	a, b, ok := pairOf(r.Key)
	if !ok {
		return t, api.Errorf(412, "not_supported", "record %s decides about a %s: this version takes back decisions about matches", r.Record, r.Kind)
	}
	if r.Decision == events.DecisionUndo {
		return t, api.Errorf(412, "decision_not_current", "record %s is an undo itself: decide again instead", r.Record)
	}
	if r.Decision == events.DecisionChoose {
		w.undoes = &r
		return t, nil
	}
	m, there, err := w.reader.sn.Match(a, b)
	if err != nil {
		return t, err
	}
	m.A, m.B = a, b
	if t, err = w.target(r.Record, m, there); err != nil {
		return t, err
	}
	if !t.decided || t.verdict.Seq != r.Seq {
		all, err := tr.Of(r.Key)
		if err != nil {
			return t, err
		}
		now := "it was taken back already"
		if t.decided && len(all) > 0 {
			now = fmt.Sprintf("record %s of %s stands now: undo that one", all[0].Record, all[0].Actor)
		}
		return t, api.Errorf(412, "decision_not_current", "decision %s does not stand any more: %s", r.Record, now)
	}
	t.undoes = r.Record
	return t, nil
}

// decide takes one decision, or says why not.
func (w *deciding) decide(t target) error {
	v := store.Verdict{A: t.match.A, B: t.match.B, Actor: strings.TrimSpace(w.req.Actor), Reason: w.req.Reason}
	switch w.req.Decision {
	case events.DecisionSame:
		v.State = store.MatchConfirmed
	case events.DecisionDifferent:
		v.State = store.MatchRejected
	}
	changed, err := w.txn.DecideMatch(v)
	if err != nil {
		return err
	}
	if !changed {
		why := "not decided"
		switch v.State {
		case store.MatchConfirmed:
			why = api.SkippedApproved
		case store.MatchRejected:
			why = api.SkippedRejected
		}
		w.reply.Outcome.Skipped[t.asked] = why
		return nil
	}
	return w.record(t, v)
}

// record notes a change.
func (w *deciding) record(t target, v store.Verdict) error {
	undoes := t.undoes
	if w.req.Decision == events.DecisionUndo && undoes == "" {
		all, err := audit.Trail{Store: w.desk.deps.Store, Graph: w.graph}.Of(keyOf(t.match))
		if err != nil {
			return err
		}
		if len(all) > 0 && all[0].Seq == t.verdict.Seq {
			undoes = all[0].Record
		}
	}
	r := events.Audit{
		Graph: w.graph, At: w.desk.deps.Now().UTC().Format(time.RFC3339Nano), Operation: w.req.RequestID, RequestID: w.req.RequestID,
		Kind: api.KindMatch, Key: keyOf(t.match), ItemID: fingerprint.MatchID(t.match.A, t.match.B), Decision: w.req.Decision,
		Actor: v.Actor, Reason: v.Reason, Plan: w.req.Fingerprint, Seq: w.txn.Seq(), Undoes: undoes,
	}
	if r.Operation == "" {
		r.Operation = fmt.Sprintf("c%d", r.Seq)
	}
	after := t.match
	after.Decided = v.State
	if t.there {
		r.Before, r.After = words[t.match.State()], words[after.State()]
	} else {
		r.Before, r.After = words[t.verdict.State], words[v.State]
	}
	var err error
	if r.Item, err = w.seen(t); err != nil {
		return err
	}
	if err := w.look(&r, t.match, t.there); err != nil {
		return err
	}
	w.records = append(w.records, r)
	return nil
}

// look notes the plan and what the two entities' names stood in, as they were. A pair that is not there any more has neither.
func (w *deciding) look(r *events.Audit, m store.Match, there bool) error {
	if !there {
		return nil
	}
	p, err := w.reader.plan(w.graph, m)
	if err != nil {
		return err
	}
	r.Plan = p.Fingerprint()
	seen, err := w.reader.evidence(m)
	if err != nil {
		return err
	}
	r.Saw(seen...)
	return nil
}

// seen is the pair as it was decided about.
func (w *deciding) seen(t target) (json.RawMessage, error) {
	type side struct {
		ID   string `json:"id"`
		Name string `json:"name,omitempty"`
	}
	x := struct {
		Label  string  `json:"label,omitempty"`
		A      side    `json:"a"`
		B      side    `json:"b"`
		Method string  `json:"method,omitempty"`
		Score  float64 `json:"score,omitempty"`
		Found  string  `json:"found,omitempty"`
	}{A: side{ID: t.match.A}, B: side{ID: t.match.B}}
	if t.there {
		a, err := w.reader.entity(t.match.A)
		if err != nil {
			return nil, err
		}
		b, err := w.reader.entity(t.match.B)
		if err != nil {
			return nil, err
		}
		x.Label, x.A.Name, x.B.Name = a.label, a.name, b.name
		x.Method, x.Score, x.Found = t.match.Method, graph.Round6(t.match.Score), words[t.match.Found]
	}
	b, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("match %s: %w", keyOf(t.match), err)
	}
	return b, nil
}
