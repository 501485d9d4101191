package dead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// How the streams are read.

const (
	// firstBlock of sequences is looked through for the newest letters; each further block is twice as long.
	firstBlock = 128
	maxBlock   = 1 << 16
	// fetchMessages of a stream at a time: letters have up to 350 KiB.
	fetchMessages = 64
	fetchWait     = 5 * time.Second
)

func parseID(id string) (uint64, bool) {
	seq, err := strconv.ParseUint(id, 10, 64)
	return seq, err == nil && strconv.FormatUint(seq, 10) == id && seq > 0
}

// subjects of the dead letters of a graph; empty stage and job are any.
func subjects(graph, stage, job string) string {
	any := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	return events.Root + "." + graph + "." + events.KindDead + "." + any(stage) + "." + any(job) + ".*"
}

// letter reads one dead letter; nil when there is none of that sequence in the graph.
func (d *Desk) letter(ctx context.Context, graph string, seq uint64) (*entry, error) {
	s, err := d.conn.JS.Stream(ctx, bus.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", bus.StreamDead, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letter %d: %w", seq, err)
	}
	e := entryOf(m.Subject, m.Header.Get(events.HeaderSchema), m.Data, m.Sequence, m.Time)
	if e.graph != graph {
		return nil, nil
	}
	return e, nil
}

// entryOf reads a message of the dead-letter stream. One that is no dead letter can still be looked at and dropped.
func entryOf(subject, schema string, data []byte, seq uint64, at time.Time) *entry {
	e := &entry{seq: seq, at: at}
	defer func() { e.size, e.uploads = sizeOf(e.dead), uploadsOf(e.kind(), e.dead.Body) }()
	if ev, err := events.Decode(subject, schema, data); err == nil {
		if dead, ok := ev.(*events.Dead); ok {
			e.graph, e.dead = dead.Graph, dead
			if e.dead.Headers == nil {
				e.dead.Headers = map[string]string{}
			}
			return e
		}
	}
	e.dead = &events.Dead{Code: "unreadable", Error: "it is no dead letter of this version", Body: data, Headers: map[string]string{}}
	if at, err := events.ParseSubject(subject); err == nil {
		e.graph, e.dead.Graph, e.dead.Stage = at.Graph, at.Graph, at.Job
		e.dead.Job, e.dead.Doc, _ = strings.Cut(at.Item, ".")
	}
	return e
}

// sizeOf is the size of the parked message, be it by reference.
func sizeOf(l *events.Dead) int64 {
	if n, err := strconv.ParseInt(l.Headers[bus.HeaderBodySize], 10, 64); err == nil {
		return n
	}
	return int64(len(l.Body))
}

// read calls fn for the messages of a stream between two sequences whose subject fits filter, oldest first.
func (d *Desk) read(ctx context.Context, stream, filter string, from, to uint64, fn func(jetstream.Msg, *jetstream.MsgMetadata) error) (err error) {
	cons, err := d.conn.JS.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, FilterSubject: filter,
		InactiveThreshold: time.Minute, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	name := cons.CachedInfo().Name
	defer func() {
		// It would go by itself after a minute without a reader.
		if e := d.conn.JS.DeleteConsumer(context.WithoutCancel(ctx), stream, name); e != nil && err == nil && !errors.Is(e, jetstream.ErrConsumerNotFound) {
			d.cfg.Log.Debug("a consumer stays for a minute", "stream", stream, "error", e)
		}
	}()
	idle := 0 // fetches without a message, one behind the other
	for pending := cons.CachedInfo().NumPending; pending > 0; {
		batch, err := cons.Fetch(int(min(pending, fetchMessages)), jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		n := 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return fmt.Errorf("read %s: %w", stream, err)
			}
			if meta.Sequence.Stream > to {
				return nil
			}
			n++
			pending = meta.NumPending
			if err := fn(m, meta); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		if idle++; n > 0 {
			idle = 0
			continue
		}
		if pending, err = d.waiting(ctx, cons, idle); err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
	}
	return nil
}

