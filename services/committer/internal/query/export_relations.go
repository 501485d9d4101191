package query

import (
	"strconv"
	"strings"

	"github.com/factmill/factmill/services/committer/internal/store"
)

func (x *exporter) relations(at exportAt) error {
	return x.v.sn.RelationsAll(at.After, func(r store.RelationFold) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		return x.relation(r, exportAt{Seq: at.Seq, Phase: phaseRelations, After: r.ID})
	})
}

// relation writes a relation's row piece by piece, with keys in order.
func (x *exporter) relation(r store.RelationFold, at exportAt) error {
	from := x.resume
	x.resume = ""
	x.buf = x.buf[:0]
	if from == "" {
		x.sink.mark("")
		x.buf = append(x.buf, `{"evidence":[`...)
	}
	if from != markTail {
		if err := x.relationEvidence(r.ID, strings.TrimPrefix(from, markDoc)); err != nil {
			return err
		}
		if err := x.markAt(markTail); err != nil {
			return err
		}
	} else {
		x.sink.mark(markTail)
	}
	props, err := x.v.relationProperties(r)
	if err != nil {
		return err
	}
	hidden, err := x.v.hidden(r.ID, r.Type, r.Source, r.Target)
	if err != nil {
		return err
	}
	if x.buf = append(x.buf, ']'); hidden != "" {
		x.buf = appendText(append(x.buf, `,"hidden":`...), hidden)
	}
	x.buf = append(x.buf, `,"id":`...)
	x.buf = appendText(x.buf, r.ID)
	x.buf = append(x.buf, `,"kind":"relation","properties":`...)
	x.buf = appendJSON(x.buf, props)
	x.buf = append(x.buf, `,"source":`...)
	x.buf = appendText(x.buf, r.Source)
	x.buf = append(x.buf, `,"target":`...)
	x.buf = appendText(x.buf, r.Target)
	x.buf = append(x.buf, `,"type":`...)
	x.buf = append(appendText(x.buf, r.Type), '}')
	if err := x.piece(0); err != nil {
		return err
	}
	return x.sink.end(at)
}

func (x *exporter) relationEvidence(id, after string) error {
	first := after == ""
	if !first {
		x.sink.mark(markDoc + after)
	}
	return x.v.sn.Evidence(id, after, func(s store.EvidenceSupport) error {
		err := x.v.statements(s, func(d *docView, m merged) error {
			chunk, err := d.chunkID(m.chunk)
			if err != nil {
				return err
			}
			quote, err := x.v.slice(d, m.start, m.end)
			if err != nil {
				return err
			}
			if !first {
				x.buf = append(x.buf, ',')
			}
			first = false
			x.buf = append(x.buf, `{"assertion":`...)
			x.buf = appendText(x.buf, m.assertion)
			x.buf = append(x.buf, `,"chunk":`...)
			x.buf = appendText(x.buf, chunk)
			x.buf = append(x.buf, `,"confidence":`...)
			x.buf = appendScore(x.buf, m.confidence)
			kept := d.meta.ClosedSeq != 0 // its chunk is no row of the export: it names the document
			if kept {
				x.buf = append(x.buf, `,"document":`...)
				x.buf = appendText(x.buf, d.key)
			}
			x.buf = append(x.buf, `,"end":`...)
			x.buf = strconv.AppendInt(x.buf, int64(m.end), 10)
			x.buf = append(x.buf, `,"extractors":`...)
			x.buf = appendTexts(x.buf, m.extractors)
			if kept {
				x.buf = append(x.buf, `,"kept":true`...)
			}
			x.buf = append(x.buf, `,"quote":`...)
			x.buf = appendText(x.buf, quote)
			x.buf = append(x.buf, `,"start":`...)
			x.buf = append(strconv.AppendInt(x.buf, int64(m.start), 10), '}')
			return nil
		})
		if err != nil || first {
			return err
		}
		return x.markAt(markDoc + s.DocID)
	})
}
