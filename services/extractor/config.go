package extractor

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	// ModelURL is the model server. Defaults to http://127.0.0.1:11434.
	ModelURL string
	// Slots is how many calls to it are in flight, of all jobs of this process. Defaults to 1.
	Slots int
	// ModelTimeout bounds a call. Defaults to 10 minutes.
	ModelTimeout time.Duration
	// ReplyMemory is how many bytes of kept replies are held in memory. Defaults to 32 MiB.
	ReplyMemory int64
	// Schemas is how many schemas are kept. Defaults to schemacache.DefaultSize.
	Schemas int
	// Version is the build's, as nats micro ls shows it. Defaults to "0.0.0".
	Version string
}

// FromConfig takes what concerns the extractor out of a process's configuration.
func FromConfig(cfg *app.Config) Config {
	return Config{
		Pinned: cfg.Pinned(), Concurrency: cfg.Int("extractor.concurrency"), ModelURL: cfg.Get("ollama.url"), Slots: cfg.Int("ollama.slots"),
		ModelTimeout: cfg.Duration("ollama.timeout"), ReplyMemory: int64(cfg.Int("extractor.reply_cache")),
	}
}

// WithDefaults returns a copy with what is absent filled in.
func (c Config) WithDefaults() Config {
	if c.Concurrency <= 0 {
		c.Concurrency = 8
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
	if c.ReplyMemory <= 0 {
		c.ReplyMemory = 32 << 20
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
	wanted := settings.Default()
	for name, v := range c.Pinned {
		if err := wanted.Set(name, v); err != nil {
			return nil, fmt.Errorf("pinned settings of the extractor: %w", err)
		}
	}
	if err := wanted.Validate(); err != nil {
		return nil, fmt.Errorf("pinned settings of the extractor: %w", err)
	}
	var out []pin
	for name := range c.Pinned {
		if strings.HasPrefix(name, "extractor.") || name == "ollama.model" || name == "ollama.model_digest" {
			out = append(out, pin{name, wanted.Get(name)})
		}
	}
	slices.SortFunc(out, func(a, b pin) int { return strings.Compare(a.name, b.name) })
	return out, nil
}
