package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/fingerprint"
)

func TestEvidenceIDs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.Custom(func(rt *rapid.T) string { return fingerprint.U5(rapid.String().Draw(rt, "name")) })
		c := Cited{Chunk: id.Draw(rt, "chunk"), Start: rapid.IntRange(0, 1<<30).Draw(rt, "start")}
		c.End = c.Start + rapid.IntRange(0, 1<<20).Draw(rt, "length")
		if rapid.Bool().Draw(rt, "fact") {
			c.Fact = id.Draw(rt, "fact id")
			if rapid.Bool().Draw(rt, "value") {
				c.Property = PropertyMark(rapid.String().Draw(rt, "property"))
			}
		}
		text := EvidenceID(c)
		require.Regexp(rt, `^ev_[a-z2-7]{37,100}$`, text)
		back, ok := ParseEvidenceID(text)
		require.True(rt, ok)
		require.Equal(rt, c, back)
		// A slip in copying is seen.
		b := []byte(text)
		i := rapid.IntRange(len(EvidencePrefix), len(b)-1).Draw(rt, "place")
		was := b[i]
		b[i] = rapid.SampledFrom([]byte("abcdefghijklmnopqrstuvwxyz234567")).Draw(rt, "letter")
		if _, ok := ParseEvidenceID(string(b)); b[i] != was {
			require.False(rt, ok)
		}
		_, ok = ParseEvidenceID(text[:len(text)-1])
		require.False(rt, ok)
	})
	for _, bad := range []string{"", "ev_", "ev_zzz", "x", "EV_aaaa"} {
		_, ok := ParseEvidenceID(bad)
		require.False(t, ok, bad)
	}
	require.Empty(t, EvidenceID(Cited{Chunk: "x"}))
}

func FuzzParseEvidenceID(f *testing.F) {
	f.Add(EvidenceID(Cited{Chunk: fingerprint.U5("c"), Fact: fingerprint.U5("f"), Start: 3, End: 9}))
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := ParseEvidenceID(s); ok {
			require.Equal(t, s, EvidenceID(c))
		}
	})
}
