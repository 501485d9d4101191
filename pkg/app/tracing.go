package app

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/tracing"
)

// Tracing makes the tracers of a process's services as configured; nil when nothing is recorded. CloseTracing must follow.
func (c *Config) Tracing(ctx context.Context, version string, log *slog.Logger) (*tracing.Tracing, error) {
	ratio, err := strconv.ParseFloat(c.Get("tracing.ratio"), 64)
	if err != nil {
		return nil, err
	}
	t, err := tracing.New(ctx, tracing.Config{Endpoint: c.Get("tracing.endpoint"), Ratio: ratio, Version: version, Log: log})
	return t, Misconfigured(err)
}

// closeTracing is how long a process that ends sends spans.
const closeTracing = 3 * time.Second

// CloseTracing sends what waits. What the collector does not take is lost and said: it is no reason to fail.
func CloseTracing(t *tracing.Tracing, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTracing)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		log.Warn("the last spans could not be sent", "error", err)
	}
}

// otelEndpoint is the collector that the environment names as OpenTelemetry has it; empty: none, or it is switched off.
func otelEndpoint(environ []string) string {
	env := map[string]string{}
	for _, kv := range environ {
		if name, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "OTEL_") {
			env[name] = v
		}
	}
	if strings.EqualFold(env["OTEL_SDK_DISABLED"], "true") || env["OTEL_TRACES_EXPORTER"] == "none" {
		return ""
	}
	v := env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
	if base := env["OTEL_EXPORTER_OTLP_ENDPOINT"]; v == "" && base != "" {
		v = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if tracing.Check(v) != nil { // it was meant for another program
		return ""
	}
	return v
}
