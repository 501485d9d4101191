package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/testkit"
)

// stand is what a schema must not touch: every group, without what is computed on reading.
func (c *cluster) stand(graph string) []api.Group {
	out := c.groups(graph)
	for i := range out {
		out[i].Covered = false
	}
	return out
}

// covered are the keys of pending groups that the active schema declares; what remains is the list without them.
func (c *cluster) covered(graph string) (covered, remains []string) {
	c.t.Helper()
	covered, remains = []string{}, []string{}
	for _, g := range ask[api.ReviewListReply](c, graph, "review.list", nil).Groups {
		if g.Covered {
			covered = append(covered, g.Key)
		}
	}
	for _, g := range ask[api.ReviewListReply](c, graph, "review.list", map[string]any{"schema": "current"}).Groups {
		remains = append(remains, g.Key)
	}
	return covered, remains
}

// No change of the schema touches a candidate's state, or tells an event: what it covers is worked out on reading.
func TestNoSchemaTouchesACandidate(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	f.run("g", doc("a", "«Spacecraft: Dragon @0.9» «Spacecraft: Mir @0.9» «Spacecraft: Soyuz @0.9» «Person: Bob @0.9» «Person: Ann @0.4» «Organization: Acme @0.9» «Bob -OWNS-> Acme @0.9» «Acme -HIRED-> Bob @0.9»"))
	const dragon, hired, owns, ann = "entity|spacecraft|dragon", "relation|hired|acme|bob", "relation|owns|bob|acme", "entity|person|ann"
	f.decided("g", "approve", "entity|spacecraft|soyuz")
	f.decided("g", "reject", "entity|spacecraft|mir")
	stand := f.stand("g")
	require.Len(t, stand, 6)
	_, no := f.spoken("g", 0)
	with := func(entities, relations string) string {
		s := strings.Replace(desk, "relations:\n", entities+"relations:\n"+relations, 1)
		return s
	}
	all := []string{dragon, owns, hired, ann}
	less := func(keys ...string) []string {
		out := []string{}
		for _, k := range all {
			if !strings.Contains(strings.Join(keys, " "), k) {
				out = append(out, k)
			}
		}
		return out
	}
	for _, c := range []struct {
		change, schema string
		covered        []string
	}{
		{"a label added that covers", with("  Spacecraft: {}\n", ""), []string{dragon}},
		{"a label removed again", desk, []string{}},
		{"a version", desk + "version: \"7\"\n", []string{}},
		{"a relation added", with("", "  HIRED: {patterns: [\"Organization->Person\"]}\n"), []string{hired}},
		{"a pattern added", strings.Replace(desk, `"Organization->Organization"`, `"Organization->Organization", "Person->Organization"`, 1), []string{owns}},
		{"the other way round", with("", "  WAS_HIRED_BY: {patterns: [\"Person->Organization\"], inverse: HIRED}\n"), []string{hired}},
		{"its own types removed", "name: other\nentities: {Ship: {}}\n", []string{}},
		{"all of it", with("  Spacecraft: {}\n", "  HIRED: {patterns: [\"Organization->Person\"]}\n"), []string{dragon, hired}},
		{"everything else", "name: spare\nentities: {Person: {}, Spacecraft: {description: A vessel.}, Organization: {}}\n", []string{dragon}},
	} {
		f.putSchema("g", c.schema)
		require.Equal(t, stand, f.stand("g"), c.change)
		covered, remains := f.covered("g")
		require.ElementsMatch(t, c.covered, covered, c.change)
		require.ElementsMatch(t, less(c.covered...), remains, c.change)
	}
	inline := func(more map[string]any) []string {
		req := map[string]any{"schema": map[string]any{"name": "x", "entities": []map[string]any{{"label": "Spacecraft"}}}}
		maps.Copy(req, more)
		var keys []string
		for _, g := range ask[api.ReviewListReply](f.cluster, "g", "review.list", req).Groups {
			keys = append(keys, g.Key)
		}
		return keys
	}
	require.ElementsMatch(t, less(dragon), inline(nil), "a schema in the request covers, too")
	require.ElementsMatch(t, all, inline(map[string]any{"include_covered": true}))
	require.Equal(t, "schema_invalid", refused(f.cluster, "g", "review.list", map[string]any{"schema": map[string]any{"entities": 7}}).Code)
	spoken, _ := f.spoken("g", no)
	require.Empty(t, spoken)

	// What was rejected stays away under the new schema, too; what it declares is a fact.
	f.putSchema("g", desk+"version: \"8\"\n")
	s := f.run("g", doc("b", "«Spacecraft: mir @0.9» «Spacecraft: Soyuz @0.9» «Spacecraft: Salyut @0.9»"))
	require.Equal(t, []int{2, 1}, said(s))
	f.putSchema("g", with("  Ship: {}\n", ""))
	s = f.run("g", doc("b", "«Spacecraft: mir @0.9» «Spacecraft: Soyuz @0.9» «Spacecraft: Salyut @0.9»"))
	require.Equal(t, 1, s.Documents.Updated, "a new version under the new schema")
	require.Equal(t, []int{2, 1}, said(s))
	require.Equal(t, []string{"entity|spacecraft|soyuz ×2 in 2 @0.9"}, f.queue("g", "approved"))
	require.Equal(t, []string{"entity|spacecraft|mir ×1 in 1 @0.9"}, f.queue("g", "rejected"))
	f.sound("g")
}

