package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
)

// growth is the patch of the golden files: a new type, a new relation, a pair of a declared relation, properties of a declared and
// of the new type.
func growth() *Patch {
	return &Patch{Format: Format,
		Additions: Additions{Entities: []Entity{{Label: "Moon"}}, Relations: []Relation{
			{Label: "ORBITS", Patterns: []string{"Moon->Planet"}}, {Label: "NEAR", AddPatterns: []string{"Moon->Planet"}}}},
		AddProperties: []AddProperty{{"Planet", "mass", Spec{Type: "float"}}, {"Moon", "found", Spec{Type: "integer"}}},
	}
}

// relationsOnly has nothing but pairs.
func pairsOnly() *Patch {
	return &Patch{Format: Format, Additions: Additions{Relations: []Relation{{Label: "ORBITS", Patterns: []string{"Planet->Star"}}, {Label: "NEAR", AddPatterns: []string{"Star->Star"}}}}}
}

func apply(t *testing.T, in string, p *Patch) *Result {
	t.Helper()
	r, err := Apply([]byte(in), "solar.yaml", nil, p)
	require.NoError(t, err)
	again, err := Apply(r.Data, "solar.yaml", nil, p)
	require.NoError(t, err, "%s", r.Data)
	require.False(t, again.Changed)
	require.Equal(t, string(r.Data), string(again.Data), "applied again: nothing to do")
	require.Empty(t, p.Missing(r.After))
	return r
}

