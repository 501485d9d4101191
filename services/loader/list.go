package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/decode"
	"github.com/factmill/factmill/services/loader/internal/files"
)

// lister takes document events.
type lister struct {
	jobs    Jobs
	objects Objects
	tree    *files.Tree
	metrics *metrics
	log     *slog.Logger

	mu sync.Mutex
	// opened remembers the jobs of events under way, so that the job of one that is given up can be ended. Guarded by mu.
	opened map[string]events.Job
}

func newLister(jobs Jobs, objects Objects, tree *files.Tree, m *metrics, log *slog.Logger) *lister {
	return &lister{jobs: jobs, objects: objects, tree: tree, metrics: m, log: log, opened: map[string]events.Job{}}
}

// Handle implements bus.Handler: one document event becomes a doc.found a source and a job.sealed. An event that is at fault opens
// its job only to roll it back; one whose job id is taken, or whose job has ended, changes nothing.
func (l *lister) Handle(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	doc, ok := in.Event.(*bus.Document)
	if !ok {
		return nil, fault.Fatal("wrong_event", "the lister was given %s", in.Event.Where())
	}
	event, err := events.ParseIngest(doc.Body, doc.Header)
	open := opening(doc, event)
	if err == nil {
		err = wholeCharacters(doc)
	}
	if err == nil {
		err = l.door(ctx, event)
	}
	if open.Refused, err = refused(open.Job, in.Trace, err); err != nil {
		return nil, err
	}
	reply, err := l.jobs.Open(ctx, doc.Graph, open)
	var taken *api.Error
	if errors.As(err, &taken) && taken.Status == 409 {
		return nil, l.taken(ctx, doc, open, taken, in.Trace)
	}
	if err != nil {
		return nil, remote(ctx, "jobs.open", err)
	}
	if reply.State != api.JobPending {
		return nil, nil
	}
	if open.Refused != nil { // the job was opened before its event turned out to be at fault
		return sealed(reply.Job, nil, open.Refused), nil
	}
	l.remember(doc, reply.Job)
	out, err := l.list(ctx, in, doc, event, reply.Job)
	if err == nil {
		l.forget(doc)
	}
	return out, err
}

// wholeCharacters refuses an event with an escape that is half a character: once it is decoded, nobody can tell it from U+FFFD. A NUL
// can be told later, under the job's error policy.
func wholeCharacters(doc *bus.Document) error {
	if !bytes.HasPrefix(bytes.TrimLeft(doc.Body, " \t\r\n"), []byte("{")) || !bytes.Contains(doc.Body, []byte(`\u`)) {
		return nil
	}
	if err := decode.Halves(string(doc.Body)); err != nil {
		return fault.Bad(decode.Code, "the document event: %v", err)
	}
	return nil
}

// taken opens the event's own job, j and its sequence, only to say that the id it chose was another event's.
func (l *lister) taken(ctx context.Context, doc *bus.Document, open api.JobOpen, why *api.Error, trace string) error {
	l.log.Warn("document event refused", "graph", doc.Graph, "job", open.Job, "seq", doc.Seq, "code", why.Code, "error", why)
	if open.Job == events.SeqJob(doc.Seq) {
		return nil // the stream was made anew and its sequences were used before: nothing of ours to end
	}
	open.Job = events.SeqJob(doc.Seq)
	open.Refused = &graph.Failure{Stage: name, Item: open.Job, Code: why.Code, Message: why.Message, TraceID: trace}
	_, err := l.jobs.Open(ctx, doc.Graph, open)
	var again *api.Error
	if err != nil && !(errors.As(err, &again) && again.Status == 409) {
		return remote(ctx, "jobs.open", err)
	}
	return nil
}

// list emits what the event names, and returns the last batch with the seal.
func (l *lister) list(ctx context.Context, in bus.Delivery, doc *bus.Document, event *events.Ingest, job events.Job) ([]events.Event, error) {
	b := newBatch(job, in)
	err := l.sources(ctx, doc, event, b)
	if err == nil {
		err = b.check(event)
	}
	f, err := refused(job.ID, in.Trace, err)
	if err != nil {
		return nil, err
	}
	l.metrics.listed.Add(float64(len(b.tokens)))
	if f != nil { // found while listing: nothing of the job commits
		return sealed(job, b.names(), f), nil
	}
	return append(b.take(), sealed(job, b.names(), nil)...), nil
}

