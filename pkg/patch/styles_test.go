package patch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
)

// writer writes one schema in a way that a seed chooses.
type writer struct {
	*rand.Rand
	b    strings.Builder
	unit int
	n    int // of comments
}

func (w *writer) one(list ...string) string { return list[w.IntN(len(list))] }

// comment ends a line, now and then with a comment, blank lines and comments below it.
func (w *writer) comment(col int) string {
	out := ""
	if w.IntN(3) == 0 {
		w.n++
		out += fmt.Sprintf(" # comment %d: [x], {y}, \"z\"", w.n)
	}
	out += "\n"
	for w.IntN(6) == 0 {
		w.n++
		out += w.one("\n", fmt.Sprintf("%s# line %d é 🪐\n", strings.Repeat(" ", col), w.n))
	}
	return out
}

func (w *writer) text(s string) string {
	return w.one(s, `"`+s+`"`, "'"+s+"'")
}

func (w *writer) pattern(a, b string) string {
	return w.text(a + "->" + b)
}

// flowList writes [a, b], on one line or several.
func (w *writer) flowList(col int, items []string) string {
	if w.IntN(3) > 0 {
		return "[" + strings.Join(items, ", ") + w.one("", ",") + "]"
	}
	in := strings.Repeat(" ", col+w.unit)
	out := "["
	for i, it := range items {
		out += w.comment(col+w.unit) + in + it
		if i < len(items)-1 || w.IntN(2) == 0 {
			out += ","
		}
	}
	return out + w.comment(col+w.unit) + strings.Repeat(" ", col+1) + "]"
}

func (w *writer) line(col int, format string, args ...any) {
	w.b.WriteString(strings.Repeat(" ", col) + fmt.Sprintf(format, args...) + w.comment(col))
}

// properties of a type, as a block or in braces.
func (w *writer) properties(col int) {
	switch w.IntN(3) {
	case 0:
	case 1:
		w.line(col, "properties: {age: %s, born: {type: date}}", w.one("integer", "{type: integer}"))
	default:
		w.line(col, "properties:")
		w.line(col+w.unit, "age: %s", w.one("integer", "{type: integer, description: \"Years, of life\"}"))
		if w.IntN(2) == 0 {
			w.line(col+w.unit, "born:")
			w.line(col+2*w.unit, "type: date")
		}
	}
}

func (w *writer) entity(col int, label string, list bool) {
	dash, in := "", col+w.unit
	if list {
		dash, in = "- ", col+2
	}
	switch w.IntN(5) {
	case 0:
		if list {
			w.line(col, "- %s", w.text(label))
		} else {
			w.line(col, "%s:", label)
		}
	case 1:
		w.line(col, "%s%s: %s", dash, label, w.text("A thing of the world."))
	case 2:
		if list {
			w.line(col, "- {label: %s, description: %s}", label, w.text("A thing"))
		} else {
			w.line(col, "%s: {description: %s%s}", w.text(label), w.text("A thing"), w.one("", ", properties: {age: integer}"))
		}
	case 3:
		if list {
			w.line(col, "- label: %s", label)
		} else {
			w.line(col, "%s:", label)
		}
		w.line(in, "description: %s", w.text("A thing"))
		w.properties(in)
	default:
		if list {
			w.line(col, "- label: %s", label)
			w.line(in, "description: |\n%sA text\n%s# no comment", strings.Repeat(" ", in+1), strings.Repeat(" ", in+1))
		} else {
			w.line(col, "%s: >-\n%sA text\n\n%s# no comment", label, strings.Repeat(" ", col+2), strings.Repeat(" ", col+2))
		}
	}
}

func (w *writer) relation(col int, label string, list bool, a, b string) {
	dash, in := "", col+w.unit
	if list {
		dash, in = "- ", col+2
	}
	body := func(col int) {
		switch w.IntN(3) {
		case 0:
			w.line(col, "patterns: %s", w.pattern(a, b))
		case 1:
			w.line(col, "patterns: %s", w.flowList(col, []string{w.pattern(a, b), w.pattern(b, a)}))
		default:
			w.line(col, "patterns:")
			at := col + w.IntN(2)*w.unit
			w.line(at, "- %s", w.pattern(a, b))
			w.line(at, "- %s", w.pattern(b, a))
		}
		if w.IntN(2) == 0 {
			w.line(col, "description: %s", w.text("How they relate"))
		}
	}
	switch k := w.IntN(4); {
	case k == 0 && list:
		w.line(col, "- %s", w.text(a+"-"+label+"->"+b))
	case k == 0:
		w.line(col, "%s: %s", label, w.pattern(a, b))
	case k == 1:
		w.line(col, "%s%s: %s", dash, label, w.flowList(col, []string{w.pattern(a, b)}))
	case k == 2 && list:
		w.line(col, "- {label: %s, patterns: %s}", label, w.flowList(col, []string{w.pattern(a, b)}))
	case k == 2:
		w.line(col, "%s: {patterns: %s%s}", label, w.flowList(col, []string{w.pattern(a, b)}), w.one("", ", symmetric: true", ","))
	case list:
		w.line(col, "- label: %s", label)
		body(in)
	default:
		w.line(col, "%s:", label)
		body(in)
	}
}

