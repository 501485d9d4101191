package doctor

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

func verb(name string, reply func() any) bus.Endpoint {
	return bus.Endpoint{Name: strings.ReplaceAll(name, ".", "-"), Subject: "factmill.*." + name, Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) { return reply(), nil }}
}

// Faults that cannot be caused in a test with real parts: clocks, age, and what a service says of itself.
func TestWhatServicesSay(t *testing.T) {
	_, conn := testkit.NATS(t)
	cfg, err := app.LoadConfig("", nil, map[string]string{"bus.ack_wait": testkit.AckWait.String()})
	require.NoError(t, err)
	off := time.Duration(0)
	oldest := time.Now().Add(-30 * 24 * time.Hour).UTC().Format(time.RFC3339Nano)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- conn.Serve(ctx, bus.ServiceInfo{Name: "committer", Version: "v1.2.3"}, []bus.Endpoint{
			verb("query.health", func() any {
				return api.HealthReply{Time: time.Now().Add(off).UTC().Format(time.RFC3339Nano), FreeBytes: 150, ReserveBytes: 100, Jobs: map[string]int{}}
			}),
			verb("query.seq", func() any { return api.SeqReply{} }),
			verb("settings.get", func() any { return api.SettingsReply{Settings: map[string]string{"extractor.mode": "rules"}} }),
			verb("review.stats", func() any { return api.ReviewStatsReply{Oldest: oldest, ByState: map[string]int{"pending": 2}} }),
		}, bus.ServeOptions{Note: func() string { return "model_slow: all slots are taken" }, Log: testkit.Quiet()})
	}()
	t.Cleanup(func() { stop(); require.NoError(t, <-done) })
	testkit.Await(t, "the service", func() bool { return conn.Request(t.Context(), bus.HealthSubject("committer"), nil, nil) == nil })
	codes := func(o Options) map[string]Finding {
		t.Helper()
		o.Conn, o.Embedded, o.Graph, o.Config, o.Services, o.Version, o.Watch = conn, true, "g", cfg, []string{"committer"}, "v1.2.3", 10*time.Millisecond
		r := Examine(t.Context(), o)
		require.Empty(t, r.Unchecked)
		require.Equal(t, len(r.Findings) == 0, r.OK)
		out := map[string]Finding{}
		for _, f := range r.Findings {
			out[f.Code] = f
		}
		return out
	}
	got := codes(Options{Environ: []string{"FACTMILL_EXTRACTOR_MOD=llm"}})
	require.Len(t, got, 4, got)
	require.Equal(t, "the store's disk has 150 bytes free, store.reserve is 100", got["little_space"].What)
	require.Equal(t, "2 candidates wait, the oldest for 30 days", got["review_old"].What)
	require.Contains(t, got["service_hindered"].What, "model_slow")
	require.Contains(t, got["unknown_variable"].What, "FACTMILL_EXTRACTOR_MODE")
	require.NotContains(t, codes(Options{Old: 31 * 24 * time.Hour}), "review_old")

	off = -time.Hour
	require.Equal(t, "the clock of the committer is -1h0m0s off this one", codes(Options{})["clock_skew"].What)
	off = 0
	got = codes(Options{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }})
	require.Contains(t, got["clock_skew"].What, "10m0s off this one")

	// A stream that is nearly full, and a consumer whose messages nobody answers.
	s, err := conn.JS.Stream(t.Context(), bus.StreamDead)
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxBytes = 1000
	_, err = conn.JS.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	_, err = conn.JS.Publish(t.Context(), "factmill.g.dead.a.b.c", make([]byte, 850))
	require.NoError(t, err)
	got = codes(Options{})
	require.Contains(t, got["stream_nearly_full"].What, "FACTMILL_DEAD")
	require.Contains(t, got["dead_letters"].What, "1 message is parked")
}

// The page has every code.
func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations/monitoring.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	codes := map[string]bool{}
	for _, f := range append(files, "../../doctor.go") {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?:d\.find\(|Code: |f\.Code(?:, f\.\w+)* = )"([a-z_]+)"`).FindAllStringSubmatch(string(b), -1) {
			codes[m[1]] = true
			require.Contains(t, string(page), "`"+m[1]+"`")
		}
	}
	require.Len(t, codes, 41)
}

func TestAConsumerThatIsNotAnswered(t *testing.T) {
	now := time.Now()
	long, short := now.Add(-time.Hour), now.Add(-time.Minute)
	at := func(pending uint64, held, asks int, floor, given *time.Time) *jetstream.ConsumerInfo {
		return &jetstream.ConsumerInfo{NumPending: pending, NumAckPending: held, NumWaiting: asks, AckFloor: jetstream.SequenceInfo{Stream: 5, Last: floor},
			Delivered: jetstream.SequenceInfo{Stream: 5 + uint64(held), Last: given}}
	}
	for _, x := range []struct {
		name     string
		was, now *jetstream.ConsumerInfo
		want     string
	}{
		{"nothing waits", at(0, 0, 0, &long, &long), at(0, 0, 0, &long, &long), ""},
		{"nobody asks", at(3, 0, 0, &long, &long), at(3, 0, 0, &long, &long), "consumer_stalled"},
		{"all asked for one that comes", at(3, 0, 1, &short, &short), at(3, 0, 1, &short, &short), ""},
		{"it goes down", at(3, 0, 0, &long, &long), at(2, 1, 0, &long, &long), ""},
		{"held for an hour", at(3, 2, 1, &long, &long), at(3, 2, 1, &long, &long), "consumer_stuck"},
		{"held for a moment", at(3, 2, 1, &long, &short), at(3, 2, 1, &long, &short), ""},
		{"answered a moment ago", at(3, 2, 1, &short, &long), at(3, 2, 1, &short, &long), ""},
	} {
		d := &doctor{Options: Options{Now: func() time.Time { return now }}}
		spec := bus.ConsumerSpec{Stream: "S", Config: jetstream.ConsumerConfig{Durable: "chunker"}}
		d.moves("S/chunker", x.was, reading{spec, x.now})
		got := ""
		for _, f := range d.report.Findings {
			got += f.Code
		}
		require.Equal(t, x.want, got, x.name)
	}
}
