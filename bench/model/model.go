// Package model is a model server that takes its time and finds nothing: it speaks as much of Ollama's HTTP API as is needed to be asked.
package model

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"
)

// Name of the model that it has.
const Name = "bench:1"

const digest = "0000000000000000000000000000000000000000000000000000000000000bec"

// Server answers every chat with an empty extraction after a delay.
type Server struct {
	delay time.Duration
	srv   *http.Server
	l     net.Listener
	done  chan error

	mu          sync.Mutex // guards what follows
	calls       int
	first, last time.Time
}

// Start starts one on the loopback; Stop ends it.
func Start(delay time.Duration) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{delay: delay, l: l, done: make(chan error, 1)}
	mux := http.NewServeMux()
	reply := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { write(w, v) }
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Ollama is running")) })
	mux.HandleFunc("GET /api/version", reply(map[string]string{"version": "0.0.0"}))
	mux.HandleFunc("GET /api/tags", reply(map[string]any{"models": []any{map[string]any{"name": Name, "model": Name, "digest": digest}}}))
	mux.HandleFunc("POST /api/show", reply(map[string]any{"capabilities": []string{"completion"}}))
	mux.HandleFunc("POST /api/chat", s.chat)
	s.srv = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { s.done <- s.srv.Serve(l) }()
	return s, nil
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.calls++; s.first.IsZero() {
		s.first = time.Now()
	}
	s.mu.Unlock()
	t := time.NewTimer(s.delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
		return
	}
	s.mu.Lock()
	s.last = time.Now()
	s.mu.Unlock()
	write(w, map[string]any{"model": Name, "created_at": time.Now(), "done": true, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1,
		"message": map[string]string{"role": "assistant", "content": `{"entities":[],"relations":[]}`}})
}

// URL of the server.
func (s *Server) URL() string { return "http://" + s.l.Addr().String() }

// Calls says how many calls there were, and how long it took from the first to the end of the last.
func (s *Server) Calls() (n int, span time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.last.Sub(s.first)
}

// Stop ends the server.
func (s *Server) Stop() error {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	err := s.srv.Shutdown(ctx)
	<-s.done
	return err
}
