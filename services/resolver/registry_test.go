package resolver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/resolver/internal/resolve"
)

// book is a registry: folded names of one label, and what they say.
type book struct {
	entries map[string]resolve.Entry
	err     error
	most    int // answered a request; 0: all
	asked   []api.RegistryLookup
}

func (b *book) ask(_ context.Context, _ string, req api.RegistryLookup) (api.RegistryLookupReply, error) {
	b.asked = append(b.asked, req)
	if b.err != nil {
		return api.RegistryLookupReply{}, b.err
	}
	reply := api.RegistryLookupReply{Answered: len(req.Names)}
	if b.most > 0 {
		reply.Answered = min(reply.Answered, b.most)
	}
	for i, n := range req.Names[:reply.Answered] {
		if e, ok := b.entries[n.Key]; ok {
			f := api.RegistryFound{Index: i, Entries: 1, Key: e.Key}
			if e.Ambiguous {
				f.Entries, f.Key = 2, ""
			}
			reply.Found = append(reply.Found, f)
		}
	}
	return reply, nil
}

func withBook(t *testing.T, b *book) *Stage {
	s := stage(t, Config{}, &schemas{schema: peopleSchema(t)})
	n := newNames(b.ask)
	require.NoError(t, n.open(1000))
	t.Cleanup(n.close)
	s.registry = n
	return s
}

func TestKnownEntities(t *testing.T) {
	b := &book{entries: map[string]resolve.Entry{"ada": {Key: "ada lovelace"}, "bob": {Ambiguous: true}}}
	s := withBook(t, b)
	in := extracted(t)
	handle := func() *events.Resolved {
		out, err := s.Handle(t.Context(), bus.Delivery{Event: in})
		require.NoError(t, err)
		return out[0].(*events.Resolved)
	}
	require.Equal(t, events.ResolutionStats{Exact: 3, SelfLoop: 2}, handle().Resolution)
	require.Empty(t, b.asked, "a graph without known entities asks nobody")

	in.Job.RegistryRevision = 7
	got := handle()
	require.Equal(t, events.ResolutionStats{Exact: 3, Registry: 2, Ambiguous: 1, SelfLoop: 2}, got.Resolution)
	refs := []graph.EntityRef{
		{ID: fingerprint.EntityID("Person", "ada lovelace"), Label: "Person", Key: "ada lovelace"},
		{ID: fingerprint.EntityID("Person", "bob"), Label: "Person", Key: "bob"},
	}
	require.ElementsMatch(t, refs, got.Assertions.Entities)
	require.Equal(t, []api.RegistryLookup{{Revision: 7, Names: []api.RegistryName{{Label: "Person", Key: "ada"}, {Label: "Person", Key: "bob"}}}}, b.asked)
	s.registry.(*names).kept.Wait()
	require.Equal(t, got, handle())
	require.Len(t, b.asked, 1, "what a revision says is asked once")
	b.entries = nil
	for i, other := range []func(){func() { in.Job.RegistryRevision = 8 }, func() { in.Job.RegistryFP = "other" }, func() { in.Job.Graph = "h" }} {
		other()
		require.Equal(t, events.ResolutionStats{Exact: 3, SelfLoop: 2}, handle().Resolution)
		require.Len(t, b.asked, 2+i)
	}
}

func TestAClosedCacheRemembersNothing(t *testing.T) {
	b := &book{entries: map[string]resolve.Entry{"ada": {Key: "x"}}}
	n := newNames(b.ask)
	require.NoError(t, n.open(10))
	n.close()
	for range 2 {
		got, err := n.Lookup(t.Context(), events.Job{Graph: "g", RegistryRevision: 1}, []resolve.Name{{Label: "Person", Key: "ada"}})
		require.NoError(t, err)
		require.Equal(t, resolve.Known{{Label: "Person", Key: "ada"}: {Key: "x"}}, got)
	}
	require.Len(t, b.asked, 2)
}

