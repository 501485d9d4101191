package resolver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/pkg/settings"
)

// Config of the service. The pipeline settings are not here: they belong to the graph and ride on every event.
type Config struct {
	// Pinned are pipeline settings that the operator insists on, by name, for example "resolver.top_k": jobs with other values
	// are handed back. Settings of other stages are ignored. Defaults to none.
	Pinned map[string]string
	// Concurrency is how many documents are resolved at once. Defaults to 8.
	Concurrency int
	// Schemas is how many schemas are kept in memory. Defaults to 64.
	Schemas int
	// ModelURL is the model server that the judge asks. Defaults to http://127.0.0.1:11434.
	ModelURL string
	// Slots is how many calls of the judge to it are in flight, with those of the extractor where deps.ModelCalls is shared. Defaults to 1.
	Slots int
	// ModelTimeout bounds a call, and a request to the judge. Defaults to 10 minutes.
	ModelTimeout time.Duration
	// Names is how many answers of the registry are kept in memory. Defaults to 100,000.
	Names int
	// Version is the build's, as nats micro ls shows it. Defaults to "0.0.0".
	Version string
}

// FromConfig takes what concerns the resolver out of a process's configuration.
func FromConfig(cfg *app.Config) Config {
	return Config{
		Pinned: cfg.Pinned(), Concurrency: cfg.Int("resolver.concurrency"), ModelURL: cfg.Get("ollama.url"), Slots: cfg.Int("ollama.slots"),
		ModelTimeout: cfg.Duration("ollama.timeout"),
	}
}

// WithDefaults returns a copy with what is absent filled in.
func (c Config) WithDefaults() Config {
	if c.Concurrency <= 0 {
		c.Concurrency = 8
	}
	if c.Schemas <= 0 {
		c.Schemas = schemacache.DefaultSize
	}
	if c.ModelURL == "" {
		c.ModelURL = "http://127.0.0.1:11434"
	}
	if c.Slots <= 0 {
		c.Slots = 1
	}
	if c.ModelTimeout <= 0 {
		c.ModelTimeout = 10 * time.Minute
	}
	if c.Names <= 0 {
		c.Names = 100_000
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	return c
}

// pin is one setting that a job must have.
type pin struct{ name, value string }

// pins returns the resolver's pinned settings in the form of settings.Pipeline.Get, sorted by name.
func (c Config) pins() ([]pin, error) {
	for name := range c.Pinned {
		if !settings.Known(name) {
			return nil, fmt.Errorf("pinned setting %q is unknown; settings are: %s", name, strings.Join(settings.Names(), ", "))
		}
	}
	own, err := settings.Default().Apply(c.Pinned)
	if err != nil {
		return nil, fmt.Errorf("pinned settings: %w", err)
	}
	var out []pin
	for _, name := range slices.Sorted(maps.Keys(c.Pinned)) {
		if strings.HasPrefix(name, "resolver.") {
			out = append(out, pin{name, own.Get(name)})
		}
	}
	return out, nil
}
