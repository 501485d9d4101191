package panes_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/cmd/factmill/internal/panes"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/plan"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

func quoted(before, quote, after, doc string) api.Surrounded {
	s := api.Surrounded{Before: before, After: after}
	s.Document, s.Quote, s.Start, s.End = doc, quote, len(before), len(before)+len(quote)
	return s
}

func planned(changes ...plan.Change) api.Planned {
	p := &plan.Plan{Graph: "default", Item: "k", Decision: "approve", Base: []plan.Base{{Document: "reports/a.txt", Revision: 4}}, Changes: changes}
	return api.Planned{Plan: p.Canonical(), Fingerprint: "93c1d2f0a4b5c6d7e8f9"}
}

// items are one of each kind, with texts that terminals find hard.
func items() map[string]api.ReviewShowReply {
	others := 1
	return map[string]api.ReviewShowReply{
		"relation": {
			Item: api.Group{Key: "relation|works for|ada|acme", Kind: "relation", Label: "WORKS_FOR", SourceText: "Ada", SourceLabel: "Person", TargetText: "Acme", TargetLabel: "Organization", State: "pending",
				Count: 3, Documents: 2, Confidence: 0.5, Reasons: []string{"below_relation_cut"}, IDs: []string{"6a0f", "6a10", "6a11", "6a12"}},
			Revision:     7,
			Evidence:     []api.Surrounded{quoted("It rained all day in the harbour.\nPerhaps ", "Ada works for Acme", ", they said, and left it at that.", "reports/a.txt")},
			OtherSources: []api.SourceQuote{{Document: "reports/b.txt", Quote: "Ada works for Acme"}},
			Planned: planned(plan.Change{Op: plan.Set, Kind: "state", Was: "pending", Value: "approved"},
				plan.Change{Op: plan.Add, Kind: "relation", Label: "WORKS_FOR", Source: "Ada", Target: "Acme", Document: "reports/a.txt", Quotes: []plan.Quote{{Version: 1, Start: 3, End: 9, Text: "Ada works for Acme"}}}),
			History: []events.Audit{{At: "2026-01-02T03:04:05Z", Actor: "eva", Decision: "edit", Reason: "a slip"}},
		},
		"scripts": {
			Item: api.Group{Key: "entity|研究所|東京天文台", Kind: "entity", Label: "研究所", Text: "東京天文台", State: "pending", Count: 1, Documents: 1, Confidence: 0.9, Reasons: []string{"undeclared_label"}},
			Evidence: []api.Surrounded{
				quoted("明治時代に設立された", "東京天文台", "は、日本の天文学の中心であり、多くの研究者が働いていた。", "日本.txt"),
				quoted("قال الباحث إن ", "مرصد حلوان", " كان قديمًا جدًا.", "عربي.txt"),
				quoted("Their flag 🇯🇵 and family 👩‍👩‍👧‍👦: ", "café\u0301 e\u0301tude", " naïve", "emoji.txt"),
				quoted("\x1b[2J\u202eevil ", strings.Repeat("Donaudampfschifffahrtsgesellschaft", 4), "\x00 end", "a\x07b.txt"),
			},
			Planned: planned(plan.Change{Op: plan.Wait, Kind: "entity", Label: "研究所", Source: "東京天文台", Was: "label_refused: it is \x1b[31mred", Document: "日本.txt"}),
		},
		"match": {
			Item:  api.Group{Key: "match|1|2", Kind: "match", Label: "Organization", Text: "Norrin Works ~ Norin Works", State: "pending", Documents: 3, Reasons: []string{"fuzzy"}, IDs: []string{"77"}},
			Match: &api.MatchItem{ID: "77", Score: 0.93, A: api.MatchSide{Label: "Organization", Name: "Norrin Works", Evidence: []api.Surrounded{quoted("", "Norrin Works", " grew.", "a.txt")}}, B: api.MatchSide{Label: "Organization", Name: "Norin Works"}},
		},
		"conflict": {
			Item: api.Group{Key: "conflict|9|founded", Kind: "conflict", Label: "Organization", Text: "Norrin Works", SourceText: "founded", TargetText: "1901 | 1902", State: "pending", Count: 3, Documents: 3, Confidence: 1, Reasons: []string{"property_conflict"}, IDs: []string{"78"}},
			Conflict: &api.ConflictItem{Values: []api.ConflictValue{{Value: 1901, Documents: 2, Evidence: []api.Surrounded{quoted("It was founded in ", "1901", ".", "a.txt")}},
				{Value: 1902, Documents: 1, Rejected: true, Evidence: []api.Surrounded{quoted("founded in ", "1902", "", "b.txt")}}}, UndecidedDocuments: 1},
			Planned: planned(plan.Change{Op: plan.Set, Kind: "property", Label: "founded", Source: "Norrin Works", Was: 1902, Value: 1901, Left: 1}),
		},
		"stale": {
			Item:     api.Group{Key: "stale|d|f", Kind: "stale", Label: "MEMBER_OF", Text: "Lin MEMBER_OF Guild", State: "pending", Count: 2, Documents: 2, Sample: api.Sample{Document: "doc-1"}, Reasons: []string{"not_stated"}, IDs: []string{"79"}},
			Evidence: []api.Surrounded{quoted("", "Lin is of the Guild.", "", "doc-1")}, Others: &others,
			Planned: planned(plan.Change{Op: plan.Remove, Kind: "relation", Label: "MEMBER_OF", Source: "Lin", Target: "Guild", Document: "doc-1", Left: 1}),
		},
	}
}

