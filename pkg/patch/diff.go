package patch

import (
	"fmt"
	"slices"
	"strings"
)

// context is how many lines a diff shows around a change.
const context = 3

// change replaces lines.
type change struct {
	line    int // from 0
	was, is []string
}

// diff is the unified diff of edits, which are in order and do not overlap.
func diff(data []byte, edits []edit, name string) string {
	lines := splitLines(data)
	changes := changesOf(data, edits)
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", name, name)
	grown := 0
	for i := 0; i < len(changes); {
		j := i + 1
		for j < len(changes) && changes[j].line-changes[j-1].line-len(changes[j-1].was) <= 2*context {
			j++
		}
		from := max(0, changes[i].line-context)
		to := min(len(lines), changes[j-1].line+len(changes[j-1].was)+context)
		more := 0
		var body strings.Builder
		at := from
		for _, c := range changes[i:j] {
			write(&body, " ", lines[at:c.line])
			write(&body, "-", c.was)
			write(&body, "+", c.is)
			at = c.line + len(c.was)
			more += len(c.is) - len(c.was)
		}
		write(&body, " ", lines[at:to])
		fmt.Fprintf(&b, "@@ -%s +%s @@\n%s", span(from, to-from), span(from+grown, to-from+more), body.String())
		grown += more
		i = j
	}
	return b.String()
}

func write(b *strings.Builder, mark string, lines []string) {
	for _, s := range lines {
		b.WriteString(mark + s + "\n")
	}
}

// changesOf groups edits by the lines that they touch. Whole lines that are put between two touch neither.
func changesOf(data []byte, edits []edit) (out []change) {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' && i+1 < len(data) {
			starts = append(starts, i+1)
		}
	}
	next := func(at int) int { // the first line start behind a byte
		i, found := slices.BinarySearch(starts, at)
		if found {
			i++
		}
		if i >= len(starts) {
			return len(data)
		}
		return starts[i]
	}
	for i := 0; i < len(edits); {
		line, found := slices.BinarySearch(starts, edits[i].at)
		from := edits[i].at
		if !found && (from < len(data) || data[len(data)-1] != '\n') {
			line--
			from = starts[line]
		}
		to, j := from, i
		for ; j < len(edits) && edits[j].at <= to || j == i; j++ {
			e := edits[j]
			if whole := e.cut == 0 && strings.HasSuffix(e.text, "\n") && (e.at == to || e.at == from); !whole {
				to = max(to, next(e.at+max(e.cut-1, 0)))
			}
		}
		shifted := make([]edit, 0, j-i)
		for _, e := range edits[i:j] {
			shifted = append(shifted, edit{e.at - from, e.cut, e.text})
		}
		c := change{line, splitLines(data[from:to]), splitLines(edited(data[from:to], shifted))}
		for len(c.was) > 0 && len(c.is) > 0 && c.was[0] == c.is[0] {
			c.was, c.is, c.line = c.was[1:], c.is[1:], c.line+1
		}
		for len(c.was) > 0 && len(c.is) > 0 && c.was[len(c.was)-1] == c.is[len(c.is)-1] {
			c.was, c.is = c.was[:len(c.was)-1], c.is[:len(c.is)-1]
		}
		out = append(out, c)
		i = j
	}
	return out
}

// span is a range of lines as unified diffs write it; line counts from 0.
func span(line, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", line)
	case 1:
		return fmt.Sprint(line + 1)
	}
	return fmt.Sprintf("%d,%d", line+1, n)
}

// splitLines drops line ends, so that a last line without one is not another line.
func splitLines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}
