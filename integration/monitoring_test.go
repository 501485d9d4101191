package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// exprToken is a piece of a PromQL expression.
var exprToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[a-zA-Z_][a-zA-Z0-9_:]*|[0-9]+(?:\.[0-9]+)?(?:[smhdw]\b)?|=~|!~|!=|==|>=|<=|[-+*/%^(){}\[\],=<>]`)

// What our expressions use besides metrics and labels.
var exprWords = map[string]bool{"sum": true, "max": true, "min": true, "by": true, "without": true, "and": true, "or": true, "unless": true, "rate": true,
	"increase": true, "delta": true, "changes": true, "absent": true, "histogram_quantile": true, "on": true, "bool": true}

// checkExpr demands that an expression's brackets close, that its metrics are registered, and that its labels are those of its metrics.
func checkExpr(expr string, known map[string]metric) error {
	if rest := strings.TrimSpace(exprToken.ReplaceAllString(expr, "")); rest != "" {
		return fmt.Errorf("%q is no PromQL that we use", rest)
	}
	var open []string
	var labels, by []string
	metrics := 0
	last, grouping := "", false
	have := map[string]bool{"le": false}
	for _, tok := range exprToken.FindAllString(expr, -1) {
		inMatcher := len(open) > 0 && open[len(open)-1] == "{"
		word := regexp.MustCompile(`^[a-zA-Z_]`).MatchString(tok)
		switch {
		case strings.Contains("({[", tok):
			open = append(open, tok)
			grouping = tok == "(" && (last == "by" || last == "without" || last == "on")
		case strings.Contains(")}]", tok):
			want := map[string]string{")": "(", "}": "{", "]": "["}[tok]
			if len(open) == 0 || open[len(open)-1] != want {
				return fmt.Errorf("%s does not close", tok)
			}
			open, grouping = open[:len(open)-1], false
		case word && inMatcher:
			labels = append(labels, tok)
		case word && grouping:
			by = append(by, tok)
		case word && !exprWords[tok]:
			m, ok := known[tok]
			if base, is := strings.CutSuffix(tok, "_bucket"); !ok && is {
				m, ok = known[base]
				have["le"] = true
			}
			if !ok {
				return fmt.Errorf("no service has a metric %s", tok)
			}
			metrics++
			for _, l := range m.labels {
				have[l] = true
			}
		}
		last = tok
	}
	if len(open) > 0 || metrics == 0 {
		return fmt.Errorf("it is not whole: %d open brackets, %d metrics", len(open), metrics)
	}
	for _, l := range append(labels, by...) {
		if !have[l] {
			return fmt.Errorf("its metrics have no label %s", l)
		}
	}
	return nil
}

func TestCheckExpr(t *testing.T) {
	known := map[string]metric{"a_total": {"a_total", []string{"kind"}}, "b_seconds": {"b_seconds", nil}}
	for _, good := range []string{`sum by (kind) (rate(a_total{kind=~"x|y"}[5m])) > 0.5`, `histogram_quantile(0.9, sum by (le) (rate(b_seconds_bucket[5m])))`, `absent(b_seconds)`} {
		require.NoError(t, checkExpr(good, known), good)
	}
	for _, bad := range []string{`rate(c_total[5m])`, `a_total{job="x"}`, `sum by (graph) (a_total)`, `(a_total`, `a_total)`, `1 > 0`, `a_total ; b`, `sum by (le) (b_seconds)`} {
		require.Error(t, checkExpr(bad, known), bad)
	}
}

// TestDashboardAndAlerts are about metrics that there are, and every alert about a section of the runbook that there is.
func TestDashboardAndAlerts(t *testing.T) {
	known := newFleet(t, fleetOptions{}).registered()
	dir := filepath.Join(root, "deploy", "monitoring")
	b, err := os.ReadFile(filepath.Join(dir, "dashboard.json"))
	require.NoError(t, err)
	var board struct {
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &board))
	ids, n := map[int]bool{}, 0
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, x := range p.Targets {
			n++
			require.NoError(t, checkExpr(x.Expr, known), "%s: %s", p.Title, x.Expr)
			require.NotEmpty(t, x.LegendFormat, p.Title)
		}
	}
	require.Greater(t, n, 40)

	b, err = os.ReadFile(filepath.Join(dir, "alerts.yaml"))
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&rules))
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "monitoring.md"))
	require.NoError(t, err)
	var named []string
	for _, r := range rules.Groups[0].Rules {
		require.NoError(t, checkExpr(r.Expr, known), "%s: %s", r.Alert, r.Expr)
		_, err := time.ParseDuration(r.For)
		require.NoError(t, err, r.Alert)
		require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, "docs/operations/monitoring.md#"+strings.ToLower(r.Alert), r.Annotations["runbook"])
		require.Regexp(t, regexp.MustCompile(`(?m)^### `+r.Alert+`\n\n\S`), string(page), "the runbook has no section %s", r.Alert)
		named = append(named, r.Alert)
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Factmill\w+)$`).FindAllStringSubmatch(string(page), -1) {
		require.Contains(t, named, m[1], "the runbook has a section of no alert")
	}
	// What is asked for by this room's brief is in the dashboard or an alert: no metric of these goes unseen.
	all := string(b)
	for _, p := range board.Panels {
		for _, x := range p.Targets {
			all += x.Expr + "\n"
		}
	}
	for _, m := range []string{"waiting_messages", "in_flight", "messages_total", "faults_total", "dead_letters", "commit_seconds", "store_bytes", "model_requests_total",
		"model_tokens_total", "review_items", "pending_oldest_seconds", "vectors_lag_commits", "quarantine_records", "held_oldest_seconds"} {
		require.Contains(t, all, m)
	}
}

// TestAlertsHaveUnitTests: of each alert alerts_test.yaml has a case in which it fires and one in which it does not. What they come to says
// promtool (make real/promtool, TestRealAlerts).
func TestAlertsHaveUnitTests(t *testing.T) {
	dir := filepath.Join(root, "deploy", "monitoring")
	rules, err := os.ReadFile(filepath.Join(dir, "alerts.yaml"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "alerts_test.yaml"))
	require.NoError(t, err)
	var tests struct {
		RuleFiles []string `yaml:"rule_files"`
		Tests     []struct {
			Cases []struct {
				Alert string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(b, &tests))
	require.Equal(t, []string{"alerts.yaml"}, tests.RuleFiles)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, x := range tests.Tests {
		for _, c := range x.Cases {
			if len(c.Fires) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		all[m[1]] = true
	}
	require.NotEmpty(t, all)
	require.Equal(t, all, fires)
	require.Equal(t, all, silent)
}

// TestMetricsAreDocumented: the table of the page names every metric, and none that there is not.
func TestMetricsAreDocumented(t *testing.T) {
	known := newFleet(t, fleetOptions{}).registered()
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "monitoring.md"))
	require.NoError(t, err)
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`factmill_.*?) \\| \\S").FindAllStringSubmatch(string(page), -1) {
		for _, m := range regexp.MustCompile("`(factmill_[^`{]+)").FindAllStringSubmatch(row[1], -1) {
			if strings.Contains(m[1], "<service>") {
				for _, s := range stages {
					if name := strings.ReplaceAll(m[1], "<service>", s); s != "reviewer" { // it reads no queue
						told = append(told, name)
					}
				}
				continue
			}
			told = append(told, m[1])
		}
	}
	var have []string
	for name := range known {
		have = append(have, name)
	}
	slices.Sort(told)
	slices.Sort(have)
	require.Equal(t, have, told)
}