func TestApplyKeepsTheFilesStyle(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       *Patch
		in, out string
	}{
		{"block", growth(), `# Our solar system.
name: solar # the name
version: "9"

entities:
  # what goes around a star
  Planet:
    description: A planet. # big ones
    properties:
      radius: float   # km
      # more to come
  Star: A sun.
  # Comet: not yet

# How they relate.
relations:
  NEAR:
    patterns: ["Planet->Planet"]   # symmetric?
    description: Close by.

rules:
  # hints
  entities: {Star: {names: [Sol]}}
`, `# Our solar system.
name: solar # the name
version: "10"

entities:
  # what goes around a star
  Planet:
    description: A planet. # big ones
    properties:
      radius: float   # km
      # more to come
      mass: float
  Star: A sun.
  # Comet: not yet
  Moon:
    properties:
      found: integer

# How they relate.
relations:
  NEAR:
    patterns: ["Planet->Planet", "Moon->Planet"]   # symmetric?
    description: Close by.
  ORBITS:
    patterns: ["Moon->Planet"]

rules:
  # hints
  entities: {Star: {names: [Sol]}}
`},
		{"short forms", growth(), `entities:
    Planet: A planet. # short
    Star:
relations:
    NEAR: 'Planet->Planet' # one
`, `version: "2"
entities:
    Planet:
        description: A planet. # short
        properties:
            mass: float
    Star:
    Moon:
        properties:
            found: integer
relations:
    NEAR: ['Planet->Planet', 'Moon->Planet'] # one
    ORBITS: ['Moon->Planet']
`},
		{"lists", growth(), `version: 1.9
entities:
- Planet # first
- label: Star
  description: A sun.
# the relations
relations:
- Planet-NEAR->Planet
# the end`, `version: 1.10
entities:
- label: Planet # first
  properties:
    mass: float
- label: Star
  description: A sun.
- label: Moon
  properties:
    found: integer
# the relations
relations:
- Planet-NEAR->Planet
- Moon-NEAR->Planet
- Moon-ORBITS->Planet
# the end`},
		{"flow", growth(), `{name: solar, entities: {Planet: A planet, Star}, relations: {NEAR: ["Planet->Planet"]}} # all of it
`, `{name: solar, entities: {Planet: {description: A planet, properties: {mass: float}}, Star, Moon: {properties: {found: integer}}}, relations: {NEAR: ["Planet->Planet", "Moon->Planet"], ORBITS: ["Moon->Planet"]}, version: "2"} # all of it
`},
		{"flow over lines", pairsOnly(), `version: draft
entities: [Planet, Star]
relations:
  NEAR:
    patterns: [
      "Planet->Planet",  # two
      "Planet->Star"     # and three
    ]
    properties: {
      distance: float,   # au
    }
`, `version: draft.1
entities: [Planet, Star]
relations:
  NEAR:
    patterns: [
      "Planet->Planet",  # two
      "Planet->Star",     # and three
      "Star->Star"
    ]
    properties: {
      distance: float,   # au
    }
  ORBITS:
    patterns: ["Planet->Star"]
`},
		{"block patterns, braces", growth(), `version: '2.10'
entities:
  Planet: {description: A planet, properties: {radius: {type: float}}}
  Star: {description: A sun}
relations:
  NEAR: {patterns: [Planet->Planet]}
  FAR:
    - Planet->Star
    # no more
`, `version: '2.11'
entities:
  Planet: {description: A planet, properties: {radius: {type: float}, mass: {type: float}}}
  Star: {description: A sun}
  Moon: {properties: {found: integer}}
relations:
  NEAR: {patterns: [Planet->Planet, Moon->Planet]}
  FAR:
    - Planet->Star
    # no more
  ORBITS: {patterns: [Moon->Planet]}
`},
		{"unicode, several lines", growth(), `name: système ☉ 🪐
description: >-
  Des planètes,
  # ce n'est pas un commentaire
  et plus.
version: "1"
entities:
  Planet: "Ein Körper — «groß»
    und rund"   # zwei Zeilen
  Star: |
    太陽
    # auch Text

relations:
  "NEAR":
    patterns:
    - "Planet->Planet"
    description: 近い
`, `name: système ☉ 🪐
description: >-
  Des planètes,
  # ce n'est pas un commentaire
  et plus.
version: "2"
entities:
  Planet:
   description: "Ein Körper — «groß»
    und rund"   # zwei Zeilen
   properties:
     mass: float
  Star: |
    太陽
    # auch Text
  Moon:
    properties:
      found: integer

relations:
  "NEAR":
    patterns:
    - "Planet->Planet"
    - "Moon->Planet"
    description: 近い
  ORBITS:
    patterns: ["Moon->Planet"]
`},
		{"anchors that nobody shares", growth(), `version: &v "3"
entities:
  Planet: &planet
    properties: &props
      radius: float
  Star: {parents: [Planet]}
relations:
  NEAR: &near
    patterns: &pairs ["Planet->Planet"]
  FAR: {patterns: [Star->Star], description: &d Far.}
  FARTHER: {patterns: [Star->Star], description: *d}
`, `version: &v "4"
entities:
  Planet: &planet
    properties: &props
      radius: float
      mass: float
  Star: {parents: [Planet]}
  Moon:
    properties:
      found: integer
relations:
  NEAR: &near
    patterns: &pairs ["Planet->Planet", "Moon->Planet"]
  FAR: {patterns: [Star->Star], description: &d Far.}
  FARTHER: {patterns: [Star->Star], description: *d}
  ORBITS:
    patterns: ["Moon->Planet"]
`},
		{"no relations at all", &Patch{Format: Format, Additions: Additions{Relations: []Relation{{Label: "NEAR", Patterns: []string{"Planet->Planet"}}}}}, `version: 1
entities: [Planet]`, `version: 2
entities: [Planet]
relations:
  NEAR:
    patterns: ["Planet->Planet"]`},
		{"empty sections", &Patch{Format: Format, Additions: Additions{Entities: []Entity{{Label: "Planet"}, {Label: "No", Description: "A: no"}}, Relations: []Relation{{Label: "NEAR", Patterns: []string{"Planet->No"}}}}},
			"entities: # none yet\nrelations: {}\n", "version: \"2\"\nentities: # none yet\n  Planet: {}\n  \"No\":\n    description: \"A: no\"\nrelations: {NEAR: {patterns: [\"Planet->No\"]}}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := apply(t, c.in, c.p)
			require.Equal(t, c.out, string(r.Data))
			require.True(t, r.Changed)
			crlf := strings.ReplaceAll(c.in, "\n", "\r\n")
			require.Equal(t, strings.ReplaceAll(c.out, "\n", "\r\n"), string(apply(t, crlf, c.p).Data), "with the line ends of elsewhere")
		})
	}
}

