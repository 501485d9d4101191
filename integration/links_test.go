package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer"
)

// namePairs are pairs of names that broke others.
type namePairs struct {
	Same      [][2]string `json:"same"`
	Different [][2]string `json:"different"`
	Linked    [][2]string `json:"linked_not_merged"`
}

func readPairs(t testing.TB) (p namePairs) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(cases(t), "names.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &p))
	require.NotEmpty(t, p.Same)
	require.NotEmpty(t, p.Different)
	require.NotEmpty(t, p.Linked)
	return p
}

// schemaOf is a schema whose names the extractor finds wherever they stand, by label.
func schemaOf(names map[string][]string) string {
	var types, rules []string
	for label, list := range names {
		slices.Sort(list)
		b, _ := json.Marshal(slices.Compact(list))
		types = append(types, fmt.Sprintf("%q:%q", label, "A "+label+"."))
		rules = append(rules, fmt.Sprintf("%q:{\"names\":%s}", label, b))
	}
	return fmt.Sprintf(`{"entities":{%s},"relations":{},"rules":{"entities":{%s}}}`, strings.Join(types, ","), strings.Join(rules, ","))
}

// matchesOf are the matches of an export, "a ~ b state", by merge key.
func matchesOf(x exported) []string {
	name := map[string]string{}
	for _, e := range x.entities {
		name[e.ID] = e.MergeKey
	}
	out := []string{}
	for _, m := range x.matches {
		ends := sorted([]string{name[m.A], name[m.B]})
		out = append(out, fmt.Sprintf("%s ~ %s %s %s", ends[0], ends[1], m.Method, m.State))
	}
	return sorted(out)
}

// The names that broke others, through the whole pipeline: one entity, two that are not linked, and two that are.
func TestNamesThatLink(t *testing.T) {
	p := readPairs(t)
	f := newFleet(t, fleetOptions{Replicas: 2})
	label := map[string]string{"NYC": "Location", "Sherlock Holmes": "Person", "Tarea 5": "Event", "Acme": "Organization", "ＡＣＭＥ": "Organization"}
	read := func(g string, pair [2]string) exported {
		t.Helper()
		l := label[strings.Trim(pair[0], "\"“”")]
		if l == "" {
			l = "Software"
		}
		f.putSchema(g, schemaOf(map[string][]string{l: {strings.Trim(pair[0], "\"“”"), strings.Trim(pair[1], "\"“”")}}))
		f.run(g, map[string]any{"documents": []map[string]any{doc("one", "We looked at "+pair[0]+" today.")}})
		f.run(g, map[string]any{"documents": []map[string]any{doc("two", "They know "+pair[1]+" well.")}})
		f.sound(g)
		return parseExport(t, f.exported(g, 0))
	}
	for i, pair := range p.Same {
		x := read(fmt.Sprintf("same-%d", i), pair)
		require.Len(t, x.entities, 1, "%q", pair)
		require.Empty(t, x.matches)
	}
	for i, pair := range p.Different {
		x := read(fmt.Sprintf("different-%d", i), pair)
		require.Len(t, x.entities, 2, "%q", pair)
		require.NotEqual(t, x.entities[0].ID, x.entities[1].ID)
		require.Empty(t, x.matches, "%q", pair)
	}
	for i, pair := range p.Linked {
		g := fmt.Sprintf("linked-%d", i)
		x := read(g, pair)
		require.Len(t, x.entities, 2, "%q: nothing is merged", pair)
		require.Len(t, x.matches, 1, "%q", pair)
		require.Equal(t, "active", x.matches[0].State)
		ids := sorted([]string{x.entities[0].ID, x.entities[1].ID})
		require.Equal(t, ids, []string{x.matches[0].A, x.matches[0].B})
		require.Equal(t, fingerprint.MatchID(ids[0], ids[1]), x.matches[0].ID)
		for _, name := range pair { // either name shows both
			e := ask[api.EntityReply](f.cluster, g, "query.entity", api.EntityGet{Name: name})
			require.Equal(t, fingerprint.Fold(name), e.Entity.MergeKey)
			require.Equal(t, ids, []string{e.Cluster.Members[0].ID, e.Cluster.Members[1].ID})
			require.Equal(t, x.matches[0].ID, e.Cluster.Links[0].ID)
			s := ask[api.SearchReply](f.cluster, g, "query.search", api.Search{Q: name, Kinds: []string{"entity"}})
			require.Len(t, s.Hits, 1)
			require.Len(t, s.Hits[0].Cluster.Members, 2)
		}
	}
	f.noDeadLetters()
}

