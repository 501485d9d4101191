package render

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Table is rows of aligned columns. Cells are escaped when they are added.
type Table struct {
	head []string
	rows [][]string
	// right marks columns that are aligned to the right: numbers.
	right map[int]bool
	// max caps the width of a column in columns; 0 is no cap.
	max map[int]int
}

// NewTable has a head; a head that starts with ">" is aligned to the right.
func NewTable(head ...string) *Table {
	t := &Table{right: map[int]bool{}, max: map[int]int{}}
	for i, h := range head {
		if strings.HasPrefix(h, ">") {
			h, t.right[i] = h[1:], true
		}
		t.head = append(t.head, h)
	}
	return t
}

// Cap limits the width of a column; longer cells are cut in the middle.
func (t *Table) Cap(column, width int) *Table {
	t.max[column] = width
	return t
}

// Row adds a row. Missing cells are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Middle(Line(c), t.max[i])
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write prints the table; without rows it prints nothing.
func (t *Table) Write(w io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	all := t.rows
	if !blank(t.head) {
		all = append([][]string{t.head}, t.rows...)
	}
	var width []int
	for _, r := range all {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], Width(c))
		}
	}
	b := bufio.NewWriter(w)
	for _, r := range all {
		var line strings.Builder
		for i, c := range r {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-Width(c))
			if t.right[i] {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		if _, err := b.WriteString(strings.TrimRight(line.String(), " ") + "\n"); err != nil {
			return err
		}
	}
	return b.Flush()
}

func blank(head []string) bool {
	for _, h := range head {
		if h != "" {
			return false
		}
	}
	return true
}

// Count writes n with its noun: "1 document", "2 documents", "3 entities".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Number groups thousands: 12,345.
func Number(n int) string {
	s := strconv.Itoa(n)
	start := len(s) % 3
	if n < 0 {
		start = (len(s)-1)%3 + 1
	}
	var b strings.Builder
	b.WriteString(s[:start])
	for i := start; i < len(s); i += 3 {
		if b.Len() > 0 && b.String() != "-" {
			b.WriteByte(',')
		}
		b.WriteString(s[i : i+3])
	}
	return b.String()
}

// Bytes writes a size: 512 B, 3.4 KiB, 12 MiB.
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/1024, "KiB"
	for _, u := range []string{"MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, u
	}
	digits := 1
	if f >= 10 {
		digits = 0
	}
	return strconv.FormatFloat(f, 'f', digits, 64) + " " + unit
}
