package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

// gib bounds the memory of one process in these tests.
const gib = 1 << 30

// write writes a file below dir and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	return p
}

// measured is what a command did and what it took.
type measured struct {
	result
	took time.Duration
	cpu  time.Duration // user and system
	rss  int64         // bytes, at its highest
}

// measure runs the factmill command and demands that it ends within limit.
func measure(t testing.TB, limit time.Duration, dir, stdin string, args ...string) measured {
	t.Helper()
	bin := binary(t, "factmill") // which takes its time the first time
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, cleanEnv(t), strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	require.NoError(t, ctx.Err(), "factmill %v took more than %s\n%s\n%s", args, limit, out.String(), errs.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	m := measured{result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}, took, cpuTime(cmd), peak(t, cmd)}
	t.Logf("factmill %s: %s, %s of CPU, at most %d MiB", args[0], took.Round(time.Millisecond), m.cpu.Round(time.Millisecond), m.rss>>20)
	return m
}

// cpuTime of an ended process. Unlike the time on the wall it is the same when other processes want the machine too.
func cpuTime(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// peak is the most memory that an ended process had resident, in bytes.
func peak(t testing.TB, cmd *exec.Cmd) int64 {
	t.Helper()
	u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	return u.Maxrss << 10 // Linux counts KiB
}

// get asks an address of a process's health server.
func get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

// readiness is the body of /ready.
type readiness struct {
	Ready    bool              `json:"ready"`
	Services map[string]string `json:"services"`
}

// awaitReady waits until /ready at addr has a status, and returns what it says.
func awaitReady(t testing.TB, addr string, status int) readiness {
	t.Helper()
	var r readiness
	testkit.Await(t, fmt.Sprintf("/ready at %s is %d", addr, status), func() bool {
		got, body := get(t, "http://"+addr+"/ready")
		return got == status && json.Unmarshal([]byte(body), &r) == nil
	})
	return r
}

// status is a job as it stands.
func (c *cluster) status(graph, job string) api.JobStatus {
	c.t.Helper()
	return ask[api.JobStatus](c, graph, "jobs.get", api.JobGet{Job: job})
}

// add publishes documents as one job and waits for its commit.
func (c *cluster) add(graph string, documents ...map[string]any) api.JobStatus {
	c.t.Helper()
	return c.await(graph, c.publish(graph, map[string]any{"documents": documents}), api.JobCommitted)
}

// remove deletes a document and waits for the commit.
func (c *cluster) remove(graph, key string) api.JobStatus {
	c.t.Helper()
	return c.await(graph, c.publish(graph, map[string]any{"op": "delete", "key": key}), api.JobCommitted)
}

func doc(key, text string) map[string]any { return map[string]any{"key": key, "text": text} }

// exported is a canonical export, taken apart.
type exported struct {
	documents  []graph.DocumentRow
	chunks     []graph.ChunkRow
	entities   []graph.EntityRow
	relations  []graph.RelationRow
	matches    []graph.MatchRow
	candidates []graph.CandidateRow
}

// parseExport reads every row; a field that a row's type does not have is an error.
func parseExport(t testing.TB, text string) exported {
	t.Helper()
	var x exported
	for line := range strings.Lines(text) {
		var k struct {
			Kind string `json:"kind"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &k), line)
		switch k.Kind {
		case "document":
			x.documents = append(x.documents, strict[graph.DocumentRow](t, line))
		case "chunk":
			x.chunks = append(x.chunks, strict[graph.ChunkRow](t, line))
		case "entity":
			x.entities = append(x.entities, strict[graph.EntityRow](t, line))
		case "relation":
			x.relations = append(x.relations, strict[graph.RelationRow](t, line))
		case "match":
			x.matches = append(x.matches, strict[graph.MatchRow](t, line))
		case "candidate":
			x.candidates = append(x.candidates, strict[graph.CandidateRow](t, line))
		default:
			require.Fail(t, "a row of an unknown kind", line)
		}
	}
	return x
}

func strict[R any](t testing.TB, line string) R {
	t.Helper()
	var r R
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r), line)
	return r
}

// loose reads what a command printed with --json; a command may say more than the reply that it prints.
func loose[R any](t testing.TB, text string) R {
	t.Helper()
	var r R
	require.NoError(t, json.Unmarshal([]byte(text), &r), text)
	return r
}

// rows is the export of a graph, parsed.
func (c *cluster) rows(graph string) exported {
	c.t.Helper()
	return parseExport(c.t, c.export(graph))
}

// names lists "Type name" of every entity, in the export's order.
func (x exported) names() []string {
	out := []string{}
	for _, e := range x.entities {
		out = append(out, e.Type+" "+e.Name)
	}
	return out
}

// text is a document's whole stored text, with the reply's other fields: its pages put together.
func (c *cluster) document(graph, key, offsets string) api.DocumentReply {
	c.t.Helper()
	var whole api.DocumentReply
	for cursor := ""; ; {
		r := ask[api.DocumentReply](c, graph, "query.document", api.DocumentGet{Key: key, Text: true, Offsets: offsets, Cursor: cursor})
		if cursor == "" {
			whole = r
		} else {
			whole.Chunks, whole.Text = append(whole.Chunks, r.Chunks...), whole.Text+r.Text
		}
		if cursor = r.Next; cursor == "" {
			return whole
		}
	}
}

// groups is every group of the review list.
func (c *cluster) groups(graph string) []api.Group {
	c.t.Helper()
	var all []api.Group
	for cursor := ""; ; {
		r := ask[api.ReviewListReply](c, graph, "review.list", map[string]any{"state": nil, "limit": 37, "cursor": cursor})
		all = append(all, r.Groups...)
		if cursor = r.Next; cursor == "" {
			require.Len(c.t, all, r.Total)
			return all
		}
	}
}

// slicer cuts a text by offsets in one of the contract's units.
type slicer func(start, end int) string

// slicers of a text, by the name of the unit. They do not use the program's own conversion.
func slicers(text string) map[string]slicer {
	runes, units := []rune(text), utf16.Encode([]rune(text))
	return map[string]slicer{
		"bytes": func(s, e int) string { return text[s:e] },
		"runes": func(s, e int) string { return string(runes[s:e]) },
		"utf16": func(s, e int) string { return string(utf16.Decode(units[s:e])) },
	}
}

// seeded is a source of randomness whose seed the test's log shows.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

var (
	firstNames = []string{"Ada", "Bruno", "Clara", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Lucas", "Marta",
		"Nadia", "Oscar", "Paula", "Quentin", "Rosa", "Stefan", "Teresa"}
	lastNames = []string{"Abbott", "Bergman", "Castell", "Dorfman", "Eriksen", "Fischer", "Galvani", "Hartley", "Ivanov", "Jansen", "Keller",
		"Lindgren", "Moreau", "Novak", "Oduya", "Petrov", "Quist", "Romero", "Sandoval", "Tanaka"}
	firms = []string{"Acme Ltd", "Borealis Inc", "Cobalt GmbH", "Delta Corp", "Ember Ltd", "Fjord Inc", "Granite GmbH", "Halcyon Corp",
		"Iris Ltd", "Juniper Inc"}
	cities = []string{"London", "Paris", "Berlin", "Madrid", "Oslo", "Vienna", "Lisbon", "Prague"}
	fill   = []string{"The meeting was long and nobody kept the minutes.", "Rain fell on the roof for most of the week.",
		"Later the plans were put away and the tables were cleaned.", "Nothing else was said about the matter that day.",
		"The older machines still run, though they are slow.", "A short note was pinned to the door of the hall."}
)

// person is a name that stays the same for the same number.
func person(n int) string {
	return firstNames[n%len(firstNames)] + " " + lastNames[n/len(firstNames)%len(lastNames)]
}

// prose is plain English of about size bytes: two sentences in every `in` state a fact, about so many people.
func prose(r *rand.Rand, size, people, in int) string {
	var b strings.Builder
	for b.Len() < size {
		switch r.IntN(in) {
		case 0:
			fmt.Fprintf(&b, "%s works for %s. ", person(r.IntN(people)), pick(r, firms))
		case 1:
			fmt.Fprintf(&b, "%s is located in %s.\n\n", pick(r, firms), pick(r, cities))
		default:
			b.WriteString(pick(r, fill) + " ")
		}
	}
	return b.String()
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}
