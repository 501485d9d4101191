package lexical

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func terms(text string) (out []string) {
	Terms(text, func(t string) { out = append(out, strings.Clone(t)) })
	return out
}

func TestTerms(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" \t.,;—…", nil},
		{"Ada Lovelace", []string{"ada", "lovelace"}},
		{"engines ENGINE Engines", []string{"engine", "engine", "engine"}},
		{"companies movies species series", []string{"company", "movy", "specy", "sery"}},
		{"glass corpus gas bus buses boxes shoes trees", []string{"glass", "corpus", "gas", "bus", "buse", "boxe", "shoes", "trees"}},
		{"s as ies eies", []string{"s", "as", "ies", "eies"}},
		{"3.5 v2s 1990s", []string{"3", "5", "v2s", "1990s"}},
		{"snake_case-word", []string{"snake", "case", "word"}},
		{"O'Brien's", []string{"o", "brien", "s"}},
		{"Café Zürich cafés naïve", []string{"cafe", "zurich", "cafe", "naive"}},
		{"Straße ΣΊΣΥΦΟΣ Ёлка", []string{"strasse", "σισυφοσ", "елка"}},
		{"ＡＣＭＥ ﬁnd ①", []string{"acme", "find", "1"}},
		{"½", []string{"1", "2"}},
		{"東京都", []string{"東", "東京", "京", "京都", "都"}},
		{"東京tower3", []string{"東", "東京", "京", "tower3"}},
		{"ガラス カラス", []string{"ガ", "ガラ", "ラ", "ラス", "ス", "カ", "カラ", "ラ", "ラス", "ス"}},
		{"コード", []string{"コ", "コー", "ー", "ード", "ド"}},
		{"서울", []string{"서", "서울", "울"}},
		{"हिन्दी", []string{"हिन्दी"}},
		{"a😀b", []string{"a", "b"}},
		{"a\xffb", []string{"a", "b"}},
		{strings.Repeat("x", 100), []string{strings.Repeat("x", MaxTerm)}},
		{strings.Repeat("é", 100), []string{strings.Repeat("e", MaxTerm)}},
		{strings.Repeat("д", 100), []string{strings.Repeat("д", MaxTerm)}},
	} {
		require.Equal(t, c.want, terms(c.in), "%q", c.in)
	}
}

func TestQueryTerms(t *testing.T) {
	require.Equal(t, []string{"ada", "engine"}, QueryTerms("Ada engines, ada!", 10))
	require.Equal(t, []string{"東京", "京都"}, QueryTerms("東京都", 10))
	require.Equal(t, []string{"東"}, QueryTerms("東", 10))
	require.Equal(t, []string{"a", "b"}, QueryTerms("a b c", 2))
	require.Empty(t, QueryTerms("…", 10))
}

func TestContent(t *testing.T) {
	for query, want := range map[string][]string{
		"Who owns the Halden Institute?":         {"own", "halden", "institute"},
		"What does this do, and whose is it?":    {"it"},
		"The Who":                                {"the", "who"},
		"May Will be in the US?":                 {"may", "will", "us"},
		"wer besitzt die Sternwarte":             {"wer", "besitzt", "die", "sternwarte"},
		"Which are those that have been there":   {"which", "are", "those", "that", "have", "been", "there"},
		"":                                       nil,
		"Which of its telescopes has a mirror 2": {"telescope", "mirror", "2"},
	} {
		require.Equal(t, want, Content(QueryTerms(query, 10)), query)
	}
}

func TestSpans(t *testing.T) {
	var got []string
	text := "Ada's Cafés in 東京"
	Spans(text, func(term []byte, start, end int) { got = append(got, fmt.Sprintf("%s=%s", term, text[start:end])) })
	require.Equal(t, []string{"ada=Ada", "s=s", "cafe=Cafés", "in=in", "東=東", "東京=東京", "京=京"}, got)
}

func TestTermsProperties(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "S", "ies", " ", "é", "e\u0301", "ß", "東", "ガ", "か\u3099", "한", "\u1112\u1161", "का", "😀", "\xff", "½", "ﷺ", "_", "ǅ", "\u0301", "ก", "ำ"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "")
		all := map[string]bool{}
		for _, term := range terms(text) {
			all[term] = true
			if term == "" || !utf8.ValidString(term) || utf8.RuneCountInString(term) > MaxTerm {
				t.Fatalf("term %q of %q", term, text)
			}
		}
		for _, term := range QueryTerms(text, 1000) {
			if !all[term] {
				t.Fatalf("a query for %q looks for %q, which its index does not have", text, term)
			}
		}
		Spans(text, func(term []byte, start, end int) {
			if start < 0 || start >= end || end > len(text) || !all[string(term)] {
				t.Fatalf("span %d…%d of %q in %q", start, end, term, text)
			}
		})
	})
}

