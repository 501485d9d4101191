package split

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/token"
)

// check returns what is wrong with a result, by the promises of the package.
func check(src string, res Result, size int) error {
	at, valid := 0, utf8.ValidString(src)
	for i, c := range res.Chunks {
		if c.Start < at || c.End <= c.Start || c.End > len(src) {
			return fmt.Errorf("chunk %d is [%d,%d) after %d of %d", i, c.Start, c.End, at, len(src))
		}
		if gap := strings.TrimFunc(src[at:c.Start], unicode.IsSpace); gap != "" {
			return fmt.Errorf("%q is in no chunk, before chunk %d", gap, i)
		}
		body := src[c.Start:c.End]
		if strings.TrimFunc(body, unicode.IsSpace) != body {
			return fmt.Errorf("chunk %d begins or ends with white space: %q", i, body)
		}
		if valid && !utf8.ValidString(body) {
			return fmt.Errorf("chunk %d cuts a rune", i)
		}
		if n := token.Count(c.Prefix) + token.Count(body); n != c.Tokens || n > size {
			return fmt.Errorf("chunk %d says %d tokens, has %d, may have %d", i, c.Tokens, n, size)
		}
		if len(body) > size*bytesPerToken {
			return fmt.Errorf("chunk %d has %d bytes", i, len(body))
		}
		if !strings.Contains(src, c.Prefix) {
			return fmt.Errorf("chunk %d has a prefix that is not in the text", i)
		}
		switch c.Content {
		case Text, Table, Code, List, Heading:
		default:
			return fmt.Errorf("chunk %d has content %q", i, c.Content)
		}
		at = c.End
	}
	if gap := strings.TrimFunc(src[at:], unicode.IsSpace); gap != "" {
		return fmt.Errorf("%q is in no chunk, at the end", gap)
	}
	return nil
}

func must(t require.TestingT, src, markup string, size, minSize int) Result {
	res, err := Split(src, markup, size, minSize)
	require.NoError(t, err)
	require.NoError(t, check(src, res, size))
	return res
}

// TestScripts runs the scripts of testdata: "split markup=… size=… min=…", the text with \n etc. as written.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			markup, size, minSize := Markdown, 600, 150
			d.MaybeScanArgs(t, "markup", &markup)
			d.MaybeScanArgs(t, "size", &size)
			d.MaybeScanArgs(t, "min", &minSize)
			src := d.Input
			if d.HasArg("repeat") {
				var n int
				d.ScanArgs(t, "repeat", &n)
				src = strings.Repeat(src+" ", n)
			}
			res, err := Split(src, markup, size, minSize)
			if err != nil {
				return "error: " + err.Error()
			}
			require.NoError(t, check(src, res, size))
			var sb strings.Builder
			fmt.Fprintf(&sb, "chunks=%d sections=%d tables=%d\n", len(res.Chunks), res.Sections, res.Tables)
			for i, c := range res.Chunks {
				fmt.Fprintf(&sb, "%d [%d,%d) %s tokens=%d", i, c.Start, c.End, c.Content, c.Tokens)
				if len(c.Heading) > 0 {
					fmt.Fprintf(&sb, " path=%q", c.Heading)
				}
				sb.WriteByte('\n')
				if c.Prefix != "" {
					fmt.Fprintf(&sb, "  prefix %q\n", c.Prefix)
				}
				if !d.HasArg("brief") {
					fmt.Fprintf(&sb, "  %q\n", src[c.Start:c.End])
				}
			}
			return sb.String()
		})
	})
}

func TestBadSettings(t *testing.T) {
	for _, c := range [][2]int{{600, 600}, {600, 601}, {600, 0}, {600, -1}, {0, 0}} {
		_, err := Split("text", Plain, c[0], c[1])
		require.ErrorContains(t, err, "chunker.min_size", "size %d min %d", c[0], c[1])
	}
}

