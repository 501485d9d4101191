package fingerprint

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	type inner struct {
		B int    `json:"b"`
		A string `json:"a"`
	}
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"sorted at all depths", map[string]any{"b": map[string]any{"z": 1, "y": nil}, "a": true}, `{"a":true,"b":{"y":null,"z":1}}`},
		{"list order kept", []any{3, 1, "x", false}, `[3,1,"x",false]`},
		{"struct", inner{B: 2, A: "q"}, `{"a":"q","b":2}`},
		{"numbers keep their text", []any{json.Number("1.0"), json.Number("1e5"), 10000000000}, `[1.0,1e5,10000000000]`},
		{"escapes as Python", "a\"\\/<>&\b\f\n\r\t\x00\x7f", `"a\"\\/<>&\b\f\n\r\t\u0000\u007f"`},
		{"surrogate pairs", "é€😀", `"\u00e9\u20ac\ud83d\ude00"`},
		{"escaped keys", map[string]int{"é": 1, "z": 2}, `{"z":2,"\u00e9":1}`},
		{"keys by code point", map[string]int{"\uffff": 1, "😀": 2}, `{"\uffff":1,"\ud83d\ude00":2}`},
		{"invalid utf-8", "a\xffb", `"a\ufffdb"`},
		{"empty", map[string]any{"a": []any{}, "b": map[string]any{}}, `{"a":[],"b":{}}`},
		{"nil", nil, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical(c.in)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, v := range []any{math.NaN(), make(chan int), func() {}, map[string]any{"a": math.Inf(1)}} {
		_, err := Canonical(v)
		require.Error(t, err)
		_, err = H16(v)
		require.Error(t, err)
	}
}

func TestH16(t *testing.T) {
	got, err := H16(map[string]any{"b": []int{1, 2}, "a": nil})
	require.NoError(t, err)
	require.Equal(t, "ee743f2fa2570a1b", got)

	want, err := H16([]string{"a", "é|\"", ""})
	require.NoError(t, err)
	require.Equal(t, want, H16Strings("a", "é|\"", ""))
	want, err = H16([]string{})
	require.NoError(t, err)
	require.Equal(t, want, H16Strings())
}

func TestIDs(t *testing.T) {
	// Values from Python's uuid.uuid5(uuid.NAMESPACE_OID, …).
	require.Equal(t, "ffa9c8ea-2908-5ca5-996b-16bf4826d324", U5("Document:ada"))
	require.Equal(t, "ffa9c8ea-2908-5ca5-996b-16bf4826d324", DocumentID("ada"))
	require.Equal(t, "6f12e544-fd37-556e-96ee-05d11a398b0f", EntityID("Person", "ada lovelace"))
	require.Equal(t, "757929ea-56d3-5eb7-b3bc-3cec3085baf5", HomonymID("Person", "ada lovelace", "1815"))
	require.Equal(t, "2006f5ad-3dbe-5d48-adb6-685b37934f22", ChunkID("d", "h", "c", 7))
	require.Equal(t, "2c07855f-81da-50e5-9c6c-e7827ed9143b", RelationID("KNOWS", "b", "a", false))
	require.Equal(t, "78275993-0203-5aaa-bb69-9dff9d2711c5", RelationID("KNOWS", "b", "a", true))
	require.Equal(t, RelationID("KNOWS", "a", "b", true), RelationID("KNOWS", "b", "a", true))
	require.Equal(t, "85fd0267-b09d-5a48-b9ee-b1ea375d3fb2", CandidateID("d", "entity|x|y", "h", "c", "s", "e"))
	require.Equal(t, "44b0a101910691a8", PatchID("db44256019904a52", []string{"b", "a", "é"}))
	require.Equal(t, "7xxegdkaxvl552wbq3gzpead", Token("ada"))
	require.Regexp(t, regexp.MustCompile(`^[a-z2-7]{24}$`), Token(""))
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain\ntext", "plain\ntext"},
		{"a\r\nb\rc\n\rd\r\r\n", "a\nb\nc\n\nd\n\n"},
		{"\uFEFFa", "a"},
		{"\uFEFF\uFEFFa", "\uFEFFa"},
		{"a\uFEFF", "a\uFEFF"},
		{"Ａﬁ①e\u0301", "Afi1\u00e9"},
		{"a\xff\xfeb", "a\uFFFDb"},
		{"\uFEFF\r\n", "\n"},
	} {
		require.Equal(t, c.want, Normalize(c.in), "%q", c.in)
	}
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", ContentHash("abc"))
	require.Equal(t, ContentHash(Normalize("abc\n")), ContentHash(Normalize("\uFEFFabc\r\n")))
}

