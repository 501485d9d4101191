// Package embed turns texts into unit vectors: the interface that every embedder has, the embedded one that needs no
// model (Hash), and a cache over any of them.
package embed

import (
	"context"
	"errors"
	"fmt"
)

// Embedder turns texts into vectors of one size. It is safe for concurrent use.
type Embedder interface {
	// Name is the model and its version, as fingerprints and stores name it: two embedders of one name give equal vectors.
	Name() string
	// Size is the length of every vector.
	Size() int
	// Embed returns one vector for each text, in order: of unit length, or all zeros for a text with nothing to embed.
	// It answers for all texts or with an error. The vectors must not be changed by the caller: a cache may share them.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Thresholds are the embedder's own for the names of two entities of one label: a cosine of link or more links,
	// one under drop says that they differ, between them the pair is unclear.
	Thresholds() (link, drop float64)
}

// ErrShape says that an embedder answered with another number of vectors, or vectors of another size, than it should.
var ErrShape = errors.New("vectors of the wrong shape")

// Check says whether vectors are what e owes for n texts; the error wraps ErrShape and names both numbers.
func Check(e Embedder, n int, vectors [][]float32) error {
	if len(vectors) != n {
		return fmt.Errorf("embedder %s: %d vectors for %d texts: %w", e.Name(), len(vectors), n, ErrShape)
	}
	for i, v := range vectors {
		if len(v) != e.Size() {
			return fmt.Errorf("embedder %s: vector %d has %d numbers instead of %d: %w", e.Name(), i, len(v), e.Size(), ErrShape)
		}
	}
	return nil
}

// Cosine of two unit vectors, in -1…1; 0 when one of them is all zeros or their sizes differ. The products are summed
// in float64, each rounded before it is added, so that every machine gets the same number.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var sum float64
	for i, x := range a {
		p := float64(x) * float64(b[i]) // exact: two 24-bit mantissas fit into 53 bits, so a fused add changes nothing
		sum += p
	}
	return max(-1, min(1, sum))
}
