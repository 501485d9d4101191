// Package dead is the desk for what did not make it: dead letters (messages that no service could handle, in FACTMILL_DEAD) and
// quarantine records (what a job under error policy quarantine put aside, in the store). It lists, shows, replays and drops
// them, and keeps the bytes that they refer to for as long as they stay.
package dead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Jobs is what the desk asks the job machine.
type Jobs interface {
	Brief(graph, job string) (jobs.Brief, error)
	Get(ctx context.Context, graph, job string) (api.JobStatus, error)
	Reopen(ctx context.Context, e events.Event, parked string) (state string, err error)
}

// Config of the desk. Now and Log are required.
type Config struct {
	// KeepUploads is how long an uploaded file that no document event names stays: its client may be about to publish one.
	// Defaults to 24 h. Bodies of jobs that are over stay as long.
	KeepUploads time.Duration
	// SweepEvery is how often such files are looked for. Defaults to 1 h.
	SweepEvery time.Duration
	Log        *slog.Logger
	Now        func() time.Time
}

// Desk answers dead-letters.* and cleans up after uploads.
type Desk struct {
	st   *store.Store
	jobs Jobs
	ops  *operations.Operations
	conn *bus.Conn
	cfg  Config
	// turn is held by one replay or drop at a time: a message may be large.
	turn chan struct{}
}

// New makes the desk.
func New(st *store.Store, j Jobs, ops *operations.Operations, conn *bus.Conn, cfg Config) *Desk {
	if cfg.KeepUploads == 0 {
		cfg.KeepUploads = 24 * time.Hour
	}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = time.Hour
	}
	return &Desk{st: st, jobs: j, ops: ops, conn: conn, cfg: cfg, turn: make(chan struct{}, 1)}
}

// settleEvery is how often letters whose replay has committed are removed when nobody lists them.
const settleEvery = 30 * time.Second

// Run removes what replays and broken uploads left behind, until ctx is done. What fails is tried again.
func (d *Desk) Run(ctx context.Context) error {
	settle := time.NewTicker(settleEvery)
	defer settle.Stop()
	sweep := time.NewTicker(d.cfg.SweepEvery)
	defer sweep.Stop()
	d.report(ctx, "sweep", d.Sweep(ctx))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settle.C:
			d.report(ctx, "settle replays", d.settleAll(ctx))
		case <-sweep.C:
			d.report(ctx, "sweep", d.Sweep(ctx))
		}
	}
}

func (d *Desk) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		d.cfg.Log.Warn("could not tidy up, it is tried again", "what", what, "error", err)
	}
}

// entry is one dead letter or quarantine record of a graph.
type entry struct {
	graph string
	dead  *events.Dead // of a dead letter, with its place and time in the stream
	seq   uint64
	size  int64
	at    time.Time
	// uploads that the message of a dead letter names.
	uploads []string
	rec     *quarantine.Record // of a quarantine record
}

// id of the entry, as people give it.
func (e *entry) id() string {
	if e.rec != nil {
		return e.rec.ID
	}
	return fmt.Sprint(e.seq)
}

// ref is where the message's bytes lie, empty when they travel with the letter or were not kept.
func (e *entry) ref() string {
	if e.rec != nil {
		return e.rec.Body
	}
	return e.dead.Headers[events.HeaderBody]
}

func (e *entry) job() string {
	if e.rec != nil {
		return e.rec.Job
	}
	return e.dead.Job
}

// kind of the message's event.
func (e *entry) kind() string {
	if e.rec != nil {
		return e.rec.Event
	}
	at, err := events.ParseSubject(e.dead.Subject)
	if err != nil {
		return ""
	}
	return at.Kind
}

// body is the message as it was; nil without an error when none was kept.
func (d *Desk) body(ctx context.Context, e *entry, limit int) ([]byte, error) {
	if ref := e.ref(); ref != "" {
		b, err := d.conn.GetBody(ctx, e.graph, ref, limit)
		if errors.Is(err, bus.ErrBodyGone) {
			return nil, nil
		}
		return b, err
	}
	if e.dead != nil {
		return e.dead.Body, nil
	}
	return nil, nil
}

// event decodes the message; nil when it is none of a stage.
func (e *entry) event(body []byte) (events.Event, error) {
	subject := ""
	schema := ""
	if e.dead != nil {
		subject, schema = e.dead.Subject, e.dead.Headers[events.HeaderSchema]
	} else {
		s, err := subjectOf(e.rec.Event, body)
		if err != nil {
			return nil, err
		}
		subject = s
	}
	return events.Decode(subject, schema, body)
}

// find looks an id up; a 404 when there is none.
func (d *Desk) find(ctx context.Context, graph, id string) (*entry, error) {
	if quarantine.IsID(id) {
		rec, err := quarantine.Get(d.st, graph, id)
		if err != nil {
			return nil, err
		}
		if rec != nil {
			return &entry{graph: graph, rec: rec, at: rec.At}, nil
		}
	} else if seq, ok := parseID(id); ok {
		e, err := d.letter(ctx, graph, seq)
		if err != nil || e != nil {
			return e, err
		}
	}
	return nil, notFound(graph, id)
}

func notFound(graph, id string) *api.Error {
	return api.Errorf(404, "dead_letter_not_found", "graph %s has no dead letter or quarantine record %q", graph, clip(id, 80))
}

// take waits for the desk's turn.
func (d *Desk) take(ctx context.Context) (done func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
