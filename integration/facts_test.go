package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// exportedEntity and exportedRelation are a reply's rows without what only replies have, so that they can be compared with the export's.
func exportedEntity(e graph.EntityRow) graph.EntityRow {
	e.Evidence, e.MentionsTotal, e.DocumentsTotal = nil, 0, 0
	e.Mentions = slices.Clone(e.Mentions)
	for i := range e.Mentions {
		e.Mentions[i].Document, e.Mentions[i].Quote = "", ""
	}
	e.Properties = map[string]graph.PropertyRow{}
	return e
}

func exportedRelation(r graph.RelationRow) graph.RelationRow {
	r.SourceName, r.TargetName, r.EvidenceTotal = "", "", 0
	r.Evidence = slices.Clone(r.Evidence)
	for i := range r.Evidence {
		r.Evidence[i].Document = ""
	}
	return r
}

// chunkIDs lists the chunks of evidence, each once, in order.
func chunkIDs(list []graph.Evidence) []string {
	out := []string{}
	for _, e := range list {
		if !slices.Contains(out, e.Chunk) {
			out = append(out, e.Chunk)
		}
	}
	return out
}

// sameProperties compares a reply's properties with the export's: values, order, and the chunks that say them.
func sameProperties(t *testing.T, want, got map[string]graph.PropertyRow, entity string) (values int) {
	t.Helper()
	require.Len(t, got, len(want), entity)
	for name, w := range want {
		g, ok := got[name]
		require.True(t, ok, "%s has no %s", entity, name)
		require.Equal(t, w.Value, g.Value, "%s.%s", entity, name)
		require.Equal(t, chunkIDs(w.Evidence), chunkIDs(g.Evidence), "%s.%s", entity, name)
		require.Len(t, g.Others, len(w.Others), "%s.%s", entity, name)
		for i := range w.Others {
			require.Equal(t, w.Others[i].Value, g.Others[i].Value, "%s.%s", entity, name)
			require.Equal(t, chunkIDs(w.Others[i].Evidence), chunkIDs(g.Others[i].Evidence), "%s.%s", entity, name)
		}
		values += 1 + len(w.Others)
	}
	return values
}

// TestTheExportHoldsEveryFact compares the canonical export with what entity, neighbors and review.list show, both ways, for every
// entity and every group of the example corpus.
func TestTheExportHoldsEveryFact(t *testing.T) {
	c := allInOne(t)
	x := parseExport(t, c.ingestExample())
	relations := map[string]graph.RelationRow{}
	ends := map[string][]string{}
	for _, r := range x.relations {
		relations[r.ID] = r
		ends[r.Source] = append(ends[r.Source], r.ID)
		if r.Target != r.Source {
			ends[r.Target] = append(ends[r.Target], r.ID)
		}
	}
	shownBy, values := map[string]int{}, 0
	for _, e := range x.entities {
		reply := ask[api.EntityReply](c, "default", "query.entity", api.EntityGet{ID: e.ID, Limit: 1000})
		require.Equal(t, len(e.Mentions), reply.Entity.MentionsTotal, e.Name)
		values += sameProperties(t, e.Properties, reply.Entity.Properties, e.Name)
		want := e
		want.Properties = map[string]graph.PropertyRow{}
		require.Equal(t, want, exportedEntity(reply.Entity), e.Name)

		around := ask[api.Subgraph](c, "default", "query.neighbors", api.Neighbors{ID: e.ID, Limit: 1000})
		require.False(t, around.Truncated)
		require.Equal(t, e.ID, around.Nodes[0].ID)
		require.Len(t, around.Edges, len(ends[e.ID]), e.Name)
		require.Len(t, reply.Relations, len(ends[e.ID]), e.Name)
		require.Equal(t, len(ends[e.ID]), reply.RelationsTotal, e.Name)
		for _, r := range append(reply.Relations, around.Edges...) {
			require.Contains(t, ends[e.ID], r.ID, e.Name)
			full, row := relations[r.ID], exportedRelation(r)
			// Lists of relations show the first pieces of evidence and count the rest.
			require.Equal(t, len(full.Evidence), r.EvidenceTotal, r.ID)
			require.Equal(t, full.Evidence[:len(row.Evidence)], row.Evidence, r.ID)
			row.Evidence = full.Evidence
			require.Equal(t, full, row)
			shownBy[r.ID]++
		}
		nodes := map[string]bool{}
		for _, n := range around.Nodes {
			nodes[n.ID] = true
		}
		for _, r := range around.Edges {
			require.True(t, nodes[r.Source] && nodes[r.Target], "an edge without its ends")
		}
	}
	require.Len(t, shownBy, len(relations), "every relation of the export is shown at its ends")
	t.Logf("%d entities, %d relations, %d property values", len(x.entities), len(relations), values)
	require.Greater(t, values, 10)
	for id, r := range relations {
		all := evidence(c, "default", id)
		for i := range all {
			all[i].Document = ""
		}
		require.Equal(t, r.Evidence, all, id)
	}
	sameGroups(t, x, c.groups("default"))
}

