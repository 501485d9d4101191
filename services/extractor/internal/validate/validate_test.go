package validate

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

const testSchema = `
entities:
  Person: {properties: {born: date, title: {type: string, sensitive: true}}}
  SportsTeam: A team.
  Organization:
    properties:
      founded: integer
      status: {enum: [active, dissolved]}
      listed: boolean
relations:
  WORKS_AT: {patterns: ["Person->Organization"], inverse: [EMPLOYS], properties: {since: integer}}
  OWNS: "Organization->Organization"
  LIKES: {patterns: ["Person->Person"], self: true}
review:
  manual:
    - {kind: entity, label: sports team}
    - {sensitive: true}
    - {kind: relation, label: LIKES, max_confidence: 0.8}
`

func parse(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse([]byte(text), "test.yaml", nil)
	require.NoError(t, err)
	return s
}

func check(t testing.TB, text string, items extract.Items) (graph.ChunkItems, []graph.Dropped) {
	t.Helper()
	v := New(parse(t, testSchema), settings.Default().Extractor, Options{Extractor: "llm"})
	return v.Chunk(text, 0, items), v.Dropped()
}

func entity(typ, name string) extract.Entity { return extract.Entity{Type: typ, Name: name, Start: -1} }

func relation(typ, source, target string) extract.Relation {
	return extract.Relation{Type: typ, Source: -1, Target: -1, SourceName: source, TargetName: target, Start: -1}
}

func TestEntityRows(t *testing.T) {
	const text = "Bob works at  Acme\nLtd. ACME is big; BobX, 東京大学 and the Sharks. Ev\x02e"
	scored := func(e extract.Entity, raw any) extract.Entity { e.Confidence = extract.ScoreOf(raw); return e }
	quoted := func(e extract.Entity, q string) extract.Entity { e.Quote = q; return e }
	tests := []struct {
		name    string
		in      extract.Entity
		kept    string // text at the span, empty when not kept
		dropped bool
		reasons []string
	}{
		{"found", entity("Person", "Bob"), "Bob", false, nil},
		{"white space", entity("Organization", "Acme Ltd"), "Acme\nLtd", false, nil},
		{"exact before folded", entity("Organization", "ACME"), "ACME", false, nil},
		{"folded", entity("Organization", "acme"), "Acme", false, nil},
		{"inside a quote first", quoted(entity("Organization", "acme"), "ACME is big"), "ACME", false, nil},
		{"part of a word", entity("Person", "Bo"), "", true, []string{graph.ReasonNoEvidence}},
		{"part of a solid word", entity("Organization", "東京"), "東京", false, nil},
		{"absent", entity("Person", "Mallory"), "", true, []string{graph.ReasonNoEvidence}},
		{"absent quote", quoted(entity("Person", "Bob"), "Bob said no"), "", true, []string{graph.ReasonNoEvidence}},
		{"folded label", entity("person", "Bob"), "Bob", false, nil},
		{"undeclared", entity("Dragon", "Bob"), "", false, []string{graph.ReasonUndeclaredLabel}},
		{"null", scored(entity("Person", "Bob"), nil), "", false, []string{graph.ReasonBadConfidence}},
		{"NaN", scored(entity("Person", "Bob"), math.NaN()), "", false, []string{graph.ReasonBadConfidence}},
		{"NaN word", scored(entity("Person", "Bob"), "NaN"), "", false, []string{graph.ReasonBadConfidence}},
		{"word", scored(entity("Person", "Bob"), "high"), "", false, []string{graph.ReasonBadConfidence}},
		{"percent", scored(entity("Person", "Bob"), 90.0), "", false, []string{graph.ReasonBadConfidence}},
		{"bool", scored(entity("Person", "Bob"), true), "", false, []string{graph.ReasonBadConfidence}},
		{"numeric text", scored(entity("Person", "Bob"), "0.9"), "Bob", false, nil},
		{"JSON number", scored(entity("Person", "Bob"), json.Number("0.5")), "Bob", false, nil},
		{"band", scored(entity("Person", "Bob"), 0.49), "", false, []string{graph.ReasonEntityBand}},
		{"floor", scored(entity("Person", "Bob"), 0.3), "", false, []string{graph.ReasonEntityBand}},
		{"below the floor", scored(entity("Person", "Bob"), 0.29), "", true, []string{graph.ReasonBelowFloor}},
		{"policy", entity("sports-team", "Sharks"), "", false, []string{graph.ReasonPolicy}},
		{"control character", entity("Person", "Ev\x02e"), "", true, []string{graph.ReasonBadName}},
		{"empty", entity("Person", " "), "", true, []string{graph.ReasonNoEvidence, graph.ReasonBadName}},
		{"every fault", scored(entity("Dragon", "Bob"), 0.4), "", false, []string{graph.ReasonUndeclaredLabel, graph.ReasonEntityBand}},
		{"every fault of a drop", scored(entity("Dragon", "Nobody"), nil), "", true,
			[]string{graph.ReasonNoEvidence, graph.ReasonUndeclaredLabel, graph.ReasonBadConfidence}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, dropped := check(t, text, extract.Items{Entities: []extract.Entity{tt.in}})
			if tt.kept != "" {
				require.Len(t, got.Entities, 1)
				require.Equal(t, tt.kept, text[got.Entities[0].Start:got.Entities[0].End])
				require.Empty(t, dropped)
				return
			}
			require.Empty(t, got.Entities)
			var reasons []string
			for _, d := range dropped {
				require.Equal(t, 1, d.Count)
				reasons = append(reasons, d.Reason)
			}
			require.ElementsMatch(t, tt.reasons, reasons)
			if tt.dropped {
				require.Empty(t, got.Candidates)
				return
			}
			require.Len(t, got.Candidates, 1)
			require.Equal(t, tt.reasons, got.Candidates[0].Reasons)
		})
	}
}

