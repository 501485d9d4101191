package dead

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// plan is the document event that a replay would publish, without its job.
type plan struct {
	event map[string]any
	// text is an event that is the text itself, described by header.
	text   []byte
	header map[string]string
	// file is uploaded first and becomes the event's source.
	file *file
}

type file struct {
	name string
	meta events.InputDocument
	data []byte
}

// inlineText is the largest text that travels in the document event itself: with its JSON escapes it must fit a message.
const inlineText = 128 << 10

func refuse(format string, args ...any) error {
	return api.Errorf(412, "not_replayable", format, args...)
}

// wayOut ends a refusal: what a person can do instead.
func wayOut(key string) string {
	if key == "" {
		return "ingest the document again, and drop this"
	}
	return fmt.Sprintf("ingest the document again: key %q", clip(key, 200))
}

// planOf makes the document event that ingests again what e was about, as far as e holds it.
func planOf(e events.Event) (*plan, error) {
	switch e := e.(type) {
	case *events.Found:
		return planFound(e)
	case *events.Loaded:
		format := "text"
		if e.Markup == "markdown" {
			format = e.Markup
		}
		return planText(e.Job, e.Meta, e.Text, format)
	case *events.Staged:
		return planStaged(e)
	case *events.Chunked:
		return nil, noMeta(e.Where().Kind, e.Doc.Key)
	case *events.Extracted:
		return nil, noMeta(e.Where().Kind, e.Doc.Key)
	case *events.Resolved:
		return nil, noMeta(e.Where().Kind, e.Doc.Key)
	default:
		return nil, refuse("no job waits for it, and a %s message alone does nothing: drop it", e.Where().Kind)
	}
}

func noMeta(kind, key string) error {
	return refuse("no job waits for it, and a %s message does not hold the whole document; %s", kind, wayOut(key))
}

// newPlan keeps what the job said of all its documents.
func newPlan(j events.Job) *plan {
	p := &plan{event: map[string]any{}}
	if j.Op == events.OpUpdate {
		p.event["op"] = j.Op
	}
	if j.Force {
		p.event["force"] = true
	}
	if j.NoCandidates {
		p.event["candidates"] = false
	}
	return p
}

// asOf dates a document that is ingested again as its first event did, so that it does not overwrite what came after it.
func asOf(d *events.InputDocument, j events.Job) {
	if d.SourceUpdatedAt == "" && j.At.Time > 0 {
		d.SourceUpdatedAt = time.Unix(0, j.At.Time).UTC().Format(time.RFC3339Nano)
	}
}

func planFound(e *events.Found) (*plan, error) {
	s, p := e.Source, newPlan(e.Job)
	var meta events.InputDocument
	if s.Meta != nil {
		meta = *s.Meta
	}
	meta.Text = ""
	switch {
	case s.Relist:
		return nil, refuse("no job waits for it, and the message only asked to list the job again; ingest the documents again")
	case s.Only != "":
		return nil, noMeta(e.Where().Kind, s.Only)
	case s.Delete != "":
		return planDelete(e.Job, s.Delete, meta.SourceUpdatedAt), nil
	case s.Document != nil:
		d := *s.Document
		asOf(&d, e.Job)
		return p.document(d), nil
	case s.Path != "": // it is read as it is now
		return p.sources(s.Path, meta), nil
	case s.Object != "":
		return p.sources(events.ObjectPrefix+s.Object, meta), nil
	default:
		asOf(&meta, e.Job)
		p.file = &file{s.Name, meta, s.Data}
		return p, nil
	}
}

func planDelete(j events.Job, key, updated string) *plan {
	d := events.InputDocument{SourceUpdatedAt: updated}
	asOf(&d, j)
	return &plan{event: map[string]any{"op": events.OpDelete, "key": key, "source_updated_at": d.SourceUpdatedAt}}
}

func planStaged(e *events.Staged) (*plan, error) {
	switch e.Decision {
	case graph.Delete:
		return planDelete(e.Job, e.Doc.Key, e.Meta.SourceUpdatedAt), nil
	case graph.MetadataOnly:
		return nil, noMeta(e.Where().Kind, e.Doc.Key)
	}
	format := "text"
	switch e.Meta.Format {
	case "markdown", "html", "xml", "docx": // they are Markdown by now
		format = "markdown"
	}
	return planText(e.Job, e.Meta, e.Text, format)
}

