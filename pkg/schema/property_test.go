package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

var labelPool = []string{"Agent", "Person", "Organization", "SportsTeam", "City", "x", "_y", "Tool9"}
var relationPool = []string{"KNOWS", "WORKS_FOR", "OWNS", "nearTo", "Z1"}
var wordPool = []string{"a", "", "works for", "1.50", "true", "null", "é😀", "a: b", "- x", "x\ny", "#1", "|", "\"q\"", "\\", "0x1F", "2.10"}

// anySchema draws a right schema in the long form of the language.
func anySchema(t *rapid.T) map[string]any {
	word := rapid.SampledFrom(wordPool)
	labels := rapid.Permutation(labelPool).Draw(t, "labels")[:rapid.IntRange(0, len(labelPool)).Draw(t, "types")]
	entities := map[string]any{}
	for i, label := range labels {
		e := map[string]any{"description": word.Draw(t, "description")}
		if i > 0 && rapid.Bool().Draw(t, "child") {
			e["parents"] = rapid.SliceOfNDistinct(rapid.SampledFrom(labels[:i]), 1, 3, rapid.ID[string]).Draw(t, "parents")
		}
		e["properties"] = anyProperties(t, fmt.Sprintf("p%d", i), true)
		entities[label] = e
	}
	out := map[string]any{"name": "n", "version": "v1", "description": word.Draw(t, "about"), "entities": entities}
	relations := map[string]any{}
	for i, label := range relationPool {
		if len(labels) == 0 || !rapid.Bool().Draw(t, "has "+label) {
			continue
		}
		end := rapid.SampledFrom(labels)
		var patterns []string
		for range rapid.IntRange(0, 4).Draw(t, "patterns") {
			patterns = append(patterns, end.Draw(t, "source")+"->"+end.Draw(t, "target"))
		}
		r := map[string]any{
			"patterns": patterns, "description": word.Draw(t, "description"), "self": rapid.Bool().Draw(t, "self"),
			"properties": anyProperties(t, "r", false),
		}
		r["symmetric"] = rapid.Bool().Draw(t, "symmetric")
		if r["symmetric"] == false {
			r["inverse"] = []string{fmt.Sprintf("INV_%d", i)}
		}
		if n := rapid.IntRange(0, 3).Draw(t, "bound"); n > 0 {
			r["cardinality"] = map[string]any{"max_per_source": n, "max_per_target": nil}
		}
		relations[label] = r
	}
	out["relations"] = relations
	if len(labels) > 0 && rapid.Bool().Draw(t, "rules") {
		out["rules"] = map[string]any{"entities": map[string]any{labels[0]: map[string]any{"names": []string{"é", "1.50"}, "patterns": []string{`\w+ \d`}}}}
	}
	if rapid.Bool().Draw(t, "review") {
		out["review"] = map[string]any{
			"stale":       rapid.SampledFrom(stales).Draw(t, "stale"),
			"auto_accept": []any{map[string]any{"kind": "entity", "min_confidence": rapid.Float64Range(0, 1).Draw(t, "min"), "deletes": false}},
		}
	}
	return out
}

func anyProperties(t *rapid.T, prefix string, ofEntity bool) map[string]any {
	out := map[string]any{}
	for i := range rapid.IntRange(0, 3).Draw(t, "properties") {
		name := fmt.Sprintf("%s_%d", prefix, i)
		kind := rapid.SampledFrom(types).Draw(t, "type")
		p := map[string]any{
			"type": kind, "required": rapid.Bool().Draw(t, "required"), "merge": rapid.SampledFrom(merges).Draw(t, "merge"),
			"description": rapid.SampledFrom(wordPool).Draw(t, "text"), "sensitive": rapid.Bool().Draw(t, "sensitive"),
			"identifies": ofEntity && rapid.Bool().Draw(t, "identifies"),
		}
		if rapid.Bool().Draw(t, "enum") {
			switch kind {
			case "string":
				p["enum"] = []string{"b", "a", "1.50", "true"}
			case "integer":
				p["enum"] = []any{3, -1, 20}
			case "float":
				p["enum"] = []any{1.5, -2, 1e21}
			case "date":
				p["enum"] = []string{"2020", "2020-01-02"}
			}
		}
		out[name] = p
	}
	return out
}

