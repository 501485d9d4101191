package dead

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
)

const (
	bundleSuffix = bundle.Suffix
	// uploadPrefix starts a source that is an uploaded file.
	uploadPrefix = events.ObjectPrefix + bus.BucketUploads + "/"
)

// What letters and records name stays: bodies by reference, and uploaded files.

// all is the last sequence of a reading to the end of a stream.
const all = ^uint64(0)

// DeleteBodies deletes the bodies of a job that has ended, except those that a dead letter or a quarantine record names.
func (d *Desk) DeleteBodies(ctx context.Context, graph, job string) error {
	var named map[string]bool
	var failed error
	_, err := d.conn.DeleteBodies(ctx, graph, job, func(ref string) bool {
		if named == nil && failed == nil { // most jobs have no bodies to ask about
			named, failed = d.named(ctx, graph, job)
		}
		return failed != nil || named[ref]
	})
	return errors.Join(err, failed)
}

// named are the references to a job's bodies in letters and records.
func (d *Desk) named(ctx context.Context, graph, job string) (map[string]bool, error) {
	out := map[string]bool{}
	err := d.eachLetter(ctx, subjects(graph, "", job), func(e *entry) { out[e.ref()] = true })
	if err != nil {
		return nil, err
	}
	b, err := d.jobs.Brief(graph, job)
	if err != nil || b.Seq == 0 {
		return out, err
	}
	return out, quarantine.OfCommit(d.st, graph, b.Seq, func(r quarantine.Record) error {
		out[r.Body] = true
		return nil
	})
}

// eachLetter calls fn for the dead letters whose subject fits filter.
func (d *Desk) eachLetter(ctx context.Context, filter string, fn func(*entry)) error {
	s, err := d.conn.JS.Stream(ctx, bus.StreamDead)
	if err != nil {
		return fmt.Errorf("open %s: %w", bus.StreamDead, err)
	}
	if s.CachedInfo().State.Msgs == 0 {
		return nil
	}
	return d.read(ctx, bus.StreamDead, filter, 1, all, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		fn(entryOf(m.Subject(), m.Headers().Get(events.HeaderSchema), m.Data(), meta.Sequence.Stream, meta.Timestamp))
		return nil
	})
}

// release deletes what entries that are gone referred to, unless a job or another entry still needs it.
func (d *Desk) release(ctx context.Context, gone []*entry) error {
	type jobOf struct{ graph, job string }
	bodies := map[jobOf]bool{}
	var uploads []string
	for _, e := range gone {
		if e.ref() != "" {
			bodies[jobOf{e.graph, e.job()}] = true
		}
		uploads = append(uploads, e.uploads...)
		if e.rec == nil {
			continue
		}
		if o, ok := strings.CutPrefix(e.rec.Source, uploadPrefix); ok {
			uploads = append(uploads, o)
		}
	}
	var errs []error
	for j := range bodies {
		b, err := d.jobs.Brief(j.graph, j.job)
		if err == nil && (b.State == "" || api.Ended(b.State)) { // else the job's end cleans up
			err = d.DeleteBodies(ctx, j.graph, j.job)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, d.deleteUploads(ctx, uploads, nil))...)
}

// DeleteUploads deletes the uploaded files that the document events of ended jobs name, unless another event, a letter or a
// record names them too.
func (d *Desk) DeleteUploads(ctx context.Context, ended []jobs.Ended) error {
	s, err := d.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return fmt.Errorf("open %s: %w", bus.StreamIngest, err)
	}
	var uploads []string
	over := map[uint64]bool{}
	for _, j := range ended {
		m, err := s.GetMsg(ctx, j.Seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read document event %d: %w", j.Seq, err)
		}
		// The sequence may be another event's by now, when the stream was made anew.
		at, err := events.ParseSubject(m.Subject)
		if err == nil && at.Graph == j.Graph && (j.Time == 0 || j.Time == m.Time.UnixNano()) {
			over[j.Seq] = true
			uploads = append(uploads, uploadsOf(events.KindIngest, m.Data)...)
		}
	}
	return d.deleteUploads(ctx, uploads, over)
}

// deleteUploads deletes those of uploads that nobody names; the document events of over do not count.
func (d *Desk) deleteUploads(ctx context.Context, uploads []string, over map[uint64]bool) error {
	if len(uploads) == 0 {
		return nil
	}
	named, err := d.namedUploads(ctx, over)
	if err != nil {
		return err
	}
	for _, o := range uploads {
		kept := named[o]
		if !kept {
			if kept, err = quarantine.NamesUpload(d.st, o); err != nil {
				return err
			}
		}
		if kept {
			continue
		}
		if err := d.conn.DeleteObject(ctx, bus.BucketUploads, o); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
	}
	return nil
}

// namedUploads are the uploaded files that kept document events and dead letters name.
func (d *Desk) namedUploads(ctx context.Context, over map[uint64]bool) (map[string]bool, error) {
	out := map[string]bool{}
	err := d.read(ctx, bus.StreamIngest, "", 1, all, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if over[meta.Sequence.Stream] {
			return nil
		}
		for _, o := range uploadsOf(events.KindIngest, m.Data()) {
			out[o] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = d.eachLetter(ctx, subjects("*", "loader", ""), func(e *entry) {
		for _, o := range e.uploads {
			out[o] = true
		}
	})
	return out, err
}

// Sweep deletes uploaded files that nobody names, and bodies of jobs that are over, when they have lain for KeepUploads: what
// clients that broke off and workers that were late left behind.
func (d *Desk) Sweep(ctx context.Context) error {
	return errors.Join(d.sweepUploads(ctx), d.sweepBodies(ctx))
}

func (d *Desk) sweepUploads(ctx context.Context) error {
	objects, err := d.old(ctx, bus.BucketUploads)
	if err != nil {
		return err
	}
	var uploads []string
	for _, o := range objects {
		uploads = append(uploads, o.Name)
	}
	return d.deleteUploads(ctx, uploads, nil)
}

func (d *Desk) old(ctx context.Context, bucket string) ([]bus.Object, error) {
	objects, err := d.conn.Objects(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	before := d.cfg.Now().Add(-d.cfg.KeepUploads)
	out := objects[:0]
	for _, o := range objects {
		if o.Stored.Before(before) {
			out = append(out, o)
		}
	}
	return out, nil
}

func (d *Desk) sweepBodies(ctx context.Context) error {
	objects, err := d.old(ctx, bus.BucketBodies)
	if err != nil {
		return err
	}
	type jobOf struct{ graph, job string }
	over := map[jobOf]bool{}
	for _, o := range objects {
		if o.Left {
			if err := d.conn.DeleteObject(ctx, bus.BucketBodies, o.Name); err != nil {
				return err
			}
			continue
		}
		if p := strings.Split(o.Name, "/"); len(p) == 3 {
			over[jobOf{p[0], p[1]}] = true
		}
	}
	for j := range over {
		b, err := d.jobs.Brief(j.graph, j.job)
		if err != nil {
			return err
		}
		if b.State == "" || api.Ended(b.State) {
			if err := d.DeleteBodies(ctx, j.graph, j.job); err != nil {
				return err
			}
		}
	}
	return nil
}