// planText ingests a normalised text. It was parsed already, so its format is what the parser made of it.
func planText(j events.Job, m graph.Meta, text, format string) (*plan, error) {
	d := events.InputDocument{
		Key: m.Key, Text: text, Title: m.Title, Format: format, PublishedAt: m.PublishedAt, ContentDate: m.ContentDate,
		SourceUpdatedAt: m.SourceUpdatedAt, Metadata: m.Metadata, Scope: m.Scope,
	}
	asOf(&d, j)
	p := newPlan(j)
	delete(p.event, "op") // the document is one, whatever its source was
	return p.document(d), nil
}

// document puts one document into the event, or into a file when it is large.
func (p *plan) document(d events.InputDocument) *plan {
	if len(d.Text) > inlineText {
		meta := d
		meta.Text = ""
		if meta.Format == "" {
			meta.Format = "text"
		}
		// A name without a stem gives no title where there was none.
		p.file = &file{".txt", meta, []byte(d.Text)}
		return p
	}
	for k, v := range fields(d) {
		p.event[k] = v
	}
	p.event["text"] = d.Text
	return p
}

func (p *plan) sources(source string, meta events.InputDocument) *plan {
	for k, v := range fields(meta) {
		p.event[k] = v
	}
	p.event["sources"] = []string{source}
	return p
}

// fields of a document that are not empty, besides its text.
func fields(d events.InputDocument) map[string]any {
	out := map[string]any{}
	for k, v := range map[string]string{
		"key": d.Key, "title": d.Title, "format": d.Format, "published_at": d.PublishedAt, "content_date": d.ContentDate,
		"source_updated_at": d.SourceUpdatedAt,
	} {
		if v != "" {
			out[k] = v
		}
	}
	if len(d.Metadata) > 0 {
		out["metadata"] = d.Metadata
	}
	if len(d.Scope) > 0 {
		out["scope"] = d.Scope
	}
	return out
}

// planAgain publishes a document event again.
func planAgain(body []byte, headers map[string]string) (*plan, error) {
	header := func(name string) string { return headers[name] }
	if _, err := events.ParseIngest(body, header); err != nil {
		return nil, refuse("the document event is refused: %v; publish a better one, and drop this", err)
	}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		p := &plan{}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&p.event); err != nil {
			return nil, fmt.Errorf("decode the document event: %w", err)
		}
		return p, nil
	}
	p := &plan{text: body, header: map[string]string{}}
	for k, v := range headers {
		if strings.HasPrefix(k, "Factmill-") {
			p.header[k] = v
		}
	}
	return p, nil
}

// encode makes the message of the event, for a job and with the uploaded file that became its source.
func (p *plan) encode(job, object string) (body []byte, header map[string]string, err error) {
	if p.event == nil {
		p.header["Factmill-Job"] = job
		return p.text, p.header, nil
	}
	p.event["job"] = job
	if object != "" {
		p.event["sources"] = []string{object}
	}
	if body, err = json.Marshal(p.event); err != nil {
		return nil, nil, fmt.Errorf("document event of job %s: %w", job, err)
	}
	return body, map[string]string{}, nil
}

// archive is the file as it is uploaded.
func (f *file) archive() ([]byte, error) {
	var b bytes.Buffer
	w := bundle.NewWriter(&b)
	if err := w.Add(f.name, f.meta, f.data); err != nil {
		return nil, refuse("%v; %s", err, wayOut(f.meta.Key))
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// uploadsOf are the objects of the upload bucket that a document event or a found source names.
func uploadsOf(kind string, body []byte) []string {
	var e struct {
		Sources []string `json:"sources"`
		Source  struct {
			Object string `json:"object"`
		} `json:"source"`
	}
	if kind != events.KindIngest && kind != events.KindFound || json.Unmarshal(body, &e) != nil {
		return nil
	}
	var out []string
	for _, s := range append(e.Sources, events.ObjectPrefix+e.Source.Object) {
		if o, ok := strings.CutPrefix(s, uploadPrefix); ok && o != "" {
			out = append(out, o)
		}
	}
	return out
}
