package extractor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/pkg/settings"
)

// Config of the service. Mode, cuts and limits are not here: they belong to the graph and ride on every event.
type Config struct {
	// Pinned are pipeline settings that the operator insists on, by name, for example "extractor.mode": jobs with other values are
	// handed back. Settings of other stages are ignored. Defaults to none.
	Pinned map[string]string
	// Concurrency is how many documents are read at once. Defaults to 8.
	Concurrency int
	// Schemas is how many schemas are kept. Defaults to schemacache.DefaultSize.
	Schemas int
	// Version is the build's, as nats micro ls shows it. Defaults to "0.0.0".
	Version string
}

// FromConfig takes what concerns the extractor out of a process's configuration.
func FromConfig(cfg *app.Config) Config {
	return Config{Pinned: cfg.Pinned(), Concurrency: cfg.Int("extractor.concurrency")}
}

// WithDefaults returns a copy with what is absent filled in.
func (c Config) WithDefaults() Config {
	if c.Concurrency <= 0 {
		c.Concurrency = 8
	}
	if c.Schemas <= 0 {
		c.Schemas = schemacache.DefaultSize
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	return c
}

// pin is a setting that a job must have.
type pin struct{ name, value string }

// pins returns the pinned settings that concern this stage, by name, in the form that settings.Pipeline.Get gives.
func (c Config) pins() ([]pin, error) {
	wanted, err := settings.Default().Apply(c.Pinned)
	if err != nil {
		return nil, fmt.Errorf("pinned settings of the extractor: %w", err)
	}
	if mode := wanted.Extractor.Mode; !slices.Contains(served, mode) {
		return nil, fmt.Errorf("extractor.mode is %q: this build serves %s", mode, strings.Join(served, ", "))
	}
	var out []pin
	for name := range c.Pinned {
		if strings.HasPrefix(name, "extractor.") || name == "ollama.model" {
			out = append(out, pin{name, wanted.Get(name)})
		}
	}
	slices.SortFunc(out, func(a, b pin) int { return strings.Compare(a.name, b.name) })
	return out, nil
}