func TestApplyJSON(t *testing.T) {
	in := "{\n\t\"name\": \"solar \\ud83e\\ude90\",\n\t\"version\": \"7\",\n\t\"entities\": [\n\t\t{\"label\": \"Planet\", \"description\": \"a\\/b\"},\n\t\t\"Star\"\n\t],\n\t\"relations\": {\n\t\t\"NEAR\": \"Planet->Planet\"\n\t}\n}\n"
	want := "{\n\t\"name\": \"solar \\ud83e\\ude90\",\n\t\"version\": \"8\",\n\t\"entities\": [\n\t\t{\"label\": \"Planet\", \"description\": \"a\\/b\", \"properties\": {\"mass\": {\"type\": \"float\"}}},\n\t\t\"Star\",\n\t\t{\"label\": \"Moon\", \"properties\": {\"found\": {\"type\": \"integer\"}}}\n\t],\n" +
		"\t\"relations\": {\n\t\t\"NEAR\": [\"Planet->Planet\", \"Moon->Planet\"],\n\t\t\"ORBITS\": [\"Moon->Planet\"]\n\t}\n}\n"
	r, err := Apply([]byte(in), "solar.json", nil, growth())
	require.NoError(t, err)
	require.Equal(t, want, string(r.Data))
	r, err = Apply([]byte(`{"entities":["Planet"],"relations":null}`), "x.json", nil, &Patch{Format: Format, Additions: Additions{Relations: []Relation{{Label: "NEAR", Patterns: []string{"Planet->Planet"}}}}})
	require.NoError(t, err)
	require.Equal(t, `{"entities":["Planet"],"relations":{"NEAR": {"patterns": ["Planet->Planet"]}}, "version": "2"}`, string(r.Data))
}

// What the file extends stays; its types are overridden in the file.
func TestApplyOntoAFileThatExtends(t *testing.T) {
	base := "entities: {Planet: {description: A planet, properties: {radius: float}}, Star: A sun}\nrelations: {NEAR: [\"Planet->Planet\"]}\n"
	resolve := func(string) ([]byte, error) { return []byte(base), nil }
	in := "extends: base.yaml\nversion: 4 # ours\nentities:\n  Comet: A comet.\n"
	r, err := Apply([]byte(in), "own.yaml", resolve, growth())
	require.NoError(t, err)
	require.Equal(t, `extends: base.yaml
version: 5 # ours
entities:
  Comet: A comet.
  Planet:
    override: true
    properties:
      mass: float
  Moon:
    properties:
      found: integer
relations:
  NEAR:
    add_patterns: ["Moon->Planet"]
  ORBITS:
    patterns: ["Moon->Planet"]
`, string(r.Data))
	again, err := Apply(r.Data, "own.yaml", resolve, growth())
	require.NoError(t, err)
	require.False(t, again.Changed)
}

func TestWhatIsSharedIsLeftToPeople(t *testing.T) {
	for _, in := range []string{
		"entities: {Planet: &p {properties: {a: string}}, Star: *p}\nrelations: {NEAR: [\"Planet->Planet\"]}\n",
		"entities: {Planet: A planet, Star: A sun}\nrelations: {FAR: &x [\"Planet->Planet\"], NEAR: *x}\n",
	} {
		_, err := Apply([]byte(in), "s.yaml", nil, growth())
		var hand *ByHand
		require.ErrorAs(t, err, &hand)
		require.ErrorIs(t, err, errHand)
		require.Equal(t, `entities:
  Moon:
    properties:
      found: integer
  Planet:
    properties:
      mass: float
relations:
  ORBITS:
    patterns: ["Moon->Planet"]
  NEAR:
    add_patterns: ["Moon->Planet"]
`, hand.Snippet)
		require.ErrorContains(t, err, "nothing was written. Add this by hand:\nentities:")
	}
}

