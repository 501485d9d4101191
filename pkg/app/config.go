package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/semaphore"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/pkg/tracing"
)

// Key is one configuration value: how it is called in the file, as a flag (--name) and in the environment
// (FACTMILL_NAME with dots and dashes as underscores).
type Key struct {
	Name    string
	Default string
	Help    string
	Secret  bool
	// Pipeline settings belong to the graph.
	Pipeline bool
}

// Keys is the one table of configuration values.
var Keys = buildKeys()

func buildKeys() []Key {
	keys := []Key{
		{Name: "data", Help: "data directory (default $XDG_DATA_HOME/factmill)"},
		{Name: "nats.url", Help: "NATS server of running services"},
		{Name: "nats.creds", Help: "credentials file"},
		{Name: "nats.nkey", Help: "nkey seed file; of services also the directory of their seeds"},
		{Name: "nats.user", Help: "user name"},
		{Name: "nats.password", Help: "password", Secret: true},
		{Name: "nats.token", Help: "token; of up: what clients must bring", Secret: true},
		{Name: "nats.token_file", Help: "file that holds the token"},
		{Name: "nats.tls.ca", Help: "file of the certificate authority"},
		{Name: "nats.tls.cert", Help: "certificate file of the client; of up: of the server"},
		{Name: "nats.tls.key", Help: "its key file"},
		{Name: "nats.sync", Default: "interval", Help: "embedded server: interval (every second) or always (every message)"},
		{Name: "bus.ack_wait", Default: "20s", Help: "how long a stage holds a message without a sign of life"},
		{Name: "bus.replicas", Default: "1", Help: "copies of every stream that provision makes; a cluster of three servers wants 3"},
		{Name: "http.listen", Help: "address of /live, /ready and /metrics (loopback unless you say otherwise; empty: none)"},
		{Name: "log.level", Default: "info", Help: "debug, info, warn or error"},
		{Name: "log.format", Default: "text", Help: "text or json"},
		{Name: "tracing.endpoint", Help: "OTLP/HTTP collector of traces (default $OTEL_EXPORTER_OTLP_ENDPOINT, none)"},
		{Name: "tracing.ratio", Default: "1", Help: "share of the documents that are traced when their publisher decides nothing"},
		{Name: "job.lease", Default: "60s", Help: "a job without progress for this long, and without messages, is dead"},
		{Name: "loader.roots", Help: "comma separated directories that path sources may lie in"},
		{Name: "loader.max_document", Default: "33554432", Help: "bytes a document may have"},
		{Name: "loader.concurrency", Default: "8", Help: "sources fetched at once"},
		{Name: "chunker.concurrency", Default: "8", Help: "documents chunked at once"},
		{Name: "extractor.concurrency", Default: "8", Help: "documents read at once"},
		{Name: "resolver.concurrency", Default: "8", Help: "documents resolved at once"},
		{Name: "store.cache", Default: "67108864", Help: "bytes of the store's block cache"},
		{Name: "store.feed", Default: "268435456", Help: "bytes of what was written last that are kept for read replicas, where there are some"},
		{Name: "store.adopt", Default: "false", Help: "committer: true takes over streams that belong to another store, for good"},
		{Name: "replica.shared", Default: "false", Help: "read replica: also answer query.* beside the committer, possibly behind it"},
		{Name: "replica.max_lag", Default: "30s", Help: "read replica: not ready when it is behind for longer; it answers all the same"},
		{Name: "store.reserve", Default: "268435456", Help: "bytes of free disk that commits leave alone"},
		{Name: "ollama.url", Default: "http://127.0.0.1:11434", Help: "Ollama server"},
		{Name: "ollama.slots", Default: "1", Help: "model calls in flight, over the services of a process"},
		{Name: "ollama.timeout", Default: "10m", Help: "how long one model call may take"},
		{Name: "extractor.reply_cache", Default: "33554432", Help: "bytes of kept model replies held in memory"},
		{Name: "vectors.route", Default: "native", Help: "native or milvus"},
		{Name: "milvus.address", Help: "Milvus server"},
		{Name: "milvus.collection", Default: "factmill", Help: "Milvus collection"},
	}
	d := settings.Default()
	for _, n := range settings.Names() {
		keys = append(keys, Key{Name: n, Default: d.Get(n), Help: "pipeline setting of the graph", Pipeline: true})
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Name < keys[j].Name })
	return keys
}

// Value is one effective value and where it came from: "default", "file", "environment" or "flag".
type Value struct {
	Text   string
	Source string
}

// Config is the effective configuration.
type Config struct {
	values map[string]Value
}