// Each change is told once, under its own subject, in the order of the commits.
func TestCandidateEventsTellEachChange(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	no := uint64(0)
	tells := func(want ...string) {
		t.Helper()
		var got []string
		got, no = f.spoken("g", no)
		require.Equal(t, want, got)
	}
	f.run("g", doc("a", "«Spacecraft: Dragon @0.9» «Spacecraft: Mir @0.9» «Person: Bob @0.9» «Organization: Acme @0.9» «Bob -OWNS-> Acme @0.9»"))
	tells("proposed: a relation|owns|bob|acme", "proposed: a entity|spacecraft|dragon, a entity|spacecraft|mir")
	f.run("g", doc("b", "«Spacecraft: Dragon @0.9»"))
	tells("proposed: b entity|spacecraft|dragon")
	f.run("g", map[string]any{"documents": []map[string]any{doc("b", "«Spacecraft: Dragon @0.9»")}, "force": true})
	tells()
	f.decided("g", "approve", "entity|spacecraft|dragon")
	tells("approved: a entity|spacecraft|dragon, b entity|spacecraft|dragon")
	f.run("g", doc("c", "«Spacecraft: Dragon @0.9»"))
	tells("proposed: c entity|spacecraft|dragon")
	all := f.candidateEvents("g")
	require.Equal(t, api.StateApproved, all[len(all)-1].Items[0].State, "that joins the approved ones")
	f.decided("g", "reject", "entity|spacecraft|dragon", "relation|owns|bob|acme")
	r := map[string]bool{}
	got, last := f.spoken("g", no)
	for _, e := range got {
		r[e] = true
	}
	no = last
	require.Equal(t, map[string]bool{"rejected: a relation|owns|bob|acme": true, "rejected: a entity|spacecraft|dragon, b entity|spacecraft|dragon, c entity|spacecraft|dragon": true}, r)
	f.run("g", doc("d", "«Spacecraft: Dragon @0.9»"))
	tells()
	f.run("g", doc("a", "«Spacecraft: Soyuz @0.9»"))
	tells("withdrawn: a entity|spacecraft|mir", "proposed: a entity|spacecraft|soyuz")
	f.remove("g", "a")
	tells("withdrawn: a entity|spacecraft|soyuz")
	ask[api.ReviewPruneReply](f.cluster, "g", "review.prune", api.ReviewPrune{Rejected: true, Apply: true, Actor: "eva"})
	got, no = f.spoken("g", no)
	require.ElementsMatch(t, []string{"pruned: a relation|owns|bob|acme", "pruned: a entity|spacecraft|dragon, b entity|spacecraft|dragon, c entity|spacecraft|dragon"}, got)
	require.Empty(t, f.groups("g"))
	ids := map[string]bool{}
	for _, e := range f.candidateEvents("g") {
		require.False(t, ids[e.ID()])
		ids[e.ID()] = true
	}
	// A replica that starts now reads what the committer stores, and says the same.
	f.run("g", doc("e", "«Spacecraft: Dragon @0.9»"))
	before := f.groups("g")
	f.restart("reviewer")
	require.Equal(t, before, f.groups("g"))
}

