package schema

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiveMistakes(t *testing.T) {
	raw, err := os.ReadFile("testdata/five.yaml")
	require.NoError(t, err)
	_, err = Parse(raw, "testdata/five.yaml", nil)
	var wrong *Error
	require.True(t, errors.As(err, &wrong))
	require.ElementsMatch(t, []Problem{
		{"entities[1].properties.founded.type", `unknown property type "integr", did you mean "integer"? (one of string, integer, float, boolean, date)`},
		{"entities[2].parents[0]", `unknown type "Organisation", did you mean "Organization"?`},
		{"relations.WORKS_FOR.patterns[0]", `unknown type "Prson", did you mean "Person"?`},
		{"relations.WORKS_FOR.cardinality.max_per_source", "must be at least 1, not 0"},
		{"relations.OWNS.descripton", `unknown field, did you mean "description"?`},
	}, wrong.Problems)
	require.Equal(t, "testdata/five.yaml", wrong.Name)
	require.True(t, strings.HasPrefix(err.Error(), "schema \"testdata/five.yaml\": 5 problem(s)\n  entities[1].properties.founded.type: unknown property type"), err.Error())
}

func TestProblems(t *testing.T) {
	const types = "entities: [A, B]\n"
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{"# nothing\n", "the file is empty"},
		{"null", "a schema must be a map, not nothing"},
		{"- A", "a schema must be a map, not a list"},
		{"entities: [A\n", "YAML: line 1: did not find expected ',' or ']'"},
		{"a: b\n---\nc: d\n", "YAML: more than one document"},
		{"\xff\xfe", "the file is not UTF-8"},
		{strings.Repeat("#", maxBytes+1), "the file has 1048577 bytes, the limit is 1048576"},
		{"entities: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "YAML: line 1: nested deeper than 32"},
		{`{"entities": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "JSON, byte 45: nested deeper than 32"},
		{"entitys: [A]", `entitys: unknown field, did you mean "entities"?`},
		{"zzz: 1", "zzz: unknown field"},
		{"entities: 3", `entities: must be a map or a list, not "3"`},
		{"entities: {A: [x]}", "entities.A: must be a map, not a list"},
		{"entities: {A: {}, A: {}}", "entities.A: stands here twice"},
		{"entities: [A, A]", `entities[1]: "A" is declared twice`},
		{"entities: [SportsTeam, Sports_Team]", `entities[1]: "Sports_Team" cannot be told from "SportsTeam": case, spaces, _ and - do not count`},
		{"entities: [Document]", `entities[0]: label "Document" is reserved`},
		{"entities: [resolved_entity]", `entities[0]: label "resolved_entity" is reserved`},
		{"entities: [SOURCE]", `entities[0]: label "SOURCE" is reserved`},
		{types + "relations: {Evidenced_By: 'A->B'}", `relations.Evidenced_By: label "Evidenced_By" is reserved`},
		{"entities: ['a b']", `entities[0]: label "a b" is malformed: letters, digits and _ only, no digit first`},
		{"entities: {9x: }", `entities["9x"]: label "9x" is malformed: letters, digits and _ only, no digit first`},
		{"entities: [{parents: [A], description: x}]", "entities[0]: has no label"},
		{"entities: [{lable: A, description: x}]", `entities[0]: has no label, did you mean "label" by "lable"?`},
		{"entities: [{label: ''}]", "entities[0].label: is empty"},
		{"entities: [3.5]", `entities[0]: label "3.5" is malformed: letters, digits and _ only, no digit first`},
		{"entities: [[A]]", "entities[0]: must be a label or a map with a label, not a list"},
		{"entities: {A: {parents: [A]}}", "entities.A.parents[0]: parents go in a circle: A -> A"},
		{"entities: {A: {parents: [B]}, B: {parents: [C]}, C: {parents: [A]}}", "entities.C.parents[0]: parents go in a circle: A -> B -> C -> A"},
		{"entities: {A: {parents: [B, B]}, B: }", `entities.A.parents[1]: "B" stands here twice`},
		{"entities: {A: {parents: [[B]]}}", "entities.A.parents[0]: must be text, not a list"},
		{"entities: {A: {properties: {p: intger}}}", `entities.A.properties.p: unknown property type "intger", did you mean "integer"? (one of string, integer, float, boolean, date)`},
		{"entities: {A: {properties: {p: {merge: latest}}}}", `entities.A.properties.p.merge: unknown merge rule "latest" (one of most_supported, newest, most_confident, all)`},
		{"entities: {A: {properties: {p: {required: maybe}}}}", `entities.A.properties.p.required: must be true or false, not "maybe"`},
		{"entities: {A: {properties: {p: {requird: true}}}}", `entities.A.properties.p.requird: unknown field, did you mean "required"?`},
		{"entities: {A: {properties: {'p q': string}}}", `entities.A.properties["p q"]: property "p q" is malformed: letters, digits and _ only, no digit first`},
		{"entities: {A: {properties: {p: string, P: string}}}", `entities.A.properties.P: "P" cannot be told from "p": case, spaces, _ and - do not count`},
		{"entities: {A: {properties: {p: {enum: []}}}}", "entities.A.properties.p.enum: is empty: no value would fit"},
		{"entities: {A: {properties: {p: {enum: [x, x]}}}}", `entities.A.properties.p.enum[1]: "x" stands here twice`},
		{"entities: {A: {properties: {p: {enum: x}}}}", `entities.A.properties.p.enum: must be a list, not "x"`},
		{"entities: {A: {properties: {p: {type: boolean, enum: [true]}}}}", "entities.A.properties.p.enum: a boolean takes no enum"},
		{"entities: {A: {properties: {p: {type: integer, enum: [1, x]}}}}", `entities.A.properties.p.enum[1]: "x" is no integer`},
		{"entities: {A: {properties: {p: {type: date, enum: ['2020-13']}}}}", `entities.A.properties.p.enum[0]: "2020-13" is no date`},
		{"entities: {A: {properties: {p: integer}}, B: {parents: A, properties: {p: string}}}", "entities.B.properties.p: an inherited property may not change its type from integer to string"},
		{"entities: {A: {properties: {p: {required: true}}}, B: {parents: A, properties: {p: {required: false}}}}", "entities.B.properties.p: an inherited property may not give up `required`"},
		{"entities: {A: {properties: {p: {type: integer, enum: [1, 2]}}}, B: {parents: A, properties: {p: {enum: [3]}}}}", "entities.B.properties.p: an inherited property may not add \"3\" to `enum`"},
		{"entities: {A: {properties: {p: integer}}, B: {properties: {p: string}}, C: {parents: [A, B]}}", `entities.C.parents[1]: "p" is string here and integer in another parent`},
		{"entities: {A: {override: true}}", "entities.A: there is no base to override"},
		{"exclude: [A]", "exclude: there is no base to exclude from"},
		{types + "relations: {R: 'A->C'}", `relations.R: unknown type "C"`},
		{types + "relations: {R: A}", `relations.R: "A" is no pattern, write "A->B" or "A|B->C"`},
		{types + "relations: {R: 'A->B->A'}", `relations.R: "A->B->A" is no pattern, write "A->B" or "A|B->C"`},
		{types + "relations: {R: 'A|->B'}", `relations.R: "A|->B" is no pattern: an end is empty`},
		{types + "relations: {R: 'A-S->B'}", `relations.R: "A-S->B" is a pattern of "S", not of "R"`},
		{types + "relations: ['A->B']", `relations[0]: "A->B" names no relation, write "A-REL->B"`},
		{types + "relations: ['A-R->B', {label: R, patterns: 'A->A'}]", `relations[1]: "R" is declared twice`},
		{types + "relations: {R: {patterns: [[A]]}}", `relations.R.patterns[0]: must be a pattern such as "A->B", or a source and a target`},
		{types + "relations: {R: {add_patterns: 'A->B'}}", "relations.R: add_patterns needs a relation of a base, or patterns beside it"},
		{types + "relations: {R: {patterns: 'A->B', cardinality: {max_per_target: -1}}}", "relations.R.cardinality.max_per_target: must be at least 1, not -1"},
		{types + "relations: {R: {patterns: 'A->B', cardinality: {max_per_target: 1.5}}}", `relations.R.cardinality.max_per_target: must be a whole number from 1 or null, not "1.5"`},
		{types + "relations: {R: {patterns: 'A->B', symmetric: 'true'}}", `relations.R.symmetric: must be true or false, not "true"`},
		{types + "relations: {R: {patterns: 'A->B', symmetric: true, inverse: S}}", "relations.R.inverse: a symmetric relation is its own inverse"},
		{types + "relations: {R: {patterns: 'A->B', inverse: S}, S: 'B->A'}", `relations.R.inverse: "S" is a relation itself`},
		{types + "relations: {R: {patterns: 'A->B', inverse: X}, S: {patterns: 'B->A', inverse: x}}", `relations.S.inverse: "x" is the inverse of "R" already`},
		{types + "relations: {R: {patterns: 'A->B', inverse: HAS_PART}}", `relations.R.inverse: inverse "HAS_PART" is reserved`},
		{types + "relations: {R: {patterns: 'A->B', properties: {p: {identifies: true}}}}", "relations.R.properties.p.identifies: only a property of an entity identifies"},
		{types + "rules: {entities: {AA: {names: [x]}}}", `rules.entities.AA: unknown type "AA", did you mean "A"?`},
		{types + "rules: {entities: {A: {patterns: ['(']}}}", "rules.entities.A.patterns[0]: bad regular expression: error parsing regexp: missing closing ): `(`"},
		{types + "rules: {entities: {A: {patterns: ['x*']}}}", `rules.entities.A.patterns[0]: the regular expression "x*" matches nothing at all`},
		{types + "rules: {entities: {A: {suffix: [x]}}}", `rules.entities.A.suffix: unknown field, did you mean "suffixes"?`},
		{types + "rules: {relations: {R: {phrases: [x]}}}", `rules.relations.R: unknown type "R"`},
		{types + "review: {stale: remove}", `review.stale: unknown policy "remove" (one of withdraw, review, keep)`},
		{types + "review: {manual: [{}]}", "review.manual[0]: a condition must say something, or it fits every item"},
		{types + "review: {manual: {kind: entity}}", "review.manual: must be a list, not a map"},
		{types + "review: {manual: [{kind: entty}]}", `review.manual[0].kind: unknown kind "entty", did you mean "entity"? (one of entity, relation, property, match, stale, conflict, job)`},
		{types + "review: {manual: [{min_confidence: 90}]}", `review.manual[0].min_confidence: must be a number from 0 to 1, not "90"`},
		{types + "review: {manual: [{min_confidence: .nan}]}", `review.manual[0].min_confidence: must be a number from 0 to 1, not ".nan"`},
		{types + "review: {manual: [{min_confidence: 0.9, max_confidence: 0.1}]}", "review.manual[0]: min_confidence is above max_confidence"},
		{types + "review: {manual: [{assertion: guess}]}", `review.manual[0].assertion: unknown assertion kind "guess" (one of explicit, inferred, opinion)`},
		{types + "name: [x]", "name: must be text, not a list"},
		{types + "name: \"a\\nb\"", "name: must not hold control characters"},
		{"x: &a 1\nentities:\n  <<: {A: }\n", "x: unknown field"},
	} {
		got := problems(t, c.text, nil)
		require.Equal(t, c.want, got[0].String(), "%.80s", c.text)
		if !strings.HasPrefix(c.text, "x:") {
			require.Len(t, got, 1, "%.80s: %v", c.text, got)
		}
	}
}

func TestOverrideNeverLoosens(t *testing.T) {
	base := files(map[string]string{"base.yaml": `
entities:
  A: {properties: {p: {type: integer, required: true, enum: [1, 2]}, q: {sensitive: true, identifies: true}}}
  B: {parents: [A]}
  C:
relations:
  R: {patterns: ["A->B"], cardinality: {max_per_source: 2}}
  S: {patterns: ["A->A"], symmetric: true}
`})
	for _, c := range []struct{ text, want string }{
		{"entities: {A: {description: x}}", `entities.A: "A" is a type of the base: say override: true to change it`},
		{"entities: [a]", `entities[0]: "a" cannot be told from "A" of the base: case, spaces, _ and - do not count`},
		{"entities: {AB: {override: true}}", `entities.AB: unknown type to override "AB", did you mean "A"?`},
		{"entities: {A: {override: true, properties: {p: string}}}", "entities.A.properties.p: an override may not change its type from integer to string"},
		{"entities: {A: {override: true, properties: {p: {required: false}}}}", "entities.A.properties.p: an override may not give up `required`"},
		{"entities: {A: {override: true, properties: {p: {enum: [1, 2, 3]}}}}", "entities.A.properties.p: an override may not add \"3\" to `enum`"},
		{"entities: {A: {override: true, properties: {p: {enum: null}}}}", "entities.A.properties.p: an override may not give up `enum`"},
		{"entities: {A: {override: true, properties: {q: {sensitive: false}}}}", "entities.A.properties.q: an override may not give up `sensitive`"},
		{"entities: {A: {override: true, properties: {q: {identifies: false}}}}", "entities.A.properties.q: an override may not give up `identifies`"},
		{"entities: {A: {override: true, properties: {P: integer}}}", `entities.A.properties.P: "P" cannot be told from "p" of the base: case, spaces, _ and - do not count`},
		{"relations: {R: 'A->B'}", `relations.R: "R" is a type of the base: say override: true to change it, or add_patterns to allow more`},
		{"relations: {R: {override: true, patterns: ['C->B']}}", "relations.R.patterns[0]: an override may not allow C->B, which the base does not: use add_patterns"},
		{"relations: {R: {override: true, cardinality: {max_per_source: 3}}}", "relations.R.cardinality.max_per_source: an override may only lower the bound, which is 2"},
		{"relations: {R: {override: true, cardinality: {max_per_source: null}}}", "relations.R.cardinality.max_per_source: an override may only lower the bound, which is 2"},
		{"relations: {S: {override: true, symmetric: false}}", "relations.S.symmetric: an override may not change `symmetric`"},
		{"relations: {S: {override: true, self: true}}", "relations.S.self: an override may not switch `self` on"},
		{"relations: {T: {override: true, patterns: 'A->A'}}", `relations.T: there is no "T" in a base to override`},
		{"exclude: [X]", `exclude[0]: unknown type "X"`},
		{"exclude: {entities: [R]}", `exclude.entities[0]: unknown type "R"`},
		{"exclude: [A]\nentities: [A]", `entities[0]: "A" is excluded and declared: use override instead`},
	} {
		got := problems(t, "extends: base.yaml\n"+c.text, base)
		require.Equal(t, c.want, got[0].String(), c.text)
		require.Len(t, got, 1, "%v", got)
	}
	for _, text := range []string{
		"entities: {A: {override: true, description: x, properties: {p: {enum: [2]}, r: {required: true}}}}",
		"entities: {B: {override: true, parents: [C]}}",
		"relations: {R: {override: true, patterns: ['B->B', 'A->B'], cardinality: {max_per_source: 1, max_per_target: 5}}}",
		"relations: {R: {add_patterns: ['C->C']}}",
		"relations: {R: {override: true, description: x, add_patterns: ['C->C'], inverse: Q}}",
		"relations: {S: {override: true, patterns: ['A->B', 'B->A'], symmetric: true}}",
		"exclude: {relations: [R], entities: [C]}",
	} {
		_, err := Parse([]byte("extends: base.yaml\n"+text), "test.yaml", base)
		require.NoError(t, err, text)
	}
}

func TestWarnings(t *testing.T) {
	s := parse(t, "entities: [A]\nrelations: [R]\nreview: {manual: [{kind: entity, label: X}], auto_reject: [{kind: entity, label: Y}]}")
	require.Equal(t, []Problem{
		{"entities[0]", "A has no description"},
		{"relations[0]", "R has no patterns: it may join nothing"},
		{"relations[0]", "R has no description"},
		{"review.manual[0]", `"X" is not declared`},
	}, s.Warnings())
	require.Equal(t, []Problem{{"entities", "no entity types: everything waits as a candidate"}}, parse(t, "name: x").Warnings())
}

func TestAliases(t *testing.T) {
	s := parse(t, "entities:\n  A: &a {description: x, properties: {p: integer}}\n  B: *a\n")
	require.Equal(t, s.Properties("A"), s.Properties("B"))

	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'h'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	require.Equal(t, "YAML: line 1: aliases stand for more than 10000 values", problems(t, bomb, nil)[0].Message)
	require.Contains(t, problems(t, "a: &a [*a, *a]\n", nil)[0].Message, "nested deeper than 32")
}

// Conditions that can never decide anything, or never mean what they say, are told apart from those that may.
func TestPolicyWarnings(t *testing.T) {
	of := func(review string) (out []string) {
		s := parse(t, "entities: {A: {description: a, properties: {born: {type: date, description: d}}}}\nrelations: {R: {patterns: 'A->A', description: r, properties: {since: {type: date, description: d}}}}\nreview: "+review)
		for _, w := range s.Warnings() {
			out = append(out, w.Path+": "+w.Message)
		}
		return out
	}
	for _, c := range []struct{ review, want string }{
		{"{auto_accept: [{kind: entity, label: a, min_confidence: 0.8}, {kind: property, label: born}, {kind: property, label: SINCE}, {label: R}, {label: born}]}", ""},
		{"{auto_accept: [{kind: property, label: died}]}", `review.auto_accept[0]: "died" is not declared`},
		{"{manual: [{label: Q}]}", `review.manual[0]: "Q" is not declared`},
		{"{auto_reject: [{label: Q}]}", ""},
		{"{auto_reject: [{kind: match, min_confidence: 0.9}]}", "review.auto_reject[0]: fits nothing: only candidates (entity, relation, property) and stale facts are decided by themselves, not kind match"},
		{"{auto_accept: [{deletes: true}, {kind: stale}], manual: [{kind: job}]}", ""},
		{"{auto_accept: [{kind: entity, sensitive: true}]}", "review.auto_accept[0]: fits nothing: only a property is sensitive, not kind entity"},
		{"{auto_accept: [{reason: policy}]}", "review.auto_accept[0]: fits nothing: what came for the reason policy was asked for by a manual condition, and waits for people"},
		{"{auto_accept: [{kind: entity, label: A, min_confidence: 0.9}], manual: [{kind: entity, min_confidence: 0.8}]}", "review.auto_accept[0]: decides nothing: review.manual[0] fits all that it fits, and comes first"},
		{"{auto_accept: [{kind: entity, label: A}], manual: [{kind: entity, label: A, min_confidence: 0.8}]}", ""},
		{"{auto_accept: [{kind: entity, max_confidence: 0.9}], auto_reject: [{kind: entity, max_confidence: 0.8}]}", ""},
		{"{auto_accept: [{kind: entity, max_confidence: 0.7}], auto_reject: [{label: b}, {kind: entity, max_confidence: 0.8}]}", "review.auto_accept[0]: decides nothing: review.auto_reject[1] fits all that it fits, and comes first"},
		{"{auto_reject: [{kind: entity}, {kind: entity, reason: limit, assertion: explicit, extractor: llm, scope: x, sensitive: false}]}", "review.auto_reject[1]: decides nothing: review.auto_reject[0] fits all that it fits, and comes first"},
		{"{auto_reject: [{kind: property}], manual: [{kind: property, sensitive: true}]}", "review.manual[0]: what it asks people about is rejected: review.auto_reject[0] fits all that it fits, and comes first"},
		{"{auto_accept: [{scope: a}, {reason: limit}, {extractor: x}, {assertion: opinion}], manual: [{scope: b}, {reason: off_pattern}, {extractor: y}, {assertion: inferred}, {deletes: true}]}", ""},
	} {
		require.Equal(t, c.want, strings.Join(of(c.review), "\n"), c.review)
	}
}

// list is the middle of a long list.
func list(n int) string {
	var out strings.Builder
	for i := range n {
		out.WriteString("x" + ValueText(int64(i)) + ",")
	}
	return strings.TrimSuffix(out.String(), ",")
}

func TestLimits(t *testing.T) {
	var many strings.Builder
	many.WriteString("entities:\n")
	for i := range maxTypes + 50 {
		many.WriteString("  - T" + strings.Repeat("x", i%7) + "_" + strings.Repeat("y", i/1000) + ValueText(int64(i)) + "\n")
	}
	require.Equal(t, []Problem{{"entities[2000]", "is over the limit of 2000 types"}}, problems(t, many.String(), nil))

	wide := "entities: [A]\nrelations: {R: '"
	var ends []string
	for i := range 400 {
		ends = append(ends, "E"+ValueText(int64(i)))
	}
	all := strings.Join(ends, "|")
	got := problems(t, wide+all+"->"+all+"'}", nil)
	require.Equal(t, Problem{"relations.R", "is over the limit of 50000 patterns"}, got[0])
	require.Len(t, got, maxProblems+1)
	require.Regexp(t, `^and \d+ more problem\(s\)$`, got[maxProblems].Message)

	for _, big := range []string{
		"entities: {A: {parents: [" + list(50000) + "]}}",
		"entities: [A]\nrelations: {R: {patterns: 'A->A', inverse: [" + list(50000) + "]}}",
		"exclude: [" + list(50000) + "]\nextends: b.yaml",
		"entities: [" + list(100000) + "]",
		"entities: {A: {properties: {" + strings.ReplaceAll(list(50000), ",", ": string,") + "}}}",
		"entities: {A: {properties: {p: {enum: [" + list(50000) + "]}}}}",
		"extends: b.yaml\nentities: {" + strings.ReplaceAll(list(1900), ",", ": {override: true},") + "}",
	} {
		problems(t, big, files(map[string]string{"b.yaml": "entities: [" + list(2000) + "]\nrelations: {S: 'x1->x1'}"}))
	}
	names := "rules: {entities: {A: {names: [" + list(100000) + "]}}}\n"
	s, err := Parse([]byte("extends: b.yaml\n"+names), "x.yaml", files(map[string]string{"b.yaml": "entities: [A]\n" + names}))
	require.NoError(t, err)
	require.Len(t, s.Rules().Entities["A"].Names, 100000)

	var chain strings.Builder
	chain.WriteString("entities:\n  T0: x\n")
	for i := 1; i <= maxAncestors+1; i++ {
		chain.WriteString("  T" + ValueText(int64(i)) + ": {parents: [T" + ValueText(int64(i-1)) + "]}\n")
	}
	require.Equal(t, []Problem{{"entities.T65", "has 65 ancestors, the limit is 64"}}, problems(t, chain.String(), nil))
}
