package query

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// viewCache is about how many bytes of texts and version rows a view keeps.
const viewCache = 48 << 20

// view is one request's look at a graph at one sequence. It is for one goroutine.
type view struct {
	ctx    context.Context
	sn     *scoped
	schema *schema.Schema
	unit   string
	filter *filter // nil: every document
	names  Names   // nil: none
	ruled  *bool   // whether the graph has rulings; nil: not asked yet

	steps uint
	// Two generations: what was used since the last turn, and what was used before.
	young, old map[docAt]*docView
	used       int
	docs       map[string]store.Doc
}

type docAt struct {
	id      string
	version int
}

// docView is one document version.
type docView struct {
	id     string
	key    string
	meta   store.Version
	chunks []string // ids, made when asked for
	text   string
	loaded bool
	ruler  *ruler
}

func newView(ctx context.Context, sn *scoped, s *schema.Schema, unit string) *view {
	return &view{ctx: ctx, sn: sn, schema: s, unit: unit, young: map[docAt]*docView{}, docs: map[string]store.Doc{}}
}

// tick ends a long scan whose caller went away.
func (v *view) tick() error {
	if v.steps++; v.steps%64 == 0 {
		return v.ctx.Err()
	}
	return nil
}

// doc reads a document's row; a row that facts refer to must be there.
func (v *view) doc(id string) (store.Doc, error) {
	if d, ok := v.docs[id]; ok {
		return d, nil
	}
	d, ok, err := v.sn.Doc(id)
	if err != nil {
		return d, err
	}
	if !ok {
		return d, fmt.Errorf("%w: document %s is missing", store.ErrCorrupt, id)
	}
	if len(v.docs) >= 1<<15 {
		clear(v.docs)
	}
	v.docs[id] = d
	return d, nil
}

// at reads a document version.
func (v *view) at(id string, version int) (*docView, error) {
	k := docAt{id, version}
	if d := v.young[k]; d != nil {
		return d, nil
	}
	d := v.old[k]
	if d == nil {
		doc, err := v.doc(id)
		if err != nil {
			return nil, err
		}
		meta, ok, err := v.sn.Version(id, version)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("%w: version %d of document %s is missing", store.ErrCorrupt, version, id)
		}
		d = &docView{id: id, key: doc.Meta.Key, meta: meta}
	}
	v.keep(k, d)
	return d, nil
}

func (v *view) keep(k docAt, d *docView) {
	if v.used > viewCache/2 {
		v.old, v.young, v.used = v.young, map[docAt]*docView{}, 0
	}
	v.young[k] = d
	v.used += 1024 + 128*len(d.meta.Chunks) + len(d.text)
}

// textOf is the text of a version.
func (v *view) textOf(d *docView) (string, error) {
	if d.loaded {
		return d.text, nil
	}
	text, ok, err := v.sn.Text(d.id, d.meta.Version)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%w: text of version %d of document %s is missing", store.ErrCorrupt, d.meta.Version, d.id)
	}
	d.text, d.loaded = text, true
	v.used += len(text)
	return text, nil
}

// slice is the text of a span.
func (v *view) slice(d *docView, start, end int) (string, error) {
	text, err := v.textOf(d)
	if err != nil {
		return "", err
	}
	if start < 0 || end > len(text) || start > end {
		return "", fmt.Errorf("%w: span %d…%d is outside document %s (%d bytes)", store.ErrCorrupt, start, end, d.id, len(text))
	}
	return text[start:end], nil
}

// span converts byte offsets into the unit of the request.
func (v *view) span(d *docView, start, end int) (int, int, error) {
	if v.unit == unitBytes {
		return start, end, nil
	}
	if d.ruler == nil {
		text, err := v.textOf(d)
		if err != nil {
			return 0, 0, err
		}
		d.ruler = newRuler(text, v.unit)
	}
	return d.ruler.at(start), d.ruler.at(end), nil
}

// chunkID is the id of a chunk by its index.
func (d *docView) chunkID(index int) (string, error) {
	if index < 0 || index >= len(d.meta.Chunks) {
		return "", fmt.Errorf("%w: chunk %d of %d in document %s", store.ErrCorrupt, index, len(d.meta.Chunks), d.id)
	}
	if d.chunks == nil {
		d.chunks = make([]string, len(d.meta.Chunks))
	}
	if d.chunks[index] == "" {
		d.chunks[index] = fingerprint.ChunkID(d.id, d.meta.ContentHash, d.meta.ChunkerFP, index)
	}
	return d.chunks[index], nil
}

// labels is an entity's type and its ancestors, sorted.
func (v *view) labels(label string) []string {
	if l := v.schema.Labels(label); len(l) > 0 {
		return l
	}
	return []string{label}
}
