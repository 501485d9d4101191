package schema

import "slices"

// policyList is one list of conditions of the review section.
type policyList struct {
	path       string
	verdict    Verdict
	conditions []Condition
}

// lists are the conditions in the order in which they decide.
func (r Review) lists() []policyList {
	return []policyList{
		{"review.auto_reject", VerdictReject, r.AutoReject}, {"review.manual", VerdictManual, r.Manual}, {"review.auto_accept", VerdictAccept, r.AutoAccept},
	}
}

// conditions warns of conditions that decide nothing: of types that are not declared (rejecting those is what auto_reject is good for), of
// what no candidate is, and behind others that fit all that they fit.
func (b *builder) conditions() {
	if b.draft.broken {
		return
	}
	var before []policyList
	for _, list := range b.draft.review.lists() {
		for i, c := range list.conditions {
			path := at(list.path, i)
			if list.verdict != VerdictReject && c.Label != "" && !b.declares(c) {
				b.warn(path, "%s is not declared", quote(c.Label))
			}
			if why := c.fitsNothing(list.verdict); why != "" {
				b.warn(path, "fits nothing: %s", why)
				continue
			}
			first, same := beaten(before, c), slices.IndexFunc(list.conditions[:i], func(d Condition) bool { return d.covers(c) })
			switch {
			case first != "" && list.verdict == VerdictManual:
				b.warn(path, "what it asks people about is rejected: %s fits all that it fits, and comes first", first)
			case first != "":
				b.warn(path, "decides nothing: %s fits all that it fits, and comes first", first)
			case same >= 0:
				b.warn(path, "decides nothing: %s fits all that it fits, and comes first", at(list.path, same))
			}
		}
		before = append(before, list)
	}
}

// beaten is the first condition of the lists that fits all that c fits; "" for none.
func beaten(lists []policyList, c Condition) string {
	for _, list := range lists {
		if i := slices.IndexFunc(list.conditions, func(d Condition) bool { return d.covers(c) }); i >= 0 {
			return at(list.path, i)
		}
	}
	return ""
}

// declares says whether a condition's label is one of its kind, or of any kind where it has none.
func (b *builder) declares(c Condition) bool {
	folded := foldLabel(c.Label)
	entity := c.Kind == KindEntity || c.Kind == ""
	relation := c.Kind == KindRelation || c.Kind == ""
	property := c.Kind == "property" || c.Kind == ""
	if !entity && !relation && !property {
		return true // labels of other items are of several kinds
	}
	if _, ok := b.schema.canonEntity[folded]; ok && entity {
		return true
	}
	if _, ok := b.schema.canonRel[folded]; ok && relation {
		return true
	}
	named := func(p Property) bool { return foldLabel(p.Name) == folded }
	return property && (slices.ContainsFunc(b.schema.entities, func(e Entity) bool { return slices.ContainsFunc(e.Properties, named) }) ||
		slices.ContainsFunc(b.schema.relations, func(r Relation) bool { return slices.ContainsFunc(r.Properties, named) }))
}

// OfCandidates says whether a condition can fit candidates: entities, relations and properties that are proposed, not facts that go.
func (c Condition) OfCandidates() bool {
	return (c.Kind == "" || c.Kind == KindEntity || c.Kind == KindRelation || c.Kind == "property") && (c.Deletes == nil || !*c.Deletes)
}

// fitsNothing says why no item that its list is for can meet a condition; "" when one can.
func (c Condition) fitsNothing(list Verdict) string {
	auto := list != VerdictManual
	switch {
	case auto && (c.Kind == "match" || c.Kind == "conflict" || c.Kind == "job"):
		return "only candidates (entity, relation, property) and stale facts are decided by themselves, not kind " + c.Kind
	case c.Sensitive != nil && *c.Sensitive && (c.Kind == KindEntity || c.Kind == KindRelation):
		return "only a property is sensitive, not kind " + c.Kind
	case c.Kind == "job" && c.Reason != "":
		return "a job has no reason"
	case list == VerdictAccept && c.Reason == reasonPolicy:
		return "what came for the reason policy was asked for by a manual condition, and waits for people"
	}
	return ""
}

// reasonPolicy is the reason of candidates that a manual condition asked for: graph.ReasonPolicy.
const reasonPolicy = "policy"

// covers says whether a condition fits all that c fits: what it says, c says too, or stricter.
func (d Condition) covers(c Condition) bool {
	same := func(x, y string) bool { return x == "" || x == y }
	return same(d.Kind, c.Kind) && same(foldLabel(d.Label), foldLabel(c.Label)) && same(d.Reason, c.Reason) && same(d.Assertion, c.Assertion) &&
		same(d.Extractor, c.Extractor) && same(d.Scope, c.Scope) &&
		(d.MinConfidence == nil || c.MinConfidence != nil && *c.MinConfidence >= *d.MinConfidence) &&
		(d.MaxConfidence == nil || c.MaxConfidence != nil && *c.MaxConfidence <= *d.MaxConfidence) &&
		(d.Sensitive == nil || c.Sensitive != nil && *c.Sensitive == *d.Sensitive) &&
		(d.Deletes != nil && *d.Deletes) == (c.Deletes != nil && *c.Deletes)
}
