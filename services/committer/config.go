package committer

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/factmill/factmill/pkg/app"
)

// Config of the committer.
type Config struct {
	// Dir is the store's directory. Required.
	Dir string
	// CacheBytes of the store's block cache. Defaults to 64 MiB.
	CacheBytes int64
	// StagedBytes of decoded staged events kept in memory. Defaults to 64 MiB.
	StagedBytes int
	// ReserveBytes of free disk that commits leave alone. Defaults to 0: none.
	ReserveBytes uint64
	// BallastBytes given up when the disk is full in mid-commit. Defaults to 0: none.
	BallastBytes int64
	// Lease: how long a job may stand still before it is looked at. Defaults to 60 s; at least 100 ms.
	Lease time.Duration
	// OnFatal is told that the store failed in a way after which it must be opened anew, and must end the process: what memory
	// and disk hold may differ, and reopening reads every job back. Defaults to a line on stderr and exit code 1.
	OnFatal func(error)
	// Workers answer requests at once. Defaults to 16.
	Workers int
	// Version is the build's, as nats micro ls shows it. Defaults to "0.0.0".
	Version string
}

// WithDefaults returns a copy in which absent values are the defaults.
func (c Config) WithDefaults() Config {
	if c.CacheBytes == 0 {
		c.CacheBytes = 64 << 20
	}
	if c.StagedBytes == 0 {
		c.StagedBytes = 64 << 20
	}
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.OnFatal == nil {
		c.OnFatal = func(err error) {
			fmt.Fprintf(os.Stderr, "factmill: the store failed and the process ends; start it again to go on: %v\n", err)
			os.Exit(app.ExitFailed)
		}
	}
	if c.Workers == 0 {
		c.Workers = 16
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	return c
}

// Validate names the first value that is out of its bounds.
func (c Config) Validate() error {
	if c.Dir == "" {
		return fmt.Errorf("committer: no data directory given (data)")
	}
	if c.Lease < 100*time.Millisecond {
		return fmt.Errorf("committer: job.lease is %s: at least 100ms", c.Lease)
	}
	return nil
}

// FromConfig takes the committer's values out of the configuration. The store lies in the data directory's "store".
func FromConfig(c *app.Config) Config {
	dir := c.Get("data")
	if dir != "" {
		dir = filepath.Join(dir, "store")
	}
	return Config{
		Dir: dir, CacheBytes: int64(c.Int("store.cache")), ReserveBytes: uint64(c.Int("store.reserve")), Lease: c.Duration("job.lease"),
	}.WithDefaults()
}
