package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/decode"
	"github.com/factmill/factmill/services/loader/internal/files"
	"github.com/factmill/factmill/services/loader/internal/parse"
	"github.com/factmill/factmill/services/loader/internal/pdf"
)

// largeSource is the size from which sources are fetched one at a time, so that memory stays bounded whatever the concurrency.
const largeSource = 4 << 20

// fetcher takes found sources.
type fetcher struct {
	documents Documents
	objects   Objects
	tree      *files.Tree
	metrics   *metrics
	max       int64
	large     chan struct{} // one slot
	again     again
}

func newFetcher(cfg Config, documents Documents, objects Objects, tree *files.Tree, m *metrics, a again) *fetcher {
	return &fetcher{
		documents: documents, objects: objects, tree: tree, metrics: m, max: cfg.MaxDocument, large: make(chan struct{}, 1), again: a,
	}
}

// Handle implements bus.Handler: one source becomes its documents. What is wrong with the source is a document fault, which the
// runner ends by the job's error policy; only what no policy could make right is ended here.
func (f *fetcher) Handle(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	found, ok := in.Event.(*events.Found)
	if !ok {
		return nil, fault.Fatal("wrong_event", "the fetcher was given %s", in.Event.Where())
	}
	if found.Source.Relist {
		return f.again.relist(ctx, in, found)
	}
	out, err := f.look(ctx, in, found)
	var bad *fault.Error
	if errors.As(err, &bad) && bad.Class == fault.Document && events.JobFault(bad.Code) {
		why := graph.Failure{Stage: name, Code: bad.Code, Message: bad.Error(), TraceID: in.Trace}
		return []events.Event{bus.EndedFor(found, events.OutcomeFailed, why)}, nil
	}
	return out, err
}

// look finds the source of a document that is decided anew, then fetches.
func (f *fetcher) look(ctx context.Context, in bus.Delivery, found *events.Found) ([]events.Event, error) {
	if f.again.wants(found.Source) {
		var err error
		if found, err = f.again.source(ctx, in, found); err != nil {
			return nil, err
		}
	}
	if found.Source.Delete != "" {
		return f.remove(ctx, in, found)
	}
	return f.fetch(ctx, in, found)
}

