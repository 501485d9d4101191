package researcher

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFocus(t *testing.T) {
	const text = "# People\n\nC. Babbage built it in 3.5 years. “Did he?” Ada (of Acme) wrote the notes!  Then e.g. others came."
	var got []string
	for _, s := range split(text) {
		require.Equal(t, text[s.Start:s.End], s.Quote)
		got = append(got, s.Quote)
	}
	require.Equal(t, []string{"# People", "C. Babbage built it in 3.5 years.", "“Did he?”", "Ada (of Acme) wrote the notes!", "Then e.g. others came."}, got)
	f := focus(Evidence{Start: 1000, Quote: text}, weigh(contentWords("Who wrote notes for Acme?"), []Evidence{{Quote: text}}))
	require.Equal(t, "Ada (of Acme) wrote the notes!", f.Quote)
	require.Equal(t, text[f.Start-1000:f.End-1000], f.Quote)
	require.Equal(t, Span{15, 48, "C. Babbage built it in 3.5 years."}, focus(Evidence{Start: 5, Quote: text}, weigh(contentWords("People"), []Evidence{{Quote: text}})))
	require.Equal(t, Span{}, focus(Evidence{}, nil))
	require.Equal(t, "天文台は東京にある。", focus(Evidence{Quote: "彼は来た。天文台は東京にある。"}, weigh(contentWords("東京の天文台"), []Evidence{{Quote: text}})).Quote)
	rare := weigh(contentWords("Norrby observatory"), []Evidence{{Quote: "An observatory. An observatory. Norrby."}})
	require.InDelta(t, 0.916, rare["observatory"], 0.001) // ln(1 + 3/2)
	require.InDelta(t, 1.386, rare["norrby"], 0.001)      // ln(1 + 3/1)
}
