package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/cmd/factmill/internal/ingest"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
)

const uploadBucket = bus.BucketUploads

func uploads(ctx context.Context, s *target.Session) (jetstream.ObjectStore, error) {
	b, err := s.Conn.Bucket(ctx, uploadBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("%s has no bucket %s: run factmill provision --apply there: %w", s.Where, uploadBucket, err)
	}
	return b, err
}

// stdinInput sends a small text in the event, and everything else as an upload, where encodings are detected.
func stdinInput(f *feed, b []byte) (input, error) {
	if !utf8.Valid(b) && f.event.Key == "" {
		return input{}, usagef("the standard input is not UTF-8: give it a --key, so that it can be sent as a file")
	}
	var in input
	key := f.event.Key
	if key == "" {
		key = "inline:" + fingerprint.ContentHash(fingerprint.Normalize(string(b)))[:16] // as the loader makes it
		in.made = []string{key}
	}
	if utf8.Valid(b) && len(b) <= inlineText {
		text := string(b)
		in.text = &text
		return in, nil
	}
	f.event.Key = key
	in.files = []ingest.File{memory(stdinName(key, b), b)}
	return in, nil
}

// stdinName is the file name that the standard input goes under: it gives format and title where the call does not. Bytes that are
// no text, as those of a PDF, are left to tell their format themselves.
func stdinName(key string, b []byte) string {
	if path.Ext(key) == "" && utf8.Valid(b) {
		return key + ".txt"
	}
	return key
}

// memory is a file of bytes at hand; its document's key goes with the upload.
func memory(name string, b []byte) ingest.File {
	return ingest.File{Key: name, Size: int64(len(b)), Open: func() (fs.File, error) {
		return memFile{strings.NewReader(string(b)), int64(len(b))}, nil
	}}
}

type memFile struct {
	*strings.Reader
	size int64
}

func (m memFile) Close() error               { return nil }
func (m memFile) Stat() (fs.FileInfo, error) { return memInfo{m.size}, nil }

type memInfo struct{ size int64 }

func (memInfo) Name() string       { return "-" }
func (i memInfo) Size() int64      { return i.size }
func (memInfo) Mode() fs.FileMode  { return 0o444 }
func (memInfo) ModTime() time.Time { return time.Time{} }
func (memInfo) IsDir() bool        { return false }
func (memInfo) Sys() any           { return nil }

// checkEvent refuses here what the loader would refuse at its door. Files stand for themselves: they are not uploaded yet.
func checkEvent(e events.Ingest, in input) error {
	if in.text != nil {
		e.Text = *in.text
	} else if in.files != nil {
		e.Sources = []string{events.ObjectPrefix + uploadBucket + "/upload"}
		if len(in.files) > 1 { // each is described alike: no key goes with several
			e.Key = ""
		}
	}
	body, err := encodeEvent(e)
	if err != nil {
		return usage(err)
	}
	_, err = events.ParseIngest(body, nil)
	return err
}

// encodeEvent writes a document event. A given text stands in it even when it is empty.
func encodeEvent(e events.Ingest) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("document event: %w", err)
	}
	if e.Text == "" && e.Documents == nil && e.Sources == nil && e.Op != events.OpDelete {
		b = append([]byte(`{"text":"",`), b[1:]...)
		if len(b) == len(`{"text":"",}`) {
			b = []byte(`{"text":""}`)
		}
	}
	return b, nil
}

// publish hands a document event to the loader and returns its job.
func publish(ctx context.Context, s *target.Session, e events.Ingest) (posted, error) {
	var p posted
	body, err := encodeEvent(e)
	if err != nil {
		return p, err
	}
	m := nats.NewMsg(events.Subject{Graph: s.Graph, Kind: events.KindIngest}.String())
	m.Data = body
	if limit := s.Conn.NC.MaxPayload(); int64(len(body)) > limit {
		return p, usagef("the call names too much for one job: its event has %d bytes, at most %d; split it", len(body), limit)
	}
	ctx, done := s.Conn.WhileAllowed(ctx, m.Subject)
	defer done()
	// The id lets the client send it again when the acknowledgement is lost, without a second job.
	ack, err := s.Conn.JS.PublishMsg(ctx, m, jetstream.WithMsgID(rand.Text()))
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		return p, fmt.Errorf("%s has no streams: run factmill provision --apply there: %w", s.Where, nats.ErrNoResponders)
	}
	if err = bus.Denied(ctx, err); err != nil {
		return p, fmt.Errorf("document event: %w", err)
	}
	p = posted{job: e.Job, digest: fingerprint.SHA256Hex(body), seq: ack.Sequence}
	if p.job == "" {
		p.job = events.SeqJob(ack.Sequence)
	}
	return p, nil
}
