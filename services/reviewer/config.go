package reviewer

import (
	"time"

	"github.com/factmill/factmill/pkg/app"
)

// Config of the reviewer.
type Config struct {
	// CatchUp is how long a request waits for candidate events that the committer has committed already before the read model
	// is loaded anew. Defaults to 5 s.
	CatchUp time.Duration
	// Workers answer requests at once. Defaults to what the bus chooses.
	Workers int
	// Version is the build's, as nats micro ls shows it. Defaults to "0.0.0".
	Version string
}

// WithDefaults returns a copy in which absent values are the defaults.
func (c Config) WithDefaults() Config {
	if c.CatchUp <= 0 {
		c.CatchUp = 5 * time.Second
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	return c
}

// FromConfig takes the reviewer's values out of the configuration.
func FromConfig(*app.Config) Config { return Config{}.WithDefaults() }
