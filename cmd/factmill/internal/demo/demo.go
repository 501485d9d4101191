// Package demo holds the sample corpus that the binary carries: a copy of examples/observatories, which go:embed cannot reach.
// A test compares the two; go generate makes the copy anew.
package demo

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:generate go run ./gen ../../../../examples/observatories corpus

//go:embed all:corpus
var corpus embed.FS

// Docs is the documents of the corpus.
func Docs() (fs.FS, error) {
	d, err := fs.Sub(corpus, "corpus/docs")
	if err != nil {
		return nil, fmt.Errorf("the sample corpus: %w", err)
	}
	return d, nil
}

// Schema is the corpus's schema file.
func Schema() ([]byte, error) {
	b, err := corpus.ReadFile("corpus/schema.yaml")
	if err != nil {
		return nil, fmt.Errorf("the sample schema: %w", err)
	}
	return b, nil
}