// maxIdle is how often a consumer is asked that gives nothing although something waits.
const maxIdle = 20

// waiting is what a consumer that gave nothing has still to give: what was left may be gone by now, or, in a cluster, the consumer's leader does
// not hear yet. A consumer whose server went is an error: nobody knows what it had still to give.
func (d *Desk) waiting(ctx context.Context, cons jetstream.Consumer, idle int) (uint64, error) {
	pause := time.NewTimer(min(time.Duration(idle)*20*time.Millisecond, time.Second))
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-pause.C:
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return 0, err
	}
	if info.NumPending > 0 && idle >= maxIdle {
		return 0, fmt.Errorf("%d messages wait and none comes", info.NumPending)
	}
	return info.NumPending, nil
}

// errEnough ends a reading that found what it looked for.
var errEnough = errors.New("enough")

// newest calls fn for dead letters, newest first, from sequence below down (0: from the newest), until it returns errEnough.
// They are read forward, block by block, and come without their bodies.
func (d *Desk) newest(ctx context.Context, filter string, below uint64, fn func(*entry) error) error {
	s, err := d.conn.JS.Stream(ctx, bus.StreamDead)
	if err != nil {
		return fmt.Errorf("open %s: %w", bus.StreamDead, err)
	}
	state := s.CachedInfo().State
	to := state.LastSeq
	if below > 0 {
		to = min(to, below-1)
	}
	for block := uint64(firstBlock); state.Msgs > 0 && to >= state.FirstSeq && to > 0; block = min(2*block, maxBlock) {
		from := state.FirstSeq
		if to-from >= block {
			from = to - block + 1
		}
		var found []*entry
		err := d.read(ctx, bus.StreamDead, filter, from, to, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
			e := entryOf(m.Subject(), m.Headers().Get(events.HeaderSchema), m.Data(), meta.Sequence.Stream, meta.Timestamp)
			e.dead.Body = nil // a block may hold many
			found = append(found, e)
			return nil
		})
		if err != nil {
			return err
		}
		for i := len(found) - 1; i >= 0; i-- {
			if err := fn(found[i]); err != nil {
				if errors.Is(err, errEnough) {
					return nil
				}
				return err
			}
		}
		to = from - 1
	}
	return nil
}

// deleteLetter removes a dead letter from its stream.
func (d *Desk) deleteLetter(ctx context.Context, seq uint64) error {
	s, err := d.conn.JS.Stream(ctx, bus.StreamDead)
	if err == nil {
		err = s.DeleteMsg(ctx, seq)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !deleted(err) {
		return fmt.Errorf("delete dead letter %d: %w", seq, err)
	}
	return nil
}

// deleted tells the server's answers for a sequence that holds nothing any more.
func deleted(err error) bool {
	const sequenceNotFound = jetstream.ErrorCode(10043)
	var e *jetstream.APIError
	return errors.As(err, &e) && (e.ErrorCode == jetstream.JSErrCodeMessageNotFound || e.ErrorCode == sequenceNotFound)
}

// subjectOf is the subject of a stage event of a kind, by what its body says of itself.
func subjectOf(kind string, body []byte) (string, error) {
	var e struct {
		Job    events.Job      `json:"job"`
		Doc    events.DocRef   `json:"doc"`
		Source json.RawMessage `json:"source"` // an object in a found event, else a token
	}
	err := json.Unmarshal(body, &e)
	item := e.Doc.Token
	if err == nil && kind == events.KindFound {
		var s events.Source
		err = json.Unmarshal(e.Source, &s)
		item = s.Token
	}
	if err != nil {
		return "", fmt.Errorf("decode %s: %w", kind, err)
	}
	return events.Subject{Graph: e.Job.Graph, Kind: kind, Job: e.Job.ID, Item: item}.String(), nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