func TestTermsOfLowerCaseTextCostNothing(t *testing.T) {
	text := strings.Repeat("the quick brown fox jumps over engines 42 ", 100)
	n := 0
	got := testing.AllocsPerRun(10, func() { Terms(text, func(string) { n++ }) })
	require.Less(t, got, 10.0)
	require.Positive(t, n)
}

func TestPostings(t *testing.T) {
	var l List
	l.Hit(0)
	l.Hit(0)
	l.Hit(3)
	l.Add(200, 1)
	l.Add(1<<32-1, 70000)
	type posting struct{ ordinal, tf uint32 }
	read := func(data []byte) (out []posting) {
		require.NoError(t, Each(data, func(o, tf uint32) bool { out = append(out, posting{o, tf}); return true }))
		return out
	}
	want := []posting{{0, 2}, {3, 1}, {200, 1}, {1<<32 - 1, 70000}}
	require.Equal(t, want, read(l.Bytes()))
	require.Equal(t, []byte{0, 2, 7, 0x8b, 3}, l.Bytes()[:5])

	stopped := 0
	require.NoError(t, Each(l.Bytes(), func(uint32, uint32) bool { stopped++; return false }))
	require.Equal(t, 1, stopped)

	for _, bad := range [][]byte{{0x80}, {2}, {2, 0}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		require.True(t, errors.Is(Each(bad, func(uint32, uint32) bool { return true }), ErrPostings), "%v", bad)
	}
}

func TestSplit(t *testing.T) {
	var l List
	for i := uint32(0); i < 1000; i++ {
		l.Add(i*300, i%5+1)
	}
	parts, err := Split(l.Bytes(), 64)
	require.NoError(t, err)
	require.Greater(t, len(parts), 10)
	next := uint32(0)
	for _, p := range parts {
		require.LessOrEqual(t, len(p), 64)
		require.NoError(t, Each(p, func(o, tf uint32) bool {
			require.Equal(t, next*300, o)
			require.Equal(t, next%5+1, tf)
			next++
			return true
		}))
	}
	require.Equal(t, uint32(1000), next)
}

func TestIndex(t *testing.T) {
	var x Index
	require.Equal(t, 4, x.Add(0, "Ada met Ada twice"))
	require.Equal(t, 2, x.Add(7, "ada 東"))
	var got []string
	require.NoError(t, x.Each(func(term string, postings []byte) error {
		line := term
		require.NoError(t, Each(postings, func(o, tf uint32) bool { line += fmt.Sprintf(" %d:%d", o, tf); return true }))
		got = append(got, line)
		return nil
	}))
	require.Equal(t, []string{"ada 0:2 7:1", "met 0:1", "twice 0:1", "東 7:1"}, got)
	require.Equal(t, 4, x.Len())
	require.Positive(t, x.Size())
	x.Reset()
	require.Zero(t, x.Len()+x.Size())
}

func TestBM25(t *testing.T) {
	require.InDelta(t, math.Log(1+99.5/1.5), IDF(100, 1), 1e-12)
	require.Greater(t, IDF(100, 1), IDF(100, 50))
	require.Positive(t, IDF(100, 100))
	require.InDelta(t, 2.0, BM25(2, 1, 100, 100), 1e-12)
	require.InDelta(t, 2*2*2.2/(2+1.2*(0.25+0.75*2)), BM25(2, 2, 200, 100), 1e-12)
	require.InDelta(t, 2.0, BM25(2, 1, 5000, 0), 1e-12)
}

func FuzzTerms(f *testing.F) {
	f.Add("Ada's Cafés in 東京 ½ ﷺ")
	f.Fuzz(func(t *testing.T, text string) {
		Terms(text, func(term string) {
			if term == "" || utf8.RuneCountInString(term) > MaxTerm {
				t.Fatalf("%q", term)
			}
		})
	})
}

func BenchmarkIndexAdd(b *testing.B) {
	text := strings.Repeat("Ada Lovelace worked with Charles Babbage on the analytical engines of 1843. ", 52)
	b.SetBytes(int64(len(text)))
	var x Index
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Add(uint32(i), text)
	}
}
