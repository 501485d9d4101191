package schema

import "slices"

// Item is what the review policy looks at in an extraction item or a stale fact.
type Item struct {
	Kind       string // as Condition.Kind
	Label      string
	Confidence float64
	Scored     bool // false: no confidence was given, and bounds on it do not fit
	Reasons    []string
	Assertion  string
	Extractors []string
	Scopes     []string // of its document; a condition on a scope fits when any is that
	Sensitive  bool
	Deletes    bool // the item would remove a fact
}

// Verdict is what the policy says about an item.
type Verdict string

// The verdicts. VerdictNone leaves the item to the thresholds.
const (
	VerdictNone   Verdict = ""
	VerdictReject Verdict = "auto_reject"
	VerdictManual Verdict = "manual"
	VerdictAccept Verdict = "auto_accept"
)

// Fits tells whether everything that the condition says holds for the item. A condition that says nothing of deletes is
// about items that remove nothing.
func (c Condition) Fits(it Item) bool {
	switch {
	case c.Kind != "" && c.Kind != it.Kind,
		c.Label != "" && foldLabel(c.Label) != foldLabel(it.Label),
		c.MinConfidence != nil && (!it.Scored || it.Confidence < *c.MinConfidence),
		c.MaxConfidence != nil && (!it.Scored || it.Confidence > *c.MaxConfidence),
		c.Reason != "" && !slices.Contains(it.Reasons, c.Reason),
		c.Assertion != "" && c.Assertion != it.Assertion,
		c.Extractor != "" && !slices.Contains(it.Extractors, c.Extractor),
		c.Scope != "" && !slices.Contains(it.Scopes, c.Scope),
		c.Sensitive != nil && *c.Sensitive != it.Sensitive,
		(c.Deletes != nil && *c.Deletes) != it.Deletes:
		return false
	}
	return true
}

// Decide returns the verdict of the policy and which condition of that list decided, from 0; -1 with VerdictNone.
func (r Review) Decide(it Item) (Verdict, int) {
	for _, list := range []struct {
		verdict    Verdict
		conditions []Condition
	}{{VerdictReject, r.AutoReject}, {VerdictManual, r.Manual}, {VerdictAccept, r.AutoAccept}} {
		for i, c := range list.conditions {
			if c.Fits(it) {
				return list.verdict, i
			}
		}
	}
	return VerdictNone, -1
}
