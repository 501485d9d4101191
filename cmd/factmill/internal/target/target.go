package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/events"
)

// ErrNoAnswer says that the process that holds the data directory does not answer.
var ErrNoAnswer = errors.New("it does not answer")

// ErrAddress says that an address to listen on cannot be used.
var ErrAddress = errors.New("the address cannot be used")

// ErrBothTargets says that a command was given two places to work.
var ErrBothTargets = errors.New("--nats and --data name two places to work: give one of them, --nats for running services, --data for a directory that nobody works on")

// Build makes a service. dir is the data directory of an embedded one; in the all-in-one, settings of the configuration are not
// what the service insists on (pinned): they were put into the graph.
type Build func(cfg *app.Config, dir string, pinned bool, deps app.Deps) (app.Service, error)

// Builder is a service by its name.
type Builder struct {
	Name  string
	Build Build
}

// Wait says what has to answer before an embedded command begins. What a command does not need may get ready meanwhile.
type Wait int

const (
	// WaitAnswers waits for the committer's verbs: all that reading takes.
	WaitAnswers Wait = iota
	// WaitReview waits for the review desk's verbs too.
	WaitReview
	// WaitAll waits for every service: for commands that run jobs.
	WaitAll
)

// Options say where a command works and with what.
type Options struct {
	Config *app.Config
	Graph  string
	// Command is the name of the command: of its connection, and of the holder of the data directory.
	Command string
	Getenv  func(string) string
	// Version of the build, as spans have it.
	Version string
	// Services that are run where the command works embedded.
	Services []Builder
	// Listen is the address of the embedded server for clients outside the process; empty for none.
	Listen string
	// Token that clients outside the process must bring; Cert and Key are the files of the server's certificate. SelfSigned makes one in the
	// data directory when none is given. All of them go with Listen.
	Token, Cert, Key string
	SelfSigned       bool
	// HTTP is the address of health and metrics of the embedded services; empty for none.
	HTTP string
	// Timeout of one request.
	Timeout time.Duration
	// Replica asks a read replica where the committer would be asked: query.* of running services.
	Replica bool
	// Wait says what an embedded command waits for before it begins; Say is told why that takes long. Nil: nobody is.
	Wait Wait
	Say  func(string)
	// Greeting is told what the server says first, where one is connected to over a socket. Nil: nobody is.
	Greeting func(line string)
	Log      *slog.Logger
	Now      func() time.Time
}

// Session is a place where a command works.
type Session struct {
	Conn  *bus.Conn
	Graph string
	// Where names the place for people.
	Where string
	// Embedded says that the services run in this process, on Dir.
	Embedded bool
	Dir      string
	// URL is where others can connect; empty when they cannot.
	URL string
	// CA is the file that vouches for the certificate of an embedded server; empty without TLS.
	CA string
	// Health is the address of /ready; empty when there is none.
	Health string

	timeout  time.Duration
	replica  bool
	failed   chan error
	close    func() error
	services []app.Service // in this process
}

// Hindered says which of the services in this process cannot work, and why; empty when all can, or when they run elsewhere.
func (s *Session) Hindered() string {
	var out []string
	for _, svc := range s.services {
		if err := svc.Ready(); err != nil {
			out = append(out, notReady(svc, err))
		}
	}
	return strings.Join(out, "; ")
}

func notReady(svc app.Service, err error) string {
	return fmt.Sprintf("the %s is not ready: %v", svc.Name(), err)
}

// Dir is the data directory: as configured, else the default one.
func Dir(cfg *app.Config, getenv func(string) string) (string, error) {
	dir := cfg.Get("data")
	if dir == "" {
		var err error
		if dir, err = DataDir(getenv); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data directory %s: %w", dir, err)
	}
	return abs, nil
}

// Open decides where the command works: at the server that was named, embedded on the directory that was named, at the process
// that holds the default directory, or embedded there. Of a flag and a mere environment or file, the flag decides.
func Open(ctx context.Context, o Options) (*Session, error) {
	url, data := o.Config.Get("nats.url"), o.Config.Source("data") == "flag"
	if data && url != "" && o.Config.Source("nats.url") == "flag" {
		return nil, ErrBothTargets
	}
	if url != "" && !data {
		return Dial(ctx, o, nil)
	}
	dir, err := Dir(o.Config, o.Getenv)
	if err != nil {
		return nil, err
	}
	s, err := Start(ctx, o, dir)
	var held *InUse
	if !errors.As(err, &held) || data {
		return s, err
	}
	return join(ctx, o, held)
}

// startWait is how long a process that holds a directory may take to get ready.
const startWait = 30 * time.Second

// join talks to the process that holds the default directory.
func join(ctx context.Context, o Options, held *InUse) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for held.By == nil || held.By.Starting {
		select {
		case <-ctx.Done():
			return nil, held
		case <-tick.C:
		}
		u, err := ReadUp(held.Dir)
		if err != nil {
			return nil, err
		}
		held.By = u
	}
	if held.By.URL == "" {
		return nil, held
	}
	s, err := Dial(ctx, o, held.By)
	if err != nil {
		return nil, fmt.Errorf("process %d (factmill %s) holds %s, but %w: %w", held.By.PID, held.By.Command, held.Dir, ErrNoAnswer, err)
	}
	s.Dir = held.Dir
	return s, nil
}

// Dial connects to running services: those that hold a directory, or nil for the configured ones.
func Dial(ctx context.Context, o Options, at *Up) (*Session, error) {
	name := "factmill-" + o.Command
	if o.Command == rights.Provision { // the one command whose user shares an account with others
		name = rights.Provision
	}
	b := o.Config.BusOptions(name)
	b.Name, b.Greeting = "factmill-"+o.Command, o.Greeting
	if key := o.Config.Get("nats.nkey"); name != rights.Provision {
		b.Inbox = ""
		if b.NKey != key { // commands are people's
			return nil, &bus.BadOption{Key: "nats.nkey", File: key, Why: "it is a directory of seeds", Way: "name yours in it, such as " + filepath.Join(key, "NAME")}
		}
	}
	if at != nil {
		b.URL = at.URL
		if b.Token == "" {
			b.Token = at.Token
		}
		if b.CA == "" {
			b.CA = at.CA
		}
	}
	b.Log, b.Now = o.Log, o.Now
	conn, err := bus.Connect(ctx, b)
	if err != nil {
		return nil, err
	}
	return &Session{
		Conn: conn, Graph: o.Graph, Where: conn.NC.ConnectedUrlRedacted(), URL: conn.NC.ConnectedUrlRedacted(), timeout: o.Timeout, replica: o.Replica,
		failed: make(chan error), close: func() error { conn.Close(); return nil },
	}, nil
}

// Ask sends a request to a verb such as "query.stats" and returns the reply as it came. A refusal is an *api.Error.
func (s *Session) Ask(ctx context.Context, verb string, req any) (json.RawMessage, error) {
	if name, ok := strings.CutPrefix(verb, "query."); ok && s.replica && name != "candidates" {
		verb = "replica." + name
	}
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	var raw json.RawMessage
	err := s.Conn.Request(ctx, events.Root+"."+s.Graph+"."+verb, req, &raw)
	var e *api.Error
	if errors.As(err, &e) && e.Code == "not_ready" && !s.Embedded {
		return nil, fmt.Errorf("at %s: %w", s.Where, err)
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// Failed tells when the services of an embedded session cannot go on. It tells at most once.
func (s *Session) Failed() <-chan error { return s.failed }

// Close ends the session: embedded services finish what they hold or hand it back, and the directory is free again.
func (s *Session) Close() error { return s.close() }
