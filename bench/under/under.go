// Package under starts what is measured: the built binaries, all in one process or each service in one of its own, on a directory of
// their own, on the loopback.
package under

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
)

// Services in the order in which they start.
var Services = []string{"committer", "reviewer", "resolver", "extractor", "chunker", "loader"}

// Build builds the binaries from the sources at root into dir.
func Build(ctx context.Context, root, dir string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator), "./cmd/factmill"}
	for _, s := range Services {
		args = append(args, "./services/"+s+"/cmd/"+s)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w: %s", err, out)
	}
	return nil
}

// Options of what is started.
type Options struct {
	Bin string // the directory of the binaries
	Dir string // what it keeps: the store and the streams
	// Replicas of each service but the committer in processes of their own. 0: all in one process.
	Replicas int
	Args     []string                     // of every process
	Extra    map[string][]string          // of the processes of one service
	More     func(service string) (n int) // replicas of one service, where it is not Replicas
	Metrics  bool                         // of all in one process: listen for Metric
}

// Factmill is a running one.
type Factmill struct {
	Conn  *bus.Conn
	URL   string
	o     Options
	procs []*process
	nats  *embedded.Server
	http  string // where metrics are
	used  Usage
}

// Usage of processes that have ended: CPU of all, the largest resident memory of one.
type Usage struct {
	CPU    time.Duration
	Memory int64 // bytes
}

type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan error
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// Start starts it and returns when every service answers. Stop ends it.
func Start(ctx context.Context, o Options) (f *Factmill, err error) {
	f = &Factmill{o: o}
	defer func() {
		if err != nil {
			_, stop := f.Stop()
			err = errors.Join(err, stop)
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return f, fmt.Errorf("start: %w", err)
	}
	if o.Replicas == 0 {
		addr, err := free()
		if err != nil {
			return f, err
		}
		f.URL = "nats://" + addr
		args := append([]string{"up", "--data", o.Dir, "--listen", addr, "--loader.roots", string(filepath.Separator)}, o.Args...)
		if o.Metrics {
			if f.http, err = free(); err != nil {
				return f, err
			}
			args = append(args, "--http", f.http)
		}
		if err := f.spawn("factmill", args); err != nil {
			return f, err
		}
		return f, f.ready(ctx)
	}
	f.nats, err = embedded.Start(ctx, embedded.Options{Dir: filepath.Join(o.Dir, "nats"), Listen: "127.0.0.1:0", Log: quiet})
	if err != nil {
		return f, err
	}
	f.URL = f.nats.ClientURL()
	if err := f.connect(ctx); err != nil {
		return f, err
	}
	if err := bus.EnsureAll(ctx, f.Conn.JS, bus.NewTable(bus.TableOptions{})); err != nil {
		return f, err
	}
	for _, s := range Services {
		n := o.Replicas
		if o.More != nil {
			n = o.More(s)
		}
		if s == "committer" {
			n = 1
		}
		for range n {
			args := append([]string{"--nats.url", f.URL, "--loader.roots", string(filepath.Separator)}, slices.Concat(o.Args, o.Extra[s])...)
			if s == "committer" {
				args = append(args, "--data", filepath.Join(o.Dir, "graphs"))
			}
			if err := f.spawn(s, args); err != nil {
				return f, err
			}
		}
	}
	return f, f.ready(ctx)
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("choose a port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Env is the environment without anything of Factmill's.
func Env() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "FACTMILL_") })
}

func (f *Factmill) spawn(name string, args []string) error {
	log, err := os.CreateTemp(f.o.Dir, name+"-*.log")
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close() // the process has its own
	p := &process{name: name, cmd: exec.Command(filepath.Join(f.o.Bin, name), args...), log: log.Name(), done: make(chan error, 1)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = Env(), log, log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	f.procs = append(f.procs, p)
	return nil
}

func (f *Factmill) connect(ctx context.Context) error {
	for {
		conn, err := bus.Connect(ctx, bus.Options{URL: f.URL, Name: "bench", Log: quiet, Timeout: time.Second})
		if err == nil {
			f.Conn = conn
			return nil
		}
		if err := f.pause(ctx); err != nil {
			return fmt.Errorf("connect to %s: %w", f.URL, err)
		}
	}
}

// pause waits a little for a process that starts; it is an error when one has ended.
func (f *Factmill) pause(ctx context.Context) error {
	for _, p := range f.procs {
		select {
		case err := <-p.done:
			p.done <- err
			out, readErr := os.ReadFile(p.log)
			return errors.Join(fmt.Errorf("%s ended: %w: %s", p.name, err, out), readErr)
		default:
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Millisecond):
		return nil
	}
}

func (f *Factmill) ready(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	if f.Conn == nil {
		if err := f.connect(ctx); err != nil {
			return err
		}
	}
	for _, s := range append(slices.Clone(Services), "jobs") {
		for {
			one, stop := context.WithTimeout(ctx, time.Second)
			err := f.Conn.Request(one, bus.HealthSubject(s), nil, nil)
			stop()
			if err == nil {
				break
			}
			if errPause := f.pause(ctx); errPause != nil {
				return fmt.Errorf("wait for the %s: %w", s, errors.Join(errPause, err))
			}
		}
	}
	return nil
}

// Ask sends a request about the graph default.
func (f *Factmill) Ask(ctx context.Context, verb string, req, reply any) error {
	return f.Conn.Request(ctx, "factmill.default."+verb, req, reply)
}

// Do publishes a document event and waits for the job's end. A job that did not commit whole is an error.
func (f *Factmill) Do(ctx context.Context, event []byte) (api.JobStatus, time.Duration, error) {
	begin := time.Now()
	seq, err := f.Conn.Ingest(ctx, "default", event, nil)
	if err != nil {
		return api.JobStatus{}, 0, err
	}
	job := fmt.Sprint("j", seq)
	for {
		var s api.JobStatus
		if err := f.Ask(ctx, "jobs.get", api.JobGet{Job: job, Wait: "20s"}, &s); err != nil {
			return s, 0, fmt.Errorf("job %s: %w", job, err)
		}
		switch s.State {
		case api.JobCommitted:
			if s.Failed() > 0 {
				return s, 0, fmt.Errorf("job %s: %d documents failed", job, s.Failed())
			}
			return s, time.Since(begin), nil
		case api.JobRolledBack:
			return s, 0, fmt.Errorf("job %s was rolled back: %s", job, s.Reason)
		}
		if err := ctx.Err(); err != nil {
			return s, 0, err
		}
	}
}

// Stop ends all processes and returns what they used. It may be called again.
func (f *Factmill) Stop() (Usage, error) {
	var errs []error
	for _, p := range slices.Backward(f.procs) {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.name, err))
		}
		select {
		case <-p.done:
		case <-time.After(time.Minute):
			errs = append(errs, fmt.Errorf("%s did not stop", p.name), p.cmd.Process.Kill())
			<-p.done
		}
		st := p.cmd.ProcessState
		f.used.CPU += st.UserTime() + st.SystemTime()
		f.used.Memory = max(f.used.Memory, resident(st))
	}
	f.procs = nil
	if f.Conn != nil {
		f.Conn.Close()
		f.Conn = nil
	}
	if f.nats != nil {
		f.nats.Shutdown(true)
		f.nats = nil
	}
	return f.used, errors.Join(errs...)
}
