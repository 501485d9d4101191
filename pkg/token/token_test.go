package token

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const classesDigest = "7ffdf12f469bc590"

func split(s string) []string {
	var out []string
	for i := 0; ; {
		end := Next(s, i)
		if end < 0 {
			return out
		}
		out = append(out, strings.TrimLeftFunc(s[i:end], unicode.IsSpace))
		i = end
	}
}

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" \n\t\u00a0\u3000 ", nil},
		{"Ada Lovelace worked.", []string{"Ada", "Lovelace", "worked", "."}},
		{"it's 3.5%", []string{"it", "'", "s", "3", ".", "5", "%"}},
		{"abcdefghijkl", []string{"abcdefghijkl"}},
		{"abcdefghijklm", []string{"abcdefghijkl", "m"}},
		{"snake_case", []string{"snake", "_", "case"}},
		{"Größenwahnsinn", []string{"Größenwahn", "sinn"}}, // ö and ß have two bytes
		{"Привет", []string{"Привет"}},
		{"Приветы", []string{"Привет", "ы"}},
		{"你好 Acme雇佣", []string{"你", "好", "Acme", "雇", "佣"}},
		{"カタカナー한국ไทย", []string{"カ", "タ", "カ", "ナ", "ー", "한", "국", "ไ", "ท", "ย"}},
		{"e\u0301te\u0301", []string{"e\u0301te\u0301"}},
		{"👩‍👧!", []string{"👩", "\u200d", "👧", "!"}},
		{"wait...!! |-------------|", []string{"wait", "...", "!!", "|", "------------", "-", "|"}},
		{"、、🙂🙂", []string{"、", "、", "🙂", "🙂"}},
		{"a\xffb", []string{"a", "\xff", "b"}},
	} {
		require.Equal(t, c.want, split(c.in), "%q", c.in)
		require.Equal(t, len(c.want), Count(c.in), "%q", c.in)
	}
}

func TestUnbroken(t *testing.T) {
	require.Equal(t, 417, Count(strings.Repeat("x", 5000)))
	n, end := Cut(strings.Repeat("é", 5000), 10)
	require.Equal(t, 10, n)
	require.Equal(t, 120, end)
}

func TestOverAndCut(t *testing.T) {
	require.False(t, Over("a b c  ", 3))
	require.True(t, Over("a b c d", 3))
	require.False(t, Over("   ", 0))
	require.True(t, Over(" a", 0))
	n, end := Cut("  a b, c", 3)
	require.Equal(t, 3, n)
	require.Equal(t, len("  a b,"), end)
	n, end = Cut("   ", 3)
	require.Zero(t, n)
	require.Zero(t, end)
}

// The short cuts agree with the definition, and the definition does not move: a new Go release that classifies runes
// anew changes counts, so the tokenizer's name has to change with it.
func TestClasses(t *testing.T) {
	h := sha256.New()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := class(r), classify(r); got != want {
			t.Fatalf("U+%04X is class %d, by definition %d", r, got, want)
		}
		require.Equal(t, classify(r) == space, IsSpace(r))
		fmt.Fprintf(h, "%d", class(r))
	}
	require.Equal(t, classesDigest, hex.EncodeToString(h.Sum(nil))[:16],
		"unicode %s gives other classes: raise settings.Tokenizer", unicode.Version)
}

func genText() *rapid.Generator[string] {
	word := rapid.OneOf(
		rapid.StringOf(rapid.RuneFrom([]rune("abcXYZ0189"))),
		rapid.StringOf(rapid.RuneFrom([]rune("éßПр한你カไ\u0301_.,--👩\u200d\n "))),
		rapid.String(),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.ToValidUTF8(strings.Join(rapid.SliceOfN(word, 0, 8).Draw(t, "words"), ""), "?")
	})
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genText().Draw(t, "a"), genText().Draw(t, "b")
		ca, cb, cab := Count(a), Count(b), Count(a+b)
		require.LessOrEqual(t, cab, ca+cb)
		require.GreaterOrEqual(t, cab, ca+cb-1)
		require.Equal(t, ca+cb, Count(a+" "+b))
		require.GreaterOrEqual(t, cab, max(ca, cb), "a substring never counts more")
		require.Len(t, split(a), ca)

		var kept strings.Builder
		for _, tok := range split(a) {
			require.LessOrEqual(t, len(tok), MaxBytes)
			require.True(t, utf8.ValidString(tok))
			kept.WriteString(tok)
		}
		require.Equal(t, strings.Join(strings.Fields(a), ""), kept.String(), "tokens are all but the white space")

		limit := rapid.IntRange(0, 20).Draw(t, "limit")
		n, end := Cut(a, limit)
		require.Equal(t, min(limit, ca), n)
		require.Equal(t, n, Count(a[:end]))
		require.Equal(t, ca-n, Count(a[end:]), "a cut at a token's end loses and adds nothing")
		require.Equal(t, ca > limit, Over(a, limit))
	})
}

func TestNoAllocation(t *testing.T) {
	s := strings.Repeat("Ada Lovelace met 你好 in Größenwahn, 👩‍👧. ", 50)
	require.Zero(t, testing.AllocsPerRun(10, func() { Count(s) }))
}

func FuzzCount(f *testing.F) {
	f.Add("Ada, 你好 \xff\u0301")
	f.Fuzz(func(t *testing.T, s string) {
		i, n := 0, 0
		for {
			end := Next(s, i)
			if end < 0 {
				break
			}
			if end <= i {
				t.Fatalf("no progress at %d", i)
			}
			i, n = end, n+1
		}
		if n != Count(s) {
			t.Fatalf("%d tokens by Next, %d by Count", n, Count(s))
		}
	})
}

func BenchmarkCount(b *testing.B) {
	for name, s := range map[string]string{
		"english": strings.Repeat("Ada Lovelace worked with Charles Babbage. ", 100),
		"chinese": strings.Repeat("阿达·洛芙莱斯与查尔斯·巴贝奇一起工作。", 80),
		"russian": strings.Repeat("Ада Лавлейс работала с Чарльзом Бэббиджем. ", 55),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Count(s)
			}
		})
	}
}