// A schema that is put while a job runs is not that job's: it commits with the one that it began with, and the next update of its document
// sees the difference.
func TestPatchAppliedWhileAJobRuns(t *testing.T) {
	gate := make(chan struct{})
	m := testkit.NewModel(t, testkit.ModelOptions{})
	m.SetReply(func(c testkit.ModelCall) testkit.ModelReply {
		r := told(c)
		if strings.Contains(c.Last(), "slowly") {
			r.Wait = gate
		}
		return r
	})
	f := asking(t, fleetOptions{}, m, "g")
	f.run("g", doc("first", "«Spacecraft: Dragon @0.9»"))
	before := f.documentAt("g", map[string]any{"key": "first"})
	running := doc("running", "It goes slowly: «Spacecraft: Dragon @0.9» and «Spacecraft: Soyuz @0.9».")
	job := f.publish("g", running)
	m.Await(t, 2)
	p := f.decided("g", "approve", "entity|spacecraft|dragon").Patch
	require.Equal(t, []patch.Entity{{Label: "Spacecraft"}}, p.Additions.Entities)
	grown, err := patch.Apply([]byte(desk+"version: \"1\"\n"), "desk.yaml", nil, p)
	require.NoError(t, err)
	put := ask[api.SchemaReply](f.cluster, "g", "schema.put", api.SchemaPut{Schema: string(grown.Data)})
	require.Equal(t, []any{true, "2"}, []any{put.Active, put.Version})
	require.NotEqual(t, before.Document.SchemaFP, put.Fingerprint)
	require.Equal(t, api.JobPending, f.status("g", job).State)
	close(gate)
	s := f.await("g", job, api.JobCommitted)
	require.Equal(t, []int{2, 0}, said(s))
	now := f.documentAt("g", map[string]any{"key": "running"})
	require.Equal(t, []any{before.Document.SchemaFP, before.SchemaVersion, before.SchemaRevision, 1}, []any{now.Document.SchemaFP, now.SchemaVersion, now.SchemaRevision, now.Version})
	require.Equal(t, []string{"entity|spacecraft|soyuz ×1 in 1 @0.9"}, f.queue("g", "pending"))
	require.Equal(t, []string{"entity|spacecraft|dragon ×2 in 2 @0.9"}, f.queue("g", "approved"))
	require.Empty(t, f.edges("g"))

	s = f.run("g", map[string]any{"op": "update", "key": "running", "text": running["text"]})
	require.Equal(t, []any{1, []int{0, 0}}, []any{s.Documents.Updated, said(s)})
	now = f.documentAt("g", map[string]any{"key": "running"})
	require.Equal(t, []any{put.Fingerprint, "2", put.Revision, 2}, []any{now.Document.SchemaFP, now.SchemaVersion, now.SchemaRevision, now.Version})
	require.Equal(t, map[string]int{"Dragon": 0, "Soyuz": 0}, f.edges("g"))
	require.Empty(t, f.queue("g", "pending"))
	require.Equal(t, 1, f.run("g", running).Documents.Unchanged)
	f.sound("g")
}

// hostile are labels that no schema takes, and why approval refuses them.
func hostile() map[string]string {
	return map[string]string{
		"Evil`Craft":               "malformed",
		"../../etc/passwd":         "malformed",
		"a/b\\c":                   "malformed",
		"x\x01y\u0007":             "malformed",
		"line\nbreak\ttab":         "malformed",
		"factmill.g.ingest":        "malformed",
		"* > $JS.API":              "malformed",
		"`) DETACH DELETE n //":    "malformed",
		"'; DROP TABLE x; --":      "malformed",
		"{{.Label}} %s ${HOME}":    "malformed",
		strings.Repeat("Lng", 683): "longer than 128",
		"Document":                 "reserved",
		"resolved_entity":          "reserved",
		"CHUNK":                    "reserved",
		"Хост‮":                    "malformed",
	}
}

// hostility is a document, and a model that finds a thing and a relation of each hostile label in it.
func hostility(t *testing.T) (text string, m *testkit.Model) {
	t.Helper()
	type item map[string]any
	entities, relations := []item{{"name": "Bob", "type": "Person"}, {"name": "Acme", "type": "Organization", "properties": map[string]any{"a`b/c\x01": "1"}}}, []item{}
	text = "Bob is at Acme since 1."
	for i, l := range sortedNames(hostile()) {
		name := fmt.Sprintf("Thing%02d", i)
		text += " " + name + " stands there."
		entities = append(entities, item{"name": name, "type": l})
		relations = append(relations, item{"source": "Bob", "target": "Acme", "type": l})
	}
	reply, err := json.Marshal(map[string]any{"entities": entities, "relations": append(relations, item{"source": "Bob", "target": "Acme", "type": "HAS_PART"})})
	require.NoError(t, err)
	return text, testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Content: string(reply)})})
}