func TestRegistryFaults(t *testing.T) {
	in := extracted(t)
	in.Job.RegistryRevision = 1
	for _, c := range []struct {
		err   error
		class fault.Class
		code  string
		pause bool
	}{
		{api.Errorf(503, "not_ready", "no service answers"), fault.Transient, "registry_unreachable", true},
		{api.Errorf(429, "busy", "busy"), fault.Transient, "registry_unreachable", true},
		{errors.New("no connection"), fault.Transient, "registry_unreachable", true},
		{api.Errorf(404, "unknown_verb", "registry has no verb"), fault.Transient, "unknown_verb", false},
	} {
		_, err := withBook(t, &book{err: c.err}).Handle(t.Context(), bus.Delivery{Event: in})
		f := fault.Of(err)
		require.Equal(t, c.class, f.Class, "%v", c.err)
		require.Equal(t, c.code, f.Code, "%v", c.err)
		require.Equal(t, c.pause, f.Pause, "%v", c.err)
	}
	_, err := stage(t, Config{}, &schemas{schema: peopleSchema(t)}).Handle(t.Context(), bus.Delivery{Event: in})
	require.Equal(t, fault.Unserved, fault.Of(err).Class)
	gone, stop := context.WithCancel(t.Context())
	stop()
	_, err = withBook(t, &book{err: context.Canceled}).Handle(gone, bus.Delivery{Event: in})
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)
}

// Many names are asked about in requests of at most so many names and bytes, and again from where an answer ended.
func TestLookupsAreBounded(t *testing.T) {
	b := &book{entries: map[string]resolve.Entry{}, most: 700}
	var list []resolve.Name
	want := resolve.Known{}
	for i := range 5000 {
		n := resolve.Name{Label: "Person", Key: fmt.Sprint("p", i)}
		if list = append(list, n); i%3 == 0 {
			b.entries[n.Key] = resolve.Entry{Key: fmt.Sprint("k", i)}
			want[n] = b.entries[n.Key]
		}
	}
	list = append(list, resolve.Name{Label: "Person", Key: strings.Repeat("x", maxKey+1)})
	n := newNames(b.ask) // without a cache
	got, err := n.Lookup(t.Context(), events.Job{Graph: "g", RegistryRevision: 1}, list)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, req := range b.asked {
		require.LessOrEqual(t, len(req.Names), api.MaxRegistryBatch)
	}
	require.Len(t, b.asked, 8)

	b = &book{}
	list = list[:0]
	for i := range 500 {
		list = append(list, resolve.Name{Label: "Person", Key: strings.Repeat("<", 800) + fmt.Sprint(i)})
	}
	_, err = newNames(b.ask).Lookup(t.Context(), events.Job{Graph: "g", RegistryRevision: 1}, list)
	require.NoError(t, err)
	require.Len(t, b.asked, 4)
	require.Equal(t, 1, asked([]api.RegistryName{{Key: strings.Repeat("x", maxAsked)}, {Key: "y"}}))
}

func TestLookupAnswersAreChecked(t *testing.T) {
	list := []resolve.Name{{Label: "Person", Key: "a"}, {Label: "Person", Key: "b"}}
	for _, reply := range []api.RegistryLookupReply{
		{}, {Answered: 3}, {Answered: -1},
		{Answered: 1, Found: []api.RegistryFound{{Index: 1, Entries: 1, Key: "x"}}},
		{Answered: 2, Found: []api.RegistryFound{{Index: -1, Entries: 1, Key: "x"}}},
		{Answered: 2, Found: []api.RegistryFound{{Entries: 1}}},
		{Answered: 2, Found: []api.RegistryFound{{Key: "x"}}},
	} {
		n := newNames(func(context.Context, string, api.RegistryLookup) (api.RegistryLookupReply, error) { return reply, nil })
		_, err := n.Lookup(t.Context(), events.Job{Graph: "g", RegistryRevision: 1}, list)
		require.ErrorContains(t, err, "the registry answered", "%+v", reply)
	}
}

func TestLookupChecksTheGraph(t *testing.T) {
	s := &Service{}
	_, err := s.lookup(t.Context(), "a.>", api.RegistryLookup{})
	require.ErrorContains(t, err, "bad graph name")
}