func TestLongNames(t *testing.T) {
	for _, tt := range []struct {
		runes int
		ok    bool
	}{{200, true}, {201, false}, {300, false}} {
		name := strings.Repeat("é", tt.runes)
		got, _ := check(t, "x "+name+" y", extract.Items{Entities: []extract.Entity{entity("Person", name)}})
		require.Equal(t, tt.ok, len(got.Entities) == 1, "%d runes", tt.runes)
		require.Empty(t, got.Candidates)
	}
}

func TestUnscoredHasTheCut(t *testing.T) {
	got, _ := check(t, "Bob works at Acme.", extract.Items{
		Entities:  []extract.Entity{entity("Person", "Bob"), entity("Organization", "Acme")},
		Relations: []extract.Relation{relation("WORKS_AT", "Bob", "Acme")},
	})
	require.Equal(t, 0.5, got.Entities[0].Confidence)
	require.Equal(t, []graph.RelationItem{{
		Type: "WORKS_AT", Source: 0, Target: 1, Start: 0, End: 18, Confidence: 0.7, Extractor: "llm",
	}}, got.Relations)
}

func TestRelationRows(t *testing.T) {
	const text = "Bob works at Acme. Acme owns Globex, Inc. Eve likes Eve. ACME grew."
	with := func(r extract.Relation, change func(*extract.Relation)) extract.Relation { change(&r); return r }
	scored := func(raw any) func(*extract.Relation) {
		return func(r *extract.Relation) { r.Confidence = extract.ScoreOf(raw) }
	}
	tests := []struct {
		name    string
		in      extract.Relation
		quote   string // of a kept one
		dropped bool
		reasons []string
	}{
		{"kept", relation("works at", "bob", "Acme"), "Bob works at Acme.", false, nil},
		{"inverse", relation("Employs", "Acme", "Bob"), "Bob works at Acme.", false, nil},
		{"quote", with(relation("WORKS_AT", "Bob", "Acme"), func(r *extract.Relation) { r.Quote = "bob  works at acme" }), "Bob works at Acme", false, nil},
		{"a quote without an end is widened", with(relation("WORKS_AT", "Bob", "Acme"), func(r *extract.Relation) { r.Quote = "works at Acme" }), "Bob works at Acme", false, nil},
		{"absent quote", with(relation("WORKS_AT", "Bob", "Acme"), func(r *extract.Relation) { r.Quote = "Bob left" }), "", true, []string{graph.ReasonNoEvidence}},
		{"undeclared", relation("FLIES_OVER", "Bob", "Acme"), "", false, []string{graph.ReasonUndeclaredLabel}},
		{"bad confidence", with(relation("WORKS_AT", "Bob", "Acme"), scored("sure")), "", false, []string{graph.ReasonBadConfidence}},
		{"cut", with(relation("WORKS_AT", "Bob", "Acme"), scored(0.69)), "", false, []string{graph.ReasonBelowRelationCut}},
		{"floor", with(relation("WORKS_AT", "Bob", "Acme"), scored(0.2)), "", true, []string{graph.ReasonBelowFloor}},
		{"unresolved", relation("WORKS_AT", "Bob", "Globex, Inc."), "", false, []string{graph.ReasonUnresolvedEndpoint}},
		{"off pattern", relation("OWNS", "Bob", "Acme"), "", false, []string{graph.ReasonOffPattern}},
		{"self loop", relation("OWNS", "Acme", "ACME"), "", true, []string{graph.ReasonSelfLoop}},
		{"self loop that is allowed asks a person", relation("LIKES", "Eve", "Eve"), "", false, []string{graph.ReasonPolicy}},
		{"self loop that is allowed", with(relation("LIKES", "Eve", "Eve"), scored(0.9)), "Eve likes Eve.", false, nil},
		{"opinion", with(relation("WORKS_AT", "Bob", "Acme"), func(r *extract.Relation) { r.Assertion = "Opinion" }), "", false, []string{graph.ReasonAssertionKind}},
		{"explicit", with(relation("WORKS_AT", "Bob", "Acme"), func(r *extract.Relation) { r.Assertion = "explicit" }), "Bob works at Acme.", false, nil},
		{"every fault", with(relation("OWNS", "Bob", "Acme"), func(r *extract.Relation) { r.Assertion, r.Confidence = "inferred", extract.Scored(0.5) }), "", false,
			[]string{graph.ReasonOffPattern, graph.ReasonBelowRelationCut, graph.ReasonAssertionKind}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, dropped := check(t, text, extract.Items{
				Entities:  []extract.Entity{entity("Person", "Bob"), entity("Organization", "Acme"), entity("Organization", "ACME"), entity("Person", "Eve")},
				Relations: []extract.Relation{tt.in},
			})
			require.Len(t, got.Entities, 4, "a bad relation costs no entity")
			if tt.quote != "" {
				require.Len(t, got.Relations, 1, "%v", dropped)
				r := got.Relations[0]
				require.Equal(t, tt.quote, text[r.Start:r.End])
				return
			}
			require.Empty(t, got.Relations)
			var reasons []string
			for _, d := range dropped {
				reasons = append(reasons, d.Reason)
			}
			require.ElementsMatch(t, tt.reasons, reasons)
			if tt.dropped {
				require.Empty(t, got.Candidates)
				return
			}
			require.Len(t, got.Candidates, 1)
			require.Equal(t, tt.reasons, got.Candidates[0].Reasons)
		})
	}
}