// One name in two orders of its words, in two jobs: the same link, once, whichever comes first, and when they come at the same moment.
func TestTwoJobsOneLink(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 3})
	schema := schemaOf(map[string][]string{"Person": {"Babbage Charles", "Charles Babbage"}})
	docs := []map[string]any{doc("a", "We met Babbage Charles there."), doc("b", "We met Charles Babbage there.")}
	var want string
	for i, order := range [][]int{{0, 1}, {1, 0}} {
		g := fmt.Sprintf("order-%d", i)
		f.putSchema(g, schema)
		for _, d := range order {
			f.run(g, map[string]any{"documents": docs[d : d+1]})
		}
		f.sound(g)
		if i == 0 {
			want = f.exported(g, 0)
			require.Equal(t, []string{"babbage charles ~ charles babbage order active"}, matchesOf(parseExport(t, want)))
		}
		require.Equal(t, want, f.exported(g, 0))
	}
	for i := range 5 {
		g := fmt.Sprintf("once-%d", i)
		f.putSchema(g, schema)
		jobs := []string{f.publish(g, map[string]any{"documents": docs[:1]}), f.publish(g, map[string]any{"documents": docs[1:]})}
		matched := 0
		for _, s := range f.committed(g, jobs) {
			matched += s.Stages.Resolution.Matched.Fuzzy
		}
		require.Equal(t, 1, matched, "it is found, and counted, once")
		require.Equal(t, want, f.exported(g, 0))
		f.sound(g)
	}
	// What is read again is linked again, and what goes takes its link along.
	f.run("order-0", map[string]any{"documents": docs, "force": true})
	require.Equal(t, want, f.exported("order-0", 0))
	f.remove("order-0", "b")
	x := parseExport(t, f.exported("order-0", 0))
	require.Empty(t, x.matches)
	require.Len(t, x.entities, 1)
	e := ask[api.EntityReply](f.cluster, "order-0", "query.entity", api.EntityGet{Name: "Babbage Charles"})
	require.Nil(t, e.Cluster)
	f.sound("order-0")
	f.noDeadLetters()
}

// The command shows what is linked, by what, and how it is taken apart.
func TestLinksOnTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "s.json", `{"entities":{"Person":"A human being.","Organization":"A firm."},"relations":{"WORKS_FOR":{"patterns":["Person->Organization"]}},
		"rules":{"entities":{"Person":{"names":["Babbage Charles","Charles Babbage","Sherlock Holmes","Holmes"]}},"relations":{"WORKS_FOR":{"phrases":["works for"]}}}}`)
	write(t, dir, "docs/a.txt", "Charles Babbage works for Acme Ltd. Charles Babbage was there.")
	write(t, dir, "docs/b.txt", "Babbage Charles works for Zenith Inc.")
	write(t, dir, "docs/c.txt", "Sherlock Holmes works for Acme Ltd.")
	write(t, dir, "docs/d.txt", "Holmes works for Acme Ltd.")
	command := func(args ...string) string {
		t.Helper()
		r := runIn(t, dir, "", append(args, "--data", "g")...)
		require.Equal(t, 0, r.code, "%v\n%s\n%s", args, r.stdout, r.stderr)
		return r.stdout
	}
	command("run", "docs", "--schema", "s.json")
	id := fingerprint.MatchID(fingerprint.EntityID("Person", "charles babbage"), fingerprint.EntityID("Person", "babbage charles"))
	shown := command("entity", "Charles Babbage")
	for _, want := range []string{"  also known as\n    Babbage Charles  (order, 0.98)  match " + id + "\n    to take one out: factmill review reject --id MATCH\n",
		"Charles Babbage  WORKS_FOR  Acme Ltd", "Babbage Charles  WORKS_FOR  Zenith Inc"} {
		require.Contains(t, shown, want)
	}
	raw := command("entity", "Charles Babbage", "--raw")
	require.NotContains(t, raw, "also known as")
	require.NotContains(t, raw, "Zenith")
	r := loose[api.EntityReply](t, command("entity", "Babbage Charles", "--json"))
	require.Equal(t, "Charles Babbage", r.Cluster.Name)
	require.Equal(t, id, r.Cluster.Links[0].ID)
	require.Equal(t, 2, r.RelationsTotal)
	require.Contains(t, command("entity", "Sherlock Holmes"), "  perhaps the same, to be decided: factmill review approve|reject --id MATCH\n    ")

	found := command("search", "babbage", "--kinds", "entity")
	require.Equal(t, 1, strings.Count(found, "(Person)"), found)
	require.Contains(t, found, "also known as ")
	require.Equal(t, 2, strings.Count(command("search", "babbage", "--kinds", "entity", "--raw"), "(Person)"))
	s := loose[api.SearchReply](t, command("search", "babbage", "--kinds", "entity", "--json"))
	require.Len(t, s.Hits, 1)
	require.Len(t, s.Hits[0].Cluster.Members, 2)
}

