// Package ollama embeds texts with a model of an Ollama server. A model's vectors know what words mean, and cost a call.
package ollama

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ollama/ollama/api"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/factmill/factmill/pkg/embed"
)

// Config of an embedder. URL and Model are required.
type Config struct {
	// URL of the server, as http://127.0.0.1:11434.
	URL string
	// Model that embeds, as all-minilm.
	Model string
	// Slots is how many calls are in flight at most, over all callers. Defaults to 1.
	Slots int
	// Batch is how many texts one call has at most. Defaults to 64.
	Batch int
	// Timeout of one call. Defaults to 1 minute.
	Timeout time.Duration
	// Tries is how often a call is made whose answer broke off or was "busy". Defaults to 4.
	Tries int
	// MaxRunes of a text; what is longer is cut there. The server cuts at the model's own context, too. Defaults to 8,000.
	MaxRunes int
	// Size the vectors must have; 0: what the first answer has.
	Size int
	// Link and Drop are the thresholds of two names. Default to 0.95 and 0.80.
	Link, Drop float64
	// After is time.After, for tests.
	After func(time.Duration) <-chan time.Time
}

// The defaults.
const (
	DefaultBatch    = 64
	DefaultTimeout  = time.Minute
	DefaultTries    = 4
	DefaultMaxRunes = 8000
	DefaultLink     = 0.95
	DefaultDrop     = 0.80
)

const (
	maxSlots = 256
	maxBatch = 1024
	maxTries = 20
	// maxSize of a vector: more is no embedding.
	maxSize = 16384
	// digestFresh is how long the digest of the model is believed.
	digestFresh = time.Minute
	shortDigest = 12
)

func (c Config) withDefaults() (Config, error) {
	for _, n := range []struct {
		name      string
		at        *int
		byDefault int
		most      int
	}{{"slots", &c.Slots, 1, maxSlots}, {"batch", &c.Batch, DefaultBatch, maxBatch}, {"tries", &c.Tries, DefaultTries, maxTries},
		{"max_runes", &c.MaxRunes, DefaultMaxRunes, 1 << 20}, {"size", &c.Size, 0, maxSize}} {
		if *n.at < 0 || *n.at > n.most {
			return c, fmt.Errorf("embedder of a model: %s is %d: it must be between 0 and %d", n.name, *n.at, n.most)
		}
		if *n.at == 0 {
			*n.at = n.byDefault
		}
	}
	if c.Model = strings.TrimSpace(c.Model); c.Model == "" {
		return c, errors.New("ollama.embed_model is empty: name a model that embeds, as all-minilm")
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Link == 0 {
		c.Link = DefaultLink
	}
	if c.Drop == 0 {
		c.Drop = DefaultDrop
	}
	if !(c.Drop > 0 && c.Drop <= c.Link && c.Link <= 1) {
		return c, fmt.Errorf("embedder %s: thresholds link %g and drop %g: 0 < drop ≤ link ≤ 1", c.Model, c.Link, c.Drop)
	}
	if c.After == nil {
		c.After = time.After
	}
	return c, nil
}

// Embedder asks a model server. It is safe for concurrent use and has nothing to close.
type Embedder struct {
	cfg   Config
	url   string // for people
	api   *api.Client
	slots *semaphore.Weighted

	probing sync.Mutex // one Probe at a time

	mu     sync.Mutex
	size   int       // 0 until it is known; guarded by mu
	digest string    // "" until it is known; guarded by mu
	seen   time.Time // when the digest was; guarded by mu
}

var _ embed.Embedder = (*Embedder)(nil)

// New makes an embedder that has asked nothing yet: Name is without the digest and Size 0 (or Config.Size) before Probe. What opens a store or
// an index calls Probe first.
func New(cfg Config) (*Embedder, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	address := cfg.URL
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("ollama.url is %q: it must be an http or https address", cfg.URL)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = cfg.Slots
	t.IdleConnTimeout = 30 * time.Second
	e := &Embedder{cfg: cfg, url: u.Redacted(), slots: semaphore.NewWeighted(int64(cfg.Slots)), size: cfg.Size}
	e.api = api.NewClient(u, &http.Client{Transport: transport{t}})
	return e, nil
}

// Name is ollama/ and the model's name, and once Probe has seen it the beginning of its digest: a model that was pulled anew is another embedder.
func (e *Embedder) Name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.digest == "" {
		return "ollama/" + e.cfg.Model
	}
	return "ollama/" + e.cfg.Model + "@" + e.digest[:min(shortDigest, len(e.digest))]
}

