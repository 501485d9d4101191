//go:build real

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRealAlerts: Prometheus' own promtool takes the alert rules, and their unit tests pass; rules that never
// fire fail the tests of every alert, and so do rules that always fire.
func TestRealAlerts(t *testing.T) {
	dir := filepath.Join(root, ".real", "promtool")
	if d := os.Getenv("FACTMILL_REAL_PROMTOOL"); d != "" {
		dir = d
	}
	tool := filepath.Join(dir, "bin", "promtool")
	if _, err := os.Stat(tool); err != nil {
		t.Skipf("NOT RUN: there is no %s: make real/promtool builds it; the other tests check the rules' brackets, metrics and labels, and evaluate nothing", tool)
	}
	monitoring := filepath.Join(root, "deploy", "monitoring")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(monitoring, name))
		require.NoError(t, err)
		return string(b)
	}
	rules, tests := read("alerts.yaml"), read("alerts_test.yaml")
	run := func(rules string) (string, error) {
		work := t.TempDir()
		write(t, work, "alerts_test.yaml", tests)
		file := write(t, work, "alerts.yaml", rules)
		for _, args := range [][]string{{"check", "rules", file}, {"test", "rules", filepath.Join(work, "alerts_test.yaml")}} {
			if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
				return args[0] + ": " + string(out), err
			}
		}
		return "", nil
	}
	out, err := run(rules)
	require.NoError(t, err, out)

	expr := regexp.MustCompile(`(?m)^( +expr: )'.*'$`)
	n := len(expr.FindAllString(rules, -1))
	require.Equal(t, strings.Count(rules, "- alert: "), n)
	for _, is := range []string{"vector(1) < 0", "vector(1)"} {
		out, err := run(expr.ReplaceAllString(rules, "${1}'"+is+"'"))
		require.Error(t, err)
		require.True(t, strings.HasPrefix(out, "test: "), out)
		for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
			require.Contains(t, out, "alertname: "+m[1]+",", "%s in place of %s's expression, and its tests pass", is, m[1])
		}
	}
	t.Logf("%d rules fire and are silent as their tests say", n)
}
