package target

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// fake is a service that answers nouns, and is as ready as a test says.
type fake struct {
	name  string
	nouns []string
	conn  *bus.Conn
	why   *atomic.Value // of error wrapped in reason; nil: ready
}

type reason struct{ error }

func (f fake) Name() string { return f.name }

func (f fake) Ready() error { return f.why.Load().(reason).error }

func (f fake) Run(ctx context.Context) error {
	if f.nouns == nil {
		<-ctx.Done()
		return nil
	}
	return f.conn.Serve(ctx, bus.ServiceInfo{Name: f.name}, nil, bus.ServeOptions{Nouns: f.nouns, Log: testkit.Quiet()})
}

// said collects what a command is told while it waits.
type said struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (s *said) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, text)
}

func (s *said) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.list...)
}

// three services: the extractor is as ready as why says, the others are.
func three(t *testing.T, why *atomic.Value) Options {
	t.Helper()
	cfg, err := app.LoadConfig("", nil, nil)
	require.NoError(t, err)
	ready := &atomic.Value{}
	ready.Store(reason{})
	build := func(name string, state *atomic.Value, nouns ...string) Builder {
		return Builder{Name: name, Build: func(_ *app.Config, _ string, _ bool, deps app.Deps) (app.Service, error) {
			return fake{name, nouns, deps.Conn, state}, nil
		}}
	}
	return Options{
		Config: cfg, Graph: "default", Command: "test", Getenv: func(string) string { return "" }, Log: testkit.Quiet(), Now: time.Now, Timeout: time.Second,
		Services: []Builder{build("committer", ready, "settings", "jobs"), build("reviewer", ready, "review"), build("extractor", why)},
	}
}

// A command that reads begins when the committer answers, whatever the other services do.
func TestReadingWaitsForTheCommitterAlone(t *testing.T) {
	testkit.NoLeaks(t)
	why := &atomic.Value{}
	why.Store(reason{bus.ErrNotStarted})
	for _, w := range []Wait{WaitAnswers, WaitReview} {
		o := three(t, why)
		o.Wait, o.Say = w, func(string) { t.Error("nothing takes long") }
		s, err := Start(t.Context(), o, t.TempDir())
		require.NoError(t, err)
		require.Equal(t, "the extractor is not ready: not started", s.Hindered())
		require.NoError(t, s.Close())
	}
}

// A command that runs jobs waits for every service to start, and says for which it waits when that takes long.
func TestRunningJobsWaitsForAll(t *testing.T) {
	testkit.NoLeaks(t)
	why := &atomic.Value{}
	why.Store(reason{bus.ErrNotStarted})
	o := three(t, why)
	var told said
	o.Wait = WaitAll
	o.Say = func(text string) { told.add(text); why.Store(reason{}) }
	began := time.Now()
	s, err := Start(t.Context(), o, t.TempDir())
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), patience)
	require.Equal(t, []string{"the extractor is not ready: not started"}, told.all())
	require.Empty(t, s.Hindered())
	require.NoError(t, s.Close())
}

// A service that has started and cannot do some of its work is said, and then not waited for.
func TestAHinderedServiceIsNotWaitedForForEver(t *testing.T) {
	testkit.NoLeaks(t)
	why := &atomic.Value{}
	why.Store(reason{errors.New("job j1 has a mode that is not served")})
	o := three(t, why)
	var told said
	o.Wait, o.Say = WaitAll, told.add
	s, err := Start(t.Context(), o, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, []string{"the extractor is not ready: job j1 has a mode that is not served"}, told.all())
	require.NoError(t, s.Close())
}

// Who gives up waiting learns what was waited for.
func TestGivingUpSaysWhatIsNotReady(t *testing.T) {
	testkit.NoLeaks(t)
	why := &atomic.Value{}
	why.Store(reason{bus.ErrNotStarted})
	o := three(t, why)
	ctx, cancel := context.WithCancel(t.Context())
	o.Wait, o.Say = WaitAll, func(string) { cancel() }
	_, err := Start(ctx, o, t.TempDir())
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "extractor is not ready: not started")
}