// Size is 0 until the first answer, unless the configuration has one.
func (e *Embedder) Size() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.size
}

// Thresholds are the configured ones. The defaults are the specification's and hold for no model in particular.
func (e *Embedder) Thresholds() (link, drop float64) { return e.cfg.Link, e.cfg.Drop }

// Probe learns the model's digest and the size of its vectors. It does nothing when both are known.
func (e *Embedder) Probe(ctx context.Context) error {
	e.probing.Lock()
	defer e.probing.Unlock()
	if err := e.checkDigest(ctx); err != nil {
		return err
	}
	if e.Size() > 0 {
		return nil
	}
	_, err := e.ask(ctx, []string{"probe"})
	return err
}

// Embed asks for the texts that have a letter to embed, batch by batch, at most Config.Slots at once. Errors: ErrDown, ErrChanged, embed.ErrShape, and
// the context's.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var ask []string
	var at []int
	for i, t := range texts {
		if t = e.cut(t); t != "" {
			ask, at = append(ask, t), append(at, i)
		}
	}
	out := make([][]float32, len(texts))
	if len(ask) > 0 {
		if err := e.recheck(ctx); err != nil {
			return nil, err
		}
	} else if e.Size() == 0 && len(texts) > 0 {
		if err := e.Probe(ctx); err != nil {
			return nil, err
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(e.cfg.Slots)
	for from := 0; from < len(ask); from += e.cfg.Batch {
		to := min(from+e.cfg.Batch, len(ask))
		all.Go(func() error {
			vs, err := e.ask(ctx, ask[from:to])
			if err != nil { // an answer of another shape may be longer than what was asked
				return err
			}
			for i, v := range vs {
				out[at[from+i]] = v
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	size := e.Size()
	for i := range out {
		if out[i] == nil {
			out[i] = make([]float32, size)
		}
	}
	return out, nil
}

// cut is what is sent of a text: without white space around it, at most MaxRunes.
func (e *Embedder) cut(t string) string {
	t = strings.TrimSpace(t)
	if len(t) <= e.cfg.MaxRunes || utf8.RuneCountInString(t) <= e.cfg.MaxRunes {
		return t
	}
	n := 0
	for i := range t {
		if n == e.cfg.MaxRunes {
			return strings.TrimSpace(t[:i])
		}
		n++
	}
	return t
}

// checked makes unit vectors of an answer for n texts, and learns their size. Errors wrap embed.ErrShape.
func (e *Embedder) checked(n int, vs [][]float32) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("embedder %s at %s: %s: %w", e.Name(), e.url, fmt.Sprintf(format, args...), embed.ErrShape)
	}
	if len(vs) != n {
		return bad("%d vectors for %d texts", len(vs), n)
	}
	size := e.Size()
	for i, v := range vs {
		if size == 0 {
			if size = len(v); size == 0 || size > maxSize {
				return bad("a vector of %d numbers", size)
			}
		}
		if len(v) != size {
			return bad("vector %d has %d numbers instead of %d", i, len(v), size)
		}
		if !normalise(v) {
			return bad("vector %d has what is no number", i)
		}
	}
	if was := e.learn(size); was != size {
		return bad("vectors of %d numbers and of %d", was, size)
	}
	return nil
}

// learn keeps the first size that is seen, and returns it.
func (e *Embedder) learn(size int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.size == 0 {
		e.size = size
	}
	return e.size
}

// normalise makes the length 1, of a vector of zeros 0; false for one with NaN or infinities.
func normalise(v []float32) bool {
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	if math.IsNaN(squares) || math.IsInf(squares, 0) {
		return false
	}
	if squares == 0 {
		return true
	}
	length := math.Sqrt(squares)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
	return true
}
