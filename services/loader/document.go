package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/decode"
	"github.com/factmill/factmill/services/loader/internal/files"
	"github.com/factmill/factmill/services/loader/internal/parse"
)

const (
	// Documents of a source with many are decided in rounds: one question to the committer a round.
	roundDocuments = 64
	roundBytes     = 1 << 20
	// expansion is how many times its own limit the texts of one source may have together: column names repeat in every row.
	expansion = 8
)

// source is one parsed source on its way to documents.
type source struct {
	*fetcher
	found  *events.Found
	meta   events.InputDocument
	named  bool
	stem   string
	parsed *parse.Source
}

// document is one that waits for its decision.
type document struct {
	ref  events.DocRef
	meta graph.Meta
	text string // normalised
}

// errEnd ends a walk over records that found what it looked for.
var errEnd = errors.New("end")

// single makes the one document of a source. What could not be read of it is said with the end of the source, so that the
// document itself goes on like any other.
func (s *source) single(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	var doc document
	var note *parse.Note
	err := s.parsed.Each(func(r parse.Record) (err error) {
		note = r.Note
		doc, err = s.document(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	doc.ref.Sole = note == nil
	only := s.found.Source.Only
	if only != "" && only != doc.meta.Key {
		return nil, s.changed()
	}
	out, err := s.decide(ctx, []document{doc})
	if err != nil || note == nil || only != "" {
		return out, err
	}
	var digest digest
	digest.add(doc.ref.Token)
	return append(out, &events.Ended{
		Job: s.found.Job, Source: s.found.Source.Token, Name: s.found.Source.Name, Outcome: events.OutcomeListed, Documents: 1, Digest: digest.String(),
		Failure: &graph.Failure{Stage: name, Item: doc.meta.Key, Code: note.Code, Message: note.Message, TraceID: in.Trace},
	}), nil
}

// digest of a source's documents: the XOR of the SHA-256 of their tokens, so that it needs no order.
type digest [sha256.Size]byte

func (d *digest) add(token string) {
	one := sha256.Sum256([]byte(token))
	for i := range d {
		d[i] ^= one[i]
	}
}

func (d *digest) String() string { return hex.EncodeToString(d[:]) }

// only makes one document of a source with many: it is decided anew, the others stand.
func (s *source) only(ctx context.Context) ([]events.Event, error) {
	var doc document
	err := s.parsed.Each(func(r parse.Record) (err error) {
		if s.key(r) != s.found.Source.Only {
			return nil
		}
		if doc, err = s.document(r); err != nil {
			return err
		}
		return errEnd
	})
	switch {
	case errors.Is(err, errEnd):
		return s.decide(ctx, []document{doc})
	case err != nil:
		return nil, err
	default:
		return nil, s.changed()
	}
}

func (s *source) changed() error {
	return fault.Bad("source_changed", "%s no longer holds the document %q", s.found.Source.Name, s.found.Source.Only)
}

// all makes every document of a source. The first walk only checks, so that one bad record fails the source before any of its
// documents is on its way; the second emits, in bounded memory.
func (s *source) all(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	count, digest, err := s.survey()
	if err != nil {
		return nil, err
	}
	out := newBatch(s.found.Job, in)
	var round []document
	size := 0
	decide := func() error {
		made, err := s.decide(ctx, round)
		if err != nil {
			return err
		}
		for _, e := range made {
			if err := out.add(ctx, e, weight(e)); err != nil {
				return err
			}
		}
		round, size = round[:0], 0
		return nil
	}
	err = s.parsed.Each(func(r parse.Record) error {
		doc, err := s.document(r)
		if err != nil {
			return err
		}
		round, size = append(round, doc), size+len(doc.text)
		if len(round) < roundDocuments && size < roundBytes {
			return nil
		}
		return decide()
	})
	if err == nil && len(round) > 0 {
		err = decide()
	}
	if err != nil {
		return nil, err
	}
	end := &events.Ended{
		Job: s.found.Job, Source: s.found.Source.Token, Name: s.found.Source.Name, Outcome: events.OutcomeListed, Documents: count, Digest: digest,
	}
	if count == 0 {
		if note := s.parsed.Unread(); note != nil {
			end.Failure = &graph.Failure{Stage: name, Item: s.found.Source.Name, Code: note.Code, Message: note.Message, TraceID: in.Trace}
		}
	}
	return append(out.take(), end), nil
}

// survey checks every record and returns their count and digest.
func (s *source) survey() (count int, sum string, err error) {
	var d digest
	seen := map[string]parse.Place{}
	var total int64
	err = s.parsed.Each(func(r parse.Record) error {
		in, err := s.input(r)
		if err != nil {
			return err
		}
		token := fingerprint.Token(in.Key)
		if first, dup := seen[token]; dup {
			return fault.Bad(events.CodeDuplicateKey, "%s: the key %q stands twice: %v and %v", s.found.Source.Name, clip(in.Key, 200), first, r.At)
		}
		seen[token] = r.At
		d.add(token)
		if total += int64(len(r.Text)); total > expansion*s.max {
			return fault.Bad(files.CodeTooLarge, "%s: its documents have more than %d bytes of text together", s.found.Source.Name, expansion*s.max)
		}
		return nil
	})
	if err == nil && s.found.Job.Op == events.OpUpdate && len(seen) != 1 {
		err = fault.Bad(events.CodeUpdateOne, "update takes exactly one document: %s has %d", s.found.Source.Name, len(seen))
	}
	return len(seen), d.String(), err
}

// key of a record: the source's own for a source that is one document, else with the record's id. An update names its one document.
func (s *source) key(r parse.Record) string {
	if s.parsed.Single() || s.named && s.found.Job.Op == events.OpUpdate {
		return s.meta.Key
	}
	return s.meta.Key + "#" + r.ID
}

// input is what is known of a record besides its text, checked like a document of an event. What was given for a source that is one
// document beats what it says itself; given for many, each one's own beats it.
func (s *source) input(r parse.Record) (events.InputDocument, error) {
	own := events.InputDocument{
		Title: r.Title, PublishedAt: r.PublishedAt, ContentDate: r.ContentDate, SourceUpdatedAt: r.SourceUpdatedAt, Metadata: r.Metadata, Scope: r.Scope,
	}
	var in events.InputDocument
	if s.parsed.Single() {
		in = under(s.meta, own)
	} else {
		in = under(own, s.meta)
	}
	in.Key, in.Format = s.key(r), s.meta.Format
	if in.Title == "" {
		in.Title = s.stem
	}
	code, err := parse.CodeRecord, in.Check()
	if what := holdsNUL(in); what != "" {
		code, err = decode.Code, fmt.Errorf("its %s holds a NUL: this is no text", what)
	}
	if err == nil {
		return in, nil
	}
	if r.At.Record > 0 {
		return in, fault.Bad(code, "%v, %s: %w", r.At, clip(in.Key, 200), err)
	}
	return in, fault.Bad(code, "%s: %w", clip(in.Key, 200), err)
}

// holdsNUL names what of a document besides its text holds a NUL; "" when nothing does. Escapes bring it in: those of JSON in an
// event, those of YAML in a front matter.
func holdsNUL(in events.InputDocument) string {
	switch {
	case hasNUL(in.Title):
		return "title"
	case hasNUL(in.Metadata):
		return "metadata"
	case slices.ContainsFunc(in.Scope, func(label string) bool { return hasNUL(label) }):
		return "scope"
	default:
		return ""
	}
}

func hasNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.IndexByte(v, 0) >= 0
	case []any:
		return slices.ContainsFunc(v, hasNUL)
	case map[string]any:
		for k, e := range v {
			if hasNUL(k) || hasNUL(e) {
				return true
			}
		}
	}
	return false
}

// under fills what top does not say from below. Metadata and scope hold both; top's metadata wins.
func under(top, below events.InputDocument) events.InputDocument {
	for _, f := range []struct{ top, below *string }{
		{&top.Key, &below.Key}, {&top.Title, &below.Title}, {&top.Format, &below.Format}, {&top.PublishedAt, &below.PublishedAt},
		{&top.ContentDate, &below.ContentDate}, {&top.SourceUpdatedAt, &below.SourceUpdatedAt},
	} {
		if *f.top == "" {
			*f.top = *f.below
		}
	}
	if len(below.Metadata) > 0 {
		m := maps.Clone(below.Metadata)
		maps.Copy(m, top.Metadata)
		top.Metadata = m
	}
	if len(below.Scope) > 0 {
		top.Scope = append(append(graph.Scope(nil), top.Scope...), below.Scope...)
	}
	return top
}

// document normalises a record's text.
func (s *source) document(r parse.Record) (document, error) {
	in, err := s.input(r)
	if err != nil {
		return document{}, err
	}
	if int64(len(r.Text)) > s.max {
		return document{}, files.TooLarge(in.Key, int64(len(r.Text)), s.max)
	}
	text := fingerprint.Normalize(r.Text)
	if int64(len(text)) > s.max { // compatibility characters can grow many times over
		return document{}, files.TooLarge(in.Key, int64(len(text)), s.max)
	}
	src := s.found.Source
	return document{
		ref: events.DocRef{
			Key: in.Key, Token: fingerprint.Token(in.Key), Source: src.Token, ContentHash: fingerprint.ContentHash(text), Try: src.Try,
		},
		meta: graph.Meta{
			Key: in.Key, ID: fingerprint.DocumentID(in.Key), Title: in.Title, Format: in.Format, PublishedAt: in.PublishedAt,
			ContentDate: in.ContentDate, SourceUpdatedAt: in.SourceUpdatedAt, Metadata: in.Metadata, Scope: in.Scope,
		},
		text: text,
	}, nil
}

// decide asks what is stored of the documents and makes the event of each.
func (s *source) decide(ctx context.Context, docs []document) ([]events.Event, error) {
	keys := make([]string, len(docs))
	for i, d := range docs {
		keys[i] = d.meta.Key
	}
	stored, err := s.stored(ctx, s.found.Job.Graph, keys)
	if err != nil {
		return nil, err
	}
	out := make([]events.Event, len(docs))
	for i, d := range docs {
		out[i] = s.decided(d, stored[i])
	}
	return out, nil
}

func (s *source) decided(d document, have graph.Stored) events.Event {
	job := s.found.Job
	decision := graph.Decide(have, graph.Wanted{
		ContentHash: d.ref.ContentHash, SchemaFP: job.SchemaFP, ChunkerFP: job.ChunkerFP, ExtractionFP: job.ExtractionFP,
		MetaHash: d.meta.MetaHash(), Force: job.Force,
	})
	s.metrics.documents.WithLabelValues(string(decision)).Inc()
	s.metrics.bytes.Add(float64(len(d.text)))
	switch decision {
	case graph.NoOp:
		ref := d.ref
		ref.SourceUpdatedAt = d.meta.SourceUpdatedAt // it moves the key's order mark
		return &events.Ended{
			Job: job, Doc: &ref, Source: ref.Source, Name: s.found.Source.Name, Outcome: events.OutcomeUnchanged, Base: have.Revision,
		}
	case graph.MetadataOnly:
		return &events.Staged{Job: job, Doc: d.ref, Meta: d.meta, Decision: decision, Base: have.Revision}
	default:
		return &events.Loaded{
			Job: job, Doc: d.ref, Meta: d.meta, Decision: decision, Base: have.Revision, Text: d.text, Markup: s.parsed.Markup(),
		}
	}
}

// stored asks the committer; the reply has one entry a key.
func (f *fetcher) stored(ctx context.Context, g string, keys []string) ([]graph.Stored, error) {
	stored, err := f.documents.Stored(ctx, g, keys)
	if err != nil {
		return nil, remote(ctx, "query.stored", err)
	}
	if len(stored) != len(keys) {
		return nil, fault.Fatal("bad_reply", "query.stored answered %d entries for %d keys", len(stored), len(keys))
	}
	return stored, nil
}

// remove decides a delete. A key that the graph does not know, or that is deleted already, is unchanged, and the end says so.
func (f *fetcher) remove(ctx context.Context, in bus.Delivery, found *events.Found) ([]events.Event, error) {
	src := found.Source
	stored, err := f.stored(ctx, found.Job.Graph, []string{src.Delete})
	if err != nil {
		return nil, err
	}
	ref := events.DocRef{Key: src.Delete, Token: fingerprint.Token(src.Delete), Source: src.Token, Sole: true, Try: src.Try}
	meta := graph.Meta{Key: src.Delete, ID: fingerprint.DocumentID(src.Delete)}
	if src.Meta != nil {
		meta.SourceUpdatedAt = src.Meta.SourceUpdatedAt
	}
	if !stored[0].Open {
		ref.SourceUpdatedAt = meta.SourceUpdatedAt // its tombstone is as old as the source says
		f.metrics.documents.WithLabelValues(string(graph.NoOp)).Inc()
		return []events.Event{&events.Ended{
			Job: found.Job, Doc: &ref, Source: src.Token, Name: src.Name, Outcome: events.OutcomeUnchanged, Base: stored[0].Revision,
			Failure: &graph.Failure{
				Stage: name, Item: src.Delete, Code: "unknown_key", Message: "there is no such document: nothing was deleted", TraceID: in.Trace,
			},
		}}, nil
	}
	f.metrics.documents.WithLabelValues(string(graph.Delete)).Inc()
	return []events.Event{&events.Staged{Job: found.Job, Doc: ref, Meta: meta, Decision: graph.Delete, Base: stored[0].Revision}}, nil
}

// weight is about how many bytes an event has besides its job.
func weight(e events.Event) int {
	if l, ok := e.(*events.Loaded); ok {
		return len(l.Text) + len(l.Meta.Key) + len(l.Meta.Title) + 512
	}
	return 512
}
