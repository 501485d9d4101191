// Package split cuts a normalised text into chunks: exact, ordered, non-overlapping slices that together hold every byte
// that is not white space, none of them over the token cap. It is pure and takes time linear in the text.
//
// How: a reader of structure (Markdown or plain) gives blocks; the packer joins blocks up to the cap and ends a chunk at a
// section's start once it has the minimum; a block over the cap is taken apart at paragraphs, then (code, lists) lines,
// sentences, clauses, words, and last between the tokens of a word. A table is a chunk of its own, or groups of rows.
package split

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/token"
)

// Content kinds of a chunk (graph.Chunk.Content).
const (
	Text    = "text"
	Table   = "table"
	Code    = "code"
	List    = "list"
	Heading = "heading"
)

// Markups of a text.
const (
	Markdown = "markdown"
	Plain    = "plain"
)

// Result is a text cut into chunks, and what was counted on the way.
type Result struct {
	Chunks []graph.Chunk
	// Sections are the headings, and the text before the first of them if there is any.
	Sections int
	Tables   int
}

// Split cuts text. size is the most tokens of a chunk (its prefix included), minSize the tokens from which a chunk ends at a
// section's start. text is valid UTF-8; a markup other than "markdown" is read as plain. Settings out of their bounds are
// an error: 0 < minSize < size.
func Split(text, markup string, size, minSize int) (Result, error) {
	if minSize < 1 || minSize >= size {
		return Result{}, fmt.Errorf("chunker.min_size is %d: it must be at least 1 and smaller than chunker.size (%d)", minSize, size)
	}
	if token.Next(text, 0) < 0 {
		return Result{}, nil
	}
	blocks := plainBlocks(text)
	if markup == Markdown {
		blocks = markdownBlocks(text)
	}
	p := &packer{text: text, size: size, limit: size, minSize: minSize}
	res := Result{}
	var path path
	for i := 0; i < len(blocks); i++ {
		b := &blocks[i]
		switch b.kind {
		case Heading:
			res.Sections++
			if b.title != "" {
				path.enter(b.level, b.title)
			}
			p.section()
		case Table:
			res.Tables++
		}
		if res.Sections == 0 && token.Next(text[b.start:b.end], 0) >= 0 {
			res.Sections++
		}
		switch {
		case b.kind == Table:
			p.table(span{b.start, b.end}, b.start, b.rows, path.names)
		case i+1 < len(blocks) && blocks[i+1].kind == Table && isCaption(text, *b):
			t := &blocks[i+1]
			res.Tables++
			p.table(span{b.start, t.end}, t.start, t.rows, path.names)
			i++
		default:
			p.block(span{b.start, b.end}, b.kind, path.names)
		}
	}
	p.flush()
	res.Chunks = p.out
	return res, nil
}

// span is text[start:end].
type span struct{ start, end int }

// block is a top-level block of a text. Blocks follow each other without gaps and cover the text.
type block struct {
	start, end int
	kind       string
	level      int    // of a heading, 1…6
	title      string // of a heading, as it is shown
	rows       []int  // starts of a table's rows after its header and delimiter line
}

// plainBlocks has one block; the packer finds its paragraphs.
func plainBlocks(text string) []block {
	return []block{{start: 0, end: len(text), kind: Text}}
}

// path is the heading path at a place of the text.
type path struct {
	levels []int
	names  []string // never changed in place: chunks keep it
}

func (p *path) enter(level int, title string) {
	n := len(p.levels)
	for n > 0 && p.levels[n-1] >= level {
		n--
	}
	p.levels = p.levels[:n]
	names := append([]string(nil), p.names[:n]...)
	p.levels, p.names = append(p.levels, level), append(names, title)
}

// trim takes the white space off both ends.
func trim(text string, s span) span {
	for s.start < s.end {
		r, n := utf8.DecodeRuneInString(text[s.start:s.end])
		if !token.IsSpace(r) {
			break
		}
		s.start += n
	}
	for s.start < s.end {
		r, n := utf8.DecodeLastRuneInString(text[s.start:s.end])
		if !token.IsSpace(r) {
			break
		}
		s.end -= n
	}
	return s
}

// maxCaption is the length in bytes above which a paragraph is no caption.
const maxCaption = 300

var captionWords = []string{"table", "tab.", "tabelle", "tableau", "tabla", "tabela", "tabella", "tabel", "таблица", "表"}

// isCaption says whether a block is a table's caption: one line that begins with a word for table, emphasis aside.
func isCaption(text string, b block) bool {
	s := trim(text, span{b.start, b.end})
	line := text[s.start:s.end]
	if b.kind != Text || len(line) > maxCaption || strings.ContainsRune(line, '\n') {
		return false
	}
	line = strings.ToLower(strings.TrimLeft(line, "*_ :"))
	for _, w := range captionWords {
		rest, ok := strings.CutPrefix(line, w)
		if !ok {
			continue
		}
		r, _ := utf8.DecodeRuneInString(rest)
		if w == "表" || rest == "" || !isWordRune(r) {
			return true
		}
	}
	return false
}
