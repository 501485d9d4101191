package testkit

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"
)

// ModelEmbedCall is a call of /api/embed as it arrived.
type ModelEmbedCall struct {
	N     int // counts from 1, anew after Reset
	Model string
	Texts []string
}

// ModelEmbedReply is what an embedding call gets. The zero value is a vector for each text, which depends on the text alone.
type ModelEmbedReply struct {
	// Status, when it is neither 0 nor 200, makes the reply an HTTP error whose body is {"error": Message}.
	Status  int
	Message string
	// RetryAfter is the value of the header of that name.
	RetryAfter string
	// Reset resets the connection before any byte of the reply.
	Reset bool
	// Short is how many vectors are left out at the end.
	Short int
	// Size, when set, is the length of the vectors.
	Size int
	// Wait, when set, is closed before the reply is made. It ends early when the client goes away or the server stops.
	Wait <-chan struct{}
	// RawBody, when set, is the whole HTTP body as it is, with Status.
	RawBody string
}

// SetEmbed replaces what decides the replies of embedding calls. It is called by many goroutines at once, with no lock held. Nil is the
// zero reply to every call.
func (m *Model) SetEmbed(reply func(ModelEmbedCall) ModelEmbedReply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.embedReply = reply
}

// EmbedCalls are the embedding calls in order of arrival since the last Reset.
func (m *Model) EmbedCalls() []ModelEmbedCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log.embeds)
}

func (m *Model) embed(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	var q embedRequest
	if !readModelJSON(w, r, &q) || !m.knows(w, q.Model) {
		return
	}
	var texts []string
	var one string
	if json.Unmarshal(q.Input, &one) == nil {
		texts = []string{one}
	} else if json.Unmarshal(q.Input, &texts) != nil {
		writeModelError(w, http.StatusBadRequest, "invalid input type")
		return
	}
	m.mu.Lock()
	call := ModelEmbedCall{N: len(m.log.embeds) + 1, Model: q.Model, Texts: texts}
	m.log.embeds = append(m.log.embeds, call)
	decide := m.embedReply
	m.mu.Unlock()
	var reply ModelEmbedReply
	if decide != nil {
		reply = decide(call)
	}
	if !generate(r.Context(), ModelReply{Wait: reply.Wait}) || reply.Reset {
		resetConnection(w)
		return
	}
	if reply.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.RetryAfter)
	}
	status := cmp.Or(reply.Status, http.StatusOK)
	switch {
	case reply.RawBody != "":
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply.RawBody) // the client may be gone
		return
	case status != http.StatusOK:
		writeModelError(w, status, reply.Message)
		return
	}
	a := embedResponse{Model: q.Model, Embeddings: [][]float32{}}
	for _, s := range texts[:max(0, len(texts)-reply.Short)] {
		a.Embeddings = append(a.Embeddings, embedding(s, cmp.Or(reply.Size, m.opt.EmbedSize)))
		a.PromptEvalCount += roughTokens(len(s))
	}
	a.TotalDuration = int64(time.Since(start))
	writeModelJSON(w, http.StatusOK, a)
}
