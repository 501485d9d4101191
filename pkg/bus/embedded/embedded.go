// Package embedded runs a NATS server with JetStream inside the process: the laptop's shape of Factmill. Nothing else but the
// test kit imports nats-server.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ErrInUse says that another process runs on the directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// ErrPortTaken says that something else listens on the address.
var ErrPortTaken = errors.New("the address is taken")

// Options of an embedded server. Dir is required.
type Options struct {
	// Dir holds the streams.
	Dir string
	// Listen is the address for clients outside the process, such as "127.0.0.1:4222"; port 0 chooses one. Empty: none can
	// connect. An address without a host is loopback.
	Listen string
	// SyncAlways syncs every write to disk before it is acknowledged: nothing is lost on a power failure, at about a ninth of the
	// speed. Otherwise the server syncs every second, and only a power failure (not a killed process) can lose that second.
	SyncAlways bool
	// MaxPayload is the largest message in bytes. Defaults to 1 MiB.
	MaxPayload int32
	// MaxStore bounds what all streams together may take, in bytes. Defaults to 1 TiB: the streams have their own limits.
	MaxStore int64
	// Access says who may connect, and what each may do. Defaults to anybody, anything.
	Access *Access
	// Log defaults to slog.Default. The server's own lines are at debug level, its errors at error level.
	Log *slog.Logger
}

// Server is a running server. It satisfies nats.InProcessConnProvider.
type Server struct {
	srv    *server.Server
	unlock func()
	once   sync.Once
	mender mender
}

// Start starts a server and returns when it takes connections. It handles no signals.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("start the embedded NATS: no directory")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("start the embedded NATS: %w", err)
	}
	opts, err := o.server()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(o.Dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS in %s: %w", o.Dir, err)
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("start the embedded NATS in %s: %w", o.Dir, err)
	}
	log := &logger{log: o.Log, broken: make(chan struct{}, 1)}
	srv.SetLoggerV2(log, false, false, false)
	s := &Server{srv: srv, unlock: unlock}
	s.mender = mender{srv: srv, dir: o.Dir, log: log, quit: make(chan struct{}), done: make(chan struct{})}
	srv.Start()
	go s.mender.run() // Shutdown ends it
	if err := s.ready(ctx, log); err != nil {
		s.Shutdown(true)
		return nil, fmt.Errorf("start the embedded NATS in %s: %w", o.Dir, err)
	}
	return s, nil
}

func (s *Server) ready(ctx context.Context, log *logger) error {
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if err := log.fatal(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.srv.ReadyForConnections(200 * time.Millisecond) {
			return nil
		}
	}
	return errors.New("it did not become ready within 30s")
}

func (o Options) server() (*server.Options, error) {
	if o.MaxPayload == 0 {
		o.MaxPayload = server.MAX_PAYLOAD_SIZE
	}
	if o.MaxStore == 0 {
		o.MaxStore = 1 << 40
	}
	opts := &server.Options{
		ServerName: "factmill", JetStream: true, StoreDir: o.Dir, NoSigs: true, NoLog: false, DontListen: o.Listen == "",
		MaxPayload: o.MaxPayload, SyncInterval: time.Second, SyncAlways: o.SyncAlways,
		JetStreamMaxStore: o.MaxStore, JetStreamMaxMemory: 64 << 20,
		// A batch that its sender left (killed) is given up soon.
		JetStreamLimits: server.JSLimitOpts{MaxBatchTimeout: 10 * time.Second},
	}
	if o.Access != nil {
		if err := o.Access.into(opts); err != nil {
			return nil, err
		}
	}
	if o.Listen == "" {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %s is not an address such as 127.0.0.1:4222: %w", o.Listen, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %q is not a port", o.Listen, port)
	}
	opts.Host, opts.Port = host, int(n)
	if n == 0 {
		opts.Port = server.RANDOM_PORT
		return opts, nil
	}
	// The server only logs that it cannot listen: try it first.
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: choose another port, or --listen 127.0.0.1:0 for a free one: %w", o.Listen, ErrPortTaken, err)
	}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	return opts, nil
}

// ClientURL is where clients outside the process connect; empty when none can.
func (s *Server) ClientURL() string {
	if a, ok := s.srv.Addr().(*net.TCPAddr); ok && a != nil {
		host := a.IP.String()
		if a.IP.IsUnspecified() {
			host = "127.0.0.1"
		}
		return "nats://" + net.JoinHostPort(host, strconv.Itoa(a.Port))
	}
	return ""
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.InProcessConn() }

// Shutdown stops the server; with wait it returns when everything is on disk and the directory is free.
func (s *Server) Shutdown(wait bool) {
	s.once.Do(func() {
		close(s.mender.quit)
		<-s.mender.done
		s.srv.Shutdown()
		if wait {
			s.srv.WaitForShutdown()
		}
		s.unlock()
	})
}

// logger sends the server's lines to slog, and remembers what would have ended the process.
type logger struct {
	log *slog.Logger
	// broken is told that a stream takes nothing more.
	broken chan struct{}
	mu     sync.Mutex
	err    error // guarded by mu
}

func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Noticef implements server.Logger.
func (l *logger) Noticef(format string, v ...any) { l.debug(format, v) }

// Warnf implements server.Logger.
func (l *logger) Warnf(format string, v ...any) { l.debug(format, v) }

// Debugf implements server.Logger.
func (l *logger) Debugf(format string, v ...any) { l.debug(format, v) }

// Tracef implements server.Logger.
func (l *logger) Tracef(format string, v ...any) { l.debug(format, v) }

// Errorf implements server.Logger.
func (l *logger) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.log.Error("embedded NATS", "line", line)
	if strings.Contains(line, "ritical write error") {
		select {
		case l.broken <- struct{}{}:
		default:
		}
	}
}

// Fatalf implements server.Logger: it ends nothing; Start reports it.
func (l *logger) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf(format, v...)
	}
	l.log.Error("embedded NATS", "line", l.err)
}

func (l *logger) debug(format string, v []any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("embedded NATS", "line", fmt.Sprintf(format, v...))
	}
}