func must(t *rapid.T, data []byte, err error) *Schema {
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(data, "x.y", nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := anySchema(t)
		data, err := json.Marshal(tree)
		s := must(t, data, err)
		again := must(t, s.Marshal(), nil)
		if !s.Equal(again) || string(s.Marshal()) != string(again.Marshal()) {
			t.Fatalf("%s\n%s", s.Marshal(), again.Marshal())
		}
		require.Equal(t, s.Entities(), again.Entities())
		require.Equal(t, s.Relations(), again.Relations())
		require.Equal(t, s.Rules(), again.Rules())
		require.Equal(t, s.Review(), again.Review())
		require.Equal(t, s.Fingerprint(), again.Fingerprint())
		require.Equal(t, s.RulesFingerprint(), again.RulesFingerprint())
		require.Equal(t, s.ReviewFingerprint(), again.ReviewFingerprint())
		require.Equal(t, s.Descriptions(), again.Descriptions())
		require.Empty(t, Diff(s, again))

		asYAML, err := yaml.Marshal(tree)
		if fromYAML := must(t, asYAML, err); !s.Equal(fromYAML) {
			t.Fatalf("%s\n%s\n%s", s.Marshal(), fromYAML.Marshal(), asYAML)
		}
	})
}

// TestAllowsModel compares Allows with the rule spelled out.
func TestAllowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(anySchema(t))
		s := must(t, data, err)
		var is func(label, above string) bool
		is = func(label, above string) bool {
			e, _ := s.Entity(label)
			return label == above || slices.ContainsFunc(e.Parents, func(p string) bool { return is(p, above) })
		}
		for _, r := range s.Relations() {
			for _, a := range s.Entities() {
				for _, b := range s.Entities() {
					want := false
					for _, p := range r.Patterns {
						want = want || is(a.Label, p.Source) && is(b.Label, p.Target)
						want = want || r.Symmetric && is(b.Label, p.Source) && is(a.Label, p.Target)
					}
					if got := s.Allows(r.Label, a.Label, b.Label); got != want {
						t.Fatalf("%s %s %s: %t\n%s", r.Label, a.Label, b.Label, got, data)
					}
				}
			}
		}
	})
}

func TestDiffAgreesWithFingerprints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err := json.Marshal(anySchema(t))
		x := must(t, a, err)
		b, err := json.Marshal(anySchema(t))
		y := must(t, b, err)
		effects := map[Effect]bool{}
		for _, c := range Diff(x, y) {
			effects[c.Effect] = true
		}
		require.Equal(t, !x.Equal(y), len(effects) > 0)
		require.Equal(t, x.Fingerprint() != y.Fingerprint(), effects[EffectSchema])
		require.Equal(t, x.ReviewFingerprint() != y.ReviewFingerprint(), effects[EffectReview])
		if !effects[EffectSchema] {
			same := x.RulesFingerprint() == y.RulesFingerprint() && fmt.Sprint(x.Descriptions()) == fmt.Sprint(y.Descriptions())
			require.Equal(t, !same, effects[EffectExtraction])
		}
	})
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range paths {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add(defaultFile)
	f.Add(Default().Marshal())
	f.Add([]byte(golden))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Add([]byte(`{"entities":["A",{"label":"B","properties":{"p":"date"}}],"relations":["A|B-R->A"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data, "f.yaml", func(string) ([]byte, error) { return data, nil })
		if (s == nil) == (err == nil) {
			t.Fatal("a schema or an error, not both or none")
		}
		if err != nil {
			return
		}
		again, err := Parse(s.Marshal(), "g.json", nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Marshal())
		}
		if !s.Equal(again) || s.Fingerprint() != again.Fingerprint() {
			t.Fatalf("%s\n%s", s.Marshal(), again.Marshal())
		}
	})
}
