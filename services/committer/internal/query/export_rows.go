package query

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// pieceBytes is how much of a long row is gathered before it goes to the sink.
const pieceBytes = 64 << 10

// Marks inside a long row: behind the part that a document added to its list, and behind the list.
const (
	markDoc  = "d"
	markTail = "t"
)

// exporter writes rows into a sink.
type exporter struct {
	v    *view
	req  api.Export
	sink sink
	buf  []byte
	// maxGroup is the constant, less in tests.
	maxGroup int
	// resume is the mark from which the first row goes on; "" begins it.
	resume string
}

func newExporter(q *Queries, v *view, req api.Export, s sink) *exporter {
	return &exporter{v: v, req: req, sink: s, maxGroup: q.maxGroup}
}

// run writes everything behind a position.
func (x *exporter) run(at exportAt) error {
	x.resume = at.Mark
	phases := []func(exportAt) error{x.documents, x.chunks, x.entities, x.relations, x.matches, x.candidates, x.rulings, x.decisions, x.verdicts}
	for at.Phase < phaseEnd {
		if err := phases[at.Phase](at); err != nil {
			return err
		}
		// The mark stays until a row takes it: the row that is written in pieces may be the first of its phase.
		at = exportAt{Seq: at.Seq, Phase: at.Phase + 1}
	}
	return nil
}

// json writes a whole row.
func (x *exporter) json(row any, at exportAt) error {
	b, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("encode row behind %s: %w", at.After, err)
	}
	if err := x.sink.write(b); err != nil {
		return err
	}
	return x.sink.end(at)
}

// piece sends the gathered bytes on when there are many.
func (x *exporter) piece(least int) error {
	if len(x.buf) < least || len(x.buf) == 0 {
		return nil
	}
	err := x.sink.write(x.buf)
	x.buf = x.buf[:0]
	return err
}

// fullDocument is a document's row outside the canonical export.
type fullDocument struct {
	graph.DocumentRow
	Version   int    `json:"version"`
	Revision  uint64 `json:"revision"`
	FromSeq   uint64 `json:"from_seq"`
	FromTime  string `json:"from_time"`
	Job       string `json:"job"`
	Format    string `json:"format,omitempty"`
	UpdatedAt string `json:"source_updated_at,omitempty"`
	Text      string `json:"text,omitempty"`
}

func (x *exporter) documents(at exportAt) error {
	return x.v.sn.Docs(at.After, func(d store.Doc) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		if !d.Open {
			return nil
		}
		pos := exportAt{Seq: at.Seq, Phase: phaseDocuments, After: d.Meta.Key}
		if x.req.Canonical {
			return x.json(documentRow(d), pos)
		}
		view, err := x.v.at(d.Meta.ID, d.Version)
		if err != nil {
			return err
		}
		row := fullDocument{DocumentRow: documentRow(d), Version: d.Version, Revision: d.Revision, FromSeq: view.meta.FromSeq,
			FromTime: view.meta.FromTime, Job: view.meta.Job, Format: d.Meta.Format, UpdatedAt: d.Meta.SourceUpdatedAt}
		if x.req.Text {
			if row.Text, err = x.v.textOf(view); err != nil {
				return err
			}
		}
		return x.json(row, pos)
	})
}

// chunks writes the chunks by document key and index: first what is left of the document that the position names.
func (x *exporter) chunks(at exportAt) error {
	if at.Doc != "" {
		d, ok, err := x.v.sn.DocByKey(at.Doc)
		if err != nil {
			return err
		}
		if ok {
			if err := x.chunksOf(d, at.Index, at); err != nil {
				return err
			}
		}
	}
	return x.v.sn.Docs(at.Doc, func(d store.Doc) error { return x.chunksOf(d, 0, at) })
}

func (x *exporter) chunksOf(d store.Doc, first int, at exportAt) error {
	if err := x.v.tick(); err != nil || !d.Open {
		return err
	}
	view, err := x.v.at(d.Meta.ID, d.Version)
	if err != nil {
		return err
	}
	for n := first; n < len(view.meta.Chunks); n++ {
		if err := x.v.tick(); err != nil {
			return err
		}
		row, err := x.v.chunkRow(view, n)
		if err != nil {
			return err
		}
		if x.req.Canonical {
			row.DocumentID = ""
		}
		if err := x.json(row, exportAt{Seq: at.Seq, Phase: phaseChunks, Doc: d.Meta.Key, Index: n + 1}); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) entities(at exportAt) error {
	return x.v.sn.EntitiesAll(at.After, func(e store.EntityFold) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		return x.entity(e, exportAt{Seq: at.Seq, Phase: phaseEntities, After: e.ID})
	})
}

