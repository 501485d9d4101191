// Package tracing makes the tracers that record what the services do, over OTLP/HTTP. Nothing is recorded unless an endpoint is given.
package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/bus"
)

// Config says where spans go.
type Config struct {
	// Endpoint is the address of the OTLP/HTTP collector, for example http://127.0.0.1:4318; an address without a path gets /v1/traces.
	// Empty: nothing is recorded. OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _CERTIFICATE and the like are read from the environment.
	Endpoint string
	// Ratio of the traces that are recorded when no publisher decided: 0 to 1.
	Ratio float64
	// Version of the build.
	Version string
	// Log is told, at most once a minute, when spans cannot be sent.
	Log *slog.Logger
	// Exporter replaces the collector: for tests.
	Exporter sdk.SpanExporter
}

const (
	// queue of spans that wait to be sent; what does not fit is lost, never waited for.
	queue = 16 << 10
	// sendTimeout of one batch.
	sendTimeout = 5 * time.Second
	complain    = time.Minute
)

// Tracing gives each service its tracer. A nil one records nothing.
type Tracing struct {
	cfg  Config
	sink sdk.SpanProcessor

	mu        sync.Mutex
	providers map[string]*sdk.TracerProvider // by service; guarded by mu
}

// New makes a Tracing, nil when there is no endpoint. It connects to nothing: a collector that is away costs its spans.
func New(ctx context.Context, cfg Config) (*Tracing, error) {
	if cfg.Endpoint == "" && cfg.Exporter == nil {
		return nil, nil
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	out := cfg.Exporter
	if out == nil {
		u, err := target(cfg.Endpoint)
		if err != nil {
			return nil, err
		}
		if out, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u)); err != nil {
			return nil, fmt.Errorf("tracing.endpoint %s: %w", bus.Redacted(cfg.Endpoint), err)
		}
	}
	sink := sdk.NewBatchSpanProcessor(&telling{SpanExporter: out, log: cfg.Log}, sdk.WithMaxQueueSize(queue), sdk.WithBatchTimeout(time.Second),
		sdk.WithExportTimeout(sendTimeout))
	return &Tracing{cfg: cfg, sink: sink, providers: map[string]*sdk.TracerProvider{}}, nil
}

// target is the address that spans are posted to.
func target(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("tracing.endpoint is %q: it must be the address of an OTLP/HTTP collector, as http://127.0.0.1:4318", bus.Redacted(endpoint))
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// Check says what is wrong with an endpoint; nil for an empty one.
func Check(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	_, err := target(endpoint)
	return err
}

// Tracer of a service, which is the resource service.name factmill-<service>; nil when nothing is recorded.
func (t *Tracing) Tracer(service string) trace.Tracer {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.providers[service]
	if p == nil {
		p = sdk.NewTracerProvider(sdk.WithSpanProcessor(t.sink), sdk.WithIDGenerator(ids{}),
			sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(t.cfg.Ratio))),
			sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "factmill-"+service),
				attribute.String("service.namespace", "factmill"), attribute.String("service.version", t.cfg.Version))))
		t.providers[service] = p
	}
	return p.Tracer("github.com/factmill/factmill")
}

// Close sends what waits, for as long as ctx lasts.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := []error{t.sink.ForceFlush(ctx)}
	for _, p := range t.providers {
		errs = append(errs, p.Shutdown(ctx))
	}
	return errors.Join(append(errs, t.sink.Shutdown(ctx))...)
}

// ids are random, but for the traces that the bus has named.
type ids struct{}

// NewIDs implements sdk.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := bus.RootTraceID(ctx)
	for !ok || !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
		ok = true
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// telling logs what an exporter cannot send. The sender's own errors may hold its address, never spans.
type telling struct {
	sdk.SpanExporter
	log *slog.Logger

	mu   sync.Mutex
	said time.Time // guarded by mu
}

// ExportSpans implements sdk.SpanExporter.
func (t *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.said) >= complain {
		t.said = time.Now()
		t.log.Warn("spans are lost: the collector does not take them", "spans", len(spans), "error", err)
	}
	return nil // said
}
