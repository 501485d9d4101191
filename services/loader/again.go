package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
)

// Kept finds document events that are kept until their jobs end.
type Kept interface {
	// Document returns the event at a sequence of the ingest stream; nil when it is gone.
	Document(ctx context.Context, graph string, seq uint64) (*bus.Document, error)
}

// again handles what the committer asks for a second time: a whole listing (a new attempt of a job), or one document whose
// decision is stale. Neither event carries the source: the document event does.
type again struct {
	kept Kept
	list *lister
}

// wants says whether a found source has to be looked up in its document event.
func (again) wants(s events.Source) bool { return s.Relist || s.Only != "" && bare(s) }

func bare(s events.Source) bool {
	return s.Path == "" && s.Object == "" && s.Document == nil && s.Data == nil && s.Delete == ""
}

// errFound ends a listing when the source that was looked for is there.
var errFound = errors.New("found")

// relist lists the document event under the job of the new attempt.
func (a again) relist(ctx context.Context, in bus.Delivery, found *events.Found) ([]events.Event, error) {
	doc, event, err := a.event(ctx, found)
	if err != nil {
		return a.gone(found, in.Trace, err)
	}
	return a.list.list(ctx, in, doc, event, found.Job)
}

// source finds one source of the document event by its token, with Only and Try as the committer set them.
func (a again) source(ctx context.Context, in bus.Delivery, found *events.Found) (*events.Found, error) {
	doc, event, err := a.event(ctx, found)
	if err != nil {
		return nil, err
	}
	var hit *events.Found
	look := func(_ context.Context, out ...events.Event) error {
		for _, e := range out {
			if f, ok := e.(*events.Found); ok && f.Source.Token == found.Source.Token {
				hit = f
				return errFound
			}
		}
		return nil
	}
	b := newBatch(found.Job, bus.Delivery{Trace: in.Trace, Emit: look})
	if err := a.list.sources(ctx, doc, event, b); err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	if hit == nil {
		if err := look(ctx, b.take()...); err != nil && !errors.Is(err, errFound) {
			return nil, err
		}
	}
	if hit == nil {
		return nil, fault.Bad("source_gone", "the source of %q is not what the document event names any more", found.Source.Only)
	}
	out := &events.Found{Job: found.Job, Source: hit.Source}
	out.Source.Only, out.Source.Try = found.Source.Only, found.Source.Try
	return out, nil
}

func (a again) event(ctx context.Context, found *events.Found) (*bus.Document, *events.Ingest, error) {
	at := found.Job.At
	doc, err := a.kept.Document(ctx, found.Job.Graph, at.Seq)
	if err != nil {
		return nil, nil, remote(ctx, "ingest_stream", err)
	}
	// Another event has the sequence when the stream was lost and made anew.
	if doc == nil || at.Time != 0 && doc.Time.UnixNano() != at.Time {
		return nil, nil, fault.Bad("event_gone", "the document event %d of job %s is gone", found.Job.At.Seq, found.Job.ID)
	}
	event, err := events.ParseIngest(doc.Body, doc.Header)
	if err == nil {
		err = a.list.door(ctx, event)
	}
	return doc, event, err
}

// gone ends a job whose event cannot be listed again; other errors stay errors.
func (a again) gone(found *events.Found, trace string, err error) ([]events.Event, error) {
	f, err := refused(found.Job.ID, trace, err)
	if err != nil {
		return nil, err
	}
	return sealed(found.Job, nil, f), nil
}

// ingestStream is Kept over the stream itself.
type ingestStream struct{ conn *bus.Conn }

// Document implements Kept.
func (s ingestStream) Document(ctx context.Context, graph string, seq uint64) (*bus.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := s.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return nil, fmt.Errorf("document event %d: %w", seq, err)
	}
	m, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("document event %d: %w", seq, err)
	}
	at, err := events.ParseSubject(m.Subject)
	if err != nil || at.Graph != graph || at.Kind != events.KindIngest {
		return nil, nil
	}
	return &bus.Document{Graph: graph, Seq: m.Sequence, Time: m.Time, Header: m.Header.Get, Body: m.Data}, nil
}
