package parse

import (
	"bytes"
	"strings"
)

// maxSpan bounds the empty cells that a colspan adds.
const maxSpan = 20

// tableState renders the outermost table under way as pipe rows; tables inside it are text of their cell.
type tableState struct {
	depth  int
	apart  bool // what comes next in the cell is another block, or of another cell inside it
	inHead bool
	inCell bool
	inRow  bool
	cell   run
	span   int
	header bool // every cell of the row under way is a header
	cells  []string
	rows   int // written so far, the header included
}

func (t *tableState) enter() {
	if t.depth++; t.depth == 1 {
		*t = tableState{depth: 1}
		return
	}
	t.gap()
}

// gap says that what follows is another paragraph, or stands in another cell of a table inside the cell. A row is one line, so
// a bar comes between them, escaped as any in a cell is: no sentence goes over it.
func (t *tableState) gap() { t.apart = true }

func (t *tableState) text(s []byte) {
	if len(bytes.TrimSpace(s)) == 0 {
		t.cell.add(s)
		return
	}
	if !t.inCell {
		t.startCell(1, t.inHead) // text astray between cells is not lost
	}
	if t.apart && len(t.cell.b) > 0 {
		t.cell.b, t.cell.space = append(t.cell.b, " | "...), false
		s = bytes.TrimLeft(s, " \t\r\n\f")
	}
	t.apart = false
	t.cell.add(s)
}

func (t *tableState) startCell(span int, isHeader bool) {
	if !t.inRow {
		t.inRow, t.header = true, true
	}
	t.inCell, t.span, t.apart = true, min(max(span, 1), maxSpan), false
	t.header = t.header && isHeader
}

func (t *tableState) endCell() {
	if !t.inCell {
		return
	}
	t.cells = append(t.cells, strings.ReplaceAll(t.cell.take(), "|", `\|`))
	for range t.span - 1 {
		t.cells = append(t.cells, "")
	}
	t.inCell = false
}

func (t *tableState) endRow(write func([]string, bool)) {
	t.endCell()
	if t.inRow {
		write(t.cells, t.header || t.inHead)
	}
	t.cells, t.inRow = t.cells[:0], false
}

func (t *tableState) start(name string, span int, write func([]string, bool)) {
	switch name {
	case "td", "th":
		t.endCell()
		t.startCell(span, name == "th")
	default:
		t.endRow(write)
		if name != "tr" {
			t.inHead = name == "thead"
		}
	}
}

func (t *tableState) end(name string, write func([]string, bool)) {
	switch name {
	case "td", "th":
		t.endCell()
	default:
		t.endRow(write)
		if name == "thead" {
			t.inHead = false
		}
	}
}

func (w *page) leaveTable() {
	if w.tab.depth == 1 {
		w.tab.endRow(w.writeRow)
		w.tab.depth = 0
		return
	}
	w.tab.depth = max(0, w.tab.depth-1)
	w.tab.gap()
}

// writeRow writes one row; a table whose first row is no header gets an empty one, so that readers see a table.
func (w *page) writeRow(cells []string, isHeader bool) {
	if strings.Join(cells, "") == "" {
		return
	}
	if w.tab.rows == 0 {
		w.separate('p')
		if isHeader {
			w.pipes(cells)
		} else {
			w.pipes(make([]string, len(cells)))
		}
		w.out.WriteString("\n|" + strings.Repeat("---|", len(cells)))
		w.tab.rows++
		if isHeader {
			return
		}
	}
	w.out.WriteByte('\n')
	w.pipes(cells)
	w.tab.rows++
}

func (w *page) pipes(cells []string) {
	w.out.WriteByte('|')
	for _, c := range cells {
		w.out.WriteByte(' ')
		w.out.WriteString(c)
		w.out.WriteString(" |")
	}
}