// Candidates may have any label. Approval refuses those that no schema takes and says why; nothing of them becomes a subject, a path or a query.
func TestHostileLabels(t *testing.T) {
	labels := hostile()
	text, m := hostility(t)
	f := asking(t, fleetOptions{}, m, "g")
	s := f.run("g", doc("d", text))
	require.Equal(t, []int{2*len(labels) + 2, 0}, said(s))
	groups := f.groups("g")
	require.Len(t, groups, 2*len(labels)+2)
	for _, g := range groups {
		shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: g.Key})
		require.Equal(t, g, shown.Item)
		if g.Label != "" {
			require.Contains(t, ask[api.ReviewListReply](f.cluster, "g", "review.list", api.ReviewList{Label: g.Label}).Groups, g, "%q", g.Label)
		}
	}
	r := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{}, Actor: "eva"})
	require.Empty(t, r.Patch.Additions.Entities)
	require.Empty(t, r.Patch.AddProperties)
	for _, l := range r.Patch.Additions.Relations { // types' names are reserved for types alone
		require.Contains(t, []string{"CHUNK", "resolved_entity"}, l.Label)
	}
	changed := 0
	for _, g := range groups {
		why, refused := r.Outcome.Skipped[g.Key]
		want := labels[g.Label]
		switch {
		case strings.HasPrefix(g.Label, "Lng"):
			want = "longer than 128"
		case g.Label == "HAS_PART":
			want = "reserved"
		case g.Kind == "property":
			want = "malformed"
		case g.Kind == "relation" && want == "reserved" && g.Label != "Document": // such a type is no relation's
			require.False(t, refused, "%q: %s", g.Label, why)
			changed++
			continue
		}
		require.True(t, refused, "%q", g.Label)
		require.Regexp(t, "^label_refused: .*"+want, why, "%q", g.Label)
		require.Less(t, len(why), 500)
	}
	require.Len(t, r.Outcome.Changed, changed)
	for _, e := range f.candidateEvents("g") {
		require.Regexp(t, `^factmill\.g\.candidate\.(proposed|approved)\.(entity|relation|property)$`, e.Where().String())
	}
	f.allSubjects("g")
	f.sound("g")
}

// People's terminals get none of it either, and no file format breaks by it.
func TestHostileLabelsOnATerminal(t *testing.T) {
	text, m := hostility(t)
	c := allInOne(t, "--ollama.url", m.URL())
	c.putSchema("g", desk)
	c.putSettings("g", map[string]string{"extractor.mode": "llm", "ollama.model": "fake:1"})
	c.add("g", doc("d", text))
	args := [][]string{{"review", "list", "--limit", "100"}, {"review", "stats"}, {"document", "d"}, {"export", "--format", "cypher", "--candidates"},
		{"export", "--format", "graphml", "--candidates"}, {"export", "--format", "csv", "--candidates", "--output", filepath.Join(t.TempDir(), "g.csv")}}
	for i, g := range c.groups("g") {
		if i%8 == 0 {
			args = append(args, []string{"review", "show", g.Key})
		}
	}
	for _, a := range args {
		out := c.cli(0, append(a, "--graph", "g")...).stdout
		bad := unicode.C
		if a[0] == "export" { // which says what the text says
			bad = unicode.Cc
		}
		i := strings.IndexFunc(out, func(r rune) bool { return unicode.Is(bad, r) && r != '\n' && r != '\t' })
		require.Negative(t, i, "%v: %q", a, out[max(0, i-20):min(len(out), max(0, i)+20)])
		if a[0] == "export" && a[2] == "cypher" {
			require.NotContains(t, out, "Evil``Craft`", "no label of a node")
			require.Contains(t, out, "'Evil`Craft'")
		}
	}
	out := c.cli(4, "review", "approve", "--kind", "entity", "--actor", "eva", "--graph", "g")
	require.Contains(t, out.stdout, "label_refused")
	require.Negative(t, strings.IndexFunc(out.stdout+out.stderr, func(r rune) bool { return unicode.Is(unicode.C, r) && r != '\n' && r != '\t' }))
}

// allSubjects demands that every subject of every stream is one of the contract's: tokens of a few words, hashes and numbers.
func (c *cluster) allSubjects(graph string) {
	c.t.Helper()
	n := 0
	for _, spec := range bus.NewTable(bus.TableOptions{}).Streams {
		s, err := c.conn.JS.Stream(c.t.Context(), spec.Name)
		require.NoError(c.t, err)
		info, err := s.Info(c.t.Context(), jetstream.WithSubjectFilter(">"))
		require.NoError(c.t, err)
		for subject := range info.State.Subjects {
			require.Regexp(c.t, `^factmill\.`+graph+`(\.[A-Za-z0-9_-]{1,64}){1,4}$`, subject)
			n++
		}
	}
	require.NotZero(c.t, n)
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
