package conflicts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	// maxRuled is how many values a property may have that somebody decides about: a ruling names them all.
	maxRuled = 2000
	// maxValue is bytes of a value in a request.
	maxValue = 64 << 10
)

// rules are the decisions, and what of the store each is.
var rules = map[string]string{
	events.DecisionChoose: store.RuleChoose, events.DecisionKeepAll: store.RuleKeepAll, events.DecisionReject: store.RuleReject,
	events.DecisionDifferent: store.RuleDifferent,
}

func checkDecide(req *api.ConflictDecide) error {
	ways := 0
	for _, given := range []bool{req.ID != "", req.Key != "", req.Record != ""} {
		if given {
			ways++
		}
	}
	if req.Value = bytes.TrimSpace(req.Value); string(req.Value) == "null" {
		req.Value = nil
	}
	undo := req.Decision == events.DecisionUndo
	switch {
	case !undo && rules[req.Decision] == "":
		return api.Errorf(400, "bad_value", "decision is %.40q: of a conflict it is choose, keep_all, reject or different, or undo", req.Decision)
	case ways != 1 || undo != (req.Record != ""):
		return api.Errorf(400, "bad_value", "say about what: exactly one of id and key; to undo, the record")
	case strings.TrimSpace(req.Actor) == "":
		return api.Errorf(400, "bad_value", "actor is missing: say who decides")
	case len(req.Actor) > api.MaxActor || !utf8.ValidString(req.Actor) || strings.ContainsFunc(req.Actor, unicode.IsControl):
		return api.Errorf(400, "bad_value", "actor must be a name of at most %d bytes, without control characters", api.MaxActor)
	case strings.EqualFold(strings.TrimSpace(req.Actor), api.ActorPolicy):
		return api.Errorf(400, "bad_value", "actor is %q: so are the decisions of the policy signed; say who you are", req.Actor)
	case len(req.Reason) > api.MaxReason || !utf8.ValidString(req.Reason):
		return api.Errorf(400, "bad_value", "reason must be a text of at most %d bytes", api.MaxReason)
	case len(req.Value) > maxValue:
		return api.Errorf(413, "too_large", "value has %d bytes: at most %d", len(req.Value), maxValue)
	case len(req.Value) > 0 && (undo || req.Decision == events.DecisionKeepAll || req.Decision == events.DecisionDifferent):
		return api.Errorf(400, "bad_value", "value: %s names none", req.Decision)
	case len(req.Value) == 0 && req.Decision == events.DecisionReject:
		return api.Errorf(400, "bad_value", "value is missing: say which value is rejected; show lists them")
	case req.Fingerprint == "" && !undo:
		return api.Errorf(400, "bad_value", "fingerprint is missing: a decision about a conflict quotes that of the plan that was looked at; show gives it")
	case req.Revision != nil && undo:
		return api.Errorf(400, "bad_value", "revision: the record says which decision is taken back")
	}
	return nil
}

