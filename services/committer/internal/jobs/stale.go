package jobs

import (
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// stalePolicy is what a schema's review section says about facts that a new version no longer states: its conditions on stale items and
// on deletes first, then its rule. Of what the schema does not declare any more nothing is kept, and what a person made a fact is never
// withdrawn in silence. When a document is deleted only the conditions speak: without one that fits, what it stated goes with it.
func stalePolicy(s *schema.Schema) func(store.StaleFact) string {
	review := s.Review()
	return func(f store.StaleFact) string {
		sensitive, declared := declaredFact(s, f)
		if !declared {
			return store.StaleWithdraw
		}
		if f.Kept {
			return store.StaleKeep
		}
		verdict := review.Stale
		if f.Deleted {
			verdict = schema.StaleWithdraw
		}
		for _, kind := range []string{"stale", f.Kind} {
			if v := staleVerdict(review, kind, f, sensitive); v != "" {
				verdict = v
				break
			}
		}
		if verdict == schema.StaleWithdraw && f.Decided && !f.Deleted {
			return store.StaleReview
		}
		return verdict
	}
}

// staleVerdict is what a condition says: rejecting the item keeps the fact, accepting it withdraws it; "" when none fits.
func staleVerdict(review schema.Review, kind string, f store.StaleFact, sensitive bool) string {
	it := schema.Item{Kind: kind, Label: f.Label, Confidence: f.Confidence, Scored: true, Extractors: f.Extractors, Scopes: f.Scope, Sensitive: sensitive, Deletes: true}
	assertions := f.Assertions
	if len(assertions) == 0 {
		assertions = []string{""}
	}
	for _, it.Assertion = range assertions {
		switch v, _ := review.Decide(it); v {
		case schema.VerdictReject:
			return store.StaleKeep
		case schema.VerdictManual:
			return store.StaleReview
		case schema.VerdictAccept:
			return store.StaleWithdraw
		}
	}
	return ""
}

// declaredFact says whether a schema still takes a fact, and whether it is sensitive.
func declaredFact(s *schema.Schema, f store.StaleFact) (sensitive, ok bool) {
	if f.Kind == graph.KindRelation {
		return false, len(f.Types) == 2 && s.Allows(f.Label, f.Types[0], f.Types[1])
	}
	if len(f.Types) != 1 {
		return false, false
	}
	spec, ok := s.Property(f.Types[0], f.Label)
	return spec.Sensitive, ok
}
