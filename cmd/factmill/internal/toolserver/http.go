package toolserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is where the HTTP server answers.
const Path = "/mcp"

const (
	headerWait   = 10 * time.Second
	idleSession  = 30 * time.Minute
	stopWait     = 5 * time.Second
	maxHeader    = 32 << 10
	bearerPrefix = "Bearer "
)

// Loopback says whether an address is of this machine alone.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// HTTP serves clients on l until ctx ends. token, where it is not empty, must come with every request as a bearer token.
func HTTP(ctx context.Context, s *mcp.Server, l net.Listener, token string, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle(Path, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Logger: log, SessionTimeout: idleSession, MaxRequestBodyBytes: maxLine}))
	srv := &http.Server{Handler: guard(mux, l.Addr().String(), token), ReadHeaderTimeout: headerWait, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	err := srv.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) { // clients that hold a stream open
		err = srv.Close()
	}
	<-ended
	return err
}

// guard lets through what comes from where it says: with the token, under a host name of this machine where the address is of this machine alone (a name that
// somebody else's DNS points at it is refused), and, from a browser, of a page of the same origin.
func guard(next http.Handler, addr, token string) http.Handler {
	_, port, _ := net.SplitHostPort(addr)
	local := Loopback(addr)
	known := func(host string) bool {
		if !local {
			return host != ""
		}
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = host, "80"
		}
		ip := net.ParseIP(strings.Trim(name, "[]"))
		return p == port && (strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback())
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(r.Host) {
			http.Error(w, "the Host header names another server", http.StatusForbidden)
			return
		}
		if origins := r.Header.Values("Origin"); len(origins) > 0 {
			u, err := url.Parse(origins[0])
			if err != nil || len(origins) > 1 || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
				http.Error(w, "pages of other origins may not ask", http.StatusForbidden)
				return
			}
		}
		if token != "" {
			given, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearerPrefix)
			got := sha256.Sum256([]byte(given))
			if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "give the token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