func (w *writer) schema() string {
	w.unit = 1 + w.IntN(4)
	if w.IntN(2) == 0 {
		w.line(0, "# a schema")
	}
	parts := []func(){
		func() { w.line(0, "name: %s", w.text("any name é 🪐")) },
		func() { w.line(0, "version: %s", w.one("1", "\"2\"", "'9'", "2.9", "draft", "\"v 3\"")) },
		func() {
			list := w.IntN(2) == 0
			w.line(0, "entities:")
			col := w.unit
			if list {
				col = w.IntN(2) * w.unit
			}
			for i := range 2 + w.IntN(3) {
				w.entity(col, fmt.Sprint("Type", i), list)
			}
		},
		func() {
			list := w.IntN(2) == 0
			w.line(0, "relations:")
			col := w.unit
			if list {
				col = w.IntN(2) * w.unit
			}
			for i := range 1 + w.IntN(3) {
				w.relation(col, fmt.Sprint("REL_", i), list, "Type0", "Type1")
			}
		},
		func() { w.line(0, "review: {stale: review}") },
	}
	w.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for _, part := range parts {
		if w.IntN(5) > 0 {
			part()
		}
	}
	out := w.b.String()
	if w.IntN(4) == 0 {
		out = strings.TrimRight(out, "\n")
	}
	if w.IntN(4) == 0 {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	return out
}

// Whatever way a schema is written in, it takes a patch of everything: it then says what it said and the additions (Apply compares
// the two), no byte but the version's goes, comments stay comments in their order, and the same patch again changes nothing.
func TestEveryStyleTakesAPatch(t *testing.T) {
	taken := 0
	for seed := range uint64(1500) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 7))}
		in := w.schema()
		s, err := schema.Parse([]byte(in), "s.yaml", nil)
		if err != nil {
			continue
		}
		taken++
		p := grow(s)
		r, err := Apply([]byte(in), "s.yaml", nil, p)
		require.NoError(t, err, "seed %d:\n%s", seed, in)
		require.True(t, inOrder([]byte(in), r.Data), "seed %d: a byte of\n%s\nis lost in\n%s", seed, in, r.Data)
		keepsComments(t, []byte(in), r.Data)
		again, err := Apply(r.Data, "s.yaml", nil, p)
		require.NoError(t, err)
		require.False(t, again.Changed)
		require.Equal(t, string(r.Data), patchedBy(t, in, r.Diff), "seed %d: the diff says another thing\n%s", seed, r.Diff)
	}
	require.Greater(t, taken, 1000, "most seeds make a schema")
}

// patchedBy applies a unified diff as a reader would; line ends are those of the text.
func patchedBy(t *testing.T, in, diff string) string {
	t.Helper()
	eol := "\n"
	if strings.Contains(in, "\r\n") {
		eol = "\r\n"
	}
	was := strings.Split(strings.TrimSuffix(strings.ReplaceAll(in, "\r\n", "\n"), "\n"), "\n")
	var out []string
	at := 0
	for _, line := range strings.Split(strings.TrimSuffix(diff, "\n"), "\n")[2:] {
		if strings.HasPrefix(line, "@@") {
			var from, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d", &from, &n); err != nil {
				_, err = fmt.Sscanf(line, "@@ -%d", &from)
				require.NoError(t, err)
				n = 1
			}
			if n > 0 {
				from--
			}
			out = append(out, was[at:from]...)
			at = from
			continue
		}
		if line[0] != '+' {
			require.Equal(t, was[at], line[1:])
			at++
		}
		if line[0] != '-' {
			out = append(out, line[1:])
		}
	}
	out = append(out, was[at:]...)
	text := strings.Join(out, eol)
	if strings.HasSuffix(in, "\n") {
		text += eol
	}
	return text
}
