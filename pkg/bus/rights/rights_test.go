package rights_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/events"
)

var rewrite = flag.Bool("rewrite", false, "write the files under deploy/ anew")

// files are made from the table; the test says when one differs.
func files() map[string]string {
	const head = "# Who may do what at NATS: made from pkg/bus/rights by `make rights`. Do not edit.\n"
	return map[string]string{
		"deploy/nats/accounts.conf":     head + rights.Config(rights.Wiring{KeysFile: "keys.conf", PeopleFile: "people.conf"}),
		"deploy/k8s/base/accounts.conf": head + rights.Config(rights.Wiring{KeysFile: "../nats-auth/keys.conf", PeopleFile: "../nats-auth/people.conf"}),
	}
}

func TestCommittedFiles(t *testing.T) {
	for name, want := range files() {
		path := filepath.Join("..", "..", "..", filepath.FromSlash(name))
		if *rewrite {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(have), "%s is not what the table says: make rights", name)
	}
}

// The server takes the configuration as it reads the files: every user, with its lists.
func TestTheServerReadsIt(t *testing.T) {
	keys, err := rights.NewKeys()
	require.NoError(t, err)
	ada, err := rights.NewKey()
	require.NoError(t, err)
	people := []rights.Person{{Name: "ada", Role: rights.Reviewer, Key: ada.Public}}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"accounts.conf": files()["deploy/nats/accounts.conf"], "keys.conf": rights.KeysConfig(rights.Publics(keys)), "people.conf": rights.PeopleConfig(people),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	o, err := server.ProcessConfigFile(filepath.Join(dir, "accounts.conf"))
	require.NoError(t, err)
	have := map[string]*server.NkeyUser{}
	for _, u := range o.Nkeys {
		have[u.Nkey] = u
	}
	require.Len(t, have, len(rights.Users())+1)
	for _, u := range rights.Users() {
		got := have[keys[u.Name].Public]
		require.NotNil(t, got, u.Name)
		require.Equal(t, rights.Account, got.Account.Name)
		if u.Name == rights.Admin {
			require.Nil(t, got.Permissions)
			continue
		}
		require.Equal(t, u.Publish, got.Permissions.Publish.Allow, u.Name)
		require.Equal(t, u.Subscribe, got.Permissions.Subscribe.Allow, u.Name)
		require.Equal(t, u.Answers, got.Permissions.Response != nil, u.Name)
		if u.Answers {
			require.Equal(t, rights.ReplyWithin, got.Permissions.Response.Expires)
		}
	}
	require.Equal(t, people[0].User().Publish, have[ada.Public].Permissions.Publish.Allow)
	require.Equal(t, "BY_ada", have[ada.Public].Account.Name)
}

// No list has a wildcard where it would reach what another service does.
func TestNoListIsTooWide(t *testing.T) {
	for _, u := range rights.Users() {
		if u.Name == rights.Admin {
			continue
		}
		for _, s := range u.Publish {
			require.False(t, strings.HasPrefix(s, "_INBOX"), "%s publishes to %s", u.Name, s)
			require.False(t, strings.HasPrefix(s, bus.RootBy), "%s publishes to %s: it could take any name", u.Name, s)
			require.NotContains(t, []string{">", "$JS.>", "$JS.API.>", "$O.>", events.Root + ".>"}, s, u.Name)
		}
		for _, s := range u.Subscribe {
			if rest, ok := strings.CutPrefix(s, "_INBOX"); ok {
				require.Equal(t, "_"+u.Name+".>", rest)
			}
			require.NotContains(t, []string{">", "*.>", events.Root + ".>"}, s, u.Name)
		}
		for _, c := range bus.NewTable(bus.TableOptions{}).Consumers {
			next := "$JS.API.CONSUMER.MSG.NEXT." + c.Stream + "." + c.Config.Durable
			require.Equal(t, c.Config.Durable == u.Name, slices.Contains(u.Publish, next), "%s pulls %s", u.Name, next)
		}
	}
}