// entity writes an entity's row piece by piece, with keys in order.
func (x *exporter) entity(e store.EntityFold, at exportAt) error {
	from := x.resume
	x.resume = ""
	x.buf = x.buf[:0]
	if from == "" {
		x.sink.mark("")
		h, err := x.v.homonym(e)
		if err != nil {
			return err
		}
		x.buf = append(x.buf, '{')
		if h != nil {
			x.buf = append(x.buf, `"homonym":`...)
			x.buf = append(appendJSON(x.buf, h), ',')
		}
		x.buf = append(x.buf, `"id":`...)
		x.buf = appendText(x.buf, e.ID)
		x.buf = append(x.buf, `,"kind":"entity","labels":`...)
		x.buf = appendTexts(x.buf, x.v.labels(e.Label))
		x.buf = append(x.buf, `,"mentions":[`...)
	}
	if from != markTail {
		after := strings.TrimPrefix(from, markDoc)
		if err := x.mentions(e.ID, after); err != nil {
			return err
		}
		if err := x.markAt(markTail); err != nil {
			return err
		}
	} else {
		x.sink.mark(markTail)
	}
	x.buf = append(x.buf, `],"merge_key":`...)
	x.buf = appendText(x.buf, e.Key)
	x.buf = append(x.buf, `,"name":`...)
	x.buf = appendText(x.buf, e.Display())
	x.buf = append(x.buf, `,"properties":`...)
	if err := x.properties(e); err != nil {
		return err
	}
	x.buf = append(x.buf, `,"type":`...)
	x.buf = appendText(x.buf, e.Label)
	x.buf = append(x.buf, '}')
	if err := x.piece(0); err != nil {
		return err
	}
	return x.sink.end(at)
}

// markAt sends what was gathered and marks the place behind it. Short rows need no marks.
func (x *exporter) markAt(place string) error {
	if len(x.buf) < pieceBytes {
		return nil
	}
	if err := x.piece(0); err != nil {
		return err
	}
	x.sink.mark(place)
	return nil
}

func (x *exporter) mentions(id, after string) error {
	first := after == ""
	if !first {
		x.sink.mark(markDoc + after)
	}
	return x.v.sn.Mentions(id, after, func(m store.MentionSupport) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		d, err := x.v.at(m.DocID, m.Version)
		if err != nil || d.meta.ClosedSeq != 0 { // a mention that stands for a kept fact: its chunk is no row of the export
			return err
		}
		for _, s := range m.Spans {
			chunk, err := d.chunkID(s.Chunk)
			if err != nil {
				return err
			}
			if !first {
				x.buf = append(x.buf, ',')
			}
			first = false
			x.buf = append(x.buf, `{"chunk":`...)
			x.buf = appendText(x.buf, chunk)
			x.buf = append(x.buf, `,"confidence":`...)
			x.buf = appendScore(x.buf, s.Confidence)
			x.buf = append(x.buf, `,"end":`...)
			x.buf = strconv.AppendInt(x.buf, int64(s.End), 10)
			x.buf = append(x.buf, `,"start":`...)
			x.buf = strconv.AppendInt(x.buf, int64(s.Start), 10)
			x.buf = append(x.buf, '}')
		}
		if first { // a document that only relates the entity leaves no mark behind which a comma belongs
			return nil
		}
		return x.markAt(markDoc + m.DocID)
	})
}