// EnvName is the environment variable of a key.
func EnvName(key string) string {
	return "FACTMILL_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// LoadConfig merges defaults, one YAML file ("" for none), environment ("K=V" strings) and flags, in rising order.
// A key that the file has and no table knows is an error that names it.
func LoadConfig(file string, environ []string, flags map[string]string) (*Config, error) {
	c := &Config{values: map[string]Value{}}
	byEnv := map[string]string{}
	for _, k := range Keys {
		c.values[k.Name] = Value{k.Default, "default"}
		byEnv[EnvName(k.Name)] = k.Name
	}
	if file != "" {
		flat, err := readFile(file)
		if err != nil {
			return nil, err
		}
		for _, n := range sortedKeys(flat) {
			if _, ok := c.values[n]; !ok {
				return nil, fmt.Errorf("%s: unknown key %q%s", file, n, hint(n))
			}
			c.values[n] = Value{flat[n], "file"}
		}
	}
	for _, kv := range environ {
		name, v, ok := strings.Cut(kv, "=")
		if n, known := byEnv[name]; ok && known {
			c.values[n] = Value{v, "environment"}
		}
	}
	if n := "tracing.endpoint"; c.values[n].Source == "default" {
		if v := otelEndpoint(environ); v != "" {
			c.values[n] = Value{v, "environment"}
		}
	}
	for n, v := range flags {
		if _, ok := c.values[n]; !ok {
			return nil, fmt.Errorf("unknown flag --%s%s", n, hint(n))
		}
		c.values[n] = Value{v, "flag"}
	}
	if err := c.readToken(); err != nil {
		return nil, err
	}
	return c, c.check()
}

const maxToken = 4096

// readToken takes the token out of its file, unless one is given as it is.
func (c *Config) readToken() error {
	name := c.Get("nats.token_file")
	if name == "" || c.Get("nats.token") != "" {
		return nil
	}
	bad := &bus.BadOption{Key: "nats.token_file", File: name, Way: "name a file that holds the token and nothing else"}
	f, err := os.Open(name)
	if err == nil {
		defer func() { _ = f.Close() }() // only read
		var b []byte
		if b, err = io.ReadAll(io.LimitReader(f, maxToken+3)); err == nil { // with the end of its line
			c.values["nats.token"] = Value{strings.TrimSpace(string(b)), c.Source("nats.token_file")}
		}
	}
	var p *fs.PathError
	switch n := len(c.Get("nats.token")); {
	case errors.As(err, &p):
		bad.Why = p.Err.Error()
	case err != nil:
		bad.Why = err.Error()
	case n == 0 || n > maxToken:
		bad.Why = fmt.Sprintf("it must hold a token of 1 to %d bytes", maxToken)
	default:
		return nil
	}
	return bad
}

func (c *Config) check() error {
	for _, n := range []string{"bus.ack_wait", "job.lease", "ollama.timeout", "replica.max_lag"} {
		if d, err := time.ParseDuration(c.Get(n)); err != nil || d < 100*time.Millisecond {
			return fmt.Errorf("%s is %q: it must be a duration of at least 100ms", n, c.Get(n))
		}
	}
	for _, k := range []string{"loader.max_document", "loader.concurrency", "chunker.concurrency", "extractor.concurrency", "resolver.concurrency", "store.cache", "store.reserve", "store.feed", "ollama.slots", "extractor.reply_cache"} {
		if n, err := strconv.ParseInt(c.Get(k), 10, 64); err != nil || n < 0 || (n == 0 && k != "store.reserve") {
			return fmt.Errorf("%s is %q: it must be a positive whole number", k, c.Get(k))
		}
	}
	if r, err := strconv.ParseFloat(c.Get("tracing.ratio"), 64); err != nil || !(r >= 0 && r <= 1) {
		return fmt.Errorf("tracing.ratio is %q: it must be a number from 0 to 1", c.Get("tracing.ratio"))
	}
	if err := tracing.Check(c.Get("tracing.endpoint")); err != nil {
		return err
	}
	if n, err := strconv.Atoi(c.Get("bus.replicas")); err != nil || n < 1 || n > 5 {
		return fmt.Errorf("bus.replicas is %q: it must be 1 to 5", c.Get("bus.replicas"))
	}
	for _, n := range []string{"replica.shared", "store.adopt"} {
		if s := c.Get(n); s != "true" && s != "false" {
			return fmt.Errorf("%s is %q: it must be true or false", n, s)
		}
	}
	switch c.Get("log.level") {
	case "debug", "info", "warn", "error":
	default:
		return fmt.Errorf("log.level is %q: it must be debug, info, warn or error", c.Get("log.level"))
	}
	switch c.Get("log.format") {
	case "text", "json":
	default:
		return fmt.Errorf("log.format is %q: it must be text or json", c.Get("log.format"))
	}
	switch c.Get("nats.sync") {
	case "interval", "always":
	default:
		return fmt.Errorf("nats.sync is %q: it must be interval or always", c.Get("nats.sync"))
	}
	_, err := settings.Default().Apply(c.Pinned())
	return err
}

// Get returns a value as text.
func (c *Config) Get(name string) string { return c.values[name].Text }

// Source says where a value came from.
func (c *Config) Source(name string) string { return c.values[name].Source }

// Int returns a whole number; check has seen that it is one.
func (c *Config) Int(name string) int {
	n, err := strconv.Atoi(c.Get(name))
	if err != nil {
		return 0
	}
	return n
}

// Duration returns a duration; check has seen that it is one.
func (c *Config) Duration(name string) time.Duration {
	d, err := time.ParseDuration(c.Get(name))
	if err != nil {
		return 0
	}
	return d
}

// Bool returns true or false; check has seen that it is one of them.
func (c *Config) Bool(name string) bool { return c.Get(name) == "true" }

// ModelCalls makes the slots of the model server for the services of one process.
func (c *Config) ModelCalls() *semaphore.Weighted {
	return semaphore.NewWeighted(int64(max(1, c.Int("ollama.slots"))))
}

// List returns a comma separated list.
func (c *Config) List(name string) []string {
	var out []string
	for _, s := range strings.Split(c.Get(name), ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Pinned returns the pipeline settings that somebody set on purpose: what goes into the graph, or what a lone service
// insists on.
func (c *Config) Pinned() map[string]string {
	out := map[string]string{}
	for _, k := range Keys {
		if v := c.values[k.Name]; k.Pipeline && v.Source != "default" {
			out[k.Name] = v.Text
		}
	}
	return out
}

// shown is a value as it may be seen: without secrets, also those in addresses.
func (c *Config) shown(k Key) string {
	text := c.Get(k.Name)
	switch {
	case k.Secret && text != "":
		return "(hidden)"
	case strings.HasSuffix(k.Name, ".url") || strings.HasSuffix(k.Name, ".address") || strings.HasSuffix(k.Name, ".endpoint"):
		return bus.Redacted(text)
	}
	return text
}

// Print writes the effective configuration as YAML-like lines with their sources; secrets are hidden.
func (c *Config) Print(w io.Writer) error {
	for _, k := range Keys {
		if _, err := fmt.Fprintf(w, "%s: %q # %s\n", k.Name, c.shown(k), c.Source(k.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Map returns every value with its source for --json; secrets are hidden.
func (c *Config) Map() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, k := range Keys {
		out[k.Name] = map[string]string{"value": c.shown(k), "source": c.Source(k.Name)}
	}
	return out
}

// Logger makes the process's logger as configured.
func (c *Config) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Get("log.level"))); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Get("log.format") == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

const maxConfig = 1 << 20

func readFile(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	if len(b) > maxConfig {
		return nil, fmt.Errorf("configuration %s is larger than %d bytes", file, maxConfig)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(b, &root); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	flat := map[string]string{}
	if len(root.Content) == 0 {
		return flat, nil
	}
	return flat, flatten(file, "", root.Content[0], flat)
}

func flatten(file, prefix string, n *yaml.Node, into map[string]string) error {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if prefix != "" {
				name = prefix + "." + name
			}
			if _, dup := into[name]; dup {
				return fmt.Errorf("%s:%d: %s stands twice", file, n.Content[i].Line, name)
			}
			if err := flatten(file, name, n.Content[i+1], into); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		var parts []string
		for _, c := range n.Content {
			if c.Kind != yaml.ScalarNode {
				return fmt.Errorf("%s:%d: %s takes a list of plain values", file, c.Line, prefix)
			}
			parts = append(parts, c.Value)
		}
		into[prefix] = strings.Join(parts, ",")
	case yaml.ScalarNode:
		if prefix == "" {
			return fmt.Errorf("%s:%d: the configuration is not a mapping", file, n.Line)
		}
		into[prefix] = n.Value
	default:
		return fmt.Errorf("%s:%d: aliases are not taken here", file, n.Line)
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// hint names the known key that was probably meant.
func hint(name string) string {
	known := make([]string, len(Keys))
	for i, k := range Keys {
		known[i] = k.Name
	}
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf(", did you mean %q?", best)
	}
	return ""
}

// nearest is the known name that shares the most with a mistyped one, at its beginning and its end; empty when none is near.
func nearest(name string, known []string) string {
	best, score := "", 2
	for _, k := range known {
		n := 0
		for n < len(k) && n < len(name) && k[n] == name[n] {
			n++
		}
		m := 0
		for m < len(k)-n && m < len(name)-n && k[len(k)-1-m] == name[len(name)-1-m] {
			m++
		}
		if n+m > score && abs(len(k)-len(name)) < 4 {
			best, score = k, n+m
		}
	}
	return best
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