func TestPanes(t *testing.T) {
	for name, r := range items() {
		for _, width := range []int{60, 100, 160} {
			t.Run(fmt.Sprintf("%s %d", name, width), func(t *testing.T) {
				var b strings.Builder
				require.NoError(t, panes.Render(&b, panes.Of(r), width, 0))
				fits(t, b.String(), width)
				file := fmt.Sprintf("testdata/%s.%d.txt", name, width)
				if *rewrite {
					require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), b.String())
			})
		}
	}
}

// fits demands that no line is wider than the terminal, and that nothing but text is in it.
func fits(t interface {
	require.TestingT
	Helper()
}, out string, width int) {
	t.Helper()
	for _, line := range strings.Split(out, "\n") {
		require.LessOrEqual(t, render.Width(line), width, "%q", line)
		require.False(t, strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || r == 0x202e || r == 0x2066 }), "%q", line)
	}
}

// Rows bound each pane, and say what they leave out.
func TestRows(t *testing.T) {
	r := items()["scripts"]
	for _, width := range []int{30, 120} {
		var b strings.Builder
		require.NoError(t, panes.Render(&b, panes.Of(r), width, 4))
		require.LessOrEqual(t, strings.Count(b.String(), "\n"), 15)
		require.Contains(t, b.String(), "more lines")
		fits(t, b.String(), width)
	}
}

// No text and no width breaks it. A character that is wider than the pane is the one thing that does not fit.
func TestAnyTextInAnyWidth(t *testing.T) {
	hard := []string{"", " ", "a", "東京", "👩‍👩‍👧‍👦", "🇯🇵🇯🇵", "e\u0301", "\u0301", "\u200d", "\ufe0f", "مرحبا", "\x1b[2J", "\u202e", "\xff\xfe", "\n\n", "\t", strings.Repeat("x", 300), strings.Repeat("語", 200), "a\u0301\u0302\u0303", "﷽", "\u00ad", "\u200b", "ｆｕｌｌ", "각", "நி", "\U000e0061"}
	texts := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 6).Draw(t, "n")
		var out []string
		for range n {
			out = append(out, rapid.OneOf(rapid.SampledFrom(hard), rapid.String(), rapid.StringN(0, 40, 200)).Draw(t, "piece"))
		}
		return strings.Join(out, rapid.SampledFrom([]string{"", " ", "  "}).Draw(t, "between"))
	})
	rapid.Check(t, func(t *rapid.T) {
		var v panes.View
		for range rapid.IntRange(0, 3).Draw(t, "sources") {
			v.Sources = append(v.Sources, panes.Source{Head: texts.Draw(t, "head"), Before: texts.Draw(t, "before"), Span: texts.Draw(t, "span"), After: texts.Draw(t, "after"), Foot: texts.Draw(t, "foot")})
		}
		v.Item = rapid.SliceOfN(texts, 0, 4).Draw(t, "item")
		v.Plan = rapid.SliceOfN(texts, 0, 4).Draw(t, "plan")
		width, rows := rapid.IntRange(-3, 200).Draw(t, "width"), rapid.IntRange(0, 9).Draw(t, "rows")
		var b strings.Builder
		require.NoError(t, panes.Render(&b, v, width, rows))
		if width >= 40 {
			fits(t, b.String(), width)
		}
	})
}