func TestEveryProblemIsListed(t *testing.T) {
	p := &Patch{Format: Format, Additions: Additions{
		Entities: []Entity{{Label: "Chunk"}, {Label: "a`b"}},
		Relations: []Relation{
			{Label: "NEAR", AddPatterns: []string{"Plant->Planet", "Planet"}}, {Label: "NAER", AddPatterns: []string{"Planet->Planet"}},
			{Label: "x/y\n- z", Patterns: []string{"Planet->Planet"}}}},
		AddProperties: []AddProperty{{"Comet", "a", Spec{Type: "integer"}}, {"Planet", "a b", Spec{Type: "number"}}}}
	_, err := Apply([]byte("entities: [Planet]\nrelations: {NEAR: [\"Planet->Planet\"]}\n"), "s.yaml", nil, p)
	var refused *Refused
	require.ErrorAs(t, err, &refused)
	var got []string
	for _, x := range refused.Problems {
		got = append(got, x.String())
	}
	require.Equal(t, []string{
		`additions.entities[0].label: "Chunk" is reserved`,
		"additions.entities[1].label: \"a`b\" is malformed: letters, digits and _ only, no digit first",
		`additions.relations[0].add_patterns[0]: unknown type "Plant", did you mean "Planet"?`,
		`additions.relations[0].add_patterns[1]: "Planet" is no pattern, write "A->B"`,
		`additions.relations[1].label: unknown relation "NAER", did you mean "NEAR"?`,
		`additions.relations[2].label: "x/y\n- z" is malformed: letters, digits and _ only, no digit first`,
		`add_properties[0].entity: unknown type "Comet"`,
		`add_properties[1].name: "a b" is malformed: letters, digits and _ only, no digit first`,
		`add_properties[1].spec.type: unknown property type "number" (one of string, integer, float, boolean, date)`,
	}, got)
	_, err = Apply([]byte("entities: ["), "s.yaml", nil, p)
	var bad *schema.Error
	require.ErrorAs(t, err, &bad)
}

// A property of a type above, under another type: the file would be no schema.
func TestAPatchThatTheSchemaCannotHold(t *testing.T) {
	in := "entities:\n  Agent: {}\n  Person:\n    parents: [Agent]\n    properties: {age: integer}\n"
	_, err := Apply([]byte(in), "s.yaml", nil, &Patch{Format: Format, AddProperties: []AddProperty{{"Agent", "age", Spec{Type: "string"}}}})
	var refused *Refused
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "may not change its type from string to integer")
}

func TestWarnings(t *testing.T) {
	in := "version: 1\nentities: {Planet: {properties: {mass: string}}}\nrelations: {NEAR: [\"Planet->Planet\"]}\n"
	r, err := Apply([]byte(in), "s.yaml", nil, growth())
	require.NoError(t, err)
	require.Len(t, r.Warnings, 4, "%q", r.Warnings)
	require.Contains(t, r.Warnings[0], "the patch was made on schema")
	require.Equal(t, "property Planet.mass is string in the file, which stays; the patch guessed float", r.Warnings[1])
	require.Equal(t, "entities.Moon: Moon has no description: extraction reads descriptions, say what it is", r.Warnings[2])
	require.Equal(t, "relations.ORBITS: ORBITS has no description: extraction reads descriptions, say what it is", r.Warnings[3])
}

func TestRaised(t *testing.T) {
	for was, want := range map[string]string{"1": "2", "9": "10", "99": "100", "2.9": "2.10", "1.2.3": "1.2.4", "v3": "v3.1", "v3.1": "v3.2", "draft": "draft.1", "2026-01-05": "2026-01-05.1",
		"12345678901234567890": "12345678901234567891", "2.": "2..1", "007": "008"} {
		require.Equal(t, want, raised(was), was)
	}
}

func TestDiff(t *testing.T) {
	r := apply(t, "# one\nversion: 1\nentities:\n  Planet: A.\n  Star: B.\n\n# two\n# three\n# four\n# five\nrelations:\n  NEAR: [\"Planet->Planet\"]\n  # six", pairsOnly())
	require.Equal(t, `--- solar.yaml
+++ solar.yaml
@@ -1,5 +1,5 @@
 # one
-version: 1
+version: 2
 entities:
   Planet: A.
   Star: B.
@@ -9,5 +9,6 @@
 # four
 # five
 relations:
-  NEAR: ["Planet->Planet"]
+  NEAR: ["Planet->Planet", "Star->Star"]
   # six
+  ORBITS: ["Planet->Star"]
`, r.Diff)
}

