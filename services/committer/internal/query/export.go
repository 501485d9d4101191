package query

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/factmill/factmill/pkg/api"
)

const verbExport = "export"

// Phases of the export, in order.
const (
	phaseDocuments = iota
	phaseChunks
	phaseEntities
	phaseRelations
	phaseMatches
	phaseCandidates
	phaseRulings
	phaseDecisions
	phaseVerdicts
	phaseEnd
)

// exportAt is where the export goes on: behind the row After (and document key Doc, Index) of a phase. Within a row that is written in
// pieces, Mark is the last place from which the row can be written again, and Skip how many bytes behind it were given.
type exportAt struct {
	Seq   uint64 `json:"s"`
	Phase int    `json:"p"`
	After string `json:"a,omitempty"`
	Doc   string `json:"d,omitempty"`
	Index int    `json:"i,omitempty"`
	Mark  string `json:"m,omitempty"`
	Skip  int    `json:"k,omitempty"`
}

// sink takes rows in pieces. What it is given is the writer's own memory.
type sink interface {
	// mark says that the row can be written again from here.
	mark(place string)
	write(piece []byte) error
	// end ends a row; at is the position behind it.
	end(at exportAt) error
}

// errPage ends the writing of rows when a page is full.
var errPage = errors.New("page is full")

// Export answers query.export: a page of rows in the order of the canonical export, at one pinned sequence:
// documents by key; chunks by document key and index; entities and relations by id, their mentions and evidence by document
// id, chunk index, start, end (and assertion); matches by their ends; candidates by key and document key (pending ones, and approved ones of open
// chunks); decisions by key. Rows of candidates and decisions come with canonical or candidates. Canonical rows have the fields
// of spec 2 and no others; text puts the document's text into its row and is ignored with canonical.
func (q *Queries) Export(ctx context.Context, name string, req api.Export) (api.ExportReply, error) {
	out := api.ExportReply{Rows: []json.RawMessage{}}
	at := exportAt{Seq: req.Seq}
	if req.Cursor != "" {
		if err := decodeCursor(verbExport, req.Cursor, &at); err != nil {
			return out, err
		}
		if min(at.Phase, at.Index, at.Skip) < 0 {
			return out, badValue("cursor is not one that %s gave", verbExport)
		}
		if req.Seq != 0 && req.Seq != at.Seq {
			return out, badValue("seq is %d: the cursor is of sequence %d", req.Seq, at.Seq)
		}
	}
	err := q.with(ctx, name, at.Seq, "", func(v *view) error {
		if v == nil {
			return nil
		}
		out.Seq, at.Seq = v.sn.Seq(), v.sn.Seq()
		total, err := v.exportTotal(req)
		if err != nil {
			return err
		}
		out.Total = total
		p := &page{at: at, skip: at.Skip, part: at.Mark != "" || at.Skip > 0}
		err = newExporter(q, v, req, p).run(at)
		if err != nil && !errors.Is(err, errPage) {
			return err
		}
		out.Rows, out.Part, out.Last = append(out.Rows, p.rows...), p.piece, p.last
		if err != nil {
			out.Next = encodeCursor(verbExport, p.at)
		}
		return nil
	})
	return out, err
}

// ExportTo writes the whole export, one row a line, at req.Seq (0: now). Memory does not grow with the graph.
func (q *Queries) ExportTo(ctx context.Context, name string, req api.Export, w io.Writer) error {
	if req.Cursor != "" {
		return badValue("cursor is for pages")
	}
	return q.with(ctx, name, req.Seq, "", func(v *view) error {
		if v == nil {
			return nil
		}
		s := &lines{w: bufio.NewWriterSize(w, 256<<10)}
		if err := newExporter(q, v, req, s).run(exportAt{Seq: v.sn.Seq()}); err != nil {
			return err
		}
		if err := s.w.Flush(); err != nil {
			return fmt.Errorf("write export: %w", err)
		}
		return nil
	})
}

// exportTotal counts the rows to come, matches and decisions aside.
func (v *view) exportTotal(req api.Export) (int, error) {
	c, err := v.sn.Counts()
	if err != nil {
		return 0, err
	}
	n := c.Documents + c.Chunks
	for _, k := range c.Entities {
		n += k
	}
	for _, k := range c.Relations {
		n += k
	}
	if req.Canonical || req.Candidates {
		n += c.Candidates
	}
	return n, nil
}

// lines is the sink of a file.
type lines struct{ w *bufio.Writer }

func (s *lines) mark(string) {}

func (s *lines) write(piece []byte) error {
	if _, err := s.w.Write(piece); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

func (s *lines) end(exportAt) error {
	if err := s.w.WriteByte('\n'); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// pageBytes is how much of a page rows may fill.
const pageBytes = MaxReply - 32<<10

// page is the sink of one reply: whole rows while they fit, or one piece of a row that does not fit in any page.
type page struct {
	at   exportAt // where the next page begins
	rows []json.RawMessage
	used int

	row   []byte // under way, without what earlier pages gave of it
	piece string
	last  bool
	part  bool // the first row's beginning was given by earlier pages
	skip  int  // bytes of it to leave out
	marks []rowMark
}

// rowMark is a place from which a row can be written again, and how much of page.row lies before it.
type rowMark struct {
	place string
	at    int
}

func (p *page) mark(place string) {
	if p.skip == 0 { // else the place lies in what was given already
		p.marks = append(p.marks, rowMark{place, len(p.row)})
	}
}

func (p *page) write(b []byte) error {
	if p.skip > 0 {
		n := min(p.skip, len(b))
		p.skip -= n
		b = b[n:]
	}
	p.row = append(p.row, b...)
	if len(p.rows) > 0 && p.used+len(p.row) > pageBytes {
		return errPage
	}
	if len(p.row) > pageBytes {
		return p.cut()
	}
	return nil
}

// cut gives what fits of the row as a piece of it. The next page writes the row again from the last mark in what was given.
func (p *page) cut() error {
	n := fits(string(p.row), pageBytes)
	p.piece, p.last = string(p.row[:n]), false
	for i := len(p.marks) - 1; i >= 0; i-- {
		if m := p.marks[i]; m.at <= n {
			p.at.Mark, p.at.Skip = m.place, n-m.at
			return errPage
		}
	}
	p.at.Skip += n
	return errPage
}

func (p *page) end(at exportAt) error {
	if p.part {
		if textCost(string(p.row)) > pageBytes {
			return p.cut()
		}
		p.piece, p.last, p.at = string(p.row), true, at
		return errPage
	}
	if len(p.rows) > 0 && p.used+len(p.row) > pageBytes {
		return errPage
	}
	p.rows = append(p.rows, json.RawMessage(p.row))
	p.used += len(p.row) + 1
	p.row, p.at, p.marks = nil, at, p.marks[:0]
	return nil
}
