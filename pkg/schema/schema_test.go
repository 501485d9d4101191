package schema

import (
	"errors"
	"fmt"
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// parse reads a schema that must be right.
func parse(t *testing.T, text string) *Schema {
	t.Helper()
	s, err := Parse([]byte(text), "test.yaml", nil)
	require.NoError(t, err)
	return s
}

// problems reads a schema that must be wrong.
func problems(t *testing.T, text string, resolve Resolver) []Problem {
	t.Helper()
	s, err := Parse([]byte(text), "test.yaml", resolve)
	require.Nil(t, s)
	var wrong *Error
	require.True(t, errors.As(err, &wrong), "%v", err)
	require.NotEmpty(t, wrong.Problems)
	return wrong.Problems
}

func parseFile(t *testing.T, name string) *Schema {
	t.Helper()
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	s, err := Parse(raw, name, os.ReadFile)
	require.NoError(t, err)
	return s
}

const golden = `
entities:
  Person: A human being.
  Company: {properties: {founded: string, size: {type: integer, required: true}}}
relations:
  WORKS_AT: "Person->Company"
  KNOWS: ["Person->Person", "Company->Person"]
`

func TestFingerprint(t *testing.T) {
	s := parse(t, golden)
	require.Equal(t, "db44256019904a52", s.Fingerprint())
	require.Equal(t, "test", s.Name())
	require.Equal(t, "1", s.Version())

	same := `{"version":"9","name":"other","description":"x","relations":[
	  "Person|Company-KNOWS->Person",
	  {"label":"WORKS_AT","patterns":[["Person","Company"]],"description":"d","inverse":"EMPLOYS","self":true}],
	 "entities":[{"label":"Company","properties":{"size":{"type":"integer","required":true,"merge":"all","sensitive":true},"founded":{}}},"Person"],
	 "rules":{"entities":{"Person":{"names":["Ada"]}}},"review":{"stale":"keep"}}`
	other := parse(t, same)
	require.Equal(t, s.Fingerprint(), other.Fingerprint())
	require.False(t, s.Equal(other))
	require.NotEqual(t, s.RulesFingerprint(), other.RulesFingerprint())
	require.NotEqual(t, s.ReviewFingerprint(), other.ReviewFingerprint())
	require.NotEqual(t, s.Descriptions(), other.Descriptions())
	require.Equal(t, "other", other.Name())

	for _, changed := range []string{
		`{entities: [Person], relations: []}`,
		`{entities: [Person, Agent], relations: []}`,
		`{entities: [Agent, {label: Person, parents: Agent}]}`,
		`{entities: [Person, Agent], relations: {R: "Person->Agent"}}`,
		`{entities: [Person, Agent], relations: {R: {patterns: "Person->Agent", symmetric: true}}}`,
		`{entities: [Person, Agent], relations: {R: {patterns: "Person->Agent", cardinality: {max_per_source: 1}}}}`,
		`{entities: {Person: {properties: {a: string}}}}`,
		`{entities: {Person: {properties: {a: {enum: [x]}}}}}`,
	} {
		fp := parse(t, changed).Fingerprint()
		require.NotEqual(t, s.Fingerprint(), fp)
		require.Len(t, fp, 16)
	}
}

func TestFull(t *testing.T) {
	s := parseFile(t, "testdata/full.yaml")
	require.Equal(t, []Problem(nil), s.Warnings())
	require.Equal(t, "A schema that uses every field.", s.Description())
	born := Property{Name: "born", Type: TypeDate, Description: "Day of birth.", Merge: MergeMostSupported, Identifies: true, Sensitive: true}
	require.Equal(t, Entity{
		Label: "Person", Parents: []string{"Agent"}, Description: "A human being.",
		Properties: []Property{
			{Name: "alive", Type: TypeBoolean, Merge: MergeMostSupported},
			born,
			{Name: "height", Type: TypeFloat, Merge: MergeNewest},
			{Name: "shoe", Type: TypeInteger, Merge: MergeMostSupported, Enum: []string{"9", "38", "44"}},
		},
	}, first(s.Entity("Person")))
	ratio, ok := s.Property("Organization", "Ratio")
	require.True(t, ok)
	require.Equal(t, []string{"0.5", "1.5", "1e+06"}, ratio.Enum)
	require.Equal(t, Relation{
		Label: "WORKS_FOR", Patterns: []Pattern{{"Person", "Organization"}}, Description: "Employment.",
		Cardinality: Cardinality{MaxPerTarget: 100}, Inverse: []string{"EMPLOYS"},
		Properties: []Property{{Name: "since", Type: TypeDate, Description: "First day.", Merge: MergeMostSupported}},
	}, first(s.Relation("WORKS_FOR")))
	require.Equal(t, Rules{
		Entities: map[string]EntityRules{
			"Organization": {Suffixes: []string{"Inc", "GmbH"}, Names: []string{"ESA"}, Prefixes: []string{"University"}, Patterns: []string{"[A-Z]{3} Corp"}},
			"Person":       {Honorifics: []string{"Dr."}, Roles: []string{"engineer"}},
		},
		Relations: map[string]RelationRules{"WORKS_FOR": {Phrases: []string{"works for", "joined"}, InversePhrases: []string{"employs"}}},
	}, s.Rules())
	yes, high := true, 0.9
	require.Equal(t, Review{
		Version: "4", Stale: StaleReview,
		AutoReject: []Condition{{Kind: "relation", Label: "LIKES"}},
		Manual:     []Condition{{Kind: "relation", Label: "MARRIED_TO"}, {Sensitive: &yes}, {Deletes: &yes, Label: "OWNS"}},
		AutoAccept: []Condition{{Kind: "entity", Label: "Person", MinConfidence: &high, Extractor: "rules"}},
	}, s.Review())
	_, ok = s.Entity("person")
	require.False(t, ok)
	_, ok = s.Relation("nope")
	require.False(t, ok)
}

func first[T any](v T, _ bool) T { return v }

func TestAllows(t *testing.T) {
	s := parse(t, `
entities:
  Agent:
  Person: {parents: [Agent]}
  Organization: {parents: [Agent], properties: {founded: integer}}
  Company: {parents: [Organization], properties: {Stock: string}}
  Place:
relations:
  OWNS: "Agent->Organization"
  MARRIED_TO: {patterns: "Person->Person", symmetric: true, self: true}
  NEAR: {patterns: "Organization->Place", symmetric: true}
`)
	for _, c := range []struct {
		relation, source, target string
		want                     bool
	}{
		{"OWNS", "Agent", "Organization", true},
		{"OWNS", "Person", "Company", true},
		{"OWNS", "Company", "Company", true},
		{"OWNS", "Organization", "Person", false},
		{"OWNS", "Place", "Organization", false},
		{"OWNS", "Organization", "Agent", false},
		{"NEAR", "Company", "Place", true},
		{"NEAR", "Place", "Company", true},
		{"NEAR", "Place", "Place", false},
		{"owns", "Agent", "Organization", false},
		{"OWNS", "", "", false},
		{"OWNS", "Nobody", "Organization", false},
	} {
		require.Equal(t, c.want, s.Allows(c.relation, c.source, c.target), "%+v", c)
	}
	require.False(t, s.SelfAllowed("OWNS"), "a pattern of a type with itself is no leave for self loops")
	require.True(t, s.SelfAllowed("MARRIED_TO"))
	require.False(t, s.SelfAllowed("nope"))

	require.Equal(t, []string{"Agent", "Organization"}, s.Ancestors("Company"))
	require.Equal(t, []string{"Agent", "Company", "Organization"}, s.Labels("Company"))
	require.Equal(t, []string{"Company", "Organization", "Person"}, s.Descendants("Agent"))
	require.Empty(t, s.Ancestors("Agent"))
	require.Empty(t, s.Ancestors("Nobody"))
	names := []string{}
	for _, p := range s.Properties("Company") {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"Stock", "founded"}, names)
	require.Empty(t, s.Properties("Nobody"))
	p, ok := s.Property("Company", "stock")
	require.True(t, ok)
	require.Equal(t, "Stock", p.Name)
	_, ok = s.Property("Organization", "stock")
	require.False(t, ok)
	_, ok = s.RelationProperty("OWNS", "stock")
	require.False(t, ok)
}

