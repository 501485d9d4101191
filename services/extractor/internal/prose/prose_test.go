package prose

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func words(text string) []string {
	var out []string
	for _, t := range Tokens(text, nil) {
		out = append(out, text[t.Start:t.End])
	}
	return out
}

func split(text string) []string {
	tokens := Tokens(text, nil)
	var out []string
	for _, s := range Sentences(text, tokens, nil) {
		out = append(out, text[tokens[s.First].Start:tokens[s.Last-1].End])
	}
	return out
}

func TestTokens(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"Jean-Luc's AT&T don’t", []string{"Jean-Luc", "'s", "AT&T", "don’t"}},
		{"J. R. R. Hale, U.S. Inc. 3.5 1,200", []string{"J.", "R.", "R.", "Hale", ",", "U.S.", "Inc.", "3.5", "1,200"}},
		{"C++, C# and Node.js", []string{"C++", ",", "C#", "and", "Node.js"}},
		{"We like .NET. It ends . Next", []string{"We", "like", ".NET", ".", "It", "ends", ".", "Next"}},
		{"end. Next", []string{"end", ".", "Next"}},
		{"a Leeds-based faith-based firm", []string{"a", "Leeds", "-", "based", "faith-based", "firm"}},
		{"No. 5, no.", []string{"No.", "5", ",", "no", "."}},
		{"Dr. Who said \"hi\".", []string{"Dr.", "Who", "said", "\"", "hi", "\"", "."}},
		{"你好Acme は", []string{"你好", "Acme", "は"}},
		{"", nil},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, words(tt.text), tt.text)
	}
}

func TestHashFoldsCase(t *testing.T) {
	require.Equal(t, Hash("zoë"), Hash("ZOË"))
	require.Equal(t, Hash("don't"), Hash("Don’t"))
	require.NotEqual(t, Hash("acme"), Hash("acne"))
	for _, tok := range Tokens("ZOË zoë", nil) {
		require.Equal(t, Hash("zoë"), tok.Hash)
	}
}

func TestSentences(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"It is written in C. Django is not.", []string{"It is written in C.", "Django is not."}},
		{"He met C. Moyo in J. Smith's barn.", []string{"He met C. Moyo in J. Smith's barn."}},
		{"He sold Omega Inc. \"Gus left,\" she said.", []string{"He sold Omega Inc.", "\"Gus left,\" she said."}},
		{"Dr. Ann met J. Hale at 3.5 km. He left!", []string{"Dr. Ann met J. Hale at 3.5 km.", "He left!"}},
		{"She joined Acme Ltd. Bob left Acme Co. Ltd. in May.", []string{"She joined Acme Ltd.", "Bob left Acme Co. Ltd. in May."}},
		{"In the U.S. Senate he spoke. In the U.S. He slept.", []string{"In the U.S. Senate he spoke.", "In the U.S.", "He slept."}},
		{`He said "No." Then he left.`, []string{`He said "No."`, "Then he left."}},
		{"# Head\nBody goes\non here.\n\nNext", []string{"# Head", "Body goes\non here.", "Next"}},
		{"- one\n- two", []string{"- one", "- two"}},
		{"Name: Ann\nRole: CEO", []string{"Name: Ann", "Role: CEO"}},
		{"这是。那是。", []string{"这是。", "那是。"}},
		{" \n ", nil},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, split(tt.text), tt.text)
	}
}

func TestAround(t *testing.T) {
	const text = "One is here. Two is there. Three."
	lo, hi := Around(text, 13, 16)
	require.Equal(t, "Two is there.", text[lo:hi])
	lo, hi = Around(text, 4, 20)
	require.Equal(t, "One is here. Two is there.", text[lo:hi])
}

func TestAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "runes")
		tokens := Tokens(text, nil)
		at := int32(0)
		for _, tok := range tokens {
			require.True(t, at <= tok.Start && tok.Start < tok.End && int(tok.End) <= len(text))
			at = tok.End
		}
		next := 0
		for _, s := range Sentences(text, tokens, nil) {
			require.Equal(t, next, s.First)
			require.Less(t, s.First, s.Last)
			next = s.Last
		}
		require.Equal(t, len(tokens), next)
	})
}
