package extractor_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
)

// TestShuffledWords reads the words of the development set in random order: any order is read, and no rule looks outside its sentence.
func TestShuffledWords(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	files, err := filepath.Glob("testdata/dev/*.jsonl")
	require.NoError(t, err)
	var words []string
	for _, file := range files {
		for _, it := range readDev(t, file) {
			words = append(words, strings.Fields(it.Text)...)
		}
	}
	st := stage(t, schema.Default())
	for range shuffles {
		text := make([]string, 1+rnd.IntN(14))
		for i := range text {
			text[i] = words[rnd.IntN(len(words))]
		}
		handle(t, st, chunked(schema.Default(), strings.Join(text, " ")))
	}
}

const shuffles = 3000