func TestCanon(t *testing.T) {
	s := parse(t, `
entities: [SportsTeam, Person]
relations:
  WORKS_FOR: {patterns: "Person->SportsTeam", inverse: [EMPLOYS, has_worker]}
`)
	for _, c := range []struct {
		kind, seen, want string
	}{
		{KindEntity, "SportsTeam", "SportsTeam"},
		{KindEntity, "Sports Team", "SportsTeam"},
		{KindEntity, " sports-team ", "SportsTeam"},
		{KindEntity, "SPORTS_TEAM", "SportsTeam"},
		{KindEntity, "Sports", ""},
		{KindEntity, "WORKS_FOR", ""},
		{KindEntity, "", ""},
		{KindEntity, "_", ""},
		{KindRelation, "works for", "WORKS_FOR"},
		{KindRelation, "WorksFor", "WORKS_FOR"},
		{KindRelation, "employs", ""},
		{"thing", "Person", ""},
	} {
		got, ok := s.Canon(c.kind, c.seen)
		require.Equal(t, c.want, got, "%+v", c)
		require.Equal(t, c.want != "", ok, "%+v", c)
	}
	label, swapped, ok := s.CanonRelation("Has Worker")
	require.Equal(t, []any{"WORKS_FOR", true, true}, []any{label, swapped, ok})
	label, swapped, ok = s.CanonRelation("works-for")
	require.Equal(t, []any{"WORKS_FOR", false, true}, []any{label, swapped, ok})
	_, _, ok = s.CanonRelation("LIKES")
	require.False(t, ok)
}

