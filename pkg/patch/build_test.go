package patch

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

const solar = `name: solar
version: "3"
entities:
  Body: Anything up there.
  Planet: {parents: [Body], properties: {radius: float}}
  Star: {parents: [Body]}
relations:
  ORBITS: {patterns: ["Planet->Star"], inverse: [ORBITED_BY]}
  NEAR: {patterns: ["Body->Body"]}
`

func parsed(t *testing.T, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse([]byte(text), "solar.yaml", nil)
	require.NoError(t, err)
	return s
}

func entity(id, label, text string, n int) Item {
	return Item{id, graph.Candidate{Kind: graph.KindEntity, Label: label, Text: text, Count: n, Reasons: []string{graph.ReasonUndeclaredLabel}}}
}

func relation(id, label, sl, st, tl, tt string, n int) Item {
	return Item{id, graph.Candidate{Kind: graph.KindRelation, Label: label, SourceLabel: sl, SourceText: st, TargetLabel: tl, TargetText: tt, Count: n}}
}

func prop(id, name, holderLabel, holder, value string, n int) Item {
	return Item{id, graph.Candidate{Kind: graph.KindProperty, Label: name, SourceLabel: holderLabel, SourceText: holder, Text: value, Count: n}}
}

func TestID(t *testing.T) {
	// printf '%s' '{"base": "db44256019904a52", "ids": ["0b8a", "1c2d", "f00"]}' | sha256sum
	require.Equal(t, "f90bac6a0f5d9c0f", ID("db44256019904a52", []string{"f00", "0b8a", "1c2d"}))
	require.Equal(t, "0a54ff359a899d18", ID("db44256019904a52", nil))
	require.Equal(t, `"a\u00e4\"\\\n"`, text("aä\"\\\n"), "ASCII alone")
}

// The same relation that the schema does not know, in three documents: one addition, one id for each record, the sightings added up.
func TestOneRelationOfThreeDocuments(t *testing.T) {
	s := parsed(t, solar)
	items := []Item{
		relation("c3", "ECLIPSES", "Planet", "Earth", "Star", "Sun", 1),
		relation("c1", "ECLIPSES", "Planet", "earth", "Star", "the Sun", 2),
		relation("c2", "ECLIPSES", "Planet", "Earth", "Star", "Sun", 1),
	}
	p, left := Build(items, s)
	require.Empty(t, left)
	got, err := p.Encode()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`{
  "readme": %q,
  "patch_format": 1,
  "patch_id": %q,
  "base_schema": {
    "name": "solar",
    "version": "3",
    "fingerprint": %q
  },
  "additions": {
    "entities": [],
    "relations": [
      {
        "label": "ECLIPSES",
        "patterns": [
          "Planet->Star"
        ]
      }
    ]
  },
  "add_properties": [],
  "evidence": {
    "relation:ECLIPSES": 4
  },
  "candidate_ids": [
    "c1",
    "c2",
    "c3"
  ]
}
`, readme, ID(s.Fingerprint(), []string{"c1", "c2", "c3"}), s.Fingerprint()), string(got))
	back, err := Parse(got)
	require.NoError(t, err)
	require.Equal(t, p, back)
	require.True(t, back.Intact())
	back.CandidateIDs = back.CandidateIDs[1:]
	require.False(t, back.Intact())
	require.Equal(t, []string{"relation ECLIPSES"}, p.Missing(s))
	r, err := Apply([]byte(solar), "solar.yaml", nil, p)
	require.NoError(t, err)
	require.Empty(t, p.Missing(r.After))
	require.True(t, r.After.Allows("ECLIPSES", "Planet", "Star"))
	require.False(t, r.After.Allows("ECLIPSES", "Star", "Planet"))
	require.Equal(t, "4", r.After.Version())
}

