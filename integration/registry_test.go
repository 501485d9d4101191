package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

func knownAs(typ, name string, aliases ...string) api.RegistryEntry {
	return api.RegistryEntry{Type: typ, Name: name, Aliases: aliases}
}

func (c *cluster) know(graph string, entries ...api.RegistryEntry) api.RegistryPutReply {
	c.t.Helper()
	return ask[api.RegistryPutReply](c, graph, "registry.put", api.RegistryPut{Entries: entries})
}

// keys are "Type key" of the entities of an export, with how often they are mentioned.
func keys(x exported) map[string]int {
	out := map[string]int{}
	for _, e := range x.entities {
		out[e.Type+" "+e.MergeKey] = len(e.Mentions)
	}
	return out
}

// A mention of an alias is the known entity, through the whole pipeline; one of a name that two entries have is its own.
func TestKnownEntities(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.prepare("g")
	f.know("g",
		knownAs("Person", "Mara Velt", "Mara Veldt", "Marta Velt"),
		knownAs("person", "Jon Arden", "John Arden", "Joan Arden"), knownAs("Person", "Joan of Arden", "Joan Arden"),
		knownAs("Organization", "Norrin Works", "Norrin Worx", "Mara Veldt"))
	docs := []map[string]any{
		doc("a", "Mara Veldt works for Norrin Worx. MARTA  VELT works for Norrin Works."),
		doc("b", "John Arden joined Norrin Works. Joan Arden joined Halden Institute. Mara Velt owns Skyloom."),
	}
	s := f.run("g", map[string]any{"documents": docs})
	require.Equal(t, 10, s.Stages.Resolution.Exact)
	require.Equal(t, 7, s.Stages.Resolution.Registry, "all mentions that equal one entry's name or alias")
	require.Equal(t, 1, s.Stages.Resolution.Ambiguous)
	x := parseExport(t, f.exported("g", 0))
	require.Equal(t, map[string]int{"Person mara velt": 3, "Organization norrin works": 3, "Person jon arden": 1, "Person joan arden": 1,
		"Organization halden institute": 1, "Software skyloom": 1}, keys(x))
	for _, e := range x.entities {
		require.Equal(t, fingerprint.EntityID(e.Type, e.MergeKey), e.ID)
	}
	mara := ask[api.EntityReply](f.cluster, "g", "query.entity", api.EntityGet{Type: "Person", Name: "Mara Velt"})
	var quotes []string
	for _, m := range mara.Entity.Mentions {
		quotes = append(quotes, m.Quote)
	}
	require.ElementsMatch(t, []string{"Mara Veldt", "MARTA  VELT", "Mara Velt"}, quotes, "a mention keeps what is written")
	f.sound("g")

	// The registry changes: what is in the graph stays and is linked, documents that are read again follow.
	facts := func() (rest string, links []string) {
		for line := range strings.Lines(f.exported("g", 0)) {
			if row := loose[struct{ Kind, A, B, Method, State string }](t, line); row.Kind == "match" {
				links = append(links, row.Method+" "+row.State)
			} else {
				rest += line
			}
		}
		return rest, links
	}
	before, links := facts()
	require.Equal(t, []string{"alias unclear"}, links, "Joan may be either")
	ask[api.RegistryDeleteReply](f.cluster, "g", "registry.delete", api.RegistryDelete{Type: "Person", Name: "Joan of Arden"})
	f.know("g", knownAs("Person", "Mara Velt", "Marta Velt"))
	require.Equal(t, 2, f.run("g", map[string]any{"documents": docs}).Documents.Unchanged)
	testkit.Await(t, "the link of what is known now", func() bool { _, links = facts(); return slices.Equal(links, []string{"alias active"}) })
	after, _ := facts()
	require.Equal(t, before, after)
	s = f.run("g", map[string]any{"documents": docs, "force": true})
	require.Equal(t, 2, s.Documents.Updated+s.Documents.Added, "%+v", s.Documents)
	require.Equal(t, map[string]int{"Person mara velt": 2, "Person mara veldt": 1, "Organization norrin works": 3, "Person jon arden": 2,
		"Organization halden institute": 1, "Software skyloom": 1}, keys(parseExport(t, f.exported("g", 0))))
	f.sound("g")
	f.noDeadLetters()
}

// corpusRegistry knows some of the fifty names, some of them as another's, some as two's.
func corpusRegistry() (out []api.RegistryEntry) {
	for typ, names := range map[string][]string{"Person": persons, "Organization": organizations, "Location": locations, "Software": programs} {
		for i := 0; i+4 < len(names); i += 4 {
			out = append(out, knownAs(typ, names[i], names[i+1], names[i+2]), knownAs(typ, names[i+3]+" (other)", names[i+2], names[i+3]))
		}
	}
	return out
}

