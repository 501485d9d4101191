package embed

import (
	"context"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// HashSize is the length of the vectors of Hash. Measured on invented name pairs, 128, 256, 512 and 65,536 numbers
// tell pairs of one thing from others equally well (area under the curve within 0.007 of each other); what grows with a smaller size is
// the cosine of names that have nothing in common (its 99th percentile: 0.30 at 128, 0.25 at 256, 0.24 without limit).
const HashSize = 256

// The n-grams of Hash, of one weight. Measured as above: 2 to 4 letters separate as well as 2 to 3 and better than 3 alone or 3 to 5
// (0.64, 0.65, 0.63, 0.62), and keep strangers further apart than 2 to 3 (0.25, 0.31).
const (
	minGram = 2
	maxGram = 4
)

// Hash is the embedded embedder: the character n-grams of each word, hashed into a vector of fixed size. It knows how
// words are spelt and nothing of what they mean. No model, no state; the same bits on every machine, for the counts are
// whole numbers and only their division by the length is not.
type Hash struct{}

var _ Embedder = Hash{}

// NewHash returns the embedded embedder.
func NewHash() Hash { return Hash{} }

// Name changes with every change of the vectors.
func (Hash) Name() string { return "hash-1" }

// Size is HashSize.
func (Hash) Size() int { return HashSize }

// Thresholds are for the pairs that pkg/linkage found nothing about, measured on invented ones: spelling alone tells little of
// them (Institute of Organic Chemistry and of Inorganic Chemistry: 0.96), so that only names of nearly the same letters link.
func (Hash) Thresholds() (link, drop float64) { return 0.98, 0.80 }

// Embed never fails but when ctx is done.
func (h Hash) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = h.vector(t)
	}
	return out, nil
}

func (Hash) vector(text string) []float32 {
	var counts [HashSize]int32
	eachWord(text, func(word []rune) { count(&counts, word) })
	return unit(counts[:])
}

// eachWord calls fn with every word of a text, with a blank at each end; fn may not keep it.
func eachWord(text string, fn func(word []rune)) {
	word := make([]rune, 1, 32)
	word[0] = ' '
	flush := func() {
		if len(word) > 1 {
			fn(append(word, ' '))
		}
		word = word[:1]
	}
	for _, r := range letters(text) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			word = append(word, r)
			continue
		}
		flush()
	}
	flush()
}

// letters folds a text as the merge key does, and drops the accents of Latin, Greek and Cyrillic letters.
func letters(text string) string {
	s := fingerprint.Fold(text)
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return s
	}
	out := make([]rune, 0, len(s))
	for _, r := range norm.NFD.String(s) {
		if r < 0x300 || r > 0x36f {
			out = append(out, r)
		}
	}
	return string(out)
}

// FNV-1a, over runes.
const (
	gramSeed  = 14695981039346656037
	gramPrime = 1099511628211
)

// count adds the n-grams of one word, which has a blank at each end.
func count(counts *[HashSize]int32, word []rune) {
	for i := range word {
		h := uint64(gramSeed)
		for n := 1; n <= maxGram && i+n <= len(word); n++ {
			h = (h ^ uint64(word[i+n-1])) * gramPrime
			if n < minGram {
				continue
			}
			m := mix(h)
			if m>>63 == 1 {
				counts[m%HashSize]--
			} else {
				counts[m%HashSize]++
			}
		}
	}
}

// mix spreads the bits of a hash (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
