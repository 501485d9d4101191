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
	for _, hint := range []string{"Acme", "the Deep", "schooner Ida", "works"} {
		words = append(words, strings.Fields(hint)...)
	}
	hinted, err := schema.Parse([]byte(hintedSchema), "hinted.yaml", nil)
	require.NoError(t, err)
	st, other := stage(t, schema.Default()), stage(t, hinted)
	for range shuffles {
		text := make([]string, 1+rnd.IntN(14))
		for i := range text {
			text[i] = words[rnd.IntN(len(words))]
		}
		handle(t, st, chunked(schema.Default(), strings.Join(text, " ")))
		handle(t, other, chunked(hinted, strings.Join(text, " ")))
	}
}

const shuffles = 3000

// hintedSchema has hints that fit words of the development set wherever they stand.
const hintedSchema = `
entities: {Person: Someone., Mate: {parents: [Person], description: Someone at sea.}, Ship: A vessel., Yard: A place., Ill: A sickness.}
relations:
  BUILT: {patterns: ["Yard->Ship", "Person->Ship"], description: Made it.}
  SERVES: {patterns: ["Person->Ship"], description: Is there.}
rules:
  entities:
    Mate: {honorifics: [Dr., director], roles: [engineer, the cook]}
    Ship: {names: [the deep, of the, Acme], prefixes: [The, DR, New, Old Town], roles: [company, schooner, and, works]}
    Yard: {suffixes: [Ltd, of, in, works for, and, University], patterns: ['[A-Z][a-z]+ (?:and|of) [A-Z][a-z]+']}
    Ill: {names: [in, the, 3]}
  relations:
    BUILT: {phrases: [was built by, of, is, the, "is the * of", by], inverse_phrases: [works for, "in *", to, and]}
    SERVES: {phrases: [has been at, is a, is not, spoilt], inverse_phrases: [under the command of, had been]}
`