// evidence is everything that query.evidence shows, page by page.
func evidence(c *cluster, g, id string) (all []graph.Evidence) {
	c.t.Helper()
	for cursor := ""; ; {
		r := ask[api.EvidenceReply](c, g, "query.evidence", api.EvidenceGet{ID: id, Limit: 3, Cursor: cursor})
		all = append(all, r.Evidence...)
		if cursor = r.Next; cursor == "" {
			require.Len(c.t, all, r.Total)
			return all
		}
	}
}

// sameGroups compares the export's candidates with the groups of the review list.
func sameGroups(t *testing.T, x exported, groups []api.Group) {
	t.Helper()
	require.Greater(t, len(groups), 10)
	byKey := map[string][]graph.CandidateRow{}
	for _, r := range x.candidates {
		byKey[r.Key] = append(byKey[r.Key], r)
	}
	require.Len(t, groups, len(byKey))
	for _, g := range groups {
		rows := byKey[g.Key]
		require.NotEmpty(t, rows, g.Key)
		count, best, reasons := 0, 0.0, []string{}
		for _, r := range rows {
			require.Equal(t, g.Kind, r.CandidateKind)
			require.Equal(t, fingerprint.CNorm(g.Label), fingerprint.CNorm(r.Label))
			count, best, reasons = count+r.Count, max(best, r.Confidence), append(reasons, r.Reasons...)
		}
		slices.Sort(reasons)
		require.Equal(t, count, g.Count, g.Key)
		require.Equal(t, len(rows), g.Documents, g.Key)
		require.InDelta(t, best, g.Confidence, 1e-6, g.Key)
		require.Equal(t, slices.Compact(reasons), g.Reasons, g.Key)
		require.Equal(t, api.StatePending, g.State)
		first := rows[slices.IndexFunc(rows, func(r graph.CandidateRow) bool { return r.Document == g.Sample.Document })]
		require.Equal(t, []any{first.Text, first.SourceText, first.TargetText, first.Label, first.Chunk, first.Start, first.End},
			[]any{g.Text, g.SourceText, g.TargetText, g.Label, g.Sample.Chunk, g.Sample.Start, g.Sample.End}, g.Key)
	}
	require.True(t, slices.IsSortedFunc(groups, func(a, b api.Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Confidence, a.Confidence), strings.Compare(a.Key, b.Key))
	}))
}

// texts fetches every document of an export once a unit: the whole text, and its chunks in that unit.
type texts map[string]map[string]slicer // by document key and unit

func (c *cluster) texts(g string, x exported) texts {
	c.t.Helper()
	out := texts{}
	for _, d := range x.documents {
		r := c.document(g, d.Key, "")
		out[d.Key] = slicers(r.Text)
		require.Equal(c.t, d.ContentHash, fingerprint.ContentHash(r.Text), d.Key)
	}
	return out
}

// slices demands that every quote that a graph shows, in every unit, is what its offsets say, and counts them.
func (c *cluster) slices(g string, x exported) (quotes int) {
	c.t.Helper()
	t, have := c.t, c.texts(g, x)
	check := func(unit, document string, start, end int, quote string) {
		t.Helper()
		require.NotEmpty(t, quote, document)
		require.Equal(t, quote, have[document][unit](start, end), "%s %s %d…%d", unit, document, start, end)
		quotes++
	}
	for _, unit := range []string{"bytes", "runes", "utf16"} {
		for _, d := range x.documents {
			for _, ch := range c.document(g, d.Key, unit).Chunks {
				check(unit, d.Key, ch.Start, ch.End, ch.Text)
			}
		}
		for _, e := range x.entities {
			r := ask[api.EntityReply](c, g, "query.entity", api.EntityGet{ID: e.ID, Limit: 1000, Offsets: unit})
			for i, m := range r.Entity.Mentions {
				check(unit, m.Document, m.Start, m.End, m.Quote)
				ev := r.Entity.Evidence[i]
				require.Equal(t, []any{m.Document, m.Start, m.End, m.Quote}, []any{ev.Document, ev.Start, ev.End, ev.Quote})
			}
			for _, p := range r.Entity.Properties {
				for _, ev := range p.Evidence {
					check(unit, ev.Document, ev.Start, ev.End, ev.Quote)
				}
			}
			for _, rel := range r.Relations {
				for _, ev := range rel.Evidence {
					check(unit, ev.Document, ev.Start, ev.End, ev.Quote)
				}
			}
		}
	}
	for _, gr := range c.groups(g) {
		check("bytes", gr.Sample.Document, gr.Sample.Start, gr.Sample.End, gr.Sample.Quote)
	}
	return quotes
}

// TestEveryQuoteOfTheExampleSlices, in bytes, runes and UTF-16 units.
func TestEveryQuoteOfTheExampleSlices(t *testing.T) {
	c := allInOne(t)
	x := parseExport(t, c.ingestExample())
	n := c.slices("default", x)
	t.Logf("%d quotes", n)
	require.Greater(t, n, 3000)
}