func TestExtends(t *testing.T) {
	s := parseFile(t, "testdata/child.yaml")
	require.Equal(t, "child", s.Name())
	require.Equal(t, "2.10", s.Version())
	labels := []string{}
	for _, e := range s.Entities() {
		labels = append(labels, e.Label)
	}
	require.Equal(t, []string{"Agent", "Company", "Organization", "Person"}, labels)
	require.Equal(t, Entity{
		Label: "Organization", Parents: []string{"Agent"}, Description: "A body of people.",
		Properties: []Property{
			{Name: "founded", Type: TypeInteger, Required: true, Description: "Year of foundation.", Merge: MergeMostSupported},
			{Name: "seat", Type: TypeString, Merge: MergeMostSupported},
			{Name: "status", Type: TypeString, Enum: []string{"active", "dissolved"}, Merge: MergeMostSupported},
		},
	}, first(s.Entity("Organization")))
	require.Equal(t, []Pattern{{"Organization", "Organization"}, {"Person", "Person"}}, first(s.Relation("KNOWS")).Patterns)
	worksFor := first(s.Relation("WORKS_FOR"))
	require.Equal(t, []Pattern{{"Person", "Company"}}, worksFor.Patterns)
	require.Equal(t, Cardinality{MaxPerSource: 1}, worksFor.Cardinality)
	require.Equal(t, "Employment.", worksFor.Description)
	_, ok := s.Relation("LIVES_IN")
	require.False(t, ok, "a relation that loses its only pattern goes too")
	require.Equal(t, map[string]EntityRules{"Organization": {Suffixes: []string{"Inc", "GmbH"}}}, s.Rules().Entities)
	require.Equal(t, StaleKeep, s.Review().Stale)
	require.Len(t, s.Review().Manual, 2)

	again, err := Parse(s.Marshal(), "whatever", nil)
	require.NoError(t, err)
	require.True(t, s.Equal(again))
}

func files(m map[string]string) Resolver {
	return func(name string) ([]byte, error) {
		if text, ok := m[name]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}
}

