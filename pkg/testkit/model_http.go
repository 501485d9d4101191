package testkit

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// modelVersion is the version of the API that the server pretends to be.
const modelVersion = "0.12.0"

// maxModelRequest bounds a request, in bytes.
const maxModelRequest = 64 << 20

// modelPulled is when the model was pulled. It never changes, so that golden files may hold it.
var modelPulled = time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)

type modelDetails struct {
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
}

var fakeDetails = modelDetails{Format: "gguf", Family: "fake", Families: []string{"fake"}, ParameterSize: "1B", QuantizationLevel: "Q4_0"}

type modelListed struct {
	Name       string       `json:"name"`
	Model      string       `json:"model"`
	ModifiedAt time.Time    `json:"modified_at"`
	Size       int64        `json:"size"`
	Digest     string       `json:"digest"`
	Details    modelDetails `json:"details"`
}

type modelShown struct {
	Template     string         `json:"template"`
	Details      modelDetails   `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	ModifiedAt   time.Time      `json:"modified_at"`
}

type embedRequest struct {
	Model string          `json:"model"`
	Input json.RawMessage `json:"input"`
}

type embedResponse struct {
	Model           string      `json:"model"`
	Embeddings      [][]float32 `json:"embeddings"`
	TotalDuration   int64       `json:"total_duration"`
	PromptEvalCount int         `json:"prompt_eval_count"`
}

func (m *Model) handler() http.Handler {
	mux := http.NewServeMux() // GET answers HEAD too
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Ollama is running") })
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) {
		writeModelJSON(w, http.StatusOK, map[string]string{"version": modelVersion})
	})
	mux.HandleFunc("GET /api/tags", m.tags)
	mux.HandleFunc("POST /api/show", m.show)
	mux.HandleFunc("POST /api/chat", m.chat)
	mux.HandleFunc("POST /api/embed", m.embed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.serving.Add(1)
		defer m.serving.Done()
		mux.ServeHTTP(w, r)
	})
}

func (m *Model) tags(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	digest := m.digest
	m.mu.Unlock()
	writeModelJSON(w, http.StatusOK, map[string][]modelListed{"models": {{
		Name: m.opt.Name, Model: m.opt.Name, ModifiedAt: modelPulled, Size: 1 << 30, Digest: digest, Details: fakeDetails,
	}}})
}

func (m *Model) show(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"` // what old clients send
	}
	if !readModelJSON(w, r, &q) || !m.knows(w, cmp.Or(q.Model, q.Name)) {
		return
	}
	writeModelJSON(w, http.StatusOK, modelShown{
		Template: "{{ .Prompt }}",
		Details:  fakeDetails,
		ModelInfo: map[string]any{
			"general.architecture": "fake", "fake.context_length": 32768, "fake.embedding_length": m.opt.EmbedSize,
		},
		Capabilities: []string{"completion", "embedding"},
		ModifiedAt:   modelPulled,
	})
}

// embedding is a vector of length 1 that depends on s and size alone.
func embedding(s string, size int) []float32 {
	rnd := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(s))))
	v := make([]float64, size)
	sum := 0.0
	for i := range v {
		v[i] = 2*rnd.Float64() - 1
		sum += v[i] * v[i]
	}
	out := make([]float32, size)
	for i := range v {
		out[i] = float32(v[i] / math.Sqrt(sum))
	}
	return out
}

// knows answers 404 and returns false when name is another model.
func (m *Model) knows(w http.ResponseWriter, name string) bool {
	if tagged(name) == tagged(m.opt.Name) {
		return true
	}
	writeModelError(w, http.StatusNotFound, fmt.Sprintf("model %q not found, try pulling it first", name))
	return false
}

func tagged(name string) string {
	if strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		return name
	}
	return name + ":latest"
}

// readModelJSON reads the whole body, without which the server does not see that the client goes away. It answers 400 and returns
// false when the body is no JSON.
func readModelJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxModelRequest))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		writeModelError(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func writeModelError(w http.ResponseWriter, status int, message string) {
	writeModelJSON(w, status, map[string]string{"error": message})
}

func writeModelJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// resetConnection ends the connection with a reset instead of an end.
func resetConnection(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // cuts it as well
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	_ = c.Close()
}

// roughTokens is one for every four bytes begun.
func roughTokens(bytes int) int { return (bytes + 3) / 4 }
