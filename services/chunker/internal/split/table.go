package split

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// table is a pipe table: where it begins and where its rows begin. goldmark's own table makes a node a cell, also for cells
// that a row leaves out, so that a wide header over short rows takes memory out of all proportion; nobody here asks for cells.
type table struct {
	ast.BaseBlock
	rows []int
}

var kindTable = ast.NewNodeKind("PipeTable")

// Kind implements ast.Node.
func (t *table) Kind() ast.NodeKind { return kindTable }

// IsRaw implements ast.Node: there is nothing inside to parse.
func (t *table) IsRaw() bool { return true }

// Dump implements ast.Node.
func (t *table) Dump(source []byte, level int) { ast.DumpHelper(t, source, level, nil, nil) }

// tables turns the paragraphs that hold a delimiter line under a header of as many columns into tables, as GitHub's flavour of
// Markdown defines them. Lines before the header stay a paragraph.
type tables struct{}

// Transform implements parser.ParagraphTransformer.
func (tables) Transform(node *ast.Paragraph, reader text.Reader, _ parser.Context) {
	parent := node.Parent()
	if parent == nil || parent.Kind() != ast.KindDocument {
		return
	}
	source, lines := reader.Source(), node.Lines()
	for i := 1; i < lines.Len(); i++ {
		seg := lines.At(i)
		columns := delimiters(seg.Value(source))
		if columns == 0 {
			continue
		}
		head := lines.At(i - 1)
		if cells(head.Value(source)) != columns {
			return
		}
		t := &table{}
		t.SetPos(head.Start)
		for j := i + 1; j < lines.Len(); j++ {
			t.rows = append(t.rows, lines.At(j).Start)
		}
		lines.SetSliced(0, i-1)
		parent.InsertAfter(parent, node, t)
		if lines.Len() == 0 {
			parent.RemoveChild(parent, node)
		}
		return
	}
}

// delimiters returns the columns of a delimiter line such as "| --- |:-:|", 0 when line is none.
func delimiters(line []byte) int {
	indent := 0
	for indent < len(line) && line[indent] == ' ' {
		indent++
	}
	if indent > 3 || indent < len(line) && line[indent] == '\t' {
		return 0
	}
	line = bytes.TrimSpace(line)
	if len(bytes.Trim(line, "-")) == 0 { // empty, or only dashes: a rule or a heading's underline
		return 0
	}
	line = bytes.TrimPrefix(line, []byte{'|'})
	line = bytes.TrimSuffix(line, []byte{'|'})
	columns := 0
	for len(line) > 0 || columns == 0 {
		cell, rest, more := bytes.Cut(line, []byte{'|'})
		cell = bytes.TrimSpace(cell)
		cell = bytes.TrimPrefix(cell, []byte{':'})
		cell = bytes.TrimSuffix(cell, []byte{':'})
		if len(cell) == 0 || len(bytes.Trim(cell, "-")) != 0 {
			return 0
		}
		columns++
		if !more {
			break
		}
		if len(rest) == 0 {
			return 0
		}
		line = rest
	}
	return columns
}

// cells counts the cells of a row: between pipes that no backslash escapes, the outer ones aside.
func cells(line []byte) int {
	line = bytes.TrimSpace(line)
	if len(line) > 0 && line[0] == '|' {
		line = line[1:]
	}
	if n := len(line); n > 0 && line[n-1] == '|' {
		line = line[:n-1]
	}
	n := 0
	for i := 0; i < len(line); i++ {
		n++
		for i < len(line) && (line[i] != '|' || i > 0 && line[i-1] == '\\') {
			i++
		}
	}
	return n
}
