package extractor_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
)

// holds checks what is true of every extraction: names and quotes slice, quotes hold both mentions, nothing leaves its chunk.
func holds(t require.TestingT, e *events.Chunked, out *events.Extracted) {
	for _, c := range out.Extraction.Chunks {
		chunk := e.Chunks[c.Index]
		for _, m := range c.Entities {
			require.True(t, chunk.Start <= m.Start && m.Start < m.End && m.End <= chunk.End, "mention %v of chunk %v", m, chunk)
			require.Equal(t, strings.Join(strings.Fields(e.Text[m.Start:m.End]), " "), strings.Join(strings.Fields(m.Name), " "))
			for _, p := range m.Properties {
				require.True(t, chunk.Start <= p.Start && p.Start < p.End && p.End <= chunk.End, "property %v", p)
			}
		}
		for _, r := range c.Relations {
			require.True(t, chunk.Start <= r.Start && r.End <= chunk.End, "relation %v", r)
			for _, end := range []int{r.Source, r.Target} {
				require.True(t, r.Start <= c.Entities[end].Start && c.Entities[end].End <= r.End, "quote %q without %q",
					e.Text[r.Start:r.End], c.Entities[end].Name)
			}
		}
		for _, k := range c.Candidates {
			require.NotEmpty(t, k.Reasons)
			require.True(t, chunk.Start <= k.Start && k.Start <= k.End && k.End <= chunk.End, "candidate %v", k)
		}
	}
}

func FuzzHandle(f *testing.F) {
	f.Add(benchText, 200)
	f.Add("❤️ 你好 Acme hired 李雷. 👨‍👩‍👧 met Zoë (é too).", 3)
	f.Add("a\x00\xff.Dr. J. R. R. O’Neil’s “Book” & Co. 1,2.3-4–5 version 2.1\r\n\r\n| a | b |", 11)
	f.Add("U.S. Inc. Ltd., Ltd. (WHO) (W.H.O.) AT&T C++ C# .NET x@y 'tis 's ’s", 1)
	s := schema.Default()
	st := stage(f, s)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if len(text) > 1<<16 {
			return
		}
		at := 0
		if len(text) > 0 {
			at = max(cut, -cut) % (len(text) + 1)
			at = max(at, 0)
			for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
				at--
			}
		}
		e := chunked(s, text[:at], text[at:])
		out, err := st.Handle(t.Context(), bus.Delivery{Event: e})
		require.NoError(t, err)
		holds(t, e, out[0].(*events.Extracted))
	})
}

// Sentences made of the words that rules act on, in any order and with any marks between.
func TestAnyProse(t *testing.T) {
	words := strings.Fields(`Ada Lovelace Bob Stone Acme Ltd. Globex Inc University of Halden the The a in In Paris , Norway . ? " ' ( ) and & works
		worked for at joined was hired by Dr. J. CEO engineer chief owns acquired not will plans to Critics say if Skyloom 2.1 version 7 LARCH
		spectrograph dataset founded 1999 March 3 born published book wrote he She It company who which 's ’s 李雷 は Zoë \n \n\n # - | AT&T WHO met`)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, `\n`, "\n")
	}
	st := stage(t, schema.Default())
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(words), 0, 80).Draw(t, "words")
		sep := rapid.SampledFrom([]string{" ", " ", "", "  ", " "})
		var texts [2]string
		for i, w := range list {
			texts[i*2/len(list)] += w + sep.Draw(t, "sep")
		}
		e := chunked(schema.Default(), texts[0], texts[1])
		out, err := st.Handle(t.Context(), bus.Delivery{Event: e})
		require.NoError(t, err)
		holds(t, e, out[0].(*events.Extracted))
	})
}
