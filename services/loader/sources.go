package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/loader/internal/decode"
	"github.com/factmill/factmill/services/loader/internal/files"
	"github.com/factmill/factmill/services/loader/internal/parse"
)

// inlineName is what a person calls a document that stands in the event itself.
const inlineName = "inline"

// token of a source: its kind and what tells it from others of the kind.
func token(kind, what string) string { return fingerprint.Token("source:" + kind + ":" + what) }

// errEnough ends a listing that only wanted to know whether there is something.
var errEnough = errors.New("enough")

// door looks at the named sources before the job is opened: one that is missing, outside the roots or malformed refuses the
// event, so that nothing of it commits even where documents commit one by one.
func (l *lister) door(ctx context.Context, event *events.Ingest) error {
	for _, s := range event.Sources {
		if object, ok := strings.CutPrefix(s, events.ObjectPrefix); ok {
			r, _, err := l.object(ctx, object)
			if err == nil {
				err = r.Close()
			}
			if err != nil {
				return remote(ctx, "object_store", err)
			}
			continue
		}
		if err := l.tree.List(ctx, s, func(string) error { return errEnough }); err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return inlineKeys(event)
}

// inlineKeys gives inline documents without a key their default one, and refuses two of one key.
func inlineKeys(event *events.Ingest) error {
	seen := make(map[string]bool, len(event.Documents))
	for i := range event.Documents {
		d := &event.Documents[i]
		if d.Key == "" {
			d.Key = inlineKey(d.Text)
		}
		if seen[d.Key] {
			return fault.Bad(events.CodeDuplicateKey, "documents[%d]: the key %q stands twice in one job", i, clip(d.Key, 200))
		}
		seen[d.Key] = true
	}
	return nil
}

func inlineKey(text string) string {
	return "inline:" + fingerprint.ContentHash(fingerprint.Normalize(text))[:16]
}

// sources adds what the event names to b, in order.
func (l *lister) sources(ctx context.Context, doc *bus.Document, event *events.Ingest, b *batch) error {
	switch {
	case event.Op == events.OpDelete:
		return deletes(ctx, event, b)
	case event.Sources != nil:
		for _, s := range event.Sources {
			if err := l.named(ctx, s, event, b); err != nil {
				return err
			}
		}
		return nil
	case event.Documents != nil:
		for i := range event.Documents {
			if err := inlineSource(ctx, &event.Documents[i], b); err != nil {
				return err
			}
		}
		return nil
	default:
		return inlineText(ctx, doc, event, b)
	}
}

func deletes(ctx context.Context, event *events.Ingest, b *batch) error {
	list := event.Documents
	if event.Key != "" {
		list = []events.InputDocument{event.InputDocument}
	}
	for _, d := range list {
		s := events.Source{Token: token("delete", d.Key), Name: d.Key, Delete: d.Key}
		if at := cmp.Or(d.SourceUpdatedAt, event.SourceUpdatedAt); at != "" {
			s.Meta = &events.InputDocument{SourceUpdatedAt: at}
		}
		if _, err := b.source(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func inlineSource(ctx context.Context, d *events.InputDocument, b *batch) error {
	_, err := b.source(ctx, events.Source{Token: token(inlineName, d.Key), Name: d.Key, Document: d})
	return err
}

// inlineText adds the one text of an event. A body that is the text itself may be in another encoding; one that cannot be told
// travels as bytes, and its fetch says so under the job's error policy.
func inlineText(ctx context.Context, doc *bus.Document, event *events.Ingest, b *batch) error {
	d := event.InputDocument
	if format, err := parse.Format(d.Format, ""); err == nil && parse.Binary(format) {
		return inlineBytes(ctx, []byte(d.Text), d, b)
	}
	if !utf8.ValidString(d.Text) {
		format, _ := parse.Format(d.Format, "x.txt")
		text, err := decode.Text(doc.Body, declares(format))
		if err != nil {
			return inlineBytes(ctx, doc.Body, d, b)
		}
		d.Text = text
	}
	if d.Key == "" {
		d.Key = inlineKey(d.Text)
	}
	return inlineSource(ctx, &d, b)
}

func inlineBytes(ctx context.Context, raw []byte, d events.InputDocument, b *batch) error {
	d.Text = ""
	if d.Key == "" {
		d.Key = "inline:" + fingerprint.SHA256Hex(raw)[:16]
	}
	if d.Format == "" {
		d.Format = parse.Text
		if guess, err := parse.Guess(raw, ""); err == nil && parse.Binary(guess) {
			d.Format = guess
		}
	}
	_, err := b.source(ctx, events.Source{Token: token(inlineName, d.Key), Name: d.Key, Data: raw, Meta: &d})
	return err
}

// meta is what the event says of each of its named sources; nil when it says nothing. The key is there for a single one only.
func meta(event *events.Ingest) *events.InputDocument {
	d := event.InputDocument
	d.Text = ""
	if d.Key == "" && d.Title == "" && d.Format == "" && d.PublishedAt == "" && d.ContentDate == "" && d.SourceUpdatedAt == "" &&
		len(d.Metadata) == 0 && len(d.Scope) == 0 {
		return nil
	}
	return &d
}

// named adds the files behind one entry of sources.
func (l *lister) named(ctx context.Context, s string, event *events.Ingest, b *batch) error {
	object, ok := strings.CutPrefix(s, events.ObjectPrefix)
	switch {
	case ok && strings.HasSuffix(object, bundle.Suffix):
		return l.bundle(ctx, object, event, b)
	case ok:
		_, err := b.source(ctx, events.Source{Token: token("object", object), Name: s, Object: object, Meta: meta(event)})
		return err
	}
	return l.tree.List(ctx, s, func(file string) error {
		if why := badName(file); why != "" {
			called := strings.ToValidUTF8(clip(file, events.MaxKey), "\uFFFD")
			return b.ended(ctx, token("file", file), called, fault.Of(fault.Bad("bad_name", "the file name %q %s", called, why)))
		}
		_, err := b.source(ctx, events.Source{Token: token("file", file), Name: file, Path: file, Meta: meta(event)})
		return err
	})
}

// badName says why a file's name can be no key.
func badName(file string) string {
	switch {
	case !utf8.ValidString(file):
		return "is not UTF-8"
	case len(file) > events.MaxKey:
		return fmt.Sprintf("has %d bytes: at most %d", len(file), events.MaxKey)
	case strings.ContainsFunc(file, func(r rune) bool { return r < 0x20 || r == 0x7f || r == utf8.RuneError }):
		return "has control or broken characters"
	default:
		return ""
	}
}

// object opens "<bucket>/<name>". The bucket of bodies is internal: it holds other graphs' texts.
func (l *lister) object(ctx context.Context, object string) (io.ReadCloser, int64, error) {
	return openObject(ctx, l.objects, object)
}

func openObject(ctx context.Context, store Objects, object string) (io.ReadCloser, int64, error) {
	bucket, name, ok := strings.Cut(object, "/")
	if !ok || bucket == "" || name == "" {
		return nil, 0, fault.Bad("bad_value", "the source %q is not object:<bucket>/<name>", clip(events.ObjectPrefix+object, 200))
	}
	if bucket == bus.BucketBodies {
		return nil, 0, fault.Bad(files.CodeOutside, "the bucket %s is internal: no source can lie in it", bucket)
	}
	return store.Open(ctx, bucket, name)
}

// reading classifies an error in the middle of an object.
func reading(ctx context.Context, object string, err error) error {
	err = fmt.Errorf("read %s%s: %w", events.ObjectPrefix, clip(object, 200), err)
	if ctx.Err() != nil {
		return &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
	}
	return fault.Retry("object_store", 0, err)
}

// bundle adds the files of an uploaded archive, reading it entry by entry.
func (l *lister) bundle(ctx context.Context, object string, event *events.Ingest, b *batch) (err error) {
	r, _, err := l.object(ctx, object)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	entries := bundle.NewReader(r)
	for {
		e, err := entries.Next()
		var bad *bundle.EntryError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &bad):
			if err := b.ended(ctx, token("upload", object+":"+bad.Name), bad.Name, &fault.Error{Class: fault.Document, Code: bad.Code, Err: bad}); err != nil {
				return err
			}
			continue
		case errors.Is(err, bundle.ErrBroken):
			return fault.Bad(bundle.CodeBroken, "%s%s: %w", events.ObjectPrefix, clip(object, 200), err)
		case err != nil:
			return reading(ctx, object, err)
		}
		if err := uploaded(ctx, object, e, event, b); err != nil {
			return err
		}
	}
}

// uploaded adds one file of a bundle. What the event says of all files holds where the entry says nothing.
func uploaded(ctx context.Context, object string, e *bundle.Entry, event *events.Ingest, b *batch) error {
	s := events.Source{Token: token("upload", object+":"+e.Name), Name: e.Name, Data: e.Data}
	m := e.Meta
	if given := meta(event); given != nil {
		m = under(m, *given)
	}
	if event.Key != "" {
		m.Key = event.Key
	}
	s.Meta = &m
	fresh, err := b.source(ctx, s)
	if err == nil && !fresh {
		return fault.Bad(events.CodeDuplicateKey, "the bundle has the file %q twice", clip(e.Name, 200))
	}
	return err
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