var pieces = []string{
	"# Title\n", "## Sub *x*\n\n", "Setext\n===\n", "### \n", "Ada Lovelace met Charles Babbage in London. ", "He said: yes, no; maybe. ",
	"\n", "\n\n", " ", "\t", "\u00a0", "\u3000", "- item one\n", "  - nested\n", "1. first\n", "> quote\n", "```go\nfunc main() {\n\n\treturn\n}\n```\n", "    code\n",
	"| a | b |\n|---|---|\n", "| 1 | 2 |\n", "| x |\n", "Table 1: staff\n\n", "<div>\nhtml\n</div>\n", "---\n", "***\n",
	"👩‍👩‍👧 ", "👍🏽", "❤️", "e\u0301", "你好，世界。她在伦敦工作。", "カタカナー", "한국어 ", "ภาษาไทย", "\u200d\u200d", "\u0301\u0301",
	"supercalifragilisticexpialidocious", "x", "Dr. Smith e.g. that. ", "\r\n", "\r", "\\", "[a]: b\n", "<!-- ", "|", "`", "* * *\n",
}

func genText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.SampledFrom(pieces), rapid.SampledFrom(pieces), rapid.String()), 0, 40).Draw(t, "parts")
		return fingerprint.Normalize(strings.Join(parts, ""))
	})
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := genText().Draw(t, "text")
		size := rapid.SampledFrom([]int{2, 5, 16, 40, 600}).Draw(t, "size")
		minSize := rapid.IntRange(1, size-1).Draw(t, "min")
		markup := rapid.SampledFrom([]string{Markdown, Plain}).Draw(t, "markup")
		res := must(t, src, markup, size, minSize)
		require.Equal(t, res, must(t, src, markup, size, minSize), "the same text gives the same chunks")
		if strings.TrimFunc(src, unicode.IsSpace) == "" {
			require.Empty(t, res.Chunks)
		} else {
			require.NotEmpty(t, res.Chunks)
			require.Positive(t, res.Sections)
		}
		if n := token.Count(src); size == 600 && res.Tables == 0 && n > 0 && n < minSize {
			require.Len(t, res.Chunks, 1, "what is below the minimum is one chunk")
		}
	})
}

// padded says whether a header had fewer cells than the delimiter line, which goldmark fills up and the rule refuses.
func padded(t *east.Table) bool {
	last := t.FirstChild().LastChild()
	return last != nil && last.Lines().Len() == 0
}

// Tables are found where goldmark's own extension finds them.
func TestTablesAsGoldmark(t *testing.T) {
	reference := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser()
	cell := rapid.SampledFrom([]string{"a", "|", "-", ":", " ", "--", "\\|", "\n", "\n", "|-|-|\n", "|a|b|\n", ":-:|-\n", "x y"})
	rapid.Check(t, func(t *rapid.T) {
		src := strings.Join(rapid.SliceOfN(cell, 0, 24).Draw(t, "cells"), "")
		source := []byte(src)
		var want, got []int
		for n := reference.Parse(text.NewReader(source)).FirstChild(); n != nil; n = n.NextSibling() {
			if tab, ok := n.(*east.Table); ok && !padded(tab) {
				want = append(want, tab.FirstChild().Pos(), tab.ChildCount()-1)
			}
		}
		for n := markdown.Parse(text.NewReader(source)).FirstChild(); n != nil; n = n.NextSibling() {
			if tab, ok := n.(*table); ok {
				got = append(got, tab.Pos(), len(tab.rows))
			}
		}
		require.Equal(t, want, got, "%q", src)
	})
}