// With one registry the same documents give the same bytes, in one job or many, in any order, whatever is delivered twice or killed.
func TestOrderDoesNotMatterToKnownEntities(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		c := newCorpus(seed, 60, 20)
		r := random(seed, "registry")
		calm := newFleet(t, fleetOptions{})
		calm.prepare("g")
		calm.know("g", corpusRegistry()...)
		s := calm.run("g", map[string]any{"documents": c.all()})
		require.Greater(t, s.Stages.Resolution.Registry, 20)
		require.Greater(t, s.Stages.Resolution.Ambiguous, 5)
		want, known := calm.exported("g", 0), s.Stages.Resolution
		calm.stopAll()

		f := newFleet(t, fleetOptions{Replicas: 3, AckWait: 500 * time.Millisecond})
		f.prepare("g")
		entries := corpusRegistry()
		r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		for _, e := range entries { // in another order, one by one
			f.know("g", e)
		}
		p := f.plague(seed, 40*time.Millisecond)
		all := c.all()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var jobs []string
		for len(all) > 0 {
			n := min(len(all), 1+r.IntN(8))
			jobs = append(jobs, f.publish("g", map[string]any{"documents": all[:n]}))
			all = all[n:]
		}
		var got api.Resolution
		for _, s := range f.committed("g", jobs) {
			got.Exact += s.Stages.Resolution.Exact
			got.Registry += s.Stages.Resolution.Registry
			got.Ambiguous += s.Stages.Resolution.Ambiguous
		}
		p.cure()
		require.Equal(t, want, f.exported("g", 0), "seed %d, %d jobs, %s", seed, len(jobs), p)
		require.Equal(t, []int{known.Exact, known.Registry, known.Ambiguous}, []int{got.Exact, got.Registry, got.Ambiguous}, "seed %d: %s", seed, p)
		f.sound("g")
		f.noDeadLetters()
	}
}

// A job uses the registry that it began with, although its documents are resolved later.
func TestAJobKeepsItsRegistry(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.prepare("g")
	f.know("g", knownAs("Person", "Mara Velt", "Mara Veldt"))
	f.mu.Lock()
	f.members = slices.DeleteFunc(f.members, func(m *member) bool {
		if m.name == "resolver" {
			require.NoError(t, m.stop())
		}
		return m.name == "resolver"
	})
	f.mu.Unlock()
	job := f.publish("g", map[string]any{"documents": []map[string]any{doc("a", "Mara Veldt works for Norrin Works.")}})
	testkit.Await(t, "the job to begin", func() bool { return f.status("g", job).OpenedAt != "" })
	f.know("g", knownAs("Person", "Mara Velt"), knownAs("Person", "Marta Velt", "Mara Veldt"))
	f.add("resolver")
	f.await("g", job, api.JobCommitted)
	require.Equal(t, map[string]int{"Person mara velt": 1, "Organization norrin works": 1}, keys(parseExport(t, f.exported("g", 0))))
	f.run("g", map[string]any{"documents": []map[string]any{doc("b", "Mara Veldt works for Norrin Works.")}})
	require.Equal(t, 1, keys(parseExport(t, f.exported("g", 0)))["Person marta velt"])
}

// The verbs over NATS, and what they refuse.
func TestRegistryVerbs(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	r := ask[api.RegistryPutReply](f.cluster, "g", "registry.put", json.RawMessage(`{"entries":[{"type":"Person","name":"Ada","aliases":["A"],"external_id":"1"}],"request_id":"x"}`))
	require.Equal(t, api.RegistryPutReply{Revision: 1, Added: 1, Touched: 2}, r)
	require.Equal(t, r, ask[api.RegistryPutReply](f.cluster, "g", "registry.put", json.RawMessage(`{"entries":[{"type":"Person","name":"Ada","aliases":["A"],"external_id":"1"}],"request_id":"x"}`)))
	require.Len(t, ask[api.RegistryGetReply](f.cluster, "g", "registry.get", api.RegistryGet{Name: "a"}).Entries, 1)
	require.Len(t, ask[api.RegistryListReply](f.cluster, "g", "registry.list", nil).Entries, 1)
	require.Empty(t, ask[api.RegistryListReply](f.cluster, "other", "registry.list", nil).Entries)
	for _, c := range []struct{ verb, body, code string }{
		{"registry.put", `{"entries":[{"type":"Person","name":"Bob","external_id":"1"}]}`, "external_id_taken"},
		{"registry.put", `{"entries":[{"type":"Person","name":""}]}`, "bad_value"},
		{"registry.put", `{"entries":[{"kind":"Person"}]}`, "unknown_field"},
		{"registry.put", `{"entries":[{"type":"Person","name":"Cyd"}],"request_id":"x"}`, "operation_reused"},
		{"registry.get", `{"name":"nobody"}`, "entry_not_found"},
		{"registry.get", `{}`, "bad_value"},
		{"registry.list", `{"cursor":"x"}`, "bad_value"},
		{"registry.delete", `{"type":"Person","name":"A"}`, "entry_not_found"},
		{"registry.lookup", `{"names":[]}`, "bad_value"},
		{"registry.take", `{}`, "unknown_verb"},
	} {
		require.Equal(t, c.code, refused(f.cluster, "g", c.verb, json.RawMessage(c.body)).Code, "%s %s", c.verb, c.body)
	}
	require.Equal(t, "Ada", ask[api.RegistryDeleteReply](f.cluster, "g", "registry.delete", api.RegistryDelete{Type: "Person", Name: "ada"}).Entry.Name)
	f.sound("g")
}

