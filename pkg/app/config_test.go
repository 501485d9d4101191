package app_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/testkit"
)

func TestConfigLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	require.NoError(t, os.WriteFile(file, []byte("extractor:\n  mode: llm\nlog.level: debug\nloader:\n  roots: [/a, /b]\nchunker: {size: 300}\n"), 0o600))
	c, err := app.LoadConfig(file, []string{"FACTMILL_EXTRACTOR_MODE=hybrid", "FACTMILL_NATS_PASSWORD=secret", "OTHER=1"}, map[string]string{"extractor.mode": "rules"})
	require.NoError(t, err)
	require.Equal(t, "rules", c.Get("extractor.mode"))
	require.Equal(t, "flag", c.Source("extractor.mode"))
	require.Equal(t, "debug", c.Get("log.level"))
	require.Equal(t, []string{"/a", "/b"}, c.List("loader.roots"))
	require.Equal(t, map[string]string{"extractor.mode": "rules", "chunker.size": "300"}, c.Pinned())
	var out bytes.Buffer
	require.NoError(t, c.Print(&out))
	require.NotContains(t, out.String(), "secret")
	require.Contains(t, out.String(), `nats.password: "(hidden)" # environment`)
	require.Contains(t, out.String(), `extractor.mode: "rules" # flag`)
	require.Equal(t, "(hidden)", c.Map()["nats.password"]["value"])
}

func TestConfigRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(s string) string {
		f := filepath.Join(dir, "f.yaml")
		require.NoError(t, os.WriteFile(f, []byte(s), 0o600))
		return f
	}
	_, err := app.LoadConfig(write("extractor: {mod: llm}"), nil, nil)
	require.ErrorContains(t, err, `unknown key "extractor.mod", did you mean "extractor.mode"?`)
	_, err = app.LoadConfig(write("a: [1"), nil, nil)
	require.Error(t, err)
	_, err = app.LoadConfig(write("just text"), nil, nil)
	require.ErrorContains(t, err, "not a mapping")
	_, err = app.LoadConfig(filepath.Join(dir, "absent"), nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	for name, v := range map[string]string{"job.lease": "1ms", "bus.ack_wait": "x", "log.level": "loud", "log.format": "xml", "nats.sync": "no",
		"loader.concurrency": "0", "tracing.ratio": "1.5", "tracing.endpoint": "localhost:4317", "chunker.size": "7", "extractor.mode": "magic"} {
		_, err := app.LoadConfig("", nil, map[string]string{name: v})
		require.ErrorContains(t, err, name)
	}
	_, err = app.LoadConfig("", nil, map[string]string{"nope": "1"})
	require.ErrorContains(t, err, "unknown flag --nope")
}

// Tracing is off unless an endpoint is named, as ours or as OpenTelemetry's.
func TestTracingEndpoint(t *testing.T) {
	for _, x := range []struct{ env, want string }{
		{"", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/", "http://c:4318/v1/traces"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://d/x", "https://d/x"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 FACTMILL_TRACING_ENDPOINT=http://e:1", "http://e:1"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_SDK_DISABLED=true", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_TRACES_EXPORTER=none", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4317", ""},
	} {
		c, err := app.LoadConfig("", strings.Fields(x.env), nil)
		require.NoError(t, err, x.env)
		require.Equal(t, x.want, c.Get("tracing.endpoint"), x.env)
		traces, err := c.Tracing(t.Context(), "v", testkit.Quiet())
		require.NoError(t, err)
		require.Equal(t, x.want == "", traces == nil, x.env)
		require.Equal(t, x.want == "", traces.Tracer("loader") == nil, x.env)
		app.CloseTracing(traces, testkit.Quiet())
	}
	c, err := app.LoadConfig("", nil, map[string]string{"tracing.endpoint": "http://me:secret@c:4318"})
	require.NoError(t, err)
	require.Equal(t, "http://me:xxxxx@c:4318", c.Map()["tracing.endpoint"]["value"])
}

// A variable that nobody reads is said, with the one that was probably meant; those that Kubernetes makes are passed over.
func TestUnknownEnv(t *testing.T) {
	require.Equal(t, []string{
		"the environment variable FACTMILL_CHUNKER_SISE is unknown and not used, did you mean FACTMILL_CHUNKER_SIZE?",
		"the environment variable FACTMILL_CONFG is unknown and not used, did you mean FACTMILL_CONFIG?",
		"the environment variable FACTMILL_XYZZY is unknown and not used",
	}, app.UnknownEnv([]string{
		"FACTMILL_XYZZY=1", "FACTMILL_CHUNKER_SISE=300", "FACTMILL_CHUNKER_SISE=301", "FACTMILL_CONFG=f", "FACTMILL_CONFIG=f", "FACTMILL_ACTOR=me",
		"FACTMILL_CHUNKER_SIZE=300", "FACTMILLER=1", "PATH=/bin", "FACTMILL_PORT=tcp://10.0.0.1:4222", "FACTMILL_SERVICE_HOST=10.0.0.1",
		"FACTMILL_NATS_SERVICE_PORT_CLIENT=4222", "FACTMILL_NATS_PORT_4222_TCP_ADDR=10.0.0.1", "FACTMILL_DATA=d",
	}))
}

// Passwords and tokens in addresses are shown neither as text nor as JSON; Get has them.
func TestAddressesAreShownWithoutPasswords(t *testing.T) {
	for given, want := range map[string]string{
		"nats://me:hunter2@a:4222":                  "nats://me:xxxxx@a:4222",
		"nats://me:hunter2@a, tls://me:hunter2@b:1": "nats://me:xxxxx@a,tls://me:xxxxx@b:1",
		"nats://hunter2@a":                          "nats://xxxxx@a",
		"me:hunter2@a:4222":                         "me:xxxxx@a:4222",
		"https://me:hunter2@a/b@c":                  "https://me:xxxxx@a/b@c",
		"https://me:hunt/er2@a":                     "https://me:xxxxx@a",
		"https://me:hunt@er2@a":                     "https://me:xxxxx@a",
		"http://127.0.0.1:11434":                    "http://127.0.0.1:11434",
		"http://a/b@c":                              "http://a/b@c",
		"":                                          "",
	} {
		for _, key := range []string{"nats.url", "ollama.url"} {
			c, err := app.LoadConfig("", nil, map[string]string{key: given})
			require.NoError(t, err)
			require.Equal(t, given, c.Get(key))
			require.Equal(t, want, c.Map()[key]["value"], given)
			var out strings.Builder
			require.NoError(t, c.Print(&out))
			require.Contains(t, out.String(), fmt.Sprintf("\n%s: %q # flag\n", key, want))
		}
	}
}