func TestInverseSwapsEnds(t *testing.T) {
	got, _ := check(t, "Acme employs Bob.", extract.Items{
		Entities:  []extract.Entity{entity("Organization", "Acme"), entity("Person", "Bob")},
		Relations: []extract.Relation{{Type: "EMPLOYS", Source: 0, Target: 1, Start: -1}},
	})
	require.Equal(t, 1, got.Relations[0].Source)
	require.Equal(t, 0, got.Relations[0].Target)
}

func TestUnresolvedEndKeepsText(t *testing.T) {
	got, _ := check(t, "Bob works at Acme.", extract.Items{
		Entities:  []extract.Entity{entity("Person", "Bob"), entity("Dragon", "Acme")},
		Relations: []extract.Relation{relation("WORKS_AT", "Bob", "Acme")},
	})
	require.Equal(t, graph.CandidateItem{
		Kind: "relation", Label: "WORKS_AT", Text: "Bob works at Acme.", SourceText: "Bob", SourceLabel: "Person", TargetText: "Acme", TargetLabel: "Dragon",
		Confidence: 0.7, Reasons: []string{graph.ReasonUnresolvedEndpoint}, Start: 0, End: 18, Extractor: "llm",
	}, got.Candidates[1])
}

func TestPropertyRows(t *testing.T) {
	const text = "Acme was founded in 1,990 or 1985 and is Active. Bob, a clerk, was born on 3 March 1951."
	prop := func(name string, v any) extract.Property { return extract.Property{Name: name, Value: v, Start: -1} }
	tests := []struct {
		name   string
		typ    string
		in     extract.Property
		value  any
		where  string
		reason string
	}{
		{"integer", "Organization", prop("founded", 1985.0), int64(1985), "1985", ""},
		{"folded name, commas", "Organization", prop("Founded", "1990"), int64(1990), "1,990", ""},
		{"enum", "Organization", prop("status", "active"), "active", "Active", ""},
		{"date", "Person", prop("born", "1951-03-03"), "1951-03-03", "3 March 1951", ""},
		{"undeclared", "Organization", prop("tags", map[string]any{"a": []any{1.0}}), nil, "", graph.ReasonUndeclaredProperty},
		{"bad value", "Organization", prop("founded", "about 1990"), nil, "", graph.ReasonBadValue},
		{"null", "Organization", prop("founded", nil), nil, "", graph.ReasonBadValue},
		{"not in enum", "Organization", prop("status", "sleepy"), nil, "", graph.ReasonNotInEnum},
		{"bad confidence", "Organization", extract.Property{Name: "founded", Value: "1985", Start: -1, Confidence: extract.ScoreOf("x")}, nil, "", graph.ReasonBadConfidence},
		{"sensitive", "Person", prop("title", "clerk"), nil, "", graph.ReasonPolicy},
		{"not in the text", "Organization", prop("founded", 1777.0), nil, "", graph.ReasonNoEvidence},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := "Acme"
			if tt.typ == "Person" {
				name = "Bob"
			}
			e := entity(tt.typ, name)
			e.Properties = []extract.Property{tt.in}
			got, dropped := check(t, text, extract.Items{Entities: []extract.Entity{e}})
			require.Len(t, got.Entities, 1, "a bad property costs no entity")
			if tt.reason == "" {
				require.Len(t, got.Entities[0].Properties, 1, "%v", dropped)
				p := got.Entities[0].Properties[0]
				require.Equal(t, tt.value, p.Value)
				require.Equal(t, tt.where, text[p.Start:p.End])
				return
			}
			require.Empty(t, got.Entities[0].Properties)
			require.Equal(t, []string{tt.reason}, []string{dropped[0].Reason})
			if tt.reason == graph.ReasonNoEvidence {
				require.Empty(t, got.Candidates)
				return
			}
			require.Len(t, got.Candidates, 1)
			require.Equal(t, "property", got.Candidates[0].Kind)
			require.Equal(t, name, got.Candidates[0].SourceText)
			require.Equal(t, []string{tt.reason}, got.Candidates[0].Reasons)
		})
	}
}