// Every schema file of the repository takes a patch: nothing but the additions changes, and every line that is not edited stays.
func TestEverySchemaFileTakesAPatch(t *testing.T) {
	n := 0
	for _, glob := range []string{"../schema/*.yaml", "../schema/testdata/*.yaml", "../../examples/*/*.yaml", "../../bench/*/*/*.yaml"} {
		files, err := filepath.Glob(glob)
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			resolve := func(p string) ([]byte, error) { return os.ReadFile(p) }
			s, err := schema.Parse(data, file, resolve)
			if err != nil || len(s.Entities()) == 0 || !bytes.Contains(data, []byte("entities")) {
				continue
			}
			p := grow(s)
			r, err := Apply(data, file, resolve, p)
			require.NoError(t, err, file)
			require.Empty(t, p.Missing(r.After), file)
			keepsComments(t, data, r.Data)
			for indent, eol := range map[string]string{"": "", "  ": "\n", "\t": "\r\n"} { // the same as JSON
				var pretty bytes.Buffer
				require.NoError(t, json.Indent(&pretty, s.Marshal(), "", indent))
				if eol == "" {
					pretty.Reset()
					pretty.Write(s.Marshal())
				}
				in := bytes.ReplaceAll(pretty.Bytes(), []byte("\n"), []byte(eol))
				r, err := Apply(in, "whole.json", nil, p)
				require.NoError(t, err, file)
				require.True(t, json.Valid(r.Data), "%s", r.Data)
				require.True(t, inOrder(in, r.Data))
			}
			n++
		}
	}
	require.Greater(t, n, 4)
}

// grow is a patch that touches every type of a schema.
func grow(s *schema.Schema) *Patch {
	p := &Patch{Format: Format, Additions: Additions{Entities: []Entity{{Label: "Zq"}}, Relations: []Relation{{Label: "ZQ_OF", Patterns: []string{"Zq->Zq"}}}}}
	for _, r := range s.Relations() {
		p.Additions.Relations = append(p.Additions.Relations, Relation{Label: r.Label, AddPatterns: []string{"Zq->Zq"}})
	}
	for _, e := range s.Entities() {
		if len(s.Ancestors(e.Label)) == 0 {
			p.AddProperties = append(p.AddProperties, AddProperty{e.Label, "zq_size", Spec{Type: "integer"}})
		}
	}
	return p
}

// keepsComments: what is a comment in the file still is one, in the same order.
func keepsComments(t *testing.T, was, is []byte) {
	t.Helper()
	rest := string(is)
	for _, line := range strings.Split(string(was), "\n") {
		i := strings.Index(line, "#")
		if i < 0 {
			continue
		}
		at := strings.Index(rest, line[i:])
		require.GreaterOrEqual(t, at, 0, "the comment %q is lost in\n%s", line[i:], is)
		rest = rest[at+len(line[i:]):]
	}
}

// FuzzApply: of any file that is a schema comes a file that holds it and the additions, or a refusal; Apply itself compares the two.
func FuzzApply(f *testing.F) {
	for _, glob := range []string{"../schema/*.yaml", "../schema/testdata/*.yaml"} {
		files, _ := filepath.Glob(glob)
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				f.Add(data)
			}
		}
	}
	for _, s := range []string{
		"entities: [A, B]\nrelations: [A-R->B]", "entities:\n- A\n-\n  label: B\n", "{entities: {A, B: x,}, relations: {R: 'A->B'}}", "entities: {A: {}}\nrelations: {R: }\n",
		"? entities\n: {A: x}\n", "entities:\n  A: >\n   x\n\n  # c\n  B: |+\n   y\n\n...\n", "\xef\xbb\xbfentities:\n  A:\n  B: x\n", "%YAML 1.1\n---\nentities:\n  A: 'it''s'\n...\n# end",
		"entities:\r  A: x\r  B: y\r", "{\"entities\":[\"A\"]}", "version: ~\nentities: ~\n", "entities:\n  - A: x\n  - {label: B}\nrelations:\n  - R: [A->B]\n  - S\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := schema.Parse(data, "f.yaml", nil)
		if err != nil {
			return
		}
		p := grow(s)
		r, err := Apply(data, "f.yaml", nil, p)
		var hand *ByHand
		var refused *Refused
		if errors.As(err, &hand) || errors.As(err, &refused) {
			return
		}
		require.NoError(t, err)
		require.Empty(t, p.Missing(r.After))
		require.True(t, inOrder(data, r.Data), "a byte of\n%q\nis lost in\n%q", data, r.Data)
		again, err := Apply(r.Data, "f.yaml", nil, p)
		require.NoError(t, err, "%q", r.Data)
		require.False(t, again.Changed)
	})
}

// inOrder says whether the bytes of was stand in is in their order, but for digits: the version and an explicit null may change.
func inOrder(was, is []byte) bool {
	k := 0
	for _, c := range was {
		if strings.IndexByte("0123456789nulNUL~", c) >= 0 {
			continue
		}
		i := bytes.IndexByte(is[k:], c)
		if i < 0 {
			return false
		}
		k += i + 1
	}
	return true
}
