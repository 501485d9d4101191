package integration

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// TestLogCalls: a log line has a constant message and constant keys, so that it can be searched for.
func TestLogCalls(t *testing.T) {
	key := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	calls := 0
	goFiles(t, func(path string, _ []string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "bench/") || strings.HasPrefix(path, "pkg/testkit") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root, path), nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, sel.Sel.Name) || !isLogger(sel.X) {
				return true
			}
			calls++
			at := set.Position(call.Pos()).String()
			_, constant := call.Args[0].(*ast.BasicLit)
			assert.True(t, constant || passedOn[path], "%s: the message of a log line is constant", at)
			if call.Ellipsis.IsValid() {
				return true
			}
			for i := 1; i < len(call.Args); i += 2 {
				lit, ok := call.Args[i].(*ast.BasicLit)
				if !assert.True(t, ok, "%s: the keys of a log line are constant", at) {
					return true
				}
				k, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				assert.Regexp(t, key, k, at)
				require.NotContains(t, []string{"text", "quote", "body", "content", "reply_text", "token", "password", "seed"}, k, at)
			}
			return true
		})
	})
	require.Greater(t, calls, 60)
}

// passedOn are files that log what they are given: a warning about the environment, a line of the NATS server.
var passedOn = map[string]bool{"pkg/app/main.go": true, "pkg/bus/embedded/log.go": true}

func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log"
	case *ast.CallExpr: // t.log(r)
		return isLogger(x.Fun)
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "log")
	}
	return false
}

// TestLogsHoldNoText: whatever fails, neither the text of documents nor credentials are in the logs, at any level.
func TestLogsHoldNoText(t *testing.T) {
	const canary, secret = "Zanzibarcanary", "s3cretcanary"
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		return testkit.ModelReply{Content: "no JSON but " + canary}
	}})
	model := strings.Replace(m.URL(), "http://", "http://me:"+secret+"@", 1)
	c := sixProcesses(t, 1, "--log.level", "debug", "--log.format", "json", "--ollama.url", model, "--tracing.endpoint", "http://me:"+secret+"@"+freeAddress(t))
	c.putSettings("default", map[string]string{"extractor.mode": "llm", "ollama.model": "fake:1"})
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	for i, event := range []map[string]any{
		{"key": "a", "text": canary + " worked for Acme Ltd.", "error_policy": "skip"},
		{"sources": []string{write("b.csv", "name,x\n"+canary+"\n")}, "error_policy": "quarantine"},
		{"sources": []string{write("c.json", `{"text": "`+canary+`" "x"}`)}, "error_policy": "skip"},
		{"sources": []string{write("d.xml", "<a>"+canary+"</b>"), write("e.jsonl", "{\""+canary)}, "error_policy": "skip"},
		{"key": "f", "text": canary, "metadata": map[string]any{"x": canary}, "published_at": "never"},
	} {
		s := ask[api.JobStatus](c, "default", "jobs.get", api.JobGet{Job: c.publish("default", event), Wait: "30s"})
		require.True(t, api.Ended(s.State), "%d %+v", i, s)
	}
	for _, body := range []string{`{"text":"` + canary + `","nope":1}`, `{"text":"` + canary + `"`} {
		_, err := c.conn.Ingest(t.Context(), "default", []byte(body), nil)
		require.NoError(t, err)
	}
	_, err := c.conn.JS.Publish(t.Context(), "factmill.default.doc.chunked.j.d", []byte(`{"job":"`+canary+`"}`))
	require.NoError(t, err)
	require.NotEmpty(t, c.awaitLetters(2)) // the quarantined one, and this
	lines := 0
	for _, name := range stages {
		p := c.the(name)
		p.stop(t)
		b, err := os.ReadFile(p.log.Name())
		require.NoError(t, err)
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			lines++
			var row map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &row), line)
			require.NotContains(t, line, canary)
			require.NotContains(t, line, secret)
			require.NotEmpty(t, row["service"], line)
			if row["job"] != nil && row["job"] != "" {
				require.NotEmpty(t, row["graph"], line)
			}
			if msg := row["msg"]; msg == "a document ended" || msg == "parked as a dead letter" || msg == "will try again" {
				require.Regexp(t, "^[0-9a-f]{32}$", row["trace_id"], line)
				require.NotEmpty(t, row["doc"], line)
				require.NotEmpty(t, row["job"], line)
				require.NotNil(t, row["attempt"], line)
				require.Equal(t, row["service"], row["stage"], line)
			}
		}
	}
	require.Greater(t, lines, 20)
}