func TestPropertiesOfWhatIsNotKeptAreCounted(t *testing.T) {
	e := entity("Dragon", "Acme")
	e.Properties = []extract.Property{{Name: "founded", Value: 1.0, Start: -1}}
	got, dropped := check(t, "Acme", extract.Items{Entities: []extract.Entity{e}})
	require.Len(t, got.Candidates, 1)
	require.Equal(t, graph.Dropped{Kind: "property", Label: "founded", Reason: graph.ReasonUnresolvedEndpoint, Count: 1, Sample: "1"}, dropped[1])
}

func TestLimits(t *testing.T) {
	cfg := settings.Default().Extractor
	cfg.MaxEntities, cfg.MaxRelations = 2, 1
	v := New(parse(t, testSchema), cfg, Options{Extractor: "llm"})
	items := extract.Items{
		Entities:  []extract.Entity{entity("Person", "Bob"), entity("Organization", "Acme"), entity("Person", "Nobody")},
		Relations: []extract.Relation{relation("WORKS_AT", "Bob", "Acme")},
	}
	got := v.Chunk("Bob works at Acme. Eve rests.", 0, items)
	require.Empty(t, got.State, "two of two are no overrun, and what is dropped does not count")
	items.Entities[2] = entity("Person", "Eve")
	got = v.Chunk("Bob works at Acme. Eve rests.", 0, items)
	require.Equal(t, graph.Incomplete, got.State)
	require.Len(t, got.Entities, 2)
	items.Entities = items.Entities[:2]
	items.Relations = append(items.Relations, relation("OWNS", "Acme", "Bob"))
	got = v.Chunk("Bob works at Acme. Eve rests.", 0, items)
	require.Equal(t, graph.Incomplete, got.State)
	require.Contains(t, v.Dropped(), graph.Dropped{Kind: "relation", Label: "OWNS", Reason: graph.ReasonLimit, Count: 1, Sample: "Acme → Bob"})
}

