// Package policy decides candidates by the conditions of the schema's review section: what a condition of auto_reject or auto_accept fits
// is rejected or approved right behind the commit that brought it, as if a person did, and what people decided is never touched
// (decision 7). Try says what a policy would do, and does nothing.
package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Rules are the policy of one schema.
type Rules struct {
	schema *schema.Schema
	review schema.Review
	// mark changes with everything that may change a verdict, or what can be approved.
	mark   string
	scopes bool // a condition asks for the document's scope
	// sensitive are the folded names of properties that some type declares to be.
	sensitive map[string]bool
}

// NewRules makes the policy of a schema ready.
func NewRules(s *schema.Schema) *Rules {
	r := &Rules{schema: s, review: s.Review(), sensitive: map[string]bool{}}
	for _, list := range r.lists() {
		r.scopes = r.scopes || slices.ContainsFunc(list.conditions, func(c schema.Condition) bool { return c.Scope != "" })
	}
	var names []string
	for _, e := range s.Entities() {
		for _, p := range e.Properties {
			if p.Sensitive {
				r.sensitive[schema.FoldLabel(p.Name)] = true
				names = append(names, e.Label+"."+p.Name)
			}
		}
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	r.mark = s.ReviewFingerprint() + "." + s.Fingerprint() + "." + hex.EncodeToString(sum[:8])
	return r
}

// list is one list of conditions.
type list struct {
	verdict    schema.Verdict
	conditions []schema.Condition
}

// lists are in the order in which they decide.
func (r *Rules) lists() []list {
	return []list{{schema.VerdictReject, r.review.AutoReject}, {schema.VerdictManual, r.review.Manual}, {schema.VerdictAccept, r.review.AutoAccept}}
}

// Decide says whether the policy decides any candidate by itself.
func (r *Rules) Decide() bool {
	return slices.ContainsFunc(r.review.AutoReject, schema.Condition.OfCandidates) || slices.ContainsFunc(r.review.AutoAccept, schema.Condition.OfCandidates)
}

// item is what a condition looks at in a record of a document of these scopes.
func (r *Rules) item(c *store.CandidateRecord, scopes []string) schema.Item {
	return schema.Item{
		Kind: c.Kind, Label: c.Label, Confidence: c.Confidence, Scored: !slices.Contains(c.Reasons, graph.ReasonBadConfidence), Reasons: c.Reasons,
		Assertion: c.Assertion, Extractors: []string{c.Extractor}, Scopes: scopes, Sensitive: c.Kind == graph.KindProperty && r.isSensitive(c.SourceLabel, c.Label),
	}
}

// isSensitive says whether the schema declares a property of a holder to be sensitive; of a holder of no known type, whether any type does.
func (r *Rules) isSensitive(holder, name string) bool {
	folded := schema.FoldLabel(name)
	label, ok := r.schema.Canon(schema.KindEntity, holder)
	if !ok {
		return r.sensitive[folded]
	}
	return slices.ContainsFunc(r.schema.Properties(label), func(p schema.Property) bool { return p.Sensitive && schema.FoldLabel(p.Name) == folded })
}

// Outcome is what the policy says about the records of one key that wait.
type Outcome struct {
	// Verdict is auto_reject or auto_accept where the policy decides; manual where a condition asks people, else empty.
	Verdict schema.Verdict
	// Rules are the places, in the verdict's list, of the conditions that the records met first, in order. Of manual it may be empty: a
	// condition asked when the document was read.
	Rules []int
	// Why the key waits for people: one of api.People…; empty where the policy decides, or nothing waits.
	Why     string
	Records int

	extractions map[string]bool
}

// decides says whether the policy decides the key by itself.
func (o Outcome) decides() bool {
	return o.Why == "" && (o.Verdict == schema.VerdictReject || o.Verdict == schema.VerdictAccept)
}

// first is the condition that the key is counted under; -1 for none.
func (o Outcome) first() int {
	if len(o.Rules) == 0 {
		return -1
	}
	return o.Rules[0]
}

// maxExtractions are named by an audit record.
const maxExtractions = 20

// add takes a waiting record. All must get the same verdict, and none may be edited.
func (r *Rules) add(o *Outcome, c *store.CandidateRecord, it schema.Item) {
	verdict, at := r.review.Decide(it)
	if verdict == schema.VerdictAccept && slices.Contains(c.Reasons, graph.ReasonPolicy) {
		verdict, at = schema.VerdictManual, -1
	}
	o.Records++
	switch {
	case c.Edited != nil:
		o.Why = api.PeopleEdited
	case o.Why == api.PeopleEdited:
	case o.Records > 1 && verdict != o.Verdict:
		o.Why = api.PeopleDiffer
	case o.Why == api.PeopleDiffer:
	case verdict == schema.VerdictNone:
		o.Why = api.PeopleNoCondition
	case verdict == schema.VerdictManual:
		o.Why = api.PeopleManual
	}
	o.Verdict = verdict
	if i, ok := slices.BinarySearch(o.Rules, at); at >= 0 && !ok {
		o.Rules = slices.Insert(o.Rules, i, at)
	}
	if c.ExtractionFP != "" && len(o.extractions) < maxExtractions {
		if o.extractions == nil {
			o.extractions = map[string]bool{}
		}
		o.extractions[c.ExtractionFP] = true
	}
}

// record is what an audit record says of a decision.
func (r *Rules) record(o Outcome) *events.AuditPolicy {
	p := &events.AuditPolicy{
		Version: r.review.Version, Fingerprint: r.schema.ReviewFingerprint(), Schema: r.schema.Name(), SchemaVersion: r.schema.Version(),
		SchemaFingerprint: r.schema.Fingerprint(), Extractions: slices.AppendSeq([]string{}, maps.Keys(o.extractions)),
	}
	slices.Sort(p.Extractions)
	conditions := r.review.AutoReject
	if o.Verdict == schema.VerdictAccept {
		conditions = r.review.AutoAccept
	}
	for _, i := range o.Rules {
		p.Rules = append(p.Rules, events.AuditRule{List: string(o.Verdict), Index: i, Condition: conditions[i]})
	}
	return p
}

// reason names a rule in a decision.
func (r *Rules) reason(v schema.Verdict, index int) string {
	version := r.review.Version
	if version == "" {
		version = "without a version"
	}
	return fmt.Sprintf("%s[%d] of policy %s (%s)", v, index, version, r.schema.ReviewFingerprint())
}

// batch is keys that one rule decides. Entities come before what may refer to them.
type batch struct {
	later   bool // no entities
	verdict schema.Verdict
	index   int
	keys    []string
}

// gather adds a key to the batch of its rule.
func gather(to []*batch, key string, o Outcome) []*batch {
	b := batch{later: !isEntity(key), verdict: o.Verdict, index: o.first()}
	i, ok := slices.BinarySearchFunc(to, b, func(x *batch, b batch) int {
		order := func(b batch) int {
			n := 0
			if b.later {
				n += 2
			}
			if b.verdict == schema.VerdictAccept {
				n++
			}
			return n
		}
		return cmp.Or(cmp.Compare(order(*x), order(b)), cmp.Compare(x.index, b.index))
	})
	if !ok {
		to = slices.Insert(to, i, &b)
	}
	to[i].keys = append(to[i].keys, key)
	return to
}

func isEntity(key string) bool { return strings.HasPrefix(key, graph.KindEntity+"|") }
