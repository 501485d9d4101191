package validate

import (
	"strings"

	"github.com/factmill/factmill/pkg/schema"
)

// item is what a condition of the review policy looks at.
type item struct {
	kind, label, assertion string
	confidence             float64
	reasons                []string
	sensitive              bool
}

// asks tells whether the policy wants a person to look at a valid item: a `manual` condition fits it. Conditions on a scope or
// on deletions speak of things that only the committer knows.
func (v *Validator) asks(it item) bool {
	for i := range v.manual {
		if v.fits(&v.manual[i], it) {
			return true
		}
	}
	return false
}

func (v *Validator) fits(c *schema.Condition, it item) bool {
	switch {
	case c.Kind != "" && c.Kind != it.kind:
		return false
	case c.Label != "" && c.Label != it.label:
		return false
	case c.MinConfidence != nil && it.confidence < *c.MinConfidence:
		return false
	case c.MaxConfidence != nil && it.confidence > *c.MaxConfidence:
		return false
	case c.Assertion != "" && c.Assertion != it.assertion:
		return false
	case c.Extractor != "" && c.Extractor != v.by:
		return false
	case c.Sensitive != nil && *c.Sensitive != it.sensitive:
		return false
	case c.Reason != "":
		return false // a valid item has no reason
	}
	return true
}

// manualConditions are those conditions of the policy that can fit an extracted item, labels as the schema spells them.
func manualConditions(s *schema.Schema) []schema.Condition {
	var out []schema.Condition
	for _, c := range s.Review().Manual {
		if c.Scope != "" || c.Reason != "" || c.Deletes != nil && *c.Deletes {
			continue
		}
		switch c.Kind {
		case "", schema.KindEntity, schema.KindRelation, "property":
		default:
			continue
		}
		if c.Label != "" && !strings.Contains(c.Label, ".") {
			if label, ok := s.Canon(schema.KindEntity, c.Label); ok && c.Kind != schema.KindRelation && c.Kind != "property" {
				c.Label = label
			} else if label, _, ok := s.CanonRelation(c.Label); ok && c.Kind != schema.KindEntity && c.Kind != "property" {
				c.Label = label
			}
		}
		out = append(out, c)
	}
	return out
}
