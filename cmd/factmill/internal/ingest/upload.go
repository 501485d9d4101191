package ingest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
)

// partBytes is where one upload ends and the next begins. The client library keeps everything of one upload that the server
// has not acknowledged in memory: this bounds it, together with the largest file.
const partBytes = 16 << 20

// Store is the object store of the uploads.
type Store interface {
	Put(ctx context.Context, meta jetstream.ObjectMeta, r io.Reader) (*jetstream.ObjectInfo, error)
	Delete(ctx context.Context, name string) error
}

// Upload sends files to a bucket.
type Upload struct {
	Store  Store
	Bucket string
	// Meta goes with every file: format, dates, metadata, scope; with Key for a single file.
	Meta events.InputDocument
	// Skip is asked about a file that cannot be sent: nil passes over it, an error ends the upload.
	Skip func(Problem) error
	// Progress hears the bytes that were read of files, in all.
	Progress func(read int64)
}

// Sent is what lies in the bucket.
type Sent struct {
	// Names of the objects, in order.
	Names []string
	// Files that were sent.
	Files int
	bytes int64
}

// Sources names the objects for a document event.
func (s Sent) Sources(bucket string) []string {
	var out []string
	for _, n := range s.Names {
		out = append(out, events.ObjectPrefix+bucket+"/"+n)
	}
	return out
}

// Send uploads files as bundles. What an error leaves behind is deleted.
func (u Upload) Send(ctx context.Context, files []File) (Sent, error) {
	var s Sent
	for len(files) > 0 {
		name := strings.ToLower(rand.Text()) + bundle.Suffix
		rest, err := u.part(ctx, name, files, &s)
		if err != nil {
			return Sent{}, errors.Join(err, u.Remove(ctx, s))
		}
		files = rest
	}
	return s, nil
}

// part uploads one bundle and returns the files that are left.
func (u Upload) part(ctx context.Context, name string, files []File, s *Sent) (rest []File, err error) {
	r, w := io.Pipe()
	type written struct {
		rest  []File
		count int
		err   error
	}
	done := make(chan written, 1)
	go func() {
		rest, count, err := u.write(w, files, s.bytes)
		_ = w.CloseWithError(err) // never fails
		done <- written{rest, count, err}
	}()
	_, putErr := u.Store.Put(ctx, jetstream.ObjectMeta{Name: name}, chunks{r})
	_ = r.CloseWithError(errAborted) // lets the writer go when the upload ended early
	got := <-done
	if got.err != nil && !errors.Is(got.err, errAborted) {
		return nil, got.err
	}
	if putErr != nil {
		return nil, fmt.Errorf("upload to %s: %w", u.Bucket, putErr)
	}
	s.Names = append(s.Names, name)
	s.Files += got.count
	for _, f := range files[:len(files)-len(got.rest)] {
		s.bytes += f.Size
	}
	if got.count == 0 { // every file of it was passed over
		s.Names = s.Names[:len(s.Names)-1]
		return got.rest, u.remove(ctx, name)
	}
	return got.rest, nil
}

var errAborted = errors.New("the upload was given up")

// write puts files into a bundle until it is large enough.
func (u Upload) write(w io.Writer, files []File, before int64) (rest []File, count int, err error) {
	b := bundle.NewWriter(w)
	size, read := 0, before
	for i, f := range files {
		if size >= partBytes {
			return files[i:], count, b.Close()
		}
		data, err := f.read()
		var entry *bundle.EntryError
		if err == nil {
			err = b.Add(f.Key, u.Meta, data)
		}
		var unread Problem
		switch {
		case err == nil:
			count++
		case errors.As(err, &unread):
			err = u.Skip(unread)
		case errors.As(err, &entry):
			err = u.Skip(Problem{Path: f.Key, Err: entry})
		}
		if err != nil {
			return nil, count, err
		}
		size += len(data)
		read += f.Size
		u.Progress(read)
	}
	return nil, count, b.Close()
}

// removeWait is how long the clean-up of an upload may take.
const removeWait = 10 * time.Second

// Remove deletes what was sent. It works after ctx has ended too.
func (u Upload) Remove(ctx context.Context, s Sent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWait)
	defer cancel()
	var errs []error
	for _, n := range s.Names {
		if err := u.remove(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("delete the upload %s: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

// remove deletes one. A publisher may only mark it as deleted, not purge its bytes: the committer finds what is left.
func (u Upload) remove(ctx context.Context, name string) error {
	err := u.Store.Delete(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	return err
}

// chunks fills every read, so that the object store's messages are full ones.
type chunks struct{ r io.Reader }

func (c chunks) Read(p []byte) (int, error) {
	n, err := io.ReadFull(c.r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}
