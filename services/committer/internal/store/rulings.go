package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// What a ruling decides.
const (
	RuleChoose  = "choose"   // one value is the one to show
	RuleKeepAll = "keep_all" // all are shown
	RuleReject  = "reject"   // one value is not shown
	// RuleDifferent: each value is of a thing of its own; see TellApart.
	RuleDifferent = "different"
)

// Ruling is what people decided about the values of a property of an entity or relation. It outlives both. Values are named by their
// keys (ValueKey): what was chosen and rejected, and all that were there when it was made.
type Ruling struct {
	Owner    string `json:"owner"`
	Property string `json:"property"`
	// Decision is the last one, and Value what it named.
	Decision string          `json:"decision"`
	Value    json.RawMessage `json:"value,omitempty"`
	// Chosen is shown while a document states it; All shows every value. Rejected ones are shown by neither.
	Chosen   string   `json:"chosen,omitempty"`
	All      bool     `json:"all,omitempty"`
	Rejected []string `json:"rejected,omitempty"`
	// Apart tells things of one name apart, those of Label and Key: each value is of another one.
	Apart  bool     `json:"apart,omitempty"`
	Label  string   `json:"label,omitempty"`
	Key    string   `json:"key,omitempty"`
	Seen   []string `json:"seen"`
	Actor  string   `json:"actor,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Seq    uint64   `json:"seq"`
	At     string   `json:"at"`
}

// ValueKey is a text that equal values of a property share, and no others.
func ValueKey(v any) (string, error) { return valueKey(v) }

// Rejects says whether a value is not to be shown.
func (r *Ruling) Rejects(value string) bool { return r != nil && slices.Contains(r.Rejected, value) }

// Live are those of some values that are not rejected.
func (r *Ruling) Live(values []string) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		if !r.Rejects(v) {
			out = append(out, v)
		}
	}
	return out
}

// Settles says whether the ruling answers the question which of the values that are there now to show: fewer than two are left, or none
// of them is new, and all are kept or the chosen one is among them.
func (r *Ruling) Settles(values []string) bool {
	if r == nil {
		return false
	}
	live := r.Live(values)
	if len(live) < 2 || r.Apart {
		return true
	}
	for _, v := range live {
		if !slices.Contains(r.Seen, v) {
			return false
		}
	}
	return r.All || r.Chosen != "" && slices.Contains(live, r.Chosen)
}

// State is the word for the ruling: rejected where it does no more than reject.
func (r *Ruling) State() string {
	if r.All || r.Chosen != "" || r.Apart {
		return api.StateApproved
	}
	return api.StateRejected
}

// Then is the ruling after another decision, made on the values seen. Who, why and when are left to the caller.
func (r *Ruling) Then(decision, value string, seen []string) Ruling {
	var n Ruling
	if r != nil {
		n = Ruling{Owner: r.Owner, Property: r.Property, Chosen: r.Chosen, All: r.All, Rejected: slices.Clone(r.Rejected)}
	}
	n.Decision, n.Seen = decision, slices.Sorted(slices.Values(seen))
	switch decision {
	case RuleChoose:
		n.Chosen, n.All = value, false
		n.Rejected = slices.DeleteFunc(n.Rejected, func(v string) bool { return v == value })
	case RuleKeepAll:
		n.Chosen, n.All, n.Rejected = "", true, nil
	case RuleDifferent:
		n.Chosen, n.All, n.Apart = "", false, true
	case RuleReject:
		if n.Chosen == value {
			n.Chosen = ""
		}
		if !slices.Contains(n.Rejected, value) {
			n.Rejected = slices.Sorted(slices.Values(append(n.Rejected, value)))
		}
	}
	return n
}

// Says tells whether two rulings come to the same.
func (r *Ruling) Says(o Ruling) bool {
	return r != nil && r.Chosen == o.Chosen && r.All == o.All && r.Apart == o.Apart && slices.Equal(r.Rejected, o.Rejected) && slices.Equal(r.Seen, o.Seen)
}

// check says what is wrong with a ruling; "" when nothing is.
func (r *Ruling) check() string {
	switch {
	case r.Decision != RuleChoose && r.Decision != RuleKeepAll && r.Decision != RuleReject && r.Decision != RuleDifferent:
		return fmt.Sprintf("a ruling decides %.40q", r.Decision)
	case r.Property == "":
		return "a ruling of no property"
	case strings.HasSuffix(r.Property, sideMissing) && !r.All:
		return "a ruling about a missing value does something else than to accept it"
	case r.Apart != (r.Decision == RuleDifferent) || r.Apart && (r.All || r.Chosen != "" || r.Key == ""):
		return "a ruling tells apart, and does something else"
	case r.All && r.Chosen != "" || r.Decision == RuleChoose && r.Chosen == "" || r.Decision == RuleReject && len(r.Rejected) == 0:
		return fmt.Sprintf("a ruling decides %s, and does something else", r.Decision)
	case r.Chosen != "" && r.Rejects(r.Chosen):
		return "a ruling chooses a value that it rejects"
	}
	return ""
}

func rulingKey(g uint32, owner id, property string) key {
	return newKey(g, spaceRuling).id(owner).str(property)
}

// rulingIDKey is that of the row by which a conflict's id leads to its ruling.
func rulingIDKey(g uint32, owner id, property string) (key, error) {
	v, err := mustID(fingerprint.ConflictID(owner.String(), property))
	return newKey(g, spaceRulingID).id(v), err
}

// PutRuling stores what people decided about a property, of an owner that may be gone. One without a sequence is of this commit; one
// with a sequence is put back as it was.
func (t *Txn) PutRuling(r Ruling) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	if what := r.check(); what != "" {
		return fmt.Errorf("%w: %s", ErrBadChange, what)
	}
	if r.Apart {
		return fmt.Errorf("%w: things are told apart by TellApart", ErrBadChange)
	}
	if err := t.whole(r.Owner, r.Property); err != nil {
		return err
	}
	if r.Seq == 0 {
		r.Seq, r.At = t.seq, t.at
	}
	row, err := encodeJSON(r)
	if err != nil {
		return err
	}
	return t.putRuling(r.Owner, r.Property, row)
}

// DropRuling forgets what was decided about a property.
func (t *Txn) DropRuling(owner, property string) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	if err := t.whole(owner, property); err != nil {
		return err
	}
	return t.putRuling(owner, property, nil)
}

// whole refuses to replace a ruling that tells things apart: their facts would stay as they are.
func (t *Txn) whole(owner, property string) error {
	v, err := mustID(owner)
	if err != nil {
		return err
	}
	r, err := t.told(v)
	if err == nil && r != nil && r.Property == property {
		err = fmt.Errorf("%w: things are told apart by it, which TellApart ends", ErrBadChange)
	}
	return err
}

func (t *Txn) putRuling(owner, property string, row []byte) error {
	v, err := mustID(owner)
	if err != nil {
		return err
	}
	k := rulingKey(t.g.id, v, property)
	_, was, err := t.load(k)
	if err != nil {
		return err
	}
	t.put(k, row)
	ik, err := rulingIDKey(t.g.id, v, property)
	if err != nil {
		return err
	}
	var lead []byte
	if row != nil {
		lead = make(writer, 0, 48).id(v).str(property)
	}
	t.put(ik, lead)
	if row != nil {
		t.counts.Rulings++
	}
	if was {
		t.counts.Rulings--
	}
	for _, space := range []byte{spaceEntity, spaceRelation} { // what is shown of it changes
		_, there, err := t.load(newKey(t.g.id, space).id(v))
		if err != nil {
			return err
		}
		if there {
			t.touch(v)
		}
	}
	return nil
}

// Ruling is what was decided about a property; ok is false when nothing was.
func (sn *Snapshot) Ruling(owner, property string) (r Ruling, ok bool, err error) {
	v, valid := parseID(owner)
	if !valid {
		return r, false, nil
	}
	ok, err = sn.get(rulingKey(sn.g.id, v, property), func(b []byte) error { return decodeJSON(b, &r) })
	return r, ok, err
}

// RulingsOf calls fn for each ruling about an entity or relation, by property.
func (sn *Snapshot) RulingsOf(owner string, fn func(Ruling) error) error {
	v, valid := parseID(owner)
	if !valid {
		return nil
	}
	return sn.rulings(sn.key(spaceRuling).id(v), nil, fn)
}

// Rulings calls fn for each ruling, whether its owner is there or not, by owner and property, behind a place (zero: all).
func (sn *Snapshot) Rulings(afterOwner, afterProperty string, fn func(Ruling) error) error {
	var from key
	if v, ok := parseID(afterOwner); ok {
		from = rulingKey(sn.g.id, v, afterProperty).next()
	}
	return sn.rulings(sn.key(spaceRuling), from, fn)
}

func (sn *Snapshot) rulings(prefix, from key, fn func(Ruling) error) error {
	return sn.scan(prefix, from, func(k key, b []byte) error {
		var r Ruling
		if err := decodeJSON(b, &r); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(r)
	})
}

// rulings checks the form of rulings, that each is found by its conflict's id, and that such an id leads to one.
func (v *verifier) rulings() error {
	err := v.each(v.sn.key(spaceRuling), func(k key, kr *keyReader, val []byte) error {
		owner, property := kr.id(), kr.str()
		v.found.Rulings++
		var r Ruling
		if err := decodeJSON(val, &r); err != nil {
			return err
		}
		if r.Owner != owner.String() || r.Property != property {
			v.problem(k, "it is of %.80q of %.80q", r.Property, r.Owner)
		}
		if what := r.check(); what != "" {
			v.problem(k, "%s", what)
		}
		if r.Seq == 0 || r.Seq > v.sn.seq {
			v.problem(k, "it was decided in commit %d, which never was", r.Seq)
		}
		if err := v.isApart(&r, owner); err != nil {
			return err
		}
		if err := v.missed(k, owner, property); err != nil {
			return err
		}
		ik, err := rulingIDKey(v.sn.g.id, owner, property)
		if err != nil {
			return err
		}
		return v.need(ik, "there is a ruling about %s of %s", property, owner)
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceRulingID), func(k key, _ *keyReader, val []byte) error {
		r := reader{b: val}
		owner, property := r.id(), r.str()
		if err := r.err("ruling id"); err != nil {
			return err
		}
		own, err := rulingIDKey(v.sn.g.id, owner, property)
		if err != nil {
			return err
		}
		if !bytes.Equal(own, k) {
			v.problem(k, "it leads to %s of %s, whose id it is not", property, owner)
			return nil
		}
		return v.need(rulingKey(v.sn.g.id, owner, property), "its id leads to it")
	})
}
