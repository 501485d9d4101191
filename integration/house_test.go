package integration

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/factmill/factmill/"

// root is the repository, seen from this module.
const root = ".."

// goFiles calls fn with every Go file of the repository, by its path from the root, and its imports.
func goFiles(t *testing.T, fn func(path string, imports []string)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != root || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range f.Imports {
			s, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, s)
		}
		n++
		fn(filepath.ToSlash(rel), imports)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, n, 100, "the walk found the repository")
}

// may says which of our packages a package of pkg/ may import: cmd → services → app, bus → api, events → graph, schema → fingerprint.
var may = map[string][]string{
	"pkg/fingerprint":  {},
	"pkg/token":        {},
	"pkg/fault":        {},
	"pkg/failpoint":    {},
	"pkg/schema":       {"pkg/fingerprint"},
	"pkg/jsonx":        {},
	"pkg/graph":        {"pkg/fingerprint", "pkg/jsonx"},
	"pkg/settings":     {"pkg/fingerprint", "pkg/jsonx", "pkg/schema"},
	"pkg/schemacache":  {"pkg/schema"},
	"pkg/patch":        {"pkg/fingerprint", "pkg/graph", "pkg/schema"},
	"pkg/embed":        {"pkg/fingerprint"},
	"pkg/embed/ollama": {"pkg/embed"},
	"pkg/linkage":      {"pkg/fingerprint"},
	"pkg/llm":          {"pkg/fault"},
	"pkg/events":       {"pkg/fingerprint", "pkg/graph", "pkg/jsonx", "pkg/settings", "pkg/schema"},
	"pkg/bundle":       {"pkg/events", "pkg/graph"},
	"pkg/plan":         {"pkg/fingerprint"},
	"pkg/api":          {"pkg/events", "pkg/graph", "pkg/patch", "pkg/plan", "pkg/schema"},
	"pkg/bus":          {"pkg/api", "pkg/events", "pkg/fault", "pkg/failpoint", "pkg/fingerprint", "pkg/graph"},
	"pkg/bus/rights":   {"pkg/bus", "pkg/events"},
	"pkg/coverage":     {"pkg/api", "pkg/graph", "pkg/schema"},
	"pkg/tracing":      {"pkg/bus"},
	"pkg/app":          {"pkg/bus", "pkg/settings", "pkg/api", "pkg/events", "pkg/tracing"},
}

func TestDependencyRule(t *testing.T) {
	goFiles(t, func(path string, imports []string) {
		dir := filepath.ToSlash(filepath.Dir(path))
		test := strings.HasSuffix(path, "_test.go")
		for _, imp := range imports {
			own, isOwn := strings.CutPrefix(imp, module)
			if isOwn {
				checkOwn(t, path, dir, own, test)
				continue
			}
			checkForeign(t, path, dir, imp, test)
		}
	})
}

func checkOwn(t *testing.T, path, dir, own string, test bool) {
	switch {
	case strings.HasPrefix(own, "cmd/"):
		require.True(t, strings.HasPrefix(dir, "cmd/"), "%s imports %s: nothing imports cmd", path, own)
	case strings.HasPrefix(own, "services/"):
		service := strings.Split(own, "/")[1]
		ok := strings.HasPrefix(dir, "cmd/") || strings.HasPrefix(dir, "integration") || strings.HasPrefix(dir, "bench") ||
			strings.HasPrefix(dir+"/", "services/"+service+"/")
		require.True(t, ok, "%s imports %s: services never import each other", path, own)
	case own == "pkg/jsonx/jsontest":
		require.True(t, test, "%s imports what checks JSON in tests", path)
	case own == "pkg/testkit":
		require.True(t, test || strings.HasPrefix(dir, "pkg/testkit") || strings.HasPrefix(dir, "integration") || strings.HasPrefix(dir, "bench"),
			"%s imports the test kit", path)
	}
	allowed, listed := may[dir]
	if !listed || test || strings.HasPrefix(own, "pkg/testkit") {
		return
	}
	for _, a := range allowed {
		if own == a {
			return
		}
	}
	t.Errorf("%s imports %s: %s may import %v of ours", path, own, dir, allowed)
}

