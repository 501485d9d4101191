package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/pkg/testkit"
)

const people = `{"name":"people","entities":["Person"],"relations":[
	{"label":"KNOWS","patterns":["Person->Person"]},
	{"label":"MARRIED_TO","patterns":["Person->Person"],"symmetric":true},
	{"label":"LIKES","patterns":["Person->Person"],"self":true}]}`

func peopleSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.Parse([]byte(people), "people.json", nil)
	require.NoError(t, err)
	return s
}

// schemas answers with a schema or an error, and notes what was asked.
type schemas struct {
	schema *schema.Schema
	err    error
	asked  []string
}

func (s *schemas) Get(_ context.Context, graph string, revision uint64) (*schema.Schema, error) {
	s.asked = append(s.asked, fmt.Sprint(graph, " ", revision))
	return s.schema, s.err
}

func extracted(t testing.TB) *events.Extracted {
	p := settings.Default()
	names := []string{"Ada", "Bob", "ADA"}
	c := graph.ChunkItems{Index: 0}
	for i, n := range names {
		c.Entities = append(c.Entities, graph.EntityItem{Type: "Person", Name: n, Start: 10 * i, End: 10*i + 3, Confidence: 0.9, Extractor: "rules", Rule: "r"})
	}
	for _, typ := range []string{"KNOWS", "MARRIED_TO", "LIKES"} {
		for _, ends := range [][2]int{{0, 1}, {1, 0}, {0, 2}} {
			c.Relations = append(c.Relations, graph.RelationItem{Type: typ, Source: ends[0], Target: ends[1], End: 20, Confidence: 0.8, Extractor: "rules"})
		}
	}
	c.Candidates = []graph.CandidateItem{{Kind: "entity", Label: "Team", Text: "Reds", Start: 40, End: 44, Confidence: 0.6, Reasons: []string{"undeclared_label"}, Extractor: "rules"}}
	return &events.Extracted{
		Job: events.Job{
			Graph: "g", ID: "j1", Attempt: 1, Op: events.OpAdd, SchemaRevision: 4, SchemaFP: peopleSchema(t).Fingerprint(), Settings: p,
			ChunkerFP: p.ChunkerFingerprint(), ErrorPolicy: events.PolicyRaise,
		},
		Doc:        events.DocRef{Key: "a", Token: fingerprint.Token("a"), Source: fingerprint.Token("s"), Sole: true},
		DocID:      fingerprint.DocumentID("a"),
		Extraction: graph.Extraction{Chunks: []graph.ChunkItems{c}, Dropped: []graph.Dropped{{Kind: "entity", Label: "Person", Reason: "no_evidence", Count: 2}}},
		Stats:      events.ExtractionStats{Processed: 1, Entities: 3, Relations: 9},
		Escalation: &events.EscalationStats{Mode: "hybrid", Total: 1},
	}
}

func stage(t testing.TB, cfg Config, s Schemas) *Stage {
	t.Helper()
	st, err := NewStage(cfg, app.Deps{}, s)
	require.NoError(t, err)
	return st
}

func TestHandle(t *testing.T) {
	src := &schemas{schema: peopleSchema(t)}
	in := extracted(t)
	out, err := stage(t, Config{}, src).Handle(t.Context(), bus.Delivery{Event: in})
	require.NoError(t, err)
	require.Len(t, out, 1)
	got := out[0].(*events.Resolved)
	require.Equal(t, []string{"g 4"}, src.asked)
	require.Equal(t, in.Job, got.Job)
	require.Equal(t, in.Doc, got.Doc)
	require.Equal(t, in.Stats, got.Extraction)
	require.Equal(t, in.Escalation, got.Escalation)
	require.Equal(t, events.ResolutionStats{Exact: 3, SelfLoop: 2}, got.Resolution)
	require.Equal(t, []graph.Dropped{
		{Kind: "entity", Label: "Person", Reason: "no_evidence", Count: 2},
		{Kind: "relation", Label: "KNOWS", Reason: "self_loop", Count: 1, Sample: "ada"},
		{Kind: "relation", Label: "MARRIED_TO", Reason: "self_loop", Count: 1, Sample: "ada"},
	}, got.Dropped)
	types := map[string]int{}
	for _, r := range got.Assertions.Chunks[0].Relations {
		types[r.Type]++
	}
	require.Equal(t, map[string]int{"KNOWS": 2, "MARRIED_TO": 1, "LIKES": 3}, types)
	require.Len(t, got.Assertions.Candidates, 1)
	require.Equal(t, "factmill.g.doc.resolved.j1."+in.Doc.Token, got.Where().String())

	b, err := events.Encode(got)
	require.NoError(t, err)
	back, err := events.Decode(got.Where().String(), "", b)
	require.NoError(t, err)
	require.Equal(t, got, back)

	in.Job.NoCandidates = true
	out, err = stage(t, Config{}, src).Handle(t.Context(), bus.Delivery{Event: in})
	require.NoError(t, err)
	require.Empty(t, out[0].(*events.Resolved).Assertions.Candidates)
}