// properties writes the property values: the one that the schema's merge rule shows, and the others.
func (x *exporter) properties(e store.EntityFold) error {
	groups, err := x.v.propertyValues(e.ID)
	if err != nil {
		return err
	}
	rulings, err := x.v.rulings(e.ID)
	if err != nil {
		return err
	}
	x.buf = append(x.buf, '{')
	first := true
	for _, g := range groups {
		s := Show(x.v.mergeRule(e.Label, g.name), g.values, rulings[g.name])
		if len(s.Shown) == 0 {
			continue
		}
		if !first {
			x.buf = append(x.buf, ',')
		}
		first = false
		x.buf = appendText(x.buf, g.name)
		x.buf = append(x.buf, `:{"evidence":`...)
		if err := x.valueChunks(s.Shown); err != nil {
			return err
		}
		if err := x.valueKept(s.Shown); err != nil {
			return err
		}
		x.buf = append(x.buf, `,"others":[`...)
		for j, f := range s.others() {
			if j > 0 {
				x.buf = append(x.buf, ',')
			}
			x.buf = append(x.buf, `{"evidence":`...)
			if err := x.valueChunks([]store.PropertyFold{f}); err != nil {
				return err
			}
			if err := x.valueKept([]store.PropertyFold{f}); err != nil {
				return err
			}
			if j >= len(s.Others) {
				x.buf = append(x.buf, `,"rejected":true`...)
			}
			x.buf = append(x.buf, `,"value":`...)
			x.buf = append(appendValue(x.buf, f.Value), '}')
		}
		x.buf = append(x.buf, `],"value":`...)
		x.buf = append(appendValue(x.buf, s.value()), '}')
		if err := x.piece(pieceBytes); err != nil {
			return err
		}
	}
	x.buf = append(x.buf, '}')
	return nil
}

// valueChunks writes the ids of the chunks of open versions that say one of the values, each once: by document id and chunk index for one
// value, value by value for several.
func (x *exporter) valueChunks(values []store.PropertyFold) error {
	var seen map[string]bool // across values; within one, repeats come one after the other
	if len(values) > 1 {
		seen = map[string]bool{}
	}
	last := ""
	x.buf = append(x.buf, '[')
	for _, f := range values {
		err := x.v.sn.PropertySupports(f.Owner, f.Name, f.Value, func(s store.EvidenceSupport) error {
			err := x.v.statements(s, func(d *docView, m merged) error {
				if d.meta.ClosedSeq != 0 {
					return nil
				}
				id, err := d.chunkID(m.chunk)
				if err != nil || id == last || seen[id] {
					return err
				}
				if last != "" {
					x.buf = append(x.buf, ',')
				}
				x.buf = appendText(x.buf, id)
				last = id
				if seen != nil {
					seen[id] = true
				}
				return nil
			})
			if err != nil {
				return err
			}
			return x.piece(pieceBytes)
		})
		if err != nil {
			return err
		}
	}
	x.buf = append(x.buf, ']')
	return nil
}

// valueKept writes what was kept of versions that are closed, if there is any: their chunks are no rows of the export.
func (x *exporter) valueKept(values []store.PropertyFold) error {
	first := true
	for _, f := range values {
		err := x.v.sn.PropertySupports(f.Owner, f.Name, f.Value, func(s store.EvidenceSupport) error {
			err := x.v.statements(s, func(d *docView, m merged) error {
				if d.meta.ClosedSeq == 0 {
					return nil
				}
				e, err := x.v.evidence(d, m)
				if err != nil {
					return err
				}
				if e.Assertion = ""; first { // a value has none
					x.buf = append(x.buf, `,"kept":[`...)
				} else {
					x.buf = append(x.buf, ',')
				}
				first = false
				x.buf = appendJSON(x.buf, e)
				return nil
			})
			if err != nil {
				return err
			}
			return x.piece(pieceBytes)
		})
		if err != nil {
			return err
		}
	}
	if !first {
		x.buf = append(x.buf, ']')
	}
	return nil
}

// fullDecision is a decision's row outside the canonical export.
type fullDecision struct {
	graph.DecisionRow
	At string `json:"at"`
}

func (x *exporter) decisions(at exportAt) error {
	if !x.req.Canonical && !x.req.Candidates {
		return nil
	}
	return x.v.sn.Decisions(func(d store.Decision) error {
		if err := x.v.tick(); err != nil || d.Key <= at.After {
			return err
		}
		row := graph.DecisionRow{Key: d.Key, Kind: "decision", State: d.State}
		pos := exportAt{Seq: at.Seq, Phase: phaseDecisions, After: d.Key}
		if x.req.Canonical {
			return x.json(row, pos)
		}
		return x.json(fullDecision{row, d.At}, pos)
	})
}
