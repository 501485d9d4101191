package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health serves /live, /ready and /metrics.
type Health struct {
	ln  net.Listener
	srv *http.Server
}

// ListenHealth binds addr (loopback in every default); "" binds nothing and returns nil.
func ListenHealth(addr string, reg *prometheus.Registry, services func() []Service) (*Health, error) {
	if addr == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("health: cannot listen on %s (choose another with http.listen, or \"\" for none): %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		state := map[string]string{}
		status := http.StatusOK
		list := services()
		if len(list) == 0 {
			status = http.StatusServiceUnavailable
		}
		for _, s := range list {
			state[s.Name()] = "ready"
			if err := s.Ready(); err != nil {
				state[s.Name()], status = err.Error(), http.StatusServiceUnavailable
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"ready": status == http.StatusOK, "services": state})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return &Health{ln: ln, srv: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}}, nil
}

// Addr is the bound address.
func (h *Health) Addr() string { return h.ln.Addr().String() }

// Run serves until ctx is done.
func (h *Health) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- h.srv.Serve(h.ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("health: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := h.srv.Shutdown(stop)
	if e := <-done; e != nil && !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
