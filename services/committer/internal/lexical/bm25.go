package lexical

import "math"

// Parameters of BM25 in their usual place: how soon repeats stop to count, and how much the length of a chunk matters.
const (
	K1 = 1.2
	B  = 0.75
)

// IDF is the weight of a term that stands in df of n chunks: Robertson and Spärck Jones' weight with 1 added inside the
// logarithm, so that it is never negative (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
// Beyond", 2009, 3.2).
func IDF(n, df int) float64 {
	if df > n {
		n = df
	}
	return math.Log1p((float64(n-df) + 0.5) / (float64(df) + 0.5))
}

// BM25 is the score of a term with weight idf that stands tf times in a chunk of length terms, where chunks have average
// terms (the same source, 3.15). average 0 leaves the length out.
func BM25(idf float64, tf, length int, average float64) float64 {
	norm := 1.0
	if average > 0 {
		norm = 1 - B + B*float64(length)/average
	}
	f := float64(tf)
	return idf * f * (K1 + 1) / (f + K1*norm)
}