// nasty are pieces that meet every rule of the text functions.
var nasty = []string{
	"\uFEFF", "\r", "\r\n", "\n", " ", "\t", "\u00a0", "\u200b", "\u200d", "\u2060", "\u0085", "a", "A", "the ", "The", "an", "ß", "ẞ", "İ", "ŉ",
	"Σ", "ς", "ͅ", "ΐ", "\u0301", "\u0323", "\u034f", "ａ", "ﬁ", "´", "¨", "한", "\u1100", "\u1161", "が", "\u3099", "\"", "'", "“", "”", "‘", "’", "«", "»",
	"„", "`", "「", "」", "+", "#", ".", "3", "½", "_", "-", "—", "|", "~", "~7c", "😀", "ﷺ", "का", "की", "東", "Ꭰ", "ꭰ", "…",
}

func text(t *rapid.T, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(nasty), rapid.StringN(0, 4, -1)), 0, 12).Draw(t, label), "")
}

func TestNormalizeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := text(t, "text")
		if rapid.IntRange(0, 9).Draw(t, "zalgo") == 0 {
			in += "e" + strings.Repeat("\u0301\u0323", rapid.IntRange(14, 40).Draw(t, "marks")) + text(t, "rest")
		}
		once := Normalize(in)
		if !utf8.ValidString(once) || strings.Contains(once, "\r") {
			t.Fatalf("not normal: %q", once)
		}
		if strings.HasPrefix(once, bom) != strings.HasPrefix(in, bom+bom) {
			t.Fatalf("one mark is dropped, no more and no less: %q", once)
		}
		if twice := Normalize(once); twice != strings.TrimPrefix(once, bom) {
			t.Fatalf("%q then %q", once, twice)
		}
	})
}

func TestNames(t *testing.T) {
	raw, err := os.ReadFile("testdata/names.json")
	require.NoError(t, err)
	var names struct {
		Same      [][2]string `json:"same"`
		Different [][2]string `json:"different"`
		Linked    [][2]string `json:"linked_not_merged"`
	}
	require.NoError(t, json.Unmarshal(raw, &names))
	require.NotEmpty(t, names.Same)
	require.NotEmpty(t, names.Different)
	for _, pair := range names.Same {
		require.Equal(t, Fold(pair[0]), Fold(pair[1]), "%q", pair)
	}
	for _, pair := range append(names.Different, names.Linked...) {
		require.NotEqual(t, Fold(pair[0]), Fold(pair[1]), "%q", pair)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"  \t\u00a0", ""},
		{" \u200b ", "\u200b"},
		{"ada lovelace", "ada lovelace"},
		{"  Ada \n\t Lovelace ", "ada lovelace"},
		{"Ada\u200bLovelace", "ada lovelace"},
		{"A\u00a0\u2060B\uFEFF", "a b"},
		{"Straße", "strasse"},
		{"ＡＣＭＥ", "acme"},
		{"ΣΊΣΥΦΟΣ", "σίσυφοσ"},
		{"C++", "c++"}, {"C#", "c#"}, {".NET", ".net"},
		{`"Acme"`, "acme"}, {"“Acme”", "acme"}, {"„Acme“", "acme"}, {"»Acme«", "acme"}, {"‘'Acme'’", "acme"}, {"「東京」", "東京"},
		{`" Acme "`, "acme"},
		{`""Acme""`, "acme"},
		{`"`, `"`}, {`""`, `""`}, {`" "`, `" "`},
		{`"A" and "B"`, `"a" and "b"`},
		{"“A”和“B”", "“a”和“b”"},
		{`"The "Big" Show"`, `the "big" show`},
		{"‘O’Brien’", "o’brien"},
		{"'s-Hertogenbosch", "'s-hertogenbosch"},
		{`"Acme`, `"acme`},
		{"O'Neil's", "o'neil's"},
	} {
		require.Equal(t, c.want, Fold(c.in), "%q", c.in)
	}
}

func TestFoldProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := text(t, "name")
		once := Fold(in)
		if twice := Fold(once); twice != once {
			t.Fatalf("Fold(%q) = %q, then %q", in, once, twice)
		}
		if once == "" && strings.TrimSpace(in) != "" {
			t.Fatalf("Fold(%q) is empty", in)
		}
	})
}

func TestASCIIPathsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching("[ -~\t\n\r\v\f\x01]{0,20}").Draw(t, "text")
		in = rapid.SampledFrom([]string{"", "the ", "A ", "\"", "'", " an\t"}).Draw(t, "start") + in
		fast, ok := foldASCII(in)
		if !ok || fast != foldOnce(in) || fast != foldOnce(fast) {
			t.Fatalf("fold %q: %q, slowly %q", in, fast, foldOnce(in))
		}
		fast, ok = cnormASCII(in)
		if slow := cnormText(in); !ok || fast != slow {
			t.Fatalf("cnorm %q: %q, slowly %q", in, fast, slow)
		}
	})
}

