package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// A key is decided when all of its records get the same verdict, and never when somebody has a hand in it.
func TestVerdicts(t *testing.T) {
	const review = `
  version: "3"
  auto_reject: [{kind: entity, max_confidence: 0.3}, {label: JUNK}, {scope: draft}]
  manual: [{sensitive: true}, {kind: relation, label: MARRIED_TO}]
  auto_accept: [{kind: entity, label: Tool, min_confidence: 0.8}, {kind: property, min_confidence: 0.8}, {label: Tool}, {kind: relation, min_confidence: 0.8}]
`
	s, err := schema.Parse([]byte(types+"review:"+review), "t.yaml", nil)
	require.NoError(t, err)
	rules := NewRules(s)
	require.True(t, rules.Decide())
	for _, c := range []struct {
		name    string
		records string // "; " between them; "!" before an edited one, "scope, scope: " before one of a document with scopes
		want    string
	}{
		{"one is low", "0.2 entity Tool saw", "auto_reject [0]"},
		{"reject beats accept", "0.2 entity Tool saw", "auto_reject [0]"},
		{"labels fold", "0.9 entity junk saw", "auto_reject [1]"},
		{"all are low", "0.2 entity Tool saw; 0.3 entity Tool saw", "auto_reject [0]"},
		{"several conditions, one verdict", "0.9 entity JUNK saw; 0.2 entity JUNK saw", "auto_reject [0 1]"},
		{"one is not low", "0.2 entity Tool saw; 0.9 entity Tool saw", "differ"},
		{"one fits nothing", "0.9 entity Mast saw; 0.2 entity Mast saw", "differ"},
		{"nothing fits", "0.9 entity Mast saw", "no_condition"},
		{"sure enough", "0.9 entity Tool saw; 0.8 entity Tool saw", "auto_accept [0]"},
		{"a later condition", "0.5 entity Tool saw", "auto_accept [2]"},
		{"manual beats accept", "0.9 relation MARRIED_TO Ada > Bob", "manual [1]"},
		{"accept", "0.9 relation LIKES Ada > Bob", "auto_accept [3]"},
		{"came by manual", "0.9/policy relation LIKES Ada > Bob", "manual []"},
		{"came by manual, once", "0.9/policy relation LIKES Ada > Bob; 0.9 relation LIKES Ada > Bob", "differ"},
		{"came by manual, rejected", "0.2/policy entity Tool saw", "auto_reject [0]"},
		{"sensitive", "0.9 property Person.born Ada = 1815", "manual [0]"},
		{"sensitive by its folded name", "0.9 property person.BORN Ada = 1815", "manual [0]"},
		{"not of that type", "0.9 property Ship.born Ada = 1815", "auto_accept [1]"},
		{"of an unknown type it may be", "0.9 property Boat.born Ada = 1815", "manual [0]"},
		{"of no type it may be", "0.9 property .born Ada = 1815", "manual [0]"},
		{"not sensitive", "0.9 property Person.hobby Ada = numbers", "auto_accept [1]"},
		{"edited", "!0.9 entity Tool saw", "edited"},
		{"one is edited", "0.2 entity Tool saw; !0.2 entity Tool saw; 0.9 entity Tool saw", "edited"},
		{"scope", "draft: 0.9 entity Mast saw", "auto_reject [2]"},
		{"any of several scopes", "public, draft: 0.9 entity Mast saw", "auto_reject [2]"},
		{"other scopes", "public: 0.9 entity Mast saw", "no_condition"},
		{"unscored is neither low nor high", "0/bad_confidence entity Mast saw", "no_condition"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o Outcome
			for _, it := range strings.Split(c.records, "; ") {
				var r store.CandidateRecord
				var scopes []string
				if before, rest, ok := strings.Cut(it, ": "); ok {
					scopes, it = strings.Split(before, ", "), rest
				}
				if rest, ok := strings.CutPrefix(it, "!"); ok {
					r.Edited, it = &store.Edited{}, rest
				}
				r.Candidate = candidate(it)
				rules.add(&o, &r, rules.item(&r, scopes))
			}
			got := o.Why
			if o.decides() || got == "manual" {
				got = string(o.Verdict) + " " + fmt.Sprint(o.Rules)
			}
			require.Equal(t, c.want, got)
		})
	}
	require.False(t, Outcome{}.decides())
	require.Equal(t, "auto_reject[2] of policy 3 ("+s.ReviewFingerprint()+")", rules.reason(schema.VerdictReject, 2))
}

// Rules are others when anything is that may change a verdict, or what may be approved.
func TestMark(t *testing.T) {
	mark := func(text string) string {
		s, err := schema.Parse([]byte(text), "t.yaml", nil)
		require.NoError(t, err)
		return NewRules(s).mark
	}
	was := mark(types + "review: {auto_reject: [{label: X}]}")
	require.Equal(t, was, mark(strings.Replace(types, `"7"`, `"8"`, 1)+"review: {auto_reject: [{label: X}]}"), "the version decides nothing")
	for _, other := range []string{
		types + "review: {auto_reject: [{label: Y}]}",
		strings.Replace(types, ", sensitive: true", "", 1) + "review: {auto_reject: [{label: X}]}",
		strings.Replace(types, "Tool: {}", "Hammer: {}", 1) + "review: {auto_reject: [{label: X}]}",
	} {
		require.NotEqual(t, was, mark(other), other)
	}
}
