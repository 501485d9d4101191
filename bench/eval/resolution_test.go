package eval

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/linkage"
)

const fourPairs = `{"label":"Person","a":"C. Babbage","b":"Charles Babbage","same":true,"kind":"initials"}
{"label":"Person","a":"Babbage Charles","b":"Charles Babbage","same":true,"kind":"order"}

{"label":"Organization","a":"WHO","b":"World Health Organization","same":true,"kind":"acronym"}
{"label":"Event","a":"Annual Report on Galactic Astronomy 2019","b":"Annual Report on Galactic Astronomy 2020","same":false,"kind":"numbers"}
{"label":"Organization","a":"Acme Inc","b":"Acme","same":false,"kind":"suffix"}
`

func TestReadPairs(t *testing.T) {
	pairs, err := ReadPairs(strings.NewReader(fourPairs))
	require.NoError(t, err)
	require.Len(t, pairs, 5)
	require.Equal(t, NamePair{Label: "Person", A: "C. Babbage", B: "Charles Babbage", Same: true, Kind: "initials"}, pairs[0])
	_, err = ReadPairs(strings.NewReader("{\"label\":\"A\",\"a\":\"x\",\"b\":\"y\"}\n{\"label\":\"A\",\"a\":\"x\"}\n"))
	require.EqualError(t, err, "name pairs, line 2: label, a and b are needed")
	_, err = ReadPairs(strings.NewReader("{"))
	require.ErrorContains(t, err, "name pairs, line 1: ")
}

func TestRunResolution(t *testing.T) {
	pairs, err := ReadPairs(strings.NewReader(fourPairs))
	require.NoError(t, err)
	r, err := RunResolution(t.Context(), pairs, embed.NewHash())
	require.NoError(t, err)
	require.Equal(t, &Tally{Count: Count{Right: 0, Found: 0, Gold: 3}, Pairs: 5}, r.All["exact names"])
	require.Equal(t, &Tally{Count: Count{Right: 1, Found: 1, Gold: 3}, Pairs: 5}, r.All["token-sort alone"])
	want := &Tally{Count: Count{Right: 2, Found: 3, Gold: 3}, Pairs: 5, Unclear: 1, UnclearSame: 1}
	require.Equal(t, want, r.All["methods"])
	require.Equal(t, want, r.All["methods + cosine"])
	require.InDelta(t, 2.0/3, r.All["methods"].Precision(), 1e-9)
	require.Equal(t, &MethodTally{VetoOther: 1}, r.Method[linkage.Numbers])
	require.Equal(t, &MethodTally{UnclearSame: 1}, r.Method[linkage.Acronym])
	require.Equal(t, &MethodTally{LinkOther: 1}, r.Method[linkage.LegalSuffix])
	require.Len(t, r.Wrong, 1)
	require.Contains(t, r.Wrong[0], `"Acme Inc", "Acme": link legal suffix 0.96`)
	require.Len(t, r.Missed, 1)
	require.NoError(t, r.AddJudge(t.Context(), "+ a perfect judge", Perfect))
	require.Equal(t, &Tally{Count: Count{Right: 3, Found: 4, Gold: 3}, Pairs: 5}, r.All["+ a perfect judge"])
	require.NoError(t, r.AddJudge(t.Context(), "+ no judge", func(_ context.Context, pairs []NamePair) ([]string, error) {
		require.Equal(t, "WHO", pairs[0].A)
		return make([]string, len(pairs)), nil
	}))
	require.Equal(t, want, r.All["+ no judge"])
	require.EqualError(t, r.AddJudge(t.Context(), "x", func(context.Context, []NamePair) ([]string, error) { return nil, nil }), "x: 0 verdicts for 1 pairs")
	var out bytes.Buffer
	require.NoError(t, r.Print(&out))
	require.Regexp(t, `(?m)^\+ a perfect judge +4 +3 +0\.750 +1\.000 +0\.857 +0 0\.000 +0 +0$`, out.String())
	require.Contains(t, out.String(), "5 pairs, 3 of one thing; embedder hash-1, cosine links from 0.98, drops under 0.80")
	require.Regexp(t, `(?m)^methods +3 +2 +0\.667 +0\.667 +0\.667 +1 0\.200 +1 +0$`, out.String())
	require.Regexp(t, `(?m)^acronym +1 +1 +1\.000 0\.000 0\.000`, out.String())
}

// TestOwnResolutionPairs: the target on the tuning set; the gold pairs of bench/testdata/resolution are for make eval/resolution.
func TestOwnResolutionPairs(t *testing.T) {
	f, err := os.Open("../../pkg/linkage/testdata/pairs.jsonl")
	require.NoError(t, err)
	defer f.Close()
	pairs, err := ReadPairs(f)
	require.NoError(t, err)
	r, err := RunResolution(t.Context(), pairs, embed.NewHash())
	require.NoError(t, err)
	for _, way := range []string{"methods", "methods + cosine"} {
		require.GreaterOrEqual(t, r.All[way].Precision(), 0.97, way)
		require.GreaterOrEqual(t, r.All[way].Recall(), 0.55, way)
		require.Zero(t, r.All[way].VetoedSame, way)
	}
	require.Zero(t, r.All["methods"].BlocksMissing)
	require.Less(t, r.All["token-sort alone"].Recall(), 0.25)
	require.Zero(t, r.All["exact names"].Found)
}