func TestCNorm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{" The  U.S. Steel Corp. ", "us steel corp"},
		{"Café—Zürich", "cafe zurich"},
		{"snake_case_name", "snake case name"},
		{"the", "the"}, {"The The", "the"}, {"a", "a"}, {"An apple", "apple"}, {"Theodore", "theodore"}, {"\u00a0The\u00a0End", "end"},
		{strings.Repeat("x", 205), strings.Repeat("x", 200) + "~33f5317795897e10"},
		{strings.Repeat("x", 200), strings.Repeat("x", 200)},
		{strings.Repeat("é", 200), strings.Repeat("e", 200)},
		{strings.Repeat("東", 200), strings.Repeat("東", 200)},
		{"C", "c"}, {"C++", "c++"}, {"C#", "c#"}, {"C++, Rust", "c++ rust"}, {"+1", "1"}, {"# 1", "1"},
		{"3.5", "3.5"}, {"v1.2.3", "v1.2.3"}, {"a.1", "a1"}, {"a..b", "a b"}, {".NET", "net"}, {"end.", "end"},
		{"_", "_"}, {"|", "~7c"}, {"a|b", "a b"}, {"||", "~7c~7c"}, {"~7c", "7c"}, {"???", "???"}, {"++", "++"}, {"", ""}, {"  ", ""},
		{"😀", "😀"}, {"東京", "東京"}, {"Straße", "strasse"}, {"ﬁx", "fix"},
		{"WORKS_FOR", "works for"},
	} {
		require.Equal(t, c.want, CNorm(c.in), "%q", c.in)
	}
	for _, pair := range [][2]string{{"ガラス", "カラス"}, {"का", "की"}, {"กา", "กี"}, {"C", "C++"}, {"C", "C#"}, {"C++", "C#"}, {"|", "||"}} {
		require.NotEqual(t, CNorm(pair[0]), CNorm(pair[1]), "%q", pair)
	}
}

func TestKeys(t *testing.T) {
	require.Equal(t, "entity|person|ada lovelace", EntityKey("Person", "Ada  Lovelace"))
	require.Equal(t, "relation|works for|ada|acme", RelationKey("WORKS_FOR", "Ada", "The Acme"))
	require.Equal(t, "property|founded|acme|1990", PropertyKey("founded", "Acme", "1990"))
	require.NotEqual(t, RelationKey("R", "|", "x"), RelationKey("R", "", "|x"))
}

func TestCNormProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := text(t, "text")
		got := CNorm(in)
		if strings.Contains(got, "|") {
			t.Fatalf("CNorm(%q) = %q holds a separator", in, got)
		}
		if got == "" && strings.TrimSpace(in) != "" {
			t.Fatalf("CNorm(%q) is empty", in)
		}
		if utf8.RuneCountInString(got) > maxPart+17 {
			t.Fatalf("CNorm(%q) is long", in)
		}
		if strings.Count(RelationKey(in, in, in), "|") != 3 {
			t.Fatalf("%q", RelationKey(in, in, in))
		}
	})
}

func TestLongTextsAreCheap(t *testing.T) {
	for _, piece := range []string{`"`, "“”", "'", "\u0301", "\u200b", "x|", "´", "ﷺ", "\xff", "\u3099", "+", ". "} {
		long := strings.Repeat(piece, 1<<18/len(piece))
		require.Equal(t, Fold(long), Fold(Fold(long)), "%q", piece)
		require.LessOrEqual(t, utf8.RuneCountInString(CNorm(long)), maxPart+17, "%q", piece)
		require.Equal(t, Normalize(long), Normalize(Normalize(long)), "%q", piece)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range nasty {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		norm := Normalize(in)
		if Normalize(norm) != strings.TrimPrefix(norm, bom) {
			t.Fatalf("Normalize(%q)", in)
		}
		if key := Fold(in); Fold(key) != key {
			t.Fatalf("Fold(%q)", in)
		}
		if strings.Contains(CNorm(in), "|") {
			t.Fatalf("CNorm(%q)", in)
		}
	})
}

var benchTexts = map[string]string{"ascii": "The Analytical Engine Company Inc.", "folded": "ada lovelace", "latin": "Société Générale “Zürich”", "han": "株式会社東京タワー"}

func BenchmarkFold(b *testing.B) {
	for name, s := range benchTexts {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Fold(s)
			}
		})
	}
}

func BenchmarkCNorm(b *testing.B) {
	for name, s := range benchTexts {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				CNorm(s)
			}
		})
	}
}

func BenchmarkNormalize(b *testing.B) {
	for name, s := range map[string]string{"ascii": strings.Repeat("plain text. ", 1000), "mixed": strings.Repeat("Zoë — text.\r\n", 1000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Normalize(s)
			}
		})
	}
}

func BenchmarkH16(b *testing.B) {
	v := map[string]any{"size": 600, "tokenizer": "words/1", "list": []string{"a", "b"}}
	for b.Loop() {
		if _, err := H16(v); err != nil {
			b.Fatal(err)
		}
	}
}