// The command: a file in, its faults by line and field, exit codes; 10,000 entries in seconds.
func TestRegistryCommand(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "k.csv", "\ufefftype,name,aliases,external_id\r\nOrganization,International Business Machines,IBM|Big Blue,Q37156\r\nPerson,,,\r\nOrganization,Other,,Q37156\r\n9x,Bad,,\r\n")
	command := func(code int, args ...string) result {
		t.Helper()
		r := runIn(t, dir, "", append(args, "--data", "g")...)
		require.Equal(t, code, r.code, "%v\n%s\n%s", args, r.stdout, r.stderr)
		return r
	}
	r := command(4, "registry", "import", "k.csv", "--dry-run")
	require.Equal(t, "dry run, nothing was put: 1 added, 0 updated, 0 unchanged, 3 failed\n", r.stdout)
	for _, want := range []string{"k.csv:3: name: it is missing", "k.csv:4: external_id: ", "k.csv:5: type: ", "3 entries could not be put, 1 could"} {
		require.Contains(t, r.stderr, want)
	}
	require.Contains(t, command(0, "registry", "list").stdout, "no known entities")
	got := loose[map[string]any](t, command(4, "registry", "import", "k.csv", "--json").stdout)
	require.Equal(t, []any{1.0, 0.0, 0.0, 3.0, 3.0}, []any{got["added"], got["updated"], got["unchanged"], got["failed"], got["problems_total"]})
	require.Contains(t, command(0, "registry", "get", "big", "blue").stdout, "International Business Machines")
	command(1, "registry", "get", "nobody")
	write(t, dir, "bad.jsonl", "{}\n{\n")
	command(1, "registry", "import", "bad.jsonl")
	write(t, dir, "head.csv", "a,b\n")
	require.Contains(t, command(2, "registry", "import", "head.csv").stderr, `head.csv: not readable as known entities: line 1: unknown column "a"`)
	command(2, "registry", "import", "none.csv")
	command(2, "registry", "import", "k.txt")

	var b strings.Builder
	b.WriteString("type,name,aliases,external_id\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "Organization,Company Number %d Ltd,Comp %d|CN%d,E%d\n", i, i, i, i)
	}
	write(t, dir, "big.csv", b.String())
	began := time.Now()
	require.Equal(t, "registry revision 11: 10,000 added, 0 updated, 0 unchanged\n", command(0, "registry", "import", "big.csv").stdout)
	took := time.Since(began)
	t.Logf("10,000 entries in %s", took.Round(time.Millisecond))
	require.Less(t, took, 30*time.Second)
	require.Contains(t, command(0, "registry", "import", "big.csv").stdout, "0 added, 0 updated, 10,000 unchanged")

	write(t, dir, "d.txt", "Ada Byron works for Big Blue.")
	s := loose[api.JobStatus](t, command(0, "ingest", "d.txt", "--json").stdout)
	require.Equal(t, 1, s.Stages.Resolution.Registry)
	e := loose[struct{ Entity graph.EntityRow }](t, command(0, "entity", "--type", "Organization", "International Business Machines", "--json").stdout)
	require.Equal(t, "international business machines", e.Entity.MergeKey)
	command(0, "registry", "delete", "--type", "Organization", "International Business Machines")
	command(1, "registry", "delete", "--type", "Organization", "International Business Machines")
	command(2, "registry", "delete", "International")
}

// TestImportOutlivesTheCommitter: kill -9 in the middle of an import; every entry is there, and was counted once.
func TestImportOutlivesTheCommitter(t *testing.T) {
	const entries = 60_000
	var b strings.Builder
	b.WriteString("type,name,aliases\n")
	for i := range entries {
		fmt.Fprintf(&b, "Organization,Company Number %d Ltd,Comp %d\n", i, i)
	}
	file := write(t, t.TempDir(), "big.csv", b.String())
	c := sixProcesses(t, 1)
	done := make(chan result, 1)
	go func() { done <- run(t, "", "registry", "import", file, "--nats", c.url, "--json") }()
	kills := 0
	total := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var r api.RegistryListReply
		if c.conn.Request(ctx, "factmill.default.registry.list", api.RegistryList{Limit: 1}, &r) != nil {
			return 0
		}
		return r.Total
	}
	for next := 5000; next <= 25_000; next += 20_000 {
		testkit.AwaitFor(t, time.Minute, fmt.Sprint(next, " entries"), func() bool { return total() >= next })
		if total() == entries {
			break
		}
		c.procs["committer"][len(c.procs["committer"])-1].kill()
		c.start("committer")
		kills++
	}
	r := testkit.Receive(t, "the import", done)
	require.Equal(t, 0, r.code, r.stderr)
	got := loose[map[string]any](t, r.stdout)
	require.Equal(t, []any{float64(entries), 0.0, 0.0, 0.0}, []any{got["added"], got["updated"], got["unchanged"], got["failed"]}, "killed %d times", kills)
	require.Equal(t, entries, total())
	require.EqualValues(t, entries/1000, got["revision"])
	require.Positive(t, kills)
	t.Logf("killed %d times", kills)
}