// What is said over and over is one item: it takes no place under a limit, and is counted once.
func TestRepeatedItemsAreOne(t *testing.T) {
	cfg := settings.Default().Extractor
	cfg.MaxEntities, cfg.MaxRelations = 3, 2
	v := New(parse(t, testSchema), cfg, Options{Extractor: "llm"})
	bob, acme, smaug := entity("Person", "Bob"), entity("Organization", "Acme"), entity("Dragon", "Smaug")
	bob.Properties = []extract.Property{{Name: "shoe", Value: "44", Start: -1}}
	acme.Properties = []extract.Property{{Name: "founded", Value: 1990, Start: -1}}
	zed := entity("Person", "Zed")
	var in extract.Items
	for range 20 {
		in.Entities = append(in.Entities, bob, acme, smaug, zed)
		in.Relations = append(in.Relations, relation("WORKS_AT", "Bob", "Acme"), relation("WORKS_AT", "Bob", "Smaug"))
	}
	in.Entities = append(in.Entities, entity("Person", "Ann")) // a fourth
	out := v.Chunk("Bob of Acme, 1990, met Smaug and Ann in shoe 44.", 0, in)
	require.Equal(t, graph.Incomplete, out.State, "a fourth is over the limit")
	require.Len(t, out.Entities, 2)
	require.Len(t, out.Entities[1].Properties, 1)
	require.Len(t, out.Relations, 1)
	require.Len(t, out.Candidates, 3)
	got := map[string]int{}
	for _, d := range v.Dropped() {
		got[d.Label+" "+d.Reason] = d.Count
	}
	require.Equal(t, map[string]int{
		"Dragon undeclared_label": 1, "shoe undeclared_property": 1, "Person no_evidence": 1, "Person limit": 1, "WORKS_AT unresolved_endpoint": 1,
	}, got)
	in.Entities = in.Entities[:80]
	require.Empty(t, New(parse(t, testSchema), cfg, Options{Extractor: "llm"}).Chunk("Bob of Acme, 1990, met Smaug and Ann in shoe 44.", 0, in).State)
}

func TestRelationPropertiesAndOffsets(t *testing.T) {
	v := New(parse(t, testSchema), settings.Default().Extractor, Options{Extractor: "llm"})
	r := relation("WORKS_AT", "Bob", "Acme")
	r.Properties = []extract.Property{{Name: "since", Value: "1999", Start: -1}}
	got := v.Chunk("Bob works at Acme since 1999.", 100, extract.Items{
		Entities: []extract.Entity{entity("Person", "Bob"), entity("Organization", "Acme")}, Relations: []extract.Relation{r},
	})
	require.Equal(t, []graph.PropertyItem{{Name: "since", Value: int64(1999), Start: 124, End: 128, Confidence: 0.7}}, got.Relations[0].Properties)
	require.Equal(t, 113, got.Entities[1].Start)
}