// Decide answers conflicts.decide.
func (d *Desk) Decide(ctx context.Context, graphName string, req api.ConflictDecide) (reply api.DecideReply, err error) {
	if err := checkDecide(&req); err != nil {
		return reply, err
	}
	err = d.deps.Operations.Within(ctx, graphName, "conflicts.decide", req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		reply = api.DecideReply{Outcome: api.Outcome{Changed: []string{}, Skipped: map[string]string{}}, Records: map[string]string{}}
		txn, err := d.deps.Store.Begin(ctx, graphName)
		if errors.Is(err, store.ErrNoGraph) {
			return notFound(graphName, req.ID+req.Key+req.Record)
		}
		if err != nil {
			return err
		}
		w := &deciding{desk: d, graph: graphName, req: req, txn: txn, reply: &reply, trail: audit.Trail{Store: d.deps.Store, Graph: graphName}}
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
	req    api.ConflictDecide
	txn    *store.Txn
	reply  *api.DecideReply
	trail  audit.Trail
	record *events.Audit // nil: nothing changes
}

func (w *deciding) do(ctx context.Context, remember func() ([]store.Op, error)) error {
	err := w.desk.with(ctx, w.graph, func(r *reader) error {
		if r == nil {
			return notFound(w.graph, w.req.ID+w.req.Key+w.req.Record)
		}
		w.reply.Seq = r.sn.Seq()
		if w.req.Decision == events.DecisionUndo {
			return w.undo(r)
		}
		return w.decide(r)
	})
	if err != nil {
		return err
	}
	var records []events.Audit
	if w.record != nil {
		records = append(records, *w.record)
	}
	committed, err := w.trail.Commit(ctx, w.txn, records, func() {
		key := records[0].Key
		w.reply.Seq, w.reply.Outcome.Changed, w.reply.Records[key] = w.txn.Seq(), []string{key}, records[0].Record
	}, remember)
	if committed {
		w.desk.deps.Committed(w.graph)
	}
	return err
}

// decide takes the decision when the plan is still the one that was looked at.
func (w *deciding) decide(r *reader) error {
	x, err := r.named(w.graph, w.req.ID, w.req.Key)
	if err != nil {
		return err
	}
	g, err := r.group(&x)
	if err != nil {
		return err
	}
	if rev := w.req.Revision; rev != nil && g.Revision != *rev {
		return api.Errorf(409, "stale_revision", "conflict %s is at revision %d, not %d: somebody decided meanwhile; look again", g.Key, g.Revision, *rev)
	}
	if x.ruling != nil && x.ruling.Apart {
		return w.isApart(&x, g.Key)
	}
	now, err := r.planned(w.graph, &x)
	if err != nil {
		return err
	}
	if now.Fingerprint != w.req.Fingerprint {
		e := api.Errorf(409, "stale_plan", "conflict %s is not what was looked at: documents, decisions or the schema changed meanwhile; nothing was decided, look again", g.Key)
		e.Details = map[string]any{"plan": now.Plan, "fingerprint": now.Fingerprint}
		if now.PlanLeftOut > 0 {
			e.Details["plan_left_out"] = now.PlanLeftOut
		}
		return e
	}
	if len(x.values) > maxRuled {
		return api.Errorf(413, "too_large", "%s of %s has %d values: at most %d can be decided about; declare the property merge: all", x.Property, x.name, len(x.values), maxRuled)
	}
	keys, err := keysOf(x.values)
	if err != nil {
		return err
	}
	value, at := any(nil), 0
	if w.req.Decision == events.DecisionChoose || w.req.Decision == events.DecisionReject {
		if at, err = w.stated(&x); err != nil {
			return err
		}
		value = x.values[at].Value
	}
	then := x.ruling.Then(rules[w.req.Decision], keys[at], keys)
	then.Owner, then.Property, then.Actor, then.Reason = x.Owner, x.Property, strings.TrimSpace(w.req.Actor), w.req.Reason
	if x.ruling.Says(then) {
		w.reply.Outcome.Skipped[w.req.ID+w.req.Key] = map[string]string{api.StateApproved: api.SkippedApproved, api.StateRejected: api.SkippedRejected}[then.State()]
		return nil
	}
	if value != nil {
		if then.Value, err = json.Marshal(value); err != nil {
			return fmt.Errorf("value of %s: %w", g.Key, err)
		}
	}
	if then.Apart {
		err = w.tellApart(r, &x, &then)
	} else {
		err = w.txn.PutRuling(then)
	}
	if err != nil {
		return err
	}
	w.note(g.Key, x.ID, x.state, x.settled(&then, keys))
	w.record.Plan, w.record.Value = now.Fingerprint, then.Value
	w.record.Saw(audit.Seen(now.Plan)...)
	w.record.Item, err = seen(&x)
	return err
}

func keysOf(values []store.PropertyFold) ([]string, error) {
	out := make([]string, len(values))
	for i, f := range values {
		var err error
		if out[i], err = store.ValueKey(f.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stated is the number of the value that the request names.
func (w *deciding) stated(x *item) (int, error) {
	if len(w.req.Value) == 0 {
		return 0, nil
	}
	dec := json.NewDecoder(bytes.NewReader(w.req.Value))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return 0, api.Errorf(400, "bad_value", "value is not JSON: %v", err)
	}
	asked, text := "", false
	switch v := v.(type) {
	case string:
		asked, text = v, true
	case json.Number:
		asked = v.String()
		if _, err := v.Int64(); err != nil {
			f, err := v.Float64()
			if err != nil {
				return 0, api.Errorf(400, "bad_value", "value %.40s is no number that a property can have", asked)
			}
			asked = word(query.Rounded(f))
		}
	case bool:
		asked = strconv.FormatBool(v)
	default:
		return 0, api.Errorf(400, "bad_value", "value must be a text, a number, true or false")
	}
	if x.kind == ofEdges {
		return x.statedEdge(asked)
	}
	// A number may be given as text, and the other way round, where none is given as what it is.
	for _, typed := range []bool{true, false} {
		for i, f := range x.values {
			_, is := f.Value.(string)
			if (is == text) == typed && word(query.Rounded(f.Value)) == asked {
				return i, nil
			}
		}
	}
	return 0, api.Errorf(400, "bad_value", "no document states %.80q for %s of %s: stated are %s", asked, x.Property, x.name, x.words())
}

// undo takes a decision back when it is what counts now: what stood before it stands again.
func (w *deciding) undo(r *reader) error {
	rec, ok, err := w.trail.Record(w.req.Record)
	if err != nil {
		return err
	}
	if !ok {
		return api.Errorf(404, "decision_not_found", "graph %s has no audit record %.80q", w.graph, w.req.Record)
	}
	owner, property, is := parseKey(rec.Key)
	switch {
	case !is:
		return api.Errorf(412, "not_supported", "record %s decides about a %s, not about a conflict", rec.Record, rec.Kind)
	case rec.Decision == events.DecisionUndo:
		return api.Errorf(412, "decision_not_current", "record %s is an undo itself: decide again instead", rec.Record)
	}
	stands, err := r.ruling(owner, property)
	if err != nil {
		return err
	}
	if stands == nil || stands.Seq != rec.Seq {
		return w.stale(rec, stands)
	}
	before, err := w.before(rec)
	if err != nil {
		return err
	}
	switch {
	case stands.Apart || before != nil && before.Apart:
		err = w.together(r, stands, before)
	case before == nil:
		err = w.txn.DropRuling(owner, property)
	default:
		err = w.txn.PutRuling(*before)
	}
	if err != nil {
		return err
	}
	was, now, err := w.states(r, owner, property, stands, before)
	if err != nil {
		return err
	}
	w.note(rec.Key, rec.ItemID, was, now)
	w.record.Undoes, w.record.Item, w.record.Evidence = rec.Record, rec.Item, rec.Evidence
	return nil
}

// before is the ruling that stood before a decision; nil: none did.
func (w *deciding) before(rec events.Audit) (*store.Ruling, error) {
	owner, property, _ := parseKey(rec.Key)
	if rec.Seq <= 1 { // sequence 0 would be the current one
		return nil, nil
	}
	sn, err := w.desk.deps.Store.Snapshot(w.graph, rec.Seq-1)
	if err != nil {
		return nil, err
	}
	x, ok, err := sn.Ruling(owner, property)
	if err := errors.Join(err, sn.Close()); err != nil || !ok {
		return nil, err
	}
	return &x, nil
}

// states are those of an item under two rulings; where it is none now, what the rulings say.
func (w *deciding) states(r *reader, owner, property string, was, now *store.Ruling) (before, after string, err error) {
	var folds []store.PropertyFold
	x := item{Conflict: store.Conflict{Owner: owner, Property: property}, ruling: was}
	if was.Apart {
		if x, _, err = r.toldApart(x); err != nil {
			return "", "", err
		}
	}
	if relType, side, ok := store.ParseDegreeProperty(property); ok {
		x.kind, x.most = ofEdges, bound(r.schema, relType, side)
	}
	err = r.values(&x, func(f store.PropertyFold) error {
		folds = append(folds, f)
		return r.tick()
	})
	if err != nil {
		return "", "", err
	}
	if len(folds) < 2 || x.kind == ofEdges && (x.most == 0 || len(folds) <= x.most) {
		if now != nil {
			after = now.State()
		}
		return was.State(), after, nil
	}
	keys, err := keysOf(folds)
	return x.settled(was, keys), x.settled(now, keys), err
}

// stale refuses to undo what does not stand.
func (w *deciding) stale(rec events.Audit, stands *store.Ruling) error {
	now := "it was taken back already"
	if stands != nil {
		all, err := w.trail.Of(rec.Key)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(all, func(a events.Audit) bool { return a.Seq == stands.Seq }); i >= 0 {
			now = fmt.Sprintf("record %s of %s stands now: undo that one", all[i].Record, all[i].Actor)
		}
	}
	return api.Errorf(412, "decision_not_current", "decision %s does not stand any more: %s", rec.Record, now)
}

// note begins the record of the change.
func (w *deciding) note(key, id, before, after string) {
	w.record = &events.Audit{
		Graph: w.graph, At: w.desk.deps.Now().UTC().Format(time.RFC3339Nano), Operation: w.req.RequestID, RequestID: w.req.RequestID,
		Kind: api.KindConflict, Key: key, ItemID: id, Decision: w.req.Decision, Actor: strings.TrimSpace(w.req.Actor), Reason: w.req.Reason,
		Before: before, After: after, Seq: w.txn.Seq(),
	}
	if w.record.Operation == "" {
		w.record.Operation = fmt.Sprintf("c%d", w.record.Seq)
	}
}

// maxSeen is how many values of an item a record keeps.
const maxSeen = 20

// seen is the item as it was decided about: its values, the one that was shown first.
func seen(x *item) (json.RawMessage, error) {
	type value struct {
		Value     string `json:"value"`
		Documents int    `json:"documents"`
	}
	out := struct {
		Label    string  `json:"label"`
		Name     string  `json:"name"`
		Property string  `json:"property"`
		Reason   string  `json:"reason"`
		Values   []value `json:"values"`
		Total    int     `json:"values_total"`
	}{Label: x.label, Name: x.name, Property: x.Property, Reason: x.reason, Total: len(x.values)}
	for _, f := range x.values[:min(len(x.values), maxSeen)] {
		out.Values = append(out.Values, value{(&item{kind: x.kind, edges: x.edges, values: []store.PropertyFold{f}}).words(), f.Documents})
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("conflict %s: %w", fingerprint.ConflictKey(x.Owner, x.Property), err)
	}
	return b, nil
}
