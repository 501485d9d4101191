package linkage

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

type goldPair struct {
	Label, A, B, Kind string
	Same              bool
}

func readGold(t testing.TB) []goldPair {
	f, err := os.Open("testdata/pairs.jsonl")
	require.NoError(t, err)
	defer f.Close()
	var out []goldPair
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var p goldPair
		require.NoError(t, json.Unmarshal(sc.Bytes(), &p))
		out = append(out, p)
	}
	require.GreaterOrEqual(t, len(out), 120)
	return out
}

func verdict(label, a, b string) Verdict {
	x, y := Prepare(label, a, nil), Prepare(label, b, nil)
	return Compare(&x, &y, Options{})
}

func TestOwnPairs(t *testing.T) {
	right, wrong, gold, sort := 0, 0, 0, 0
	for _, p := range readGold(t) {
		v := verdict(p.Label, p.A, p.B)
		if p.Same {
			gold++
			x, y := Prepare(p.Label, p.A, nil), Prepare(p.Label, p.B, nil)
			if TokenSortRatio(&x, &y) >= 0.97 {
				sort++
			}
		}
		if v.Outcome == Link && p.Same {
			right++
		} else if v.Outcome == Link {
			wrong++
			t.Logf("WRONG  %-15s %q %q: %+v", p.Kind, p.A, p.B, v)
		} else if p.Same {
			t.Logf("missed %-15s %q %q: %+v", p.Kind, p.A, p.B, v)
		}
	}
	t.Logf("right %d wrong %d gold %d; sort alone %d", right, wrong, gold, sort)
}
