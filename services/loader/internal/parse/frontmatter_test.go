package parse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrontMatter(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Record
	}{
		{"all of it", "---\ntitle: \"The  Title\"\ndate: 2024-05-01\ntags: [ai, 3, graphs]\nauthor: Ada\nrating: 4.5\n---\n\n# Head\n\nText.\n",
			Record{Text: "# Head\n\nText.\n", Title: "The Title", PublishedAt: "2024-05-01", Metadata: map[string]any{"tags": []any{"ai", int64(3), "graphs"}, "author": "Ada", "rating": 4.5}}},
		{"no title falls back", "\uFEFF---\r\nlang: en\r\n---\r\n# Head\r\n", Record{Text: "# Head\r\n", Title: "Head", Metadata: map[string]any{"lang": "en"}}},
		{"dots end it", "---\npublished: 2023-04\n...\nText.", Record{Text: "Text.", PublishedAt: "2023-04"}},
		{"content date, names in any case", "---\nTitle: T\ncontent_date: 1852\nPublishDate: 2024-05-01T10:00:00Z\n---\nx", Record{Text: "x", Title: "T", ContentDate: "1852", PublishedAt: "2024-05-01T10:00:00Z"}},
		{"a time as generators write it", "---\ndate: 2024-05-01 10:00:00 +0200\n---\nx", Record{Text: "x", PublishedAt: "2024-05-01T10:00:00+02:00"}},
		{"a time without seconds is its day", "---\ndate: 2024-05-01 10:00\n---\nx", Record{Text: "x", PublishedAt: "2024-05-01"}},
		{"a time of no place", "---\ndate: 2024-05-01 10:00:00\n---\nx", Record{Text: "x", PublishedAt: "2024-05-01 10:00:00"}},
		{"a date that is none is kept as it is", "---\ndate: soon\n---\nx", Record{Text: "x", Metadata: map[string]any{"date": "soon"}}},
		{"the second date is metadata", "---\ndate: 2024\npublished: 2023\n---\nx", Record{Text: "x", PublishedAt: "2024", Metadata: map[string]any{"published": int64(2023)}}},
		{"maps, truth, nothing go", "---\na: {b: 1}\nb: true\nc:\nd: [[1], {x: 1}]\ne: [x, [y], null, z]\n---\nx", Record{Text: "x", Metadata: map[string]any{"e": []any{"x", "z"}}}},
		{"numbers that JSON has not", "---\na: .inf\nb: 0x10\nc: .nan\n---\nx", Record{Text: "x", Metadata: map[string]any{"a": ".inf", "b": "0x10", "c": ".nan"}}},
		{"an empty block is none", "---\n---\nText", Record{Text: "---\n---\nText"}},
		{"no end", "---\ntitle: x\n", Record{Text: "---\ntitle: x\n"}},
		{"between rules", "---\n\nJust text.\n\n---\n", Record{Text: "---\n\nJust text.\n\n---\n"}},
		{"no YAML", "---\na: [\n---\nx", Record{Text: "---\na: [\n---\nx", Title: "a: ["}},
		{"a list", "---\n- a\n---\nx", Record{Text: "---\n- a\n---\nx"}},
		{"later in the text", "x\n---\ntitle: a\n---\n", Record{Text: "x\n---\ntitle: a\n---\n", Title: "x"}},
		{"anchors are not followed", "---\na: &a [x, y]\nb: *a\n---\nx", Record{Text: "x", Metadata: map[string]any{"a": []any{"x", "y"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, Markdown, c.in)
			require.NoError(t, err)
			require.Equal(t, []Record{c.want}, got)
		})
	}
}

func TestFrontMatterIsBounded(t *testing.T) {
	got, err := all(t, Markdown, "---\na: "+strings.Repeat("x", maxFront)+"\n---\ny")
	require.NoError(t, err)
	require.Empty(t, got[0].Metadata)
	require.True(t, strings.HasPrefix(got[0].Text, "---"), "too large a block is text")

	var block strings.Builder
	for i := range 300 {
		fmt.Fprintf(&block, "k%03d: %s\n", i, strings.Repeat("v", 100))
	}
	fmt.Fprintf(&block, "long: %s\n", strings.Repeat("v", maxFrontValue+1))
	got, err = all(t, Markdown, "---\n"+block.String()+"---\ny")
	require.NoError(t, err)
	require.Equal(t, "y", got[0].Text)
	require.Len(t, got[0].Metadata, maxFrontKeys)

	got, err = all(t, Markdown, "---\nl: ["+strings.Repeat("1,", 1000)+"1]\nbig: ["+strings.Repeat(strings.Repeat("w", 400)+",", 120)+"z]\n---\ny")
	require.NoError(t, err)
	require.Len(t, got[0].Metadata["l"], maxFrontValues)
	require.NotContains(t, got[0].Metadata, "big")

	bomb := "---\na: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	got, err = all(t, Markdown, bomb+"---\ny")
	require.NoError(t, err)
	require.Equal(t, Record{Text: "y", Metadata: map[string]any{"a": []any{"x", "x", "x", "x", "x", "x", "x", "x", "x"}}}, got[0])
}
