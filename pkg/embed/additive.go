package embed

import "math"

// Feature is one number of a vector counted up or down by one: twice the dimension, plus 1 when it counts down.
type Feature uint16

// Dim is the dimension that the feature counts in.
func (f Feature) Dim() int { return int(f >> 1) }

// Sign is 1 or -1.
func (f Feature) Sign() int32 { return 1 - 2*int32(f&1) }

// Additive is an embedder whose vectors are sums: an index can then work with the few words that many texts share, in place of the
// texts.
type Additive interface {
	Embedder
	// Words takes a text apart: one list of features for each word, in the text's order. The vector of the text is
	// Sum of them all, bit for bit. Words that begin alike have lists that begin alike.
	Words(text string) [][]Feature
}

// Sum is the unit vector of a bag of features: their counts, divided by the root of the sum of their squares; all zeros when they
// cancel out. Features beyond size are not counted.
func Sum(size int, words ...[]Feature) []float32 {
	counts := make([]int32, size)
	for _, w := range words {
		for _, f := range w {
			if d := f.Dim(); d < size {
				counts[d] += f.Sign()
			}
		}
	}
	return unit(counts)
}

// unit divides whole numbers by their length.
func unit(counts []int32) []float32 {
	var squares float64 // of whole numbers under 2^31 and few: exact
	for _, c := range counts {
		squares += float64(int64(c) * int64(c))
	}
	v := make([]float32, len(counts))
	if squares == 0 {
		return v
	}
	length := math.Sqrt(squares)
	for i, c := range counts {
		v[i] = float32(float64(c) / length)
	}
	return v
}

var _ Additive = Hash{}

// Words gives the n-grams of each word of a text, those that end earlier first.
func (Hash) Words(text string) [][]Feature {
	var out [][]Feature
	eachWord(text, func(word []rune) { out = append(out, grams(word)) })
	return out
}

// grams are the features that count counts, by the place where the n-gram ends.
func grams(word []rune) []Feature {
	out := make([]Feature, 0, 3*len(word))
	for end := minGram; end <= len(word); end++ {
		for n := minGram; n <= maxGram && n <= end; n++ {
			h := uint64(gramSeed)
			for _, r := range word[end-n : end] {
				h = (h ^ uint64(r)) * gramPrime
			}
			m := mix(h)
			out = append(out, Feature(m%HashSize<<1|m>>63))
		}
	}
	return out
}

// AsAdditive says whether an embedder is additive, looking through a Cache.
func AsAdditive(e Embedder) (Additive, bool) {
	if c, ok := e.(*Cache); ok {
		e = c.inner
	}
	a, ok := e.(Additive)
	return a, ok
}
