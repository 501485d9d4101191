package matches

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxChosenOf is how many entities may fit a name of which one is chosen: the record names them all.
const maxChosenOf = 500

// chosen is what a record says of a choice: the name, and what became of each pair of it.
type chosen struct {
	Label  string       `json:"label"`
	Name   chosenEnd    `json:"name"`
	Chosen chosenEnd    `json:"chosen"`
	Pairs  []chosenPair `json:"pairs"` // those that changed
}

type chosenEnd struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type chosenPair struct {
	Entity string `json:"entity"`
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// asSeen refuses a decision about a match that is not what was looked at.
func (w *deciding) asSeen(targets []target) error {
	if w.req.Fingerprint == "" {
		return nil
	}
	t := targets[0]
	if !t.there {
		return notFound(w.graph, t.asked)
	}
	now, err := w.reader.planned(w.graph, t.match)
	if err != nil || now.Fingerprint == w.req.Fingerprint {
		return err
	}
	e := api.Errorf(409, "stale_plan", "match %s is not what was looked at: documents, decisions or what else fits the two names changed meanwhile; nothing was decided, look again", keyOf(t.match))
	e.Details = map[string]any{"plan": now.Plan, "fingerprint": now.Fingerprint}
	if now.PlanLeftOut > 0 {
		e.Details["plan_left_out"] = now.PlanLeftOut
	}
	return e
}

// name is the entity whose name the matches are of: the end that all of them share and that matches the chosen entity.
func (w *deciding) name(targets []target) (string, error) {
	var names []string
	for _, e := range []string{targets[0].match.A, targets[0].match.B} {
		shared := e != w.req.Entity
		for _, t := range targets {
			shared = shared && t.there && (t.match.A == e || t.match.B == e)
		}
		if !shared {
			continue
		}
		_, ok, err := w.reader.sn.Match(e, w.req.Entity)
		if err != nil {
			return "", err
		}
		if ok {
			names = append(names, e)
		}
	}
	switch len(names) {
	case 0:
		return "", api.Errorf(400, "bad_value", "entity %s does not match the name that %s is about; show lists those that fit", w.req.Entity, keyOf(targets[0].match))
	case 1:
		return names[0], nil
	}
	return "", api.Errorf(400, "bad_value", "entity %s matches both names of %s: name the match between it and the one that stands for it", w.req.Entity, keyOf(targets[0].match))
}

// choose confirms one match of a name and rejects the others, in one record.
func (w *deciding) choose(targets []target) error {
	name, err := w.name(targets)
	if err != nil {
		return err
	}
	one, _, err := w.reader.sn.Match(name, w.req.Entity)
	if err != nil {
		return err
	}
	pairs := []store.Match{one}
	err = w.reader.eachFit(name, func(m store.Match) error {
		if keyOf(m) == keyOf(one) {
			return nil
		}
		if pairs = append(pairs, m); len(pairs) > maxChosenOf {
			return api.Errorf(413, "too_large", "more than %d entities fit the name: reject some first", maxChosenOf)
		}
		return nil
	})
	if err != nil {
		return err
	}
	is, err := w.reader.entity(name)
	if err != nil {
		return err
	}
	item := chosen{Label: is.label, Name: chosenEnd{name, is.name}, Chosen: chosenEnd{ID: w.req.Entity}}
	for _, m := range pairs {
		v := store.Verdict{A: m.A, B: m.B, State: store.MatchRejected, Of: keyOf(one), Actor: strings.TrimSpace(w.req.Actor), Reason: w.req.Reason}
		if keyOf(m) == keyOf(one) {
			v.State, v.Of = store.MatchConfirmed, ""
		}
		to := other(m, name)
		o, err := w.reader.entity(to)
		if err != nil {
			return err
		}
		if to == w.req.Entity {
			item.Chosen.Name = o.name
		}
		changed, err := w.txn.DecideMatch(v)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		item.Pairs = append(item.Pairs, chosenPair{to, o.name, words[m.State()], words[v.State]})
		w.many = append(w.many, keyOf(m))
	}
	if len(item.Pairs) == 0 {
		w.reply.Outcome.Skipped[targets[0].asked] = api.SkippedApproved
		return nil
	}
	return w.noteChoice(one, words[one.State()], api.StateApproved, item, "")
}

func (w *deciding) noteChoice(one store.Match, before, after string, item chosen, undoes string) error {
	r := events.Audit{
		Graph: w.graph, At: w.desk.deps.Now().UTC().Format(time.RFC3339Nano), Operation: w.req.RequestID, RequestID: w.req.RequestID,
		Kind: api.KindMatch, Key: keyOf(one), ItemID: fingerprint.MatchID(one.A, one.B), Decision: w.req.Decision, Plan: w.req.Fingerprint,
		Actor: strings.TrimSpace(w.req.Actor), Reason: w.req.Reason, Before: before, After: after, Seq: w.txn.Seq(), Undoes: undoes,
	}
	if r.Operation == "" {
		r.Operation = fmt.Sprintf("c%d", r.Seq)
	}
	var err error
	if r.Item, err = json.Marshal(item); err != nil {
		return fmt.Errorf("match %s: %w", r.Key, err)
	}
	if err := w.look(&r, one, undoes == ""); err != nil {
		return err
	}
	w.records = append(w.records, r)
	return nil
}

// unchoose takes a choice back, when all of it stands: each pair is decided again as it was before, or not at all.
func (w *deciding) unchoose(rec *events.Audit) error {
	var item chosen
	if err := json.Unmarshal(rec.Item, &item); err != nil {
		return fmt.Errorf("%w: audit record %s: %w", store.ErrCorrupt, rec.Record, err)
	}
	before, err := w.desk.deps.Store.Snapshot(w.graph, max(1, rec.Seq-1))
	if err != nil {
		return err
	}
	err = w.restore(rec, &item, before)
	return errors.Join(err, before.Close())
}

func (w *deciding) restore(rec *events.Audit, item *chosen, before *store.Snapshot) error {
	back := chosen{Label: item.Label, Name: item.Name, Chosen: item.Chosen}
	for _, p := range item.Pairs {
		now, ok, err := w.reader.sn.Verdict(item.Name.ID, p.Entity)
		if err != nil {
			return err
		}
		if !ok || now.Seq != rec.Seq {
			return w.replaced(rec, fingerprint.MatchKey(item.Name.ID, p.Entity), ok)
		}
		was, ok, err := before.Verdict(item.Name.ID, p.Entity)
		if err != nil {
			return err
		}
		if !ok {
			was = store.Verdict{A: item.Name.ID, B: p.Entity}
		}
		if _, err := w.txn.DecideMatch(was); err != nil {
			return err
		}
		m, ok, err := w.reader.sn.Match(item.Name.ID, p.Entity)
		if err != nil {
			return err
		}
		after := words[was.State]
		if m.Decided = was.State; ok {
			after = words[m.State()]
		}
		back.Pairs = append(back.Pairs, chosenPair{p.Entity, p.Name, p.After, after})
		w.many = append(w.many, fingerprint.MatchKey(item.Name.ID, p.Entity))
	}
	a, b, _ := pairOf(rec.Key)
	after := api.StateApproved // the chosen one may have been decided so before
	for _, p := range back.Pairs {
		if p.Entity == item.Chosen.ID {
			after = p.After
		}
	}
	return w.noteChoice(store.Match{A: a, B: b}, rec.After, after, back, rec.Record)
}

// replaced refuses to take back a choice of which a part was decided again.
func (w *deciding) replaced(rec *events.Audit, key string, decided bool) error {
	if !decided {
		return api.Errorf(412, "decision_not_current", "decision %s does not stand any more: %s was taken back already", rec.Record, key)
	}
	all, err := audit.Trail{Store: w.desk.deps.Store, Graph: w.graph}.Of(key)
	if err != nil {
		return err
	}
	now := "somebody decided about it since"
	if len(all) > 0 {
		now = fmt.Sprintf("record %s of %s stands now: undo that one", all[0].Record, all[0].Actor)
	}
	return api.Errorf(412, "decision_not_current", "decision %s does not stand any more: of %s %s", rec.Record, key, now)
}