func TestJobsNameTheSame(t *testing.T)        { jobsNameTheSame(t, 40) }
func TestManyNamesInOneDocument(t *testing.T) { namesInOneDocument(t, 400) }

// jobsNameTheSame runs many jobs at once that name the same fifty: each is one entity, and the links are those of one document that names
// them all.
func jobsNameTheSame(t *testing.T, jobs int) {
	f := newFleet(t, fleetOptions{Replicas: 2})
	names := map[string][]string{"Person": persons, "Organization": organizations, "Location": locations, "Software": programs}
	var all []string
	for _, l := range []string{"Person", "Organization", "Location", "Software"} {
		all = append(all, names[l]...)
	}
	require.Len(t, all, 50)
	schema := schemaOf(map[string][]string{"Person": slices.Clone(persons), "Organization": slices.Clone(organizations), "Location": slices.Clone(locations), "Software": slices.Clone(programs)})
	text := "We know " + strings.Join(all, ". We know ") + "."
	f.putSchema("one", schema)
	f.run("one", map[string]any{"documents": []map[string]any{doc("d", text)}})
	one := parseExport(t, f.exported("one", 0))
	want := matchesOf(one)
	require.Greater(t, len(want), 10)

	f.putSchema("g", schema)
	begin := time.Now()
	var list []string
	for i := range jobs {
		list = append(list, f.publish("g", map[string]any{"documents": []map[string]any{doc(fmt.Sprintf("d%03d", i), text)}}))
	}
	matched := 0
	for _, s := range f.committed("g", list) {
		matched += s.Stages.Resolution.Matched.Fuzzy + s.Stages.Resolution.Matched.Embedding + s.Stages.Resolution.Unclear
	}
	took := time.Since(begin)
	t.Logf("%d jobs of %d names: %s, %d matches", jobs, len(all), took.Round(time.Millisecond), matched)
	x := parseExport(t, f.exported("g", 0))
	require.Equal(t, one.names(), x.names())
	for _, e := range x.entities {
		require.GreaterOrEqual(t, len(e.Mentions), jobs)
	}
	require.Equal(t, want, matchesOf(x))
	require.Equal(t, len(want), matched, "each was found once")
	require.Less(t, took, 2*time.Minute)
	f.sound("g")
	f.noDeadLetters()
}

// invented are n names of people that share given and family names.
func invented(n int) []string {
	var out []string
	syllables := []string{"ka", "lo", "mi", "ren", "tas", "vu", "zel", "dor", "fin", "gal"}
	for i := range n {
		given, family := i%50, i/50
		out = append(out, fmt.Sprintf("%s%s %s%s%s", strings.ToUpper(syllables[given%10][:1])+syllables[given%10][1:], syllables[given/10],
			strings.ToUpper(syllables[family%10][:1])+syllables[family%10][1:], syllables[family/10%10], "nor"))
	}
	return out
}