func (f *fetcher) fetch(ctx context.Context, in bus.Delivery, found *events.Found) ([]events.Event, error) {
	r, err := f.open(ctx, found.Source)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if r.size > largeSource {
		select {
		case f.large <- struct{}{}:
			defer func() { <-f.large }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	parsed, err := f.parsed(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &source{fetcher: f, found: found, meta: r.meta, stem: r.stem, parsed: parsed, named: r.named}
	switch {
	case parsed.Single():
		return s.single(ctx, in)
	case found.Source.Only != "":
		return s.only(ctx)
	}
	out, err := s.all(ctx, in)
	var bad *fault.Error
	if errors.As(err, &bad) && bad.Class == fault.Document {
		bad.Items = parsed.Count() // all of them are lost with it
	}
	return out, err
}

// raw is a source before it is parsed: its text, its bytes, or where to read them.
type raw struct {
	meta   events.InputDocument // what is known of it besides its text; the key and the format are set
	named  bool                 // the key was given, not made from the name
	stem   string               // of the file's name
	format string
	text   string
	data   []byte
	file   io.ReadCloser
	name   string
	size   int64
}

func (r *raw) close() {
	if r.file != nil {
		_ = r.file.Close() // only read from
	}
}

// open finds a source and what is known of it, and refuses what is too large or of no known format before it reads more than the
// beginning.
func (f *fetcher) open(ctx context.Context, s events.Source) (*raw, error) {
	r := &raw{name: s.Name}
	if s.Meta != nil {
		r.meta = *s.Meta
	}
	if err := f.find(ctx, s, r); err != nil {
		return nil, err
	}
	r.meta.Text = ""
	if r.named = r.meta.Key != ""; !r.named {
		r.meta.Key = s.Name
	}
	if r.size > f.max {
		r.close()
		return nil, files.TooLarge(s.Name, r.size, f.max)
	}
	if err := r.tell(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// tell finds the format: given, by the name, else by the content.
func (r *raw) tell() (err error) {
	if r.format, err = parse.Format(r.meta.Format, r.name); err != nil {
		if r.meta.Format != "" {
			return err
		}
		head, err := r.head()
		if err != nil {
			return err
		}
		if r.format, err = parse.Guess(head, r.name); err != nil {
			return err
		}
	}
	r.meta.Format = r.format
	return nil
}

// head is the beginning of the bytes, which are read from there all the same.
func (r *raw) head() ([]byte, error) {
	if r.file == nil {
		return r.data[:min(len(r.data), parse.Head)], nil
	}
	head := make([]byte, parse.Head)
	n, err := io.ReadFull(r.file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fault.Retry("file_system", 0, fmt.Errorf("read %s: %w", clip(r.name, 200), err))
	}
	r.file = readCloser{io.MultiReader(bytes.NewReader(head[:n]), r.file), r.file}
	return head[:n], nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

func (f *fetcher) find(ctx context.Context, s events.Source, r *raw) (err error) {
	if s.Document != nil {
		r.meta, r.text, r.size = *s.Document, s.Document.Text, int64(len(s.Document.Text))
		if r.meta.Format == "" {
			r.meta.Format = parse.Text
		}
		return nil
	}
	base := path.Base(s.Name)
	r.stem = strings.TrimSuffix(base, path.Ext(base))
	switch {
	case s.Path != "":
		r.file, r.size, err = f.tree.Open(s.Path)
		return err
	case s.Object != "":
		r.file, r.size, err = openObject(ctx, f.objects, s.Object)
		if err != nil {
			return remote(ctx, "object_store", err)
		}
		return nil
	default: // an uploaded file, be it empty
		r.data, r.size = s.Data, int64(len(s.Data))
		return nil
	}
}

// parsed reads a source and takes it apart.
func (f *fetcher) parsed(ctx context.Context, r *raw) (*parse.Source, error) {
	if r.file != nil {
		data, err := files.Read(ctx, r.file, r.name, r.size, f.max)
		if err != nil {
			return nil, err
		}
		r.data = data
	}
	data := r.data
	r.data = nil
	if parse.Binary(r.format) {
		if r.text != "" {
			data = []byte(r.text)
		}
		rec, err := f.record(ctx, r.format, data)
		if err != nil {
			return nil, err
		}
		return parse.Made(r.format, rec), nil
	}
	text, err := r.text, error(nil)
	if text != "" {
		err = decode.Check(text)
	} else {
		text, err = decode.Text(data, declares(r.format))
	}
	if err != nil {
		return nil, err
	}
	return parse.New(r.format, text)
}

// declares says where sources of a format may declare their encoding.
func declares(format string) decode.Declares {
	switch format {
	case parse.HTML:
		return decode.InHTML
	case parse.XML:
		return decode.InXML
	default:
		return decode.Nowhere
	}
}

// record reads the one document of a binary source.
func (f *fetcher) record(ctx context.Context, format string, data []byte) (parse.Record, error) {
	if format == parse.DOCX {
		return parse.ReadDOCX(data, f.max)
	}
	doc, err := pdf.Read(ctx, data, pdf.Limits{Text: int(f.max)})
	if err != nil {
		return parse.Record{}, err
	}
	r := parse.Record{
		Text: doc.Text(), Title: parse.Title(doc.Title), PublishedAt: doc.Created, Metadata: map[string]any{"pages": len(doc.Pages)},
	}
	if silent := doc.Silent(); len(silent) > 0 {
		r.Metadata["pages_without_text"] = pdf.Ranges(silent)
		r.Note = &parse.Note{Code: codeSilentPage, Message: doc.Coverage()}
	}
	return r, nil
}

// codeSilentPage is the code of the note about a document that has pages nobody could read.
const codeSilentPage = "page_without_text"