func TestExtendsPaths(t *testing.T) {
	resolve := files(map[string]string{
		"schemas/base/a.yaml": "extends: ../b.yaml\nentities: [A]",
		"schemas/b.yaml":      "entities: [B]",
	})
	s, err := Parse([]byte("extends: base/a.yaml"), "schemas/x.yaml", resolve)
	require.NoError(t, err)
	require.Len(t, s.Entities(), 2)
	require.Equal(t, "x", s.Name())

	deep := map[string]string{}
	for i := range 20 {
		deep[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("extends: %d.yaml", i+1)
	}
	for _, c := range []struct {
		text    string
		resolve Resolver
		want    Problem
	}{
		{"extends: base.yaml", nil, Problem{"extends", "cannot be followed here: send the whole schema"}},
		{"extends: base.yaml", files(nil), Problem{"extends", "base.yaml: file does not exist"}},
		{"extends: /etc/base.yaml", files(nil), Problem{"extends", `must be a relative path, not "/etc/base.yaml"`}},
		{"extends: test.yaml", files(nil), Problem{"extends", "the files extend each other: test.yaml -> test.yaml"}},
		{"extends: a.yaml", files(map[string]string{"a.yaml": "extends: ./test.yaml"}), Problem{"a.yaml#extends", "the files extend each other: test.yaml -> a.yaml -> test.yaml"}},
		{"extends: 0.yaml", files(deep), Problem{"7.yaml#extends", "is over the limit of 8 files on each other"}},
		{"extends: a.yaml", files(map[string]string{"a.yaml": "entities: {A: {parents: [B]}}"}), Problem{"a.yaml#entities.A.parents[0]", `unknown type "B"`}},
	} {
		// What the missing base might have declared is not reported.
		got := problems(t, c.text+"\nrelations: {R: 'X->X'}\n", c.resolve)
		if path.Base(c.want.Path) == "a.yaml#entities.A.parents[0]" {
			got = got[:1]
		}
		require.Equal(t, []Problem{c.want}, got, c.text)
	}
}

func TestDefault(t *testing.T) {
	s, err := Parse(defaultFile, "default.yaml", nil)
	require.NoError(t, err)
	require.Empty(t, s.Warnings())
	require.True(t, s.Equal(Default()))
	require.Same(t, Default(), Default())
	var entities, relations []string
	for _, e := range s.Entities() {
		entities = append(entities, e.Label)
	}
	for _, r := range s.Relations() {
		relations = append(relations, r.Label)
	}
	require.Equal(t, []string{"Dataset", "Event", "Location", "Organization", "Person", "Product", "Project", "Publication", "Software"}, entities)
	require.Equal(t, []string{"AUTHORED", "DEPENDS_ON", "LOCATED_IN", "OWNS", "PARTICIPATED_IN", "PART_OF", "SUPPLIES", "WORKS_FOR"}, relations)
	require.True(t, s.Allows("WORKS_FOR", "Person", "Organization"))
	require.True(t, s.Allows("SUPPLIES", "Organization", "Product"))
	require.True(t, s.Allows("PART_OF", "Location", "Location"))
	require.False(t, s.Allows("WORKS_FOR", "Organization", "Person"))
	require.False(t, s.SelfAllowed("OWNS"))
	label, swapped, ok := s.CanonRelation("employs")
	require.Equal(t, []any{"WORKS_FOR", true, true}, []any{label, swapped, ok})
	founded, ok := s.Property("Organization", "founded")
	require.True(t, ok)
	require.Equal(t, TypeInteger, founded.Type)
}

func TestDescriptionsAreForHashing(t *testing.T) {
	fp, err := fingerprint.H16(Default().Descriptions())
	require.NoError(t, err)
	require.Len(t, fp, 16)
	a := parse(t, "entities: {A: {description: x, properties: {p: {description: y}}}}\nrelations: {R: {patterns: 'A->A', inverse: S}}")
	require.Equal(t, map[string]any{
		"entities":  map[string]any{"A": map[string]any{"description": "x", "properties": map[string]string{"p": "y"}}},
		"relations": map[string]any{"R": map[string]any{"inverse": []string{"S"}}},
	}, a.Descriptions())
}
