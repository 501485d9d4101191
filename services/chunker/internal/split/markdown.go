package split

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Bounds of what is read as Markdown; a text beyond them is read as plain.
const (
	maxMarkdown = 8 << 20 // bytes; the tree takes some 15 times as much memory
	maxNesting  = 100     // quotes and list items inside each other on one line
)

// maxTitle is the most bytes of one element of a heading path.
const maxTitle = 200

// markdown reads block structure only: no inline parser, no link references. Safe for concurrent use.
var markdown = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithParagraphTransformers(util.Prioritized(tables{}, 200)),
)

// markdownBlocks returns the top-level blocks of a Markdown text.
func markdownBlocks(src string) (blocks []block) {
	if !bounded(src) {
		return plainBlocks(src)
	}
	// The parser is not ours and the text is anybody's: should it give up, the text is still text.
	defer func() {
		if recover() != nil {
			blocks = plainBlocks(src)
		}
	}()
	source := []byte(src)
	root := markdown.Parse(text.NewReader(source))
	blocks = make([]block, 0, root.ChildCount())
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		b := toBlock(n, source)
		if b.start < 0 {
			continue // an empty list item or the like: it belongs to the block before it
		}
		if len(blocks) == 0 {
			b.start = 0
		} else {
			last := &blocks[len(blocks)-1]
			if b.start <= last.start {
				continue
			}
			last.end = b.start
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return plainBlocks(src)
	}
	blocks[len(blocks)-1].end = len(src)
	return blocks
}

func toBlock(n ast.Node, source []byte) block {
	b := block{start: n.Pos(), kind: Text}
	switch n := n.(type) {
	case *ast.Heading:
		b.kind, b.level, b.title = Heading, n.Level, title(n.Lines(), source)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		b.kind = Code
	case *ast.List:
		b.kind = List
	case *table:
		b.kind, b.rows = Table, n.rows
	}
	return b
}

// title is a heading as a person reads it: white space collapsed, link targets and the commonest emphasis off.
func title(lines *text.Segments, source []byte) string {
	var sb strings.Builder
	for i := 0; i < lines.Len() && sb.Len() <= 8*maxTitle; i++ {
		seg := lines.At(i)
		sb.Write(source[seg.Start:min(seg.Stop, seg.Start+8*maxTitle)])
		sb.WriteByte(' ')
	}
	s := strings.ToValidUTF8(sb.String(), "")
	if strings.ContainsAny(s, "*_`[") {
		s = unlink(emphasis.Replace(s))
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxTitle {
		s = strings.TrimSpace(strings.ToValidUTF8(s[:maxTitle], ""))
	}
	return s
}

var emphasis = strings.NewReplacer("**", "", "__", "", "`", "")

// unlink turns [text](target) into text.
func unlink(s string) string {
	var sb strings.Builder
	for {
		open := strings.IndexByte(s, '[')
		mid := strings.Index(s, "](")
		if open < 0 || mid < open {
			break
		}
		end := strings.IndexByte(s[mid:], ')')
		if end < 0 {
			break
		}
		sb.WriteString(strings.TrimSuffix(s[:open], "!"))
		sb.WriteString(s[open+1 : mid])
		s = s[mid+end+1:]
	}
	sb.WriteString(s)
	return sb.String()
}

// bounded says whether the parser reads src in about linear time. Its cost a line grows with the quotes and list items that
// are open there and, for each, with the line's indentation; few real texts nest deeper than three. So the cost beyond two is
// added up over the lines, and has to stay below the text's length.
func bounded(src string) bool {
	if len(src) > maxMarkdown {
		return false
	}
	budget := len(src) + 4096
	open, blank := 0, true
	for rest := src; rest != ""; {
		line := rest
		if k := strings.IndexByte(rest, '\n'); k >= 0 {
			line, rest = rest[:k], rest[k+1:]
		} else {
			rest = ""
		}
		depth, indent, text := nesting(line)
		switch {
		case depth > maxNesting:
			return false
		case depth > 0:
			open = max(open, depth+indent/2)
		case text && indent == 0 && blank: // without the blank line it may continue a paragraph deep inside
			open = 0
		}
		blank = !text
		if budget -= max(0, open-2) * (1 + indent/64); budget < 0 {
			return false
		}
	}
	return true
}

// nesting counts the markers of quotes and list items that a line begins with, and its indentation in columns; text says that
// something else follows.
func nesting(line string) (depth, indent int, text bool) {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ':
			if depth == 0 {
				indent++
			}
		case '\t':
			if depth == 0 {
				indent += 4
			}
		case '>':
			depth++
		case '-', '+', '*':
			if i+1 < len(line) && line[i+1] != ' ' && line[i+1] != '\t' {
				return depth, indent, true
			}
			depth++
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			k := i
			for k < len(line) && k-i < 10 && '0' <= line[k] && line[k] <= '9' {
				k++
			}
			if k >= len(line) || line[k] != '.' && line[k] != ')' {
				return depth, indent, true
			}
			depth++
			i = k
		default:
			return depth, indent, true
		}
	}
	return depth, indent, depth > 0
}