// onlyIn says where a foreign module may be imported outside tests.
var onlyIn = map[string][]string{
	"github.com/cockroachdb/pebble":      {"services/committer/internal/store", "bench/bare"},
	"github.com/nats-io/nats-server":     {"pkg/bus/embedded", "pkg/testkit", "integration", "bench"},
	"github.com/nats-io/nats.go":         {"pkg/bus", "pkg/testkit", "services", "cmd", "integration", "bench"},
	"github.com/milvus-io/milvus-sdk-go": {"services/committer/internal/vectors/milvus"},
	"github.com/ollama/ollama":           {"pkg/llm", "pkg/embed/ollama"},
	"github.com/klippa-app/go-pdfium":    {"services/loader/internal/pdf"},
	"github.com/tetratelabs/wazero":      {"services/loader/internal/pdf"},
	"go.opentelemetry.io/otel/sdk":       {"pkg/tracing", "pkg/testkit", "integration"},
	"go.opentelemetry.io/otel/exporters": {"pkg/tracing"},
}

func checkForeign(t *testing.T, path, dir, imp string, test bool) {
	if test {
		return
	}
	for mod, places := range onlyIn {
		if !strings.HasPrefix(imp, mod) {
			continue
		}
		ok := false
		for _, p := range places {
			ok = ok || strings.HasPrefix(dir+"/", p+"/")
		}
		require.True(t, ok, "%s imports %s, which belongs into %v", path, imp, places)
	}
}

func TestFilesStaySmall(t *testing.T) {
	goFiles(t, func(path string, _ []string) {
		b, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		limit := 520
		if strings.HasSuffix(path, "_test.go") {
			limit = 900
		}
		require.LessOrEqual(t, strings.Count(string(b), "\n"), limit, path)
	})
}

func TestModulesAgree(t *testing.T) {
	versions := map[string]string{}
	directive := regexp.MustCompile(`(?m)^go (\S+)$`)
	require_ := regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.\-]+\.[a-z]+/\S+) (v\S+)`)
	mods, err := filepath.Glob(filepath.Join(root, "*", "go.mod"))
	require.NoError(t, err)
	deeper, err := filepath.Glob(filepath.Join(root, "*", "*", "go.mod"))
	require.NoError(t, err)
	mods = append(mods, deeper...)
	require.Len(t, mods, 10)
	for _, m := range mods {
		b, err := os.ReadFile(m)
		require.NoError(t, err)
		g := directive.FindStringSubmatch(string(b))
		require.NotNil(t, g, m)
		require.Equal(t, "1.26.0", g[1], m)
		for _, r := range require_.FindAllStringSubmatch(string(b), -1) {
			if strings.HasPrefix(r[1], module[:len(module)-1]) {
				require.Equal(t, "v0.0.0", r[2], "%s: %s", m, r[1])
				continue
			}
			if was, ok := versions[r[1]]; ok {
				require.Equal(t, was, r[2], "%s: %s has two versions in the workspace", m, r[1])
			}
			versions[r[1]] = r[2]
		}
	}
}

func TestMakeTargetsAreDescribed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	target := regexp.MustCompile(`(?m)^([a-z][a-zA-Z0-9/_-]*):(.*)$`)
	found := target.FindAllStringSubmatch(string(b), -1)
	require.Greater(t, len(found), 8)
	for _, m := range found {
		require.Contains(t, m[2], "## ", "target %s has no description", m[1])
	}
}

// TestServicesCarryNoServer: the embedded NATS server is only in the all-in-one binary.
func TestServicesCarryNoServer(t *testing.T) {
	for _, s := range []string{"loader", "chunker", "extractor", "resolver", "committer", "reviewer"} {
		cmd := exec.Command("go", "list", "-deps", "./services/"+s+"/cmd/"+s)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.NotContains(t, string(out), "nats-server", s)
		if s != "committer" {
			require.NotContains(t, string(out), "cockroachdb/pebble", s)
		}
	}
}
