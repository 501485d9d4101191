package committer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/committer/internal/store"
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
	// FeedBytes of what was written last are kept for read replicas, once there was one. Defaults to 256 MiB.
	FeedBytes int64
	// Adopt takes over streams that belong to another store, for good. Defaults to false: they are refused.
	Adopt bool
	// Lease: how long a job may stand still before it is looked at. Defaults to 60 s; at least 100 ms.
	Lease time.Duration
	// OnFatal is told that the store failed in a way after which it must be opened anew, and must end the process: what memory
	// and disk hold may differ, and reopening reads every job back. Defaults to a line on stderr and exit code 1.
	OnFatal func(error)
	// Workers answer requests at once. Defaults to 16.
	Workers int
	// ModelURL is the model server of graphs that are embedded by a model, Slots how many of its calls are in flight, ModelTimeout how long
	// one may take. Default to http://127.0.0.1:11434, 1 and 10 minutes.
	ModelURL     string
	Slots        int
	ModelTimeout time.Duration
	// Route is where names near a name are looked for: "native" or "milvus". Defaults to native.
	Route string
	// MilvusAddress, host:port, of a server that gets a copy of the vectors; empty: none. MilvusCollection begins the names of its collections;
	// defaults to factmill.
	MilvusAddress, MilvusCollection string
	// After is time.After, for tests: the pauses of what follows the commits.
	After func(time.Duration) <-chan time.Time
	// PolicyOff leaves all that waits to people, whatever a schema's review section says: for a trail that is replayed and has the decisions of the
	// policy as records.
	PolicyOff bool
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
			fmt.Fprintf(os.Stderr, "factmill: the store failed and the process ends; %s: %v\n", wayOut(err), err)
			os.Exit(app.ExitFailed)
		}
	}
	if c.Workers == 0 {
		c.Workers = 16
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
	if c.Route == "" {
		c.Route = RouteNative
	}
	if c.MilvusCollection == "" {
		c.MilvusCollection = "factmill"
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
	switch {
	case c.Route != RouteNative && c.Route != RouteMilvus:
		return fmt.Errorf("committer: vectors.route is %q: it must be native or milvus", c.Route)
	case c.Route == RouteMilvus && c.MilvusAddress == "":
		return fmt.Errorf("committer: vectors.route is milvus and milvus.address is empty: give the server's host:port")
	case c.MilvusAddress != "" && !isHostPort(c.MilvusAddress):
		return fmt.Errorf("committer: milvus.address is %q: it must be host:port, as 127.0.0.1:19530", c.MilvusAddress)
	case !collectionName.MatchString(c.MilvusCollection):
		return fmt.Errorf("committer: milvus.collection is %q: it must be letters, digits and _, beginning with a letter, at most 100", c.MilvusCollection)
	}
	return nil
}

func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && port != ""
}

var collectionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,99}$`)

// Routes.
const (
	RouteNative = "native"
	RouteMilvus = "milvus"
)

// wayOut says what helps after a failure of the store.
func wayOut(err error) string {
	if errors.Is(err, store.ErrDamaged) {
		return "starting it again does not help, restore a backup (factmill restore)"
	}
	return "start it again to go on"
}

// FromConfig takes the committer's values out of the configuration. The store lies in the data directory's "store".
func FromConfig(c *app.Config) Config {
	dir := c.Get("data")
	if dir != "" {
		dir = filepath.Join(dir, "store")
	}
	return Config{
		Dir: dir, CacheBytes: int64(c.Int("store.cache")), ReserveBytes: uint64(c.Int("store.reserve")), Lease: c.Duration("job.lease"),
		FeedBytes: int64(c.Int("store.feed")), Adopt: c.Bool("store.adopt"),
		ModelURL: c.Get("ollama.url"), Slots: c.Int("ollama.slots"), ModelTimeout: c.Duration("ollama.timeout"),
		Route: c.Get("vectors.route"), MilvusAddress: c.Get("milvus.address"), MilvusCollection: c.Get("milvus.collection"),
	}.WithDefaults()
}
