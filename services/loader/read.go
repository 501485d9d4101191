package loader

import (
	"context"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/parse"
)

// Document is one document of a source as the pipeline would take it.
type Document struct {
	// Meta is what is known of it; Key and Title are never empty.
	Meta graph.Meta
	// Text is normalised: offsets of items are its bytes.
	Text string
	// Markup is how a chunker reads Text: plain or markdown.
	Markup string
	// Note says what of the document could not be read, where that does not make the rest worthless; else nil.
	Note *graph.Failure
}

// Read takes the bytes of one source apart and gives its documents to fn, in order, without a broker: format, encoding, parsing,
// limits and normalisation are those of the service. name gives key, title and, where format is empty, the format. Nothing is given
// of a source that is at fault; the error is then a *fault.Error with the fault's code. An error of fn ends the walk and is returned.
func Read(ctx context.Context, cfg Config, name string, data []byte, format string, fn func(Document) error) error {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	f := &fetcher{max: cfg.MaxDocument}
	found := &events.Found{Source: events.Source{Name: name, Data: data, Meta: &events.InputDocument{Format: format}}}
	r, err := f.open(ctx, found.Source)
	if err != nil {
		return err
	}
	defer r.close()
	parsed, err := f.parsed(ctx, r)
	if err != nil {
		return err
	}
	s := &source{fetcher: f, found: found, meta: r.meta, stem: r.stem, parsed: parsed}
	if !parsed.Single() {
		if _, _, err := s.survey(); err != nil {
			return err
		}
	}
	return parsed.Each(func(rec parse.Record) error {
		doc, err := s.document(rec)
		if err != nil {
			return err
		}
		out := Document{Meta: doc.meta, Text: doc.text, Markup: parsed.Markup()}
		if rec.Note != nil {
			out.Note = &graph.Failure{Stage: name, Item: doc.meta.Key, Code: rec.Note.Code, Message: rec.Note.Message}
		}
		return fn(out)
	})
}