func TestRefusals(t *testing.T) {
	ok := &schemas{schema: peopleSchema(t)}
	otherSchema := extracted(t)
	otherSchema.Job.SchemaFP = "0000000000000000"
	badSettings := extracted(t)
	badSettings.Job.Settings.Resolver.TopK = 0
	broken := extracted(t)
	broken.Extraction.Chunks[0].Relations[0].Target = 99
	for _, c := range []struct {
		name    string
		cfg     Config
		schemas *schemas
		event   events.Event
		class   fault.Class
		code    string
		pause   bool
		message string
	}{
		{"other schema", Config{}, ok, otherSchema, fault.Unserved, "settings_differ", false, "this build makes " + peopleSchema(t).Fingerprint() + " of revision 4"},
		{"pinned", Config{Pinned: map[string]string{"resolver.top_k": "7"}}, ok, extracted(t), fault.Unserved, "settings_differ", false, "runs with resolver.top_k 50, this service was started with 7"},
		{"bad settings", Config{}, ok, badSettings, fault.Permanent, "settings_invalid", false, "resolver.top_k is 0"},
		{"broken", Config{}, ok, broken, fault.Permanent, "bad_extraction", false, `document "a" of job j1: relation 0 of chunk 0`},
		{"other event", Config{}, ok, &events.Sealed{}, fault.Permanent, "wrong_event", false, "*events.Sealed"},
		{"nobody answers", Config{}, &schemas{err: fmt.Errorf("fetch: %w", api.Errorf(503, "not_ready", "no service answers"))}, extracted(t), fault.Transient, "schema_unreachable", true, "no service answers"},
		{"connection gone", Config{}, &schemas{err: errors.New("no connection")}, extracted(t), fault.Transient, "schema_unreachable", true, "no connection"},
		{"unknown revision", Config{}, &schemas{err: fmt.Errorf("fetch: %w", api.Errorf(404, "schema_not_found", "no revision 4"))}, extracted(t), fault.Transient, "schema_not_found", false, "no revision 4"},
		{"unreadable", Config{}, &schemas{err: fmt.Errorf("x: %w", schemacache.ErrUnreadable)}, extracted(t), fault.Unserved, "settings_differ", false, "unreadable schema"},
	} {
		out, err := stage(t, c.cfg, c.schemas).Handle(t.Context(), bus.Delivery{Event: c.event})
		require.Empty(t, out, c.name)
		f := fault.Of(err)
		require.Equal(t, c.class, f.Class, c.name)
		require.Equal(t, c.code, f.Code, c.name)
		require.Equal(t, c.pause, f.Pause, c.name)
		require.ErrorContains(t, err, c.message, c.name)
	}

	gone, stop := context.WithCancel(t.Context())
	stop()
	_, err := stage(t, Config{}, &schemas{err: fmt.Errorf("fetch: %w", context.Canceled)}).Handle(gone, bus.Delivery{Event: extracted(t)})
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)
}