// Whatever a mode says of whatever text: no panic, and every kept item slices.
func TestAnyItems(t *testing.T) {
	s := parse(t, testSchema)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([A-Za-zé东 .\n“]{0,12}(Bob|Acme|1985) ?){0,8}`).Draw(t, "text")
		name := rapid.OneOf(rapid.SampledFrom([]string{"Bob", "Acme", "bob", "Acme Bob", "1985", ""}), rapid.String())
		label := rapid.SampledFrom([]string{"Person", "organization", "Dragon", ""})
		place := rapid.IntRange(-3, 40)
		score := rapid.SampledFrom([]extract.Score{{}, extract.Scored(0.9), extract.Scored(0.4), extract.ScoreOf(nil)})
		var items extract.Items
		for range rapid.IntRange(0, 6).Draw(t, "entities") {
			items.Entities = append(items.Entities, extract.Entity{
				Type: label.Draw(t, "type"), Name: name.Draw(t, "name"), Of: name.Draw(t, "of"), Start: place.Draw(t, "start"), End: place.Draw(t, "end"),
				Confidence: score.Draw(t, "score"), Quote: rapid.SampledFrom([]string{"", "Bob"}).Draw(t, "quote"),
				Properties: []extract.Property{{Name: "founded", Value: name.Draw(t, "value"), Start: place.Draw(t, "at"), End: place.Draw(t, "to")}},
			})
		}
		for range rapid.IntRange(0, 6).Draw(t, "relations") {
			items.Relations = append(items.Relations, extract.Relation{
				Type: rapid.SampledFrom([]string{"WORKS_AT", "EMPLOYS", "LIKES", "x"}).Draw(t, "relation"), Source: place.Draw(t, "source"), Target: place.Draw(t, "target"),
				SourceName: name.Draw(t, "from"), TargetName: name.Draw(t, "into"), Start: place.Draw(t, "rs"), End: place.Draw(t, "re"), Quote: name.Draw(t, "rq"),
				Confidence: score.Draw(t, "rscore"),
			})
		}
		v := New(s, settings.Default().Extractor, Options{Extractor: "llm"})
		got := v.Chunk(text, 7, items)
		for _, e := range got.Entities {
			require.Equal(t, e.Name, collapse(text[e.Start-7:e.End-7]))
		}
		for _, r := range got.Relations {
			require.LessOrEqual(t, r.Start, min(got.Entities[r.Source].Start, got.Entities[r.Target].Start))
			require.GreaterOrEqual(t, r.End, max(got.Entities[r.Source].End, got.Entities[r.Target].End))
			require.LessOrEqual(t, r.End-7, len(text))
		}
		for _, k := range got.Candidates {
			require.NotEmpty(t, k.Reasons)
			require.True(t, k.Start >= 7 && k.Start <= k.End && k.End-7 <= len(text))
		}
	})
}

// Items are counted once, reasons each; what a person can decide on is told from what is only counted.
func TestItemsAreCountedOnce(t *testing.T) {
	smaug := scoredAt(entity("Dragon", "Smaug"), 0.4) // two reasons, one candidate
	zed := scoredAt(entity("Dragon", "Zed"), 0.1)     // three reasons, only counted
	for _, none := range []bool{false, true} {
		v := New(parse(t, testSchema), settings.Default().Extractor, Options{Extractor: "llm", NoCandidates: none})
		v.Chunk("Bob met Smaug.", 0, extract.Items{Entities: []extract.Entity{entity("Person", "Bob"), smaug, zed}})
		require.Equal(t, Tally{Dropped: 1, Undecided: 1, Reasons: 5}, v.Items())
		seen := map[string][2]int{}
		for _, d := range v.Dropped() {
			seen[d.Reason] = [2]int{d.Count, d.Candidates}
			if d.Reason == graph.ReasonUndeclaredLabel && !none {
				require.Equal(t, "Zed", d.Sample, "what is seen nowhere else")
			}
		}
		one := map[bool]int{false: 1}[none]
		require.Equal(t, map[string][2]int{
			graph.ReasonUndeclaredLabel: {2, one}, graph.ReasonEntityBand: {1, one}, graph.ReasonNoEvidence: {1, 0}, graph.ReasonBelowFloor: {1, 0},
		}, seen)
	}
}

func scoredAt(e extract.Entity, v float64) extract.Entity { e.Confidence = extract.Scored(v); return e }
