package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stage is one FROM of the Dockerfile with the lines under it.
type stage struct {
	from, name string
	lines      []string
}

func dockerfile() []stage {
	b, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return nil
	}
	var out []stage
	from := regexp.MustCompile(`^FROM (?:--platform=\S+ )?(\S+) AS (\S+)$`)
	for _, line := range strings.Split(strings.ReplaceAll(string(b), "\\\n", " "), "\n") {
		switch m := from.FindStringSubmatch(line); {
		case m != nil:
			out = append(out, stage{from: m[1], name: m[2]})
		case len(out) > 0 && line != "":
			out[len(out)-1].lines = append(out[len(out)-1].lines, line)
		}
	}
	return out
}

// dockerTargets are the images that the Dockerfile makes, by target, with the command that each runs; only those whose command is what
// was copied in.
func dockerTargets() map[string]string {
	out := map[string]string{}
	for _, s := range dockerfile() {
		if s.from != "run" || len(s.lines) != 2 {
			continue
		}
		copied := regexp.MustCompile(`^COPY --from=build /out(/\S+) (/\S+)$`).FindStringSubmatch(s.lines[0])
		if copied != nil && copied[1] == copied[2] && s.lines[1] == `ENTRYPOINT ["`+copied[2]+`"]` {
			out[s.name] = copied[2]
		}
	}
	return out
}

// The Dockerfile builds the services and the command line that the repository has, static, and runs them as nobody.
func TestDockerfile(t *testing.T) {
	all := dockerfile()
	require.Len(t, all, len(services)+3)
	build, run := all[0], all[1]
	require.Regexp(t, `^golang:\d+\.\d+\.\d+-[a-z]+$`, build.from)
	mod, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	need := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))
	require.True(t, strings.HasPrefix(build.from, "golang:"+need[1]+"."), "%s, and go.work wants %s", build.from, need[1])

	script := strings.Join(build.lines, "\n")
	require.Contains(t, script, "CGO_ENABLED=0")
	loop := regexp.MustCompile(`for s in ([a-z ]+); do\s+go build [^;]* -o /out/factmill-\$s (\S+) `).FindStringSubmatch(script)
	require.NotNil(t, loop, script)
	require.ElementsMatch(t, services, strings.Fields(loop[1]))
	for _, s := range services {
		require.FileExists(t, filepath.Join(root, strings.ReplaceAll(loop[2], "$s", s), "main.go"))
		require.Equal(t, "/factmill-"+s, dockerTargets()[s])
	}
	require.Regexp(t, `-o /out/factmill \./cmd/factmill `, script)
	require.FileExists(t, filepath.Join(root, "cmd/factmill/main.go"))
	require.Equal(t, "/factmill", dockerTargets()["factmill"])
	require.Len(t, dockerTargets(), len(services)+1)

	require.Equal(t, "scratch", run.from)
	require.Contains(t, run.lines, "USER 65532:65532")
}

// What the build reads is not kept out of its context.
func TestDockerContext(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	for _, line := range strings.Fields(string(b)) {
		for _, dir := range []string{"cmd", "pkg", "services", "go.work", "go.work.sum", "integration", "bench"} {
			require.NotEqual(t, dir, line)
		}
	}
	embeds := regexp.MustCompile(`(?m)^\s*//go:embed (\S+)`)
	n := 0
	for _, dir := range []string{"cmd", "pkg", "services"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
				return err
			}
			src, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			for _, m := range embeds.FindAllStringSubmatch(string(src), -1) {
				n++
				require.NotContains(t, m[1], "testdata", p)
			}
			return nil
		}))
	}
	require.Greater(t, n, 5)
}