func TestPinned(t *testing.T) {
	_, err := stage(t, Config{Pinned: map[string]string{"resolver.top_k": "50", "chunker.size": "100"}}, &schemas{schema: peopleSchema(t)}).
		Handle(t.Context(), bus.Delivery{Event: extracted(t)})
	require.NoError(t, err)
	_, err = New(Config{Pinned: map[string]string{"resolver.topk": "1"}}, app.Deps{})
	require.ErrorContains(t, err, `pinned setting "resolver.topk" is unknown`)
	_, err = New(Config{Pinned: map[string]string{"resolver.top_k": "51"}}, app.Deps{})
	require.ErrorContains(t, err, "resolver.top_k is 51")
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 { // two in one process share them
		s, err := NewStage(Config{}, app.Deps{Metrics: reg}, &schemas{schema: peopleSchema(t)})
		require.NoError(t, err)
		_, err = s.Handle(t.Context(), bus.Delivery{Event: extracted(t)})
		require.NoError(t, err)
	}
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP factmill_resolver_candidates_total Candidate records.
# TYPE factmill_resolver_candidates_total counter
factmill_resolver_candidates_total 2
# HELP factmill_resolver_ambiguous_total Mentions whose name several known entities have.
# TYPE factmill_resolver_ambiguous_total counter
factmill_resolver_ambiguous_total 0
# HELP factmill_resolver_known_total Mentions that took the identity of a known entity.
# TYPE factmill_resolver_known_total counter
factmill_resolver_known_total 0
# HELP factmill_resolver_mentions_total Mentions resolved by exact name.
# TYPE factmill_resolver_mentions_total counter
factmill_resolver_mentions_total 6
# HELP factmill_resolver_relations_total Relation assertions between resolved entities.
# TYPE factmill_resolver_relations_total counter
factmill_resolver_relations_total 12
# HELP factmill_resolver_self_loops_total Relations dropped because both ends are one entity.
# TYPE factmill_resolver_self_loops_total counter
factmill_resolver_self_loops_total 4
`)))
}

// The service on a server: asks for the schema once, publishes, is in the fleet, and stops clean.
func TestService(t *testing.T) {
	testkit.NoLeaks(t)
	srv, conn := testkit.NATS(t)
	s, err := New(Config{}, app.Deps{Conn: conn, Log: testkit.Quiet()})
	require.NoError(t, err)
	require.ErrorIs(t, s.Ready(), bus.ErrNotStarted)

	asked := make(chan uint64, 10)
	get := func(_ context.Context, graph string, body []byte, _ func(string) string) (any, *api.Error) {
		var req api.SchemaGet
		if e := api.Read(body, &req); e != nil {
			return nil, e
		}
		asked <- req.Revision
		return api.SchemaReply{Revision: req.Revision, Name: "people", Schema: json.RawMessage(people)}, nil
	}
	committer := testkit.Connect(t, srv, "committer")
	stopVerbs := testkit.Start(t, func(ctx context.Context) error {
		return committer.Serve(ctx, bus.ServiceInfo{Name: "committer"}, []bus.Endpoint{{Name: "schema-get", Subject: "factmill.*.schema.get", Handler: get}}, bus.ServeOptions{})
	})
	stop := testkit.Start(t, s.Run)
	testkit.Await(t, "the resolver", func() bool { return s.Ready() == nil })

	first, second := extracted(t), extracted(t)
	second.Doc.Token = "second"
	require.NoError(t, conn.Publish(t.Context(), first))
	messages := func(stream string) uint64 {
		str, err := conn.JS.Stream(t.Context(), stream)
		require.NoError(t, err)
		return str.CachedInfo().State.Msgs
	}
	testkit.Await(t, "the first", func() bool { return messages(bus.StreamCommit) == 1 })
	require.NoError(t, conn.Publish(t.Context(), second))
	testkit.Await(t, "the second", func() bool { return messages(bus.StreamCommit) == 2 && messages(bus.StreamExtracted) == 0 })
	require.EqualValues(t, 4, testkit.Receive(t, "the schema request", asked))
	require.Empty(t, asked, "one request serves both documents")

	var health map[string]any
	require.NoError(t, conn.Request(t.Context(), bus.HealthSubject(Name), nil, &health))
	require.Equal(t, Name, health["service"])
	stop()
	stopVerbs()
}

func TestFetchChecksTheGraph(t *testing.T) {
	s, err := New(Config{}, app.Deps{})
	require.NoError(t, err)
	_, err = s.fetch(t.Context(), "a.>", 1)
	require.ErrorContains(t, err, "bad graph name")
	require.ErrorContains(t, s.Run(t.Context()), "no connection")
	require.Equal(t, "resolver", s.Name())
}

func TestFromConfig(t *testing.T) {
	cfg, err := app.LoadConfig("", []string{"FACTMILL_RESOLVER_TOP_K=5"}, map[string]string{"resolver.concurrency": "3"})
	require.NoError(t, err)
	url := "http://127.0.0.1:11434"
	require.Equal(t, Config{
		Pinned: map[string]string{"resolver.top_k": "5"}, Concurrency: 3, ModelURL: url, Slots: 1, ModelTimeout: 10 * time.Minute,
	}, FromConfig(cfg))
	require.Equal(t, Config{Concurrency: 8, Schemas: 64, Names: 100_000, ModelURL: url, Slots: 1, ModelTimeout: 10 * time.Minute, Version: "0.0.0"}, Config{}.WithDefaults())
}