// The reviewer asks exactly what the table says, and so do the others: the verbs in their code are those in their lists.
func TestVerbsInTheCode(t *testing.T) {
	asked := regexp.MustCompile(`(?:verb\(graph, |subject\(g, |patiently\(ctx, graph, )"([a-z]+\.[a-z_]+|[a-z]+\.[a-z]+)"`)
	for _, service := range []string{"reviewer", "loader"} {
		var found []string
		paths, err := filepath.Glob(filepath.Join("..", "..", "..", "services", service, "*.go"))
		require.NoError(t, err)
		for _, p := range paths {
			if strings.HasSuffix(p, "_test.go") {
				continue
			}
			b, err := os.ReadFile(p)
			require.NoError(t, err)
			for _, m := range asked.FindAllStringSubmatch(string(b), -1) {
				found = append(found, m[1])
			}
		}
		for _, s := range rights.Services {
			if s.Name == service {
				require.ElementsMatch(t, s.Asks, slices.Compact(slices.Sorted(slices.Values(found))), service)
			}
		}
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		role       rights.Role
		noun, verb string
		may        bool
	}{
		{rights.Reader, "query", "entity", true}, {rights.Reader, "query", "citations", true}, {rights.Reader, "query", "candidates", true}, {rights.Reader, "review", "approve", false}, {rights.Reader, "review", "list", true},
		{rights.Publisher, "query", "entity", false}, {rights.Publisher, "jobs", "get", true}, {rights.Reviewer, "review", "approve", true},
		{rights.Reviewer, "schema", "put", false}, {rights.Operator, "schema", "put", true}, {rights.Operator, "jobs", "open", false},
		{rights.Operator, "candidates", "decide", false}, {rights.Reader, "backup", "read", false},
	} {
		require.Equal(t, c.may, c.role.May(c.noun, c.verb), "%s %s.%s", c.role, c.noun, c.verb)
	}
	for _, r := range rights.Roles {
		p := rights.Person{Name: "ada", Role: r}
		sends := slices.Contains(p.User().Publish, "factmill.*.ingest")
		require.Equal(t, r == rights.Publisher || r == rights.Operator, sends, r)
		require.Equal(t, []string{"_INBOX.>"}, p.User().Subscribe)
	}
	for _, bad := range []string{"", "Ada", "a.b", "a*", ">", "policy", "committer", "admin", strings.Repeat("a", 64)} {
		require.Error(t, rights.Person{Name: bad, Role: rights.Reader}.Check(), bad)
	}
	require.Error(t, rights.Person{Name: "ada", Role: "boss"}.Check())
	require.NoError(t, rights.Person{Name: "ada-1", Role: rights.Reader}.Check())
}

// The guide's table of roles is the code's.
func TestTheGuideIsRight(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", "rights.md"))
	require.NoError(t, err)
	_, people, ok := strings.Cut(string(b), "People and programs are an account each")
	require.True(t, ok)
	said := map[rights.Role]map[string]bool{}
	for _, r := range rights.Roles {
		row := regexp.MustCompile(`(?m)^\| ` + string(r) + ` \| (.*) \|$`).FindStringSubmatch(people)
		require.NotNil(t, row, r)
		said[r] = map[string]bool{}
		for _, before := range rights.Roles {
			if before != r && (strings.HasPrefix(row[1], "as "+string(before)) || strings.HasPrefix(row[1], "all of these")) {
				for v := range said[before] {
					said[r][v] = true
				}
			}
		}
		noun := ""
		for _, m := range regexp.MustCompile("`([a-z-]+\\.)?([a-z_*]+)`").FindAllStringSubmatch(row[1], -1) {
			if m[1] != "" {
				noun = m[1]
			}
			for _, n := range rights.Verbs {
				for v := range n.Verbs {
					if n.Noun+"." == noun && (m[2] == v || m[2] == "*") {
						said[r][noun+v] = true
					}
				}
			}
		}
	}
	for _, r := range rights.Roles {
		for _, n := range rights.Verbs {
			for v := range n.Verbs {
				require.Equal(t, r.May(n.Noun, v), said[r][n.Noun+"."+v], "%s %s.%s", r, n.Noun, v)
			}
		}
	}
	for _, u := range rights.Users() {
		require.Contains(t, string(b), "\n| "+u.Name+" | ")
	}
}

// A kind of event that a service emits or hears lies in a stream: one that no stream keeps would give the service no right, in silence.
func TestEveryKindHasAStream(t *testing.T) {
	users := map[string]rights.User{}
	for _, u := range rights.Users() {
		users[u.Name] = u
	}
	for _, s := range rights.Services {
		for _, of := range []struct{ kinds, subjects []string }{{s.Emits, users[s.Name].Publish}, {s.Hears, users[s.Name].Subscribe}} {
			for _, kind := range of.kinds {
				require.True(t, slices.ContainsFunc(of.subjects, func(subject string) bool {
					rest, ok := strings.CutPrefix(subject, events.Root+".*."+kind)
					return ok && (rest == "" || rest[0] == '.')
				}), "%s: %s is in no subject of %q", s.Name, kind, of.subjects)
			}
		}
	}
}