func TestBuild(t *testing.T) {
	s := parsed(t, solar)
	for _, c := range []struct {
		name     string
		items    []Item
		entities []Entity
		rels     []Relation
		props    []AddProperty
		evidence map[string]int
		left     map[string]string
	}{
		{name: "nothing"},
		{name: "below a threshold: no addition", items: []Item{entity("a", "Planet", "Vulcan", 2), relation("b", "ORBITS", "Planet", "Vulcan", "Star", "Sun", 1), prop("c", "Radius", "Planet", "Vulcan", "3", 1)},
			evidence: map[string]int{"entity:Planet": 2, "relation:ORBITS": 1, "property:Planet.radius": 1}},
		{name: "a new type; what is seen most gives the spelling", items: []Item{entity("a", "SpaceProbe", "Voyager 1", 2), entity("b", "space_probe", "Voyager 2", 3), entity("c", "SpaceProbe", "Pioneer", 1)},
			entities: []Entity{{Label: "SpaceProbe"}}, evidence: map[string]int{"entity:SpaceProbe": 6}},
		{name: "patterns of descendants are covered, swapped names too", items: []Item{relation("a", "NEAR", "Planet", "x", "Star", "y", 1), relation("b", "orbited by", "Star", "y", "Planet", "x", 1), relation("c", "ORBITED_BY", "Planet", "y", "Planet", "x", 5)},
			rels: []Relation{{Label: "ORBITS", AddPatterns: []string{"Planet->Planet"}}}, evidence: map[string]int{"relation:NEAR": 1, "relation:ORBITS": 6}},
		{name: "new relations first", items: []Item{relation("a", "ORBITS", "Star", "a", "Star", "b", 1), relation("b", "WARMS", "Star", "a", "Planet", "b", 1), relation("c", "HIDES", "Planet", "a", "Star", "b", 1), relation("d", "HIDES", "Planet", "a", "Planet", "b", 1)},
			rels:     []Relation{{Label: "HIDES", Patterns: []string{"Planet->Planet", "Planet->Star"}}, {Label: "WARMS", Patterns: []string{"Star->Planet"}}, {Label: "ORBITS", AddPatterns: []string{"Star->Star"}}},
			evidence: map[string]int{"relation:ORBITS": 1, "relation:WARMS": 1, "relation:HIDES": 2}},
		{name: "an end of a type that nobody approved", items: []Item{relation("a", "VISITED", "Probe", "Voyager", "Planet", "Jupiter", 1)},
			evidence: map[string]int{"relation:VISITED": 1}, left: map[string]string{"a": LeftEndpoint}},
		{name: "an end that is approved with it", items: []Item{relation("a", "VISITED", "Probe", "Voyager", "Planet", "Jupiter", 1), entity("b", "Probe", "Voyager", 1)},
			entities: []Entity{{Label: "Probe"}}, rels: []Relation{{Label: "VISITED", Patterns: []string{"Probe->Planet"}}}, evidence: map[string]int{"relation:VISITED": 1, "entity:Probe": 1}},
		{name: "an end by its text alone", items: []Item{relation("a", "VISITED", "", "the voyager", "Planet", "Jupiter", 1), entity("b", "Probe", "Voyager", 1)},
			entities: []Entity{{Label: "Probe"}}, rels: []Relation{{Label: "VISITED", Patterns: []string{"Probe->Planet"}}}, evidence: map[string]int{"relation:VISITED": 1, "entity:Probe": 1}},
		{name: "a text that two approved entities have", items: []Item{relation("a", "VISITED", "", "Voyager", "Planet", "Jupiter", 1), entity("b", "Probe", "Voyager", 1), entity("c", "Ship", "Voyager", 1)},
			entities: []Entity{{Label: "Probe"}, {Label: "Ship"}}, evidence: map[string]int{"relation:VISITED": 1, "entity:Probe": 1, "entity:Ship": 1}, left: map[string]string{"a": LeftEndpoint}},
		{name: "labels that no schema takes", items: []Item{entity("a", "Chunk", "x", 1), entity("b", "Bad`Label", "x", 1), entity("c", "a/b\x00", "x", 1), relation("d", "SOURCE", "Planet", "a", "Star", "b", 1), prop("e", "how big\n", "Planet", "x", "1", 1)},
			left: map[string]string{"a": LeftLabel, "b": LeftLabel, "c": LeftLabel, "d": LeftLabel, "e": LeftLabel}},
		{name: "types of values", items: []Item{
			prop("a", "found", "Planet", "x", "1846", 1), prop("b", "found", "Planet", "y", "1930", 2), prop("c", "mass", "Planet", "x", "1.5", 1), prop("d", "mass", "Planet", "y", "2", 1),
			prop("e", "seen", "Planet", "x", "1846-09-23", 1), prop("f", "seen", "Planet", "y", "1930", 1), prop("g", "gas", "Planet", "x", "yes", 1), prop("h", "code", "Planet", "x", "007", 1), prop("i", "note", "Planet", "x", "19x9", 1)},
			props:    []AddProperty{{"Planet", "code", Spec{Type: "string"}}, {"Planet", "found", Spec{Type: "integer"}}, {"Planet", "gas", Spec{Type: "boolean"}}, {"Planet", "mass", Spec{Type: "float"}}, {"Planet", "note", Spec{Type: "string"}}, {"Planet", "seen", Spec{Type: "date"}}},
			evidence: map[string]int{"property:Planet.found": 3, "property:Planet.mass": 2, "property:Planet.seen": 2, "property:Planet.gas": 1, "property:Planet.code": 1, "property:Planet.note": 1}},
		{name: "a parent's property is inherited", items: []Item{prop("a", "age", "Body", "x", "4", 1), prop("b", "Age", "Planet", "y", "4.5", 2), prop("c", "age", "Star", "z", "1", 1)},
			props: []AddProperty{{"Body", "Age", Spec{Type: "float"}}}, evidence: map[string]int{"property:Body.Age": 4}},
		{name: "a property of a new type", items: []Item{entity("a", "Probe", "Voyager", 1), prop("b", "launched", "Probe", "Voyager", "1977", 1)},
			entities: []Entity{{Label: "Probe"}}, props: []AddProperty{{"Probe", "launched", Spec{Type: "integer"}}}, evidence: map[string]int{"entity:Probe": 1, "property:Probe.launched": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, left := Build(c.items, s)
			require.Equal(t, append([]Entity{}, c.entities...), p.Additions.Entities)
			require.Equal(t, append([]Relation{}, c.rels...), p.Additions.Relations)
			require.Equal(t, append([]AddProperty{}, c.props...), p.AddProperties)
			if c.evidence == nil {
				c.evidence = map[string]int{}
			}
			if c.left == nil {
				c.left = map[string]string{}
			}
			require.Equal(t, c.evidence, p.Evidence)
			require.Equal(t, c.left, left)
			require.Len(t, p.CandidateIDs, len(c.items))
			require.Equal(t, len(c.entities)+len(c.rels)+len(c.props) == 0, p.Empty())
			require.Empty(t, p.Check(s), "what Build makes can be applied")
			r, err := Apply([]byte(solar), "solar.yaml", nil, p)
			require.NoError(t, err)
			require.Empty(t, p.Missing(r.After))
			again, _ := Build(c.items, r.After)
			require.True(t, again.Empty(), "the grown schema needs nothing more")
		})
	}
}

