package bus

import (
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// JobOf is the job that rides on a stage event; nil for other events.
func JobOf(e events.Event) *events.Job {
	switch e := e.(type) {
	case *events.Found:
		return &e.Job
	case *events.Loaded:
		return &e.Job
	case *events.Chunked:
		return &e.Job
	case *events.Staged:
		return &e.Job
	case *events.Extracted:
		return &e.Job
	case *events.Resolved:
		return &e.Job
	case *events.Ended:
		return &e.Job
	case *events.Sealed:
		return &e.Job
	default:
		return nil
	}
}

// EndedFor is the doc.ended that ends what e is about: the source of a Found (its one document when that is decided anew),
// the document of every later event. It is nil for events that are about no document: Ended, Sealed, kept events. An empty
// Item of f becomes the document's key or the source's name.
func EndedFor(e events.Event, outcome string, f graph.Failure) *events.Ended {
	var doc *events.DocRef
	out := &events.Ended{Outcome: outcome, Failure: &f}
	switch e := e.(type) {
	case *events.Found:
		out.Job, out.Source, out.Name = e.Job, e.Source.Token, e.Source.Name
		if e.Source.Only != "" {
			doc = &events.DocRef{
				Key: e.Source.Only, Token: fingerprint.Token(e.Source.Only), Source: e.Source.Token, Try: e.Source.Try,
			}
		}
		if f.Item == "" {
			f.Item = e.Source.Name
		}
	case *events.Loaded:
		doc, out.Base = &e.Doc, e.Base
	case *events.Chunked:
		doc = &e.Doc
	case *events.Staged:
		doc, out.Base = &e.Doc, e.Base
	case *events.Extracted:
		doc = &e.Doc
	case *events.Resolved:
		doc = &e.Doc
	default:
		return nil
	}
	if doc != nil {
		d := *doc
		out.Job, out.Doc, out.Source = *JobOf(e), &d, d.Source
		if f.Item == "" || e.Where().Kind == events.KindFound {
			f.Item = d.Key
		}
	}
	return out
}
