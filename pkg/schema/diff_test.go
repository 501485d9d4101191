package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiff(t *testing.T) {
	before := parse(t, `
name: n
version: "1"
entities:
  Agent: x
  Person: {parents: [Agent], description: old, properties: {born: date, name: {type: string, enum: [a, b]}, gone: string}}
  Place: x
relations:
  KNOWS: {patterns: ["Person->Person"], cardinality: {max_per_source: 2}, properties: {since: date}}
  NEAR: {patterns: ["Place->Place"]}
rules: {entities: {Place: {names: [Paris]}}, relations: {NEAR: {phrases: [near]}}}
review: {manual: [{kind: entity}]}
`)
	after := parse(t, `
name: n
version: "2"
entities:
  Agent: x
  City: x
  Person: {description: new, properties: {born: {type: string, required: true, sensitive: true}, name: {type: string, enum: [b, c]}, size: {type: integer}}}
  Place: x
relations:
  KNOWS: {patterns: ["Person->Agent"], symmetric: true, self: true, properties: {since: {type: date, description: d}}}
  OWNS: {patterns: ["Person->Place"]}
rules: {entities: {Place: {names: [Paris, Rome]}, City: {names: [Bonn]}}}
review: {stale: keep, manual: [{kind: entity}, {kind: relation}]}
`)
	require.Equal(t, []Change{
		{"version", `changed from "1" to "2"`, EffectNone},
		{"entities.City", "entity type City added", EffectSchema},
		{"entities.Person.parents", "parent Agent removed", EffectSchema},
		{"entities.Person.description", `changed from "old" to "new"`, EffectExtraction},
		{"entities.Person.properties.born.type", `changed from "date" to "string"`, EffectSchema},
		{"entities.Person.properties.born.required", "changed from false to true", EffectSchema},
		{"entities.Person.properties.born.sensitive", "changed from false to true", EffectNone},
		{"entities.Person.properties.gone", "property gone removed", EffectSchema},
		{"entities.Person.properties.name.enum", "value c added", EffectSchema},
		{"entities.Person.properties.name.enum", "value a removed", EffectSchema},
		{"entities.Person.properties.size", "property size added", EffectSchema},
		{"relations.KNOWS.patterns", "pattern Person->Agent added", EffectSchema},
		{"relations.KNOWS.patterns", "pattern Person->Person removed", EffectSchema},
		{"relations.KNOWS.cardinality.max_per_source", "changed from 2 to no bound", EffectSchema},
		{"relations.KNOWS.symmetric", "changed from false to true", EffectSchema},
		{"relations.KNOWS.self", "changed from false to true", EffectExtraction},
		{"relations.KNOWS.properties.since.description", `added: "d"`, EffectExtraction},
		{"relations.NEAR", "relation type NEAR removed", EffectSchema},
		{"relations.OWNS", "relation type OWNS added", EffectSchema},
		{"rules.entities.City", "rules added", EffectExtraction},
		{"rules.entities.Place", "rules changed", EffectExtraction},
		{"rules.relations.NEAR", "rules removed", EffectExtraction},
		{"review.stale", `changed from "withdraw" to "keep"`, EffectReview},
		{"review.manual", "changed: 2 condition(s), were 1", EffectReview},
	}, Diff(before, after))
	require.Empty(t, Diff(before, before))
}

func TestDecide(t *testing.T) {
	s := parse(t, `
entities: [Person, Location]
relations: {OWNS: 'Person->Location', MARRIED_TO: 'Person->Person'}
review:
  auto_reject: [{kind: relation, label: LIKES}, {kind: entity, max_confidence: 0.4}]
  manual: [{kind: relation, label: MARRIED_TO}, {sensitive: true}, {deletes: true, label: OWNS}, {scope: secret}, {reason: off_pattern}]
  auto_accept: [{kind: entity, label: Location, min_confidence: 0.9, extractor: rules}, {kind: relation, assertion: explicit, label: MARRIED_TO}]
`)
	for _, c := range []struct {
		name    string
		item    Item
		verdict Verdict
		at      int
	}{
		{"nothing fits", Item{Kind: "entity", Label: "Person"}, VerdictNone, -1},
		{"label folded", Item{Kind: "relation", Label: "likes"}, VerdictReject, 0},
		{"kind counts", Item{Kind: "entity", Label: "LIKES"}, VerdictNone, -1},
		{"low", Item{Kind: "entity", Label: "Location", Confidence: 0.4, Scored: true}, VerdictReject, 1},
		{"unscored is not low", Item{Kind: "entity", Label: "Location"}, VerdictNone, -1},
		{"manual beats accept", Item{Kind: "relation", Label: "MARRIED_TO", Assertion: "explicit"}, VerdictManual, 0},
		{"sensitive", Item{Kind: "property", Label: "born", Sensitive: true}, VerdictManual, 1},
		{"deletes", Item{Kind: "stale", Label: "OWNS", Deletes: true}, VerdictManual, 2},
		{"no delete", Item{Kind: "relation", Label: "OWNS"}, VerdictNone, -1},
		{"a delete is no extraction", Item{Kind: "relation", Label: "MARRIED_TO", Deletes: true}, VerdictNone, -1},
		{"scope", Item{Kind: "entity", Label: "Person", Scopes: []string{"open", "secret"}}, VerdictManual, 3},
		{"reason", Item{Kind: "relation", Label: "OWNS", Reasons: []string{"below_relation_cut", "off_pattern"}}, VerdictManual, 4},
		{"accept", Item{Kind: "entity", Label: "Location", Confidence: 0.9, Scored: true, Extractors: []string{"llm", "rules"}}, VerdictAccept, 0},
		{"other extractor", Item{Kind: "entity", Label: "Location", Confidence: 0.9, Scored: true, Extractors: []string{"llm"}}, VerdictNone, -1},
	} {
		verdict, at := s.Review().Decide(c.item)
		require.Equal(t, c.verdict, verdict, c.name)
		require.Equal(t, c.at, at, c.name)
	}
}

func BenchmarkAllows(b *testing.B) {
	s := Default()
	for b.Loop() {
		s.Allows("PART_OF", "Organization", "Location")
	}
}

func BenchmarkCanon(b *testing.B) {
	s := Default()
	for b.Loop() {
		s.Canon(KindEntity, "Organization")
		s.CanonRelation("works for")
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(defaultFile, "default.yaml", nil); err != nil {
			b.Fatal(err)
		}
	}
}