// The order of the records does not matter, nor does one that is given twice.
func TestBuildIsAFunctionOfTheSet(t *testing.T) {
	s := parsed(t, solar)
	items := []Item{entity("a", "Probe", "Voyager", 1), relation("b", "VISITED", "Probe", "Voyager", "Planet", "Jupiter", 1), prop("c", "launched", "Probe", "Voyager", "1977", 1)}
	want, _ := Build(items, s)
	got, _ := Build([]Item{items[2], items[0], items[2], items[1]}, s)
	require.Equal(t, want, got)
}

func TestMissing(t *testing.T) {
	p := growth()
	require.Equal(t, []string{"entity type Moon", "relation ORBITS", "pattern NEAR Moon->Planet", "property Planet.mass", "property Moon.found"},
		p.Missing(parsed(t, "entities: [Planet]\nrelations: {NEAR: [\"Planet->Planet\"]}\n")))
	require.Equal(t, []string{"pattern ORBITS Moon->Planet", "relation NEAR", "property Moon.found"},
		p.Missing(parsed(t, "entities: {Planet: {properties: {mass: float}}, moon: {}}\nrelations: {ORBITS: [\"Planet->Planet\"]}\n")))
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "not a patch: EOF",
		"[]":                    "not a patch: json: cannot unmarshal array",
		`{"patch_format":1} {}`: "something follows the JSON object",
		`{"patch_format":2}`:    "patch_format is 2: this version reads 1",
		`{"patch_format":1,"additions":{"entities":[{"label":"A","colour":"red"}]}}`: `unknown field "colour"`,
	} {
		_, err := Parse([]byte(in))
		require.ErrorContains(t, err, want, in)
	}
	p, err := Parse([]byte(`{"patch_format":1}`))
	require.NoError(t, err)
	require.True(t, p.Empty())
}

// Arrows and foreign letters stay readable in the file.
func TestEncodeIsReadable(t *testing.T) {
	p, _ := Build([]Item{relation("ä", "WARMS", "Star", "s", "Planet", "p", 1)}, parsed(t, solar))
	b, err := p.Encode()
	require.NoError(t, err)
	require.Contains(t, string(b), `"Star->Planet"`)
	require.Contains(t, string(b), `"ä"`)
	require.True(t, json.Valid(b))
}
