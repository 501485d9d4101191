package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	c := Corpus{Seed: 1}
	sum := sha256.New()
	for i := range 100 {
		b := c.Document(i, 0)
		require.InDelta(t, 4096, len(b), 200)
		sum.Write(b)
	}
	require.Equal(t, "bbcefeb006eee7976ab8e57daf7dab34234bde55461ea35775be250e643fe47f", hex.EncodeToString(sum.Sum(nil)))
	require.NotEqual(t, c.Document(3, 0), c.Document(3, 1))
	require.NotEqual(t, c.Document(3, 0), Corpus{Seed: 2}.Document(3, 0))
}

func TestNamesDiffer(t *testing.T) {
	c := Corpus{}
	seen := map[string]bool{}
	for i := range 4000 {
		seen[c.Person(i)] = true
	}
	for i := range 2000 {
		seen[c.firm(i)] = true
	}
	for i := range 1000 {
		seen[c.town(i)] = true
	}
	require.Len(t, seen, 7000)
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	c := Corpus{Seed: 1}
	require.NoError(t, c.Write(dir, 3))
	b, err := os.ReadFile(filepath.Join(dir, "000", "000002.md"))
	require.NoError(t, err)
	require.Equal(t, c.Document(2, 0), b)
}