// namesInOneDocument reads many names of one label in one document: one entity each, in bounded time, and what was left out is counted.
func namesInOneDocument(t *testing.T, n int) {
	names := invented(n)
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.putSchema("g", schemaOf(map[string][]string{"Person": slices.Clone(names)}))
	begin := time.Now()
	s := f.run("g", map[string]any{"documents": []map[string]any{doc("d", "We know "+strings.Join(names, ". We know ")+".")}})
	took := time.Since(begin)
	r := s.Stages.Resolution
	t.Logf("%d names: %s, %d compared, %d+%d matched, %d unclear, %d left", n, took.Round(time.Millisecond), r.Compared, r.Matched.Fuzzy, r.Matched.Embedding, r.Unclear, r.CapLeft)
	x := parseExport(t, f.exported("g", 0))
	require.Len(t, x.entities, n)
	for _, e := range x.entities {
		require.Len(t, e.Mentions, 1)
	}
	require.Less(t, took, 3*time.Minute)
	require.Less(t, r.Compared, n*n/2, "not every pair is looked at")
	links := slices.DeleteFunc(slices.Clone(x.matches), func(m graph.MatchRow) bool { return m.State != "active" })
	require.Len(t, links, r.Matched.Fuzzy+r.Matched.Embedding)
	one := ask[api.EntityReply](f.cluster, "g", "query.entity", api.EntityGet{ID: x.entities[0].ID})
	require.True(t, one.Cluster == nil || len(one.Cluster.Members) <= 200)
	f.sound("g")
}

// fan are names whose vectors lie in a plane, each 17 degrees from the next: neighbours link (cosine 0.956), those three apart are not alike (0.63).
var fan = []string{"Quellor", "Breskin", "Vontopi", "Hadruma"}

func fanVectors(texts []string) [][]float64 {
	out := [][]float64{}
	for _, s := range texts {
		v := []float64{0, 0, 1}
		if i := slices.Index(fan, s); i >= 0 {
			a := float64(i) * 17 * math.Pi / 180
			v = []float64{math.Cos(a), math.Sin(a), 0}
		}
		out = append(out, v)
	}
	return out
}

// Likeness does not carry from name to name: a chain of alike names whose ends are not alike is parted, the same way from each of them,
// and in smaller parts still while the model is away.
func TestAChainOfLikenessIsParted(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Name: "fan:1"})
	m.SetEmbed(func(c testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		body, _ := json.Marshal(map[string]any{"model": c.Model, "embeddings": fanVectors(c.Texts)})
		return testkit.ModelEmbedReply{RawBody: string(body)}
	})
	dir := t.TempDir()
	build := func(deps app.Deps) (app.Service, error) {
		return committer.New(committer.Config{Dir: dir, ModelURL: m.URL()}, deps)
	}
	f := newFleet(t, fleetOptions{Fake: map[string]func(app.Deps) (app.Service, error){"committer": build}})
	f.putSchema("g", schemaOf(map[string][]string{"Software": slices.Clone(fan)}))
	f.putSettings("g", map[string]string{"embedder": "ollama", "ollama.embed_model": "fan:1"})
	f.run("g", map[string]any{"documents": []map[string]any{doc("a", "We use Quellor. We use Vontopi."), doc("b", "We use Hadruma. We use Breskin.")}})
	x := parseExport(t, f.exported("g", 0))
	require.Equal(t, []string{"breskin ~ quellor cosine active", "breskin ~ vontopi cosine active", "hadruma ~ vontopi cosine active"}, matchesOf(x))

	// Of three links alike, the one that sorts last by its ids is left out.
	last := slices.MaxFunc(x.matches, func(a, b graph.MatchRow) int { return strings.Compare(a.A+a.B, b.A+b.B) })
	ids := map[string][]string{} // members by entity
	for _, e := range x.entities {
		r := ask[api.EntityReply](f.cluster, "g", "query.entity", api.EntityGet{ID: e.ID})
		require.Empty(t, r.Cluster.Unchecked)
		for _, n := range r.Cluster.Members {
			ids[e.ID] = append(ids[e.ID], n.ID)
		}
		if e.ID == last.A || e.ID == last.B {
			require.Len(t, r.Cluster.LeftOut, 1)
			require.Equal(t, last.ID, r.Cluster.LeftOut[0].ID)
		}
	}
	require.NotEqual(t, ids[fingerprint.EntityID("Software", "quellor")], ids[fingerprint.EntityID("Software", "hadruma")])
	for e, members := range ids {
		require.Less(t, len(members), 4)
		for _, n := range members {
			require.Equal(t, members, ids[n], "%s and %s", e, n)
		}
	}
	f.sound("g")

	m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		return testkit.ModelEmbedReply{Status: 404, Message: "model \"fan:1\" not found"}
	})
	f.restart("committer") // the vectors of names are in a cache
	r := ask[api.EntityReply](f.cluster, "g", "query.entity", api.EntityGet{Name: "Quellor"})
	require.Less(t, len(r.Cluster.Members), 3, "what cannot be compared now is not shown as one")
	require.Contains(t, r.Cluster.Unchecked, "fan:1")
}
