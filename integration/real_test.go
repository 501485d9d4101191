//go:build real

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// realOllama starts the server that `make real/ollama` built, with its model. It is ended by its process id.
func realOllama(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(root, ".real", "ollama")
	if d := os.Getenv("FACTMILL_REAL_OLLAMA"); d != "" {
		dir = d
	}
	bin, gguf := filepath.Join(dir, "bin", "ollama"), filepath.Join(dir, "smollm2", "model.gguf")
	for _, f := range []string{bin, gguf} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("NOT RUN: there is no %s: make real/ollama sets it up; the fake model server of the other tests covers the handling", f)
		}
	}
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	addr := freeAddress(t)
	env := append(os.Environ(), "HOME="+dir, "OLLAMA_MODELS="+filepath.Join(dir, "models"), "OLLAMA_HOST="+addr, "OLLAMA_NUM_PARALLEL=1")
	log, err := os.Create(filepath.Join(t.TempDir(), "ollama.log"))
	require.NoError(t, err)
	cmd := exec.Command(bin, "serve")
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	})
	url := "http://" + addr
	testkit.AwaitFor(t, 30*time.Second, "the model server", func() bool {
		resp, err := http.Get(url + "/api/version")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	gguf, err = filepath.Abs(gguf)
	require.NoError(t, err)
	file := write(t, t.TempDir(), "Modelfile", "FROM "+gguf+"\nPARAMETER num_thread 1\n")
	create := exec.Command(bin, "create", realModel, "-f", file)
	create.Env = env
	out, err := create.CombinedOutput()
	require.NoError(t, err, string(out))
	return url
}

const realModel = "smollm2:135m"

// realTokens is what each job may spend: no bound, unless FACTMILL_REAL_TOKENS gives one, which makes a look at it shorter; the chunks that
// are left then fail, typed.
func realTokens() string {
	if n := os.Getenv("FACTMILL_REAL_TOKENS"); n != "" {
		return n
	}
	return "0"
}

// TestRealModel: the example corpus through a real, small model that is often wrong. The job ends, every reply is accounted for, nothing
// crashes, and every quote slices.
func TestRealModel(t *testing.T) {
	url := realOllama(t)
	docs, err := filepath.Abs(filepath.Join(root, "examples", "observatories"))
	require.NoError(t, err)
	for _, mode := range []string{"llm", "hybrid"} {
		t.Run(mode, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "graph")
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, binary(t, "factmill"), "run", filepath.Join(docs, "docs"), "--schema", filepath.Join(docs, "schema.yaml"),
				"--data", dir, "--extractor.mode", mode, "--ollama.model", realModel, "--ollama.url", url, "--error-policy", "skip", "--json", "--extractor.max_tokens", realTokens())
			cmd.Env = cleanEnv(t)
			var out, said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &said
			begin := time.Now()
			runErr := cmd.Run()
			var s api.JobStatus
			require.NoError(t, json.Unmarshal(out.Bytes(), &s), "%v: %s", runErr, said.String())
			require.Equal(t, api.JobCommitted, s.State, said.String())
			x, e := s.Stages.Extraction, s.Stages.Escalation
			require.Equal(t, 85, s.Documents.Total) // of 47 files, some with many records
			require.Equal(t, s.Documents.Total, s.Documents.Added)
			require.Equal(t, s.Stages.Chunking.Chunks, x.ChunksProcessed)
			require.Positive(t, e.Escalated)
			failures := map[string]int{}
			for _, f := range append(x.Failures.List, e.Failures.List...) {
				failures[f.Code]++
			}
			require.Equal(t, e.EscalationStats.Failed, x.Failures.Total+e.Failures.Total, "every reply is read or a typed failure")
			valid := e.Escalated - e.EscalationStats.Failed - e.Repaired - e.CacheHits
			var b strings.Builder
			fmt.Fprintf(&b, "\n%s, %s: %d chunks, %d asked about, in %s\n", mode, realModel, e.EscalationStats.Total, e.Escalated, time.Since(begin).Round(time.Second))
			fmt.Fprintf(&b, "  replies: valid %d, repaired %d, kept before %d, failed %d %v\n", valid, e.Repaired, e.CacheHits, e.EscalationStats.Failed, failures)
			fmt.Fprintf(&b, "  kept: %d entities, %d relations, %d properties; candidates %d\n", x.Entities, x.Relations, x.Properties, x.CandidatesWritten)
			reasons := map[string]int{}
			for _, d := range x.Dropped {
				reasons[d.Kind+" "+d.Reason] += d.Count
			}
			fmt.Fprintf(&b, "  not kept: %v\n", reasons)
			fmt.Fprintf(&b, "  cost: %d requests, %.0f s of the model, %d + %d tokens\n", e.Requests, float64(e.Millis)/1000, e.PromptTokens, e.CompletionTokens)
			t.Log(b.String())

			verify := exec.Command(binary(t, "factmill"), "verify", "--data", dir)
			verify.Env = cleanEnv(t)
			text, err := verify.CombinedOutput()
			require.NoError(t, err, string(text))
			export := exec.Command(binary(t, "factmill"), "export", "--canonical", "--data", dir)
			export.Env = cleanEnv(t)
			rows, err := export.Output()
			require.NoError(t, err)
			quotesSlice(t, string(rows))
		})
	}
}

// quotesSlice checks that each mention and each quote of an export is a slice of the chunk that it names.
func quotesSlice(t *testing.T, export string) {
	t.Helper()
	x := parseExport(t, export)
	chunks := map[string]string{}
	starts := map[string]int{}
	for _, c := range x.chunks {
		chunks[c.ID], starts[c.ID] = c.Text, c.Start
	}
	n := 0
	for _, r := range x.relations {
		for _, ev := range r.Evidence {
			s := ev.Start - starts[ev.Chunk]
			require.Equal(t, ev.Quote, chunks[ev.Chunk][s:s+ev.End-ev.Start])
			n++
		}
	}
	for _, e := range x.entities {
		for _, m := range e.Mentions {
			s := m.Start - starts[m.Chunk]
			require.NotEmpty(t, strings.TrimSpace(chunks[m.Chunk][s:s+m.End-m.Start]))
			n++
		}
	}
	t.Logf("%d quotes and mentions slice", n)
}