// Starts of blocks lie in order and at the block's first byte.
func TestBlocks(t *testing.T) {
	src := "intro\n\n# A\ntext\nmore\n\nSetext *two*\nlines\n-----\n\n- a\n  - b\n\n  # not a section\n\n1. one\n\n```\n# no heading\n```\n\n    code\n\n" +
		"> # quoted\n\n<div>\nx\n</div>\n\n***\n\nT\n|a|b|\n|-|-|\n|1|2|\n|3|4|\n\n####### seven\n"
	var got []string
	at := 0
	for _, b := range markdownBlocks(src) {
		require.Equal(t, at, b.start)
		at = b.end
		got = append(got, fmt.Sprintf("%s %d %s %q", b.kind, b.level, b.title, strings.TrimSpace(src[b.start:b.end])))
	}
	require.Equal(t, len(src), at)
	require.Equal(t, []string{
		`text 0  "intro"`,
		`heading 1 A "# A"`,
		`text 0  "text\nmore"`,
		`heading 2 Setext *two* lines "Setext *two*\nlines\n-----"`,
		`list 0  "- a\n  - b\n\n  # not a section"`,
		`list 0  "1. one"`,
		"code 0  \"```\\n# no heading\\n```\"",
		`code 0  "code"`,
		`text 0  "> # quoted"`,
		`text 0  "<div>\nx\n</div>"`,
		`text 0  "***"`,
		`text 0  "T"`,
		`table 0  "|a|b|\n|-|-|\n|1|2|\n|3|4|"`,
		`text 0  "####### seven"`,
	}, got)
}

func TestTitles(t *testing.T) {
	for in, want := range map[string]string{
		"# The **big** `one`":                  "The big one",
		"# See [the guide](http://x.y) now":    "See the guide now",
		"# A ![logo](x.png) [b](c) ]( d":       "A logo b ]( d",
		"# snake_case C# #":                    "snake_case C#",
		"# " + strings.Repeat("é", 500):        strings.Repeat("é", 100),
		"# " + strings.Repeat("word ", 100000): strings.TrimSpace(strings.Repeat("word ", 40)),
	} {
		require.Equal(t, want, markdownBlocks(in)[0].title, "%.40q", in)
	}
}

// Texts made to be slow. Each is cut within seconds on a loaded machine; quadratic work would take minutes.
func TestPathological(t *testing.T) {
	deep := strings.Builder{}
	for i := range 2000 {
		deep.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	headings := strings.Builder{}
	for i := range 50000 {
		fmt.Fprintf(&headings, "%s Heading %d\n", strings.Repeat("#", i%6+1), i)
	}
	cols := strings.Repeat("|a", 20000) + "|\n" + strings.Repeat("|-", 20000) + "|\n"
	for name, src := range map[string]string{
		"spaces":           strings.Repeat(" ", 1_000_000),
		"newlines":         strings.Repeat("\n", 1_000_000),
		"spaces in middle": "a" + strings.Repeat(" ", 1_000_000) + "b",
		"word":             strings.Repeat("x", 5<<20),
		"cjk":              strings.Repeat("你", 1<<20),
		"marks":            strings.Repeat("\u0301", 1<<20),
		"joiners":          strings.Repeat("👩\u200d", 1<<19),
		"headings":         headings.String(),
		"quotes":           strings.Repeat(">", 5<<20),
		"quotes spaced":    strings.Repeat("> ", 1<<20) + "\na",
		"quotes, blank":    strings.Repeat("> ", 90) + "a" + strings.Repeat("\n", 2<<20),
		"quotes, lazy":     strings.Repeat("> ", 90) + "a\n" + strings.Repeat("b\n", 1<<20),
		"bullets":          strings.Repeat("- ", 1<<20),
		"bullet lines":     strings.Repeat("- a\n", 1<<19),
		"numbers":          strings.Repeat("1. ", 1<<20),
		"deep list":        deep.String(),
		"deep list, blank": deep.String()[:200000] + strings.Repeat("\n", 2<<20),
		"wide table":       cols + strings.Repeat("a\n", 500000),
		"pipes":            strings.Repeat("|", 2<<20),
		"delimiters":       strings.Repeat("|-|\n", 1<<19),
		"setext":           strings.Repeat("a\n-\n", 1<<18),
		"equals":           strings.Repeat("a\n", 1<<19) + "===",
		"comments":         strings.Repeat("<!-- ", 1<<19),
		"tags":             strings.Repeat("<div>\n", 1<<19),
		"fences":           strings.Repeat("```\n", 1<<19),
		"brackets":         "# " + strings.Repeat("[", 1<<20),
		"links":            "# " + strings.Repeat("[](", 1<<19),
		"stops":            strings.Repeat(".", 2<<20),
		"quoted stops":     strings.Repeat(". ", 1<<20),
		"references":       strings.Repeat("[a]: b\n", 1<<18),
		"tabs":             strings.Repeat("\t", 1<<20) + "a",
		"table row":        "|a|b|\n|-|-|\n" + strings.Repeat("|1|2|\n", 200000),
		"caption":          "Table 1\n\n|" + strings.Repeat("word ", 400) + "|\n|-|\n" + strings.Repeat("|"+strings.Repeat("cell ", 700)+"|\n", 50),
	} {
		for _, markup := range []string{Markdown, Plain} {
			start := time.Now()
			res := must(t, src, markup, 600, 150)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%s as %s took %v", name, markup, took)
			} else if took > 500*time.Millisecond {
				t.Logf("%s as %s: %v, %d chunks", name, markup, took, len(res.Chunks))
			}
			if strings.TrimSpace(src) == "" {
				require.Empty(t, res.Chunks, name)
			}
		}
	}
}