// scripts is text that is hard to cut: joined emoji, marks, wide letters, right to left, characters that NFKC changes.
var scripts = []string{
	"👩‍👩‍👧‍👦", "👩🏽‍🚀", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇩🇪", "❤️", "e\u0301", "a\u0308\u0323", "Å", "ﬁ", "①", "㎏", "ＡＣＭＥ", "Größe", "İstanbul", "ǅ",
	"東京の会社は古い。", "서울의 오래된 도서관", "ร้านอาหารเก่า", "हिन्दी भाषा", "שלום", "مرحبا", "\u00a0", "\u200b", "\u2028", "\ufeff", "\u202e", "\u0007", "\t",
	"𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𠜎𠜱", "…", "“", "”", "—", "|", "#", "- ", "```", "> ", "1. ",
}

// wild is a seeded text of facts among hard text, with one of the line ends or all of them.
func wild(r *rand.Rand, ends []string) string {
	var b strings.Builder
	for range 5 + r.IntN(60) {
		switch r.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "%s works for %s.", person(r.IntN(40)), pick(r, firms))
		case 1:
			fmt.Fprintf(&b, "Zoë Ångström works for %s in %s.", pick(r, firms), pick(r, cities))
		case 2:
			b.WriteString(pick(r, fill))
		default:
			for range 1 + r.IntN(6) {
				b.WriteString(pick(r, scripts))
				if r.IntN(3) == 0 {
					b.WriteByte(' ')
				}
			}
		}
		b.WriteString(pick(r, []string{" ", " ", pick(r, ends), pick(r, ends) + pick(r, ends)}))
	}
	return b.String()
}

// TestRandomUnicodeSlices reads random documents with every kind of line end, in small chunks, as events and as files.
func TestRandomUnicodeSlices(t *testing.T) {
	c := allInOne(t)
	r := seeded(t, 5)
	lineEnds := [][]string{{"\n"}, {"\r\n"}, {"\r"}, {"\n", "\r\n", "\r"}}
	ask[api.SettingsReply](c, "default", "settings.put", api.SettingsPut{Settings: map[string]string{"chunker.size": "24"}})
	want := map[string]string{}
	var docs []map[string]any
	for i := range 60 {
		key, text := fmt.Sprintf("event-%02d", i), wild(r, lineEnds[i%len(lineEnds)])
		docs, want[key] = append(docs, doc(key, text)), text
	}
	c.add("default", docs...)
	dir := t.TempDir()
	for i := range 60 {
		key, text := fmt.Sprintf("file-%02d.%s", i, []string{"txt", "md"}[i%2]), wild(r, lineEnds[i%len(lineEnds)])
		write(t, dir, key, text)
		want[key] = text
	}
	got := runIn(t, dir, "", "ingest", ".", "--nats", c.url)
	require.Zero(t, got.code, got.stderr)

	c.sound("default")
	x := c.rows("default")
	require.Len(t, x.documents, len(want))
	require.Greater(t, len(x.chunks), 2*len(want))
	require.Greater(t, len(x.relations), 40)
	for _, d := range x.documents {
		require.Equal(t, fingerprint.Normalize(want[d.Key]), c.document("default", d.Key, "").Text, d.Key)
	}
	t.Logf("%d quotes", c.slices("default", x))

	// The export's own rows slice as well, and the chunks hold everything but white space, in order.
	have := c.texts("default", x)
	owner := map[string]graph.ChunkRow{}
	at := map[string]int{}
	for _, ch := range x.chunks {
		owner[ch.ID] = ch
		cut := have[ch.Document]["bytes"]
		require.Equal(t, cut(ch.Start, ch.End), ch.Text)
		require.GreaterOrEqual(t, ch.Start, at[ch.Document])
		require.Empty(t, strings.TrimSpace(cut(at[ch.Document], ch.Start)), "text between two chunks of %s", ch.Document)
		at[ch.Document] = ch.End
	}
	for _, rel := range x.relations {
		for _, ev := range rel.Evidence {
			ch := owner[ev.Chunk]
			require.True(t, ch.Start <= ev.Start && ev.Start < ev.End && ev.End <= ch.End, "evidence lies in its chunk")
			require.Equal(t, ev.Quote, have[ch.Document]["bytes"](ev.Start, ev.End))
		}
	}
	for _, e := range x.entities {
		for _, m := range e.Mentions {
			ch := owner[m.Chunk]
			require.True(t, ch.Start <= m.Start && m.Start < m.End && m.End <= ch.End, "a mention lies in its chunk")
		}
	}
}

// TestTheExportIsCanonical: every row has its keys in order, at all depths, and reading page by page gives the same bytes.
func TestTheExportIsCanonical(t *testing.T) {
	c := allInOne(t)
	text := c.ingestExample()
	for line := range strings.Lines(text) {
		var v any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		require.NoError(t, d.Decode(&v))
		sorted, err := json.Marshal(v) // writes maps with sorted keys, and what it escapes is the same
		require.NoError(t, err)
		require.Equal(t, string(sorted)+"\n", line)
	}
	_, byPages, err := pages(t.Context(), c.conn, "default")
	require.NoError(t, err)
	require.Equal(t, text, byPages)
}