func sealed(job events.Job, sources []string, f *graph.Failure) []events.Event {
	if sources == nil {
		sources = []string{}
	}
	return []events.Event{&events.Sealed{Job: job, Sources: sources, Refused: f}}
}

// opening is the request that opens an event's job. event may be nil or half filled when it could not be read.
func opening(doc *bus.Document, event *events.Ingest) api.JobOpen {
	o := api.JobOpen{
		Job: jobID(doc, event), Digest: fingerprint.SHA256Hex(doc.Body), At: graph.Order{Time: doc.Time.UnixNano(), Seq: doc.Seq},
		Op: events.OpAdd, ErrorPolicy: events.PolicyRaise, Atomic: events.AtomicJob, Candidates: true,
	}
	if event == nil {
		return o
	}
	for _, f := range []struct {
		into  *string
		value string
		known []string
	}{
		{&o.Op, event.Op, []string{events.OpAdd, events.OpUpdate, events.OpDelete}},
		{&o.ErrorPolicy, event.ErrorPolicy, []string{events.PolicyRaise, events.PolicySkip, events.PolicyQuarantine}},
		{&o.Atomic, event.Atomic, []string{events.AtomicJob, events.AtomicDocument}},
	} {
		for _, k := range f.known { // a refused event may say anything
			if f.value == k {
				*f.into = k
			}
		}
	}
	o.Force, o.Hold, o.Supersede, o.Deadline = event.Force, event.Hold, event.Supersede, event.Deadline
	o.Candidates = event.Candidates == nil || *event.Candidates
	return o
}

// jobID is the id that the event names, be it refused for something else, or j and its sequence.
func jobID(doc *bus.Document, event *events.Ingest) string {
	said := ""
	if event != nil {
		said = event.Job
	}
	if said == "" {
		var only struct {
			Job string `json:"job"`
		}
		if json.Unmarshal(doc.Body, &only) == nil { // an event that cannot be read whole often still names its job
			said = only.Job
		}
	}
	if said == "" && doc.Header != nil {
		said = doc.Header("Factmill-Job")
	}
	if said == "" || events.CheckJob(said) != nil {
		return events.SeqJob(doc.Seq)
	}
	return said
}

// refused turns what is at fault in the event itself into the reason of its job; other errors stay errors.
func refused(job, trace string, err error) (*graph.Failure, error) {
	var r *events.Refusal
	var f *fault.Error
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &r):
		return &graph.Failure{Stage: name, Item: job, Code: r.Code, Message: r.Message, TraceID: trace}, nil
	case errors.As(err, &f) && f.Class == fault.Document:
		return &graph.Failure{Stage: name, Item: job, Code: f.Code, Message: f.Error(), TraceID: trace}, nil
	default:
		return nil, err
	}
}

// lost ends the job of a document event that is parked. A job that was never opened has nothing to end.
func (l *lister) lost(in events.Event, f graph.Failure) []events.Event {
	doc, ok := in.(*bus.Document)
	if !ok {
		return nil
	}
	job, ok := l.forget(doc)
	if !ok {
		event, err := events.ParseIngest(doc.Body, doc.Header)
		if err != nil {
			event = nil
		}
		job = events.Job{Graph: doc.Graph, ID: jobID(doc, event), Attempt: 1, ErrorPolicy: events.PolicyRaise}
		job.At = graph.Order{Time: doc.Time.UnixNano(), Seq: doc.Seq}
	}
	if f.Item == "" {
		f.Item = job.ID
	}
	return sealed(job, nil, &f)
}

// maxOpened bounds what is remembered of events that went to another replica after an error here.
const maxOpened = 10_000

func (l *lister) remember(doc *bus.Document, job events.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.opened) >= maxOpened {
		clear(l.opened)
	}
	l.opened[doc.ID()] = job
}

func (l *lister) forget(doc *bus.Document) (events.Job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	job, ok := l.opened[doc.ID()]
	delete(l.opened, doc.ID())
	return job, ok
}