// Above the bound a text is plain: cut, though without sections.
func TestNotBounded(t *testing.T) {
	src := strings.Repeat("> ", 200) + "a\n\n# Heading\n"
	require.False(t, bounded(src))
	require.Equal(t, 1, must(t, src, Markdown, 600, 150).Sections)
	for _, ok := range []string{"", "# A\n", strings.Repeat("> > > > a\n", 1000), strings.Repeat("- a\n  - b\n    - c\n      - d\n", 1000)} {
		require.True(t, bounded(ok), "%.40q", ok)
	}
}

func TestClusters(t *testing.T) {
	family := "👩\u200d👩\u200d👧"
	for _, src := range []string{strings.Repeat(family, 50), strings.Repeat("👍🏽", 100), strings.Repeat("❤\ufe0f", 100), strings.Repeat("\u0915\u093f", 400)} {
		for _, size := range []int{16, 17, 18, 19} {
			for i, c := range must(t, src, Plain, size, 4).Chunks {
				first, _ := utf8.DecodeRuneInString(src[c.Start:])
				require.False(t, extends(first), "chunk %d of size %d begins inside a cluster", i, size)
				if c.Start > 0 {
					last, _ := utf8.DecodeLastRuneInString(src[:c.Start])
					require.NotEqual(t, zwj, last, "chunk %d", i)
				}
			}
		}
	}
}

func TestSentences(t *testing.T) {
	src := `Dr. A. B. Smith met Ada. "Yes!" she said... then left. Version 3.5 costs 4.20 today?! 她走了。「好！」他说。`
	var got []string
	for i := 0; i < len(src); {
		end := sentenceEnd(src, i, len(src))
		got = append(got, strings.TrimSpace(src[i:end]))
		i = end
	}
	require.Equal(t, []string{
		`Dr. A. B. Smith met Ada.`, `"Yes!"`, `she said... then left.`, `Version 3.5 costs 4.20 today?!`, `她走了。`, `「好！」`, `他说。`,
	}, got)
}

func FuzzSplit(f *testing.F) {
	for _, p := range pieces {
		f.Add(p, true, uint8(16))
	}
	f.Fuzz(func(t *testing.T, src string, md bool, size uint8) {
		src = fingerprint.Normalize(src)
		n := int(size) + 2
		markup := Plain
		if md {
			markup = Markdown
		}
		res, err := Split(src, markup, n, max(1, n/4))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(src, res, n); err != nil {
			t.Fatal(err)
		}
	})
}

func sample() string {
	var sb strings.Builder
	for i := 0; sb.Len() < 4096; i++ {
		fmt.Fprintf(&sb, "## Section %d\n\nAda Lovelace worked with Charles Babbage in London, and wrote the first program. She was born in 1815.\n\n"+
			"- one item of the list\n- another one\n\nThe engine was never built; its plans, however, were studied for years.\n\n", i)
	}
	return sb.String()[:4096]
}

func BenchmarkSplit(b *testing.B) {
	src := sample()
	for _, markup := range []string{Markdown, Plain} {
		b.Run(markup, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Split(src, markup, 600, 150); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
