package testkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
	"unicode/utf8"
)

// A streamed reply has pieces of at least minPiece bytes, and about maxPieces at most.
const (
	minPiece  = 8
	maxPieces = 32
)

type chatRequest struct {
	Model     string          `json:"model"`
	Messages  []ModelMessage  `json:"messages"`
	Stream    *bool           `json:"stream"`
	Format    json.RawMessage `json:"format"`
	Options   map[string]any  `json:"options"`
	KeepAlive any             `json:"keep_alive"`
	Think     any             `json:"think"`
}

type chatLine struct {
	Model      string       `json:"model"`
	CreatedAt  time.Time    `json:"created_at"`
	Message    ModelMessage `json:"message"`
	DoneReason string       `json:"done_reason,omitempty"`
	Done       bool         `json:"done"`

	TotalDuration   int64 `json:"total_duration,omitempty"` // durations in nanoseconds
	PromptEvalCount int   `json:"prompt_eval_count,omitempty"`
	EvalCount       int   `json:"eval_count,omitempty"`
	EvalDuration    int64 `json:"eval_duration,omitempty"`
}

func (m *Model) chat(w http.ResponseWriter, r *http.Request) {
	var q chatRequest
	if !readModelJSON(w, r, &q) || !m.knows(w, q.Model) {
		return
	}
	if string(q.Format) == "null" {
		q.Format = nil
	}
	call, decide, end := m.begin(ModelCall{
		Model: q.Model, Messages: q.Messages, Format: q.Format, Options: q.Options, Stream: q.Stream == nil || *q.Stream,
		KeepAlive: q.KeepAlive, Think: q.Think,
	})
	defer end()
	reply := decide(call)
	if !generate(r.Context(), reply) || reply.Reset {
		end()
		resetConnection(w)
		return
	}
	answer(w, call, reply, end)
}

// generate lasts as long as the reply says. It returns false when the client went away or the server stops.
func generate(ctx context.Context, reply ModelReply) bool {
	switch {
	case reply.Wait != nil:
		select {
		case <-reply.Wait:
		case <-ctx.Done():
		}
	case reply.Delay > 0:
		tm := time.NewTimer(reply.Delay)
		defer tm.Stop()
		select {
		case <-tm.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// answer sends the reply, and calls end before its last bytes.
func answer(w http.ResponseWriter, call ModelCall, reply ModelReply, end func()) {
	if reply.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.RetryAfter)
	}
	status := cmp.Or(reply.Status, http.StatusOK)
	switch {
	case reply.RawBody != "":
		end()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply.RawBody)
	case status != http.StatusOK:
		end()
		writeModelError(w, status, reply.Content)
	default:
		contentType := "application/json; charset=utf-8"
		if call.Stream {
			contentType = "application/x-ndjson"
		}
		w.Header().Set("Content-Type", contentType)
		parts, reset := chatParts(call, reply)
		sendParts(w, parts, call.Stream || reset, end)
		if reset {
			resetConnection(w)
		}
	}
}

// sendParts writes the parts, each to the network at once when flush is set, and calls end before the last. The reader may be gone:
// errors do not matter.
func sendParts(w http.ResponseWriter, parts [][]byte, flush bool, end func()) {
	c := http.NewResponseController(w)
	for i, p := range parts {
		if i == len(parts)-1 {
			end()
		}
		_, _ = w.Write(p)
		if flush {
			_ = c.Flush()
		}
	}
	end() // there may be no part
}

// chatParts is the body of the reply, a line a part, as far as it is sent, and whether a reset follows it.
func chatParts(call ModelCall, reply ModelReply) (parts [][]byte, reset bool) {
	last := lastLine(call, reply)
	if !call.Stream {
		last.Message.Content = reply.Content
		body := encodeLine(last)
		switch {
		case reply.ResetAfter > 0:
			text := []byte(`"content":"`)
			return [][]byte{body[:min(bytes.Index(body, text)+len(text)+reply.ResetAfter, len(body)-1)]}, true
		case reply.CutBody:
			body = body[:len(body)/2]
		}
		return [][]byte{body}, false
	}
	text := reply.Content
	if reply.ResetAfter > 0 {
		text = text[:wholeRunes(text, reply.ResetAfter)]
	}
	for _, piece := range pieces(text, max(minPiece, len(reply.Content)/maxPieces)) {
		parts = append(parts, append(encodeLine(chatLine{
			Model: call.Model, CreatedAt: time.Now().UTC(), Message: ModelMessage{Role: "assistant", Content: piece},
		}), '\n'))
	}
	if reply.ResetAfter > 0 {
		return parts, true
	}
	parts = append(parts, append(encodeLine(last), '\n'))
	if reply.CutBody {
		cut := len(parts) / 2
		parts = parts[:cut+1]
		parts[cut] = parts[cut][:len(parts[cut])/2]
	}
	return parts, false
}

// lastLine says how the generation ended and what it took. Its text is empty.
func lastLine(call ModelCall, reply ModelReply) chatLine {
	prompt := 0
	for _, m := range call.Messages {
		prompt += len(m.Content)
	}
	now := time.Now()
	took := int64(now.Sub(call.At))
	return chatLine{
		Model: call.Model, CreatedAt: now.UTC(), Message: ModelMessage{Role: "assistant"},
		Done: true, DoneReason: cmp.Or(reply.DoneReason, "stop"), TotalDuration: took, EvalDuration: took,
		PromptEvalCount: cmp.Or(reply.PromptTokens, roughTokens(prompt)),
		EvalCount:       cmp.Or(reply.CompletionTokens, roughTokens(len(reply.Content))),
	}
}

func encodeLine(l chatLine) []byte {
	b, _ := json.Marshal(l) // strings, numbers and a time of this century: there is no error
	return b
}

// pieces cuts s into pieces of size bytes or a little less, never within a character.
func pieces(s string, size int) []string {
	var out []string
	for s != "" {
		n := wholeRunes(s, size)
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

// wholeRunes is the length of the longest beginning of s of whole characters and at most n bytes. A byte that is not UTF-8 is a
// character: encoded in pieces or at once, s is the same.
func wholeRunes(s string, n int) int {
	end := 0
	for end < len(s) {
		_, size := utf8.DecodeRuneInString(s[end:])
		if end+size > n {
			break
		}
		end += size
	}
	return end
}
