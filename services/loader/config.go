package loader

import (
	"fmt"

	"github.com/factmill/factmill/pkg/app"
)

// Config of the loader. The zero value of a field is its default.
type Config struct {
	// Roots are the directories that path sources may lie in, links resolved; a relative source is looked for in each, in
	// order. Defaults to none: path sources are then refused, uploads and inline documents go on.
	Roots []string
	// AllowAll lets path sources lie anywhere that the process may read. For a command that reads its caller's own files.
	// Defaults to false.
	AllowAll bool
	// MaxDocument is the most bytes that a source may have, and a document's text after normalisation. Defaults to 32 MiB;
	// 1 KiB…64 MiB.
	MaxDocument int64
	// ListConcurrency is how many document events are listed at once. Defaults to 2; 1…64.
	ListConcurrency int
	// Concurrency is how many sources are fetched at once. Defaults to 8; 1…256.
	Concurrency int
	// Version is the build's, as nats micro ls shows it. Defaults to "0.0.0".
	Version string
}

const (
	defaultMaxDocument = 32 << 20
	minMaxDocument     = 1 << 10
	maxMaxDocument     = 64 << 20
)

// FromConfig reads the process's configuration (loader.…).
func FromConfig(c *app.Config) Config {
	return Config{Roots: c.List("loader.roots"), MaxDocument: int64(c.Int("loader.max_document")), Concurrency: c.Int("loader.concurrency")}
}

// WithDefaults fills what is absent.
func (c Config) WithDefaults() Config {
	if c.MaxDocument == 0 {
		c.MaxDocument = defaultMaxDocument
	}
	if c.ListConcurrency == 0 {
		c.ListConcurrency = 2
	}
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	return c
}

// Validate names the first field that is out of its bounds. Call it after WithDefaults.
func (c Config) Validate() error {
	for _, f := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"loader.max_document", c.MaxDocument, minMaxDocument, maxMaxDocument},
		{"loader.list_concurrency", int64(c.ListConcurrency), 1, 64},
		{"loader.concurrency", int64(c.Concurrency), 1, 256},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("%s is %d: it must be between %d and %d", f.name, f.v, f.lo, f.hi)
		}
	}
	for _, r := range c.Roots {
		if r == "" {
			return fmt.Errorf("loader.roots has an empty entry")
		}
	}
	return nil
}
