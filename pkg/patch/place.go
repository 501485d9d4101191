package patch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// errHand is returned for a file that holds what is to be changed in a form that is not edited here.
var errHand = errors.New("cannot be edited in place")

func handf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errHand, fmt.Sprintf(format, args...))
}

type placeKind uint8

const (
	nullPlace placeKind = iota
	textPlace
	listPlace
	mapPlace
)

// place is a value of a YAML or JSON file and where it stands, in bytes.
type place struct {
	kind   placeKind
	text   string
	alias  bool
	flow   bool // a list in [] or a map in {}
	start  int  // the first byte, of its anchor or tag if it has one; of an absent value the byte behind its key's colon
	end    int  // behind the last byte; of block collections and texts of several lines see file.blockEnd
	limit  int  // where what follows begins
	absent bool // a null that is not written
	col    int  // of block collections: the column of keys or dashes
	fields []entry
	items  []*place
}

type entry struct {
	key          string
	start, colon int // of the key, and behind the colon (in flow maps without one: behind the key)
	value        *place
}

func (p *place) field(key string) (entry, bool) {
	for _, f := range p.fields {
		if f.key == key {
			return f, true
		}
	}
	return entry{}, false
}

// file is a schema file with the lines that YAML counts.
type file struct {
	data  []byte
	lines []int // where each line starts
	json  bool
	root  *place
}

// open reads where everything stands. The file is one that the schema parser has read.
func open(data []byte) (f *file, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the YAML parser passes its own panics on
			f, err = nil, handf("%v", cause)
		}
	}()
	f = &file{data: data, lines: []int{0}}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		f.lines[0] = 3
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		i += n
		switch {
		case r == '\r' && i < len(data) && data[i] == '\n':
		case r == '\n', r == '\r', r == '\u0085', r == '\u2028', r == '\u2029':
			f.lines = append(f.lines, i)
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, handf("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 {
		return nil, handf("it is empty")
	}
	limit := len(data)
	for i := len(f.lines) - 1; i > 0; i-- {
		if line := f.line(i); strings.HasPrefix(line, "...") {
			limit = f.lines[i]
		}
	}
	f.root, err = f.place(doc.Content[0], 0, limit)
	return f, err
}

// offset is where line and column, both from 1, are.
func (f *file) offset(line, col int) (int, error) {
	if line < 1 || line > len(f.lines) {
		return 0, handf("line %d is not there", line)
	}
	at := f.lines[line-1]
	for range col - 1 {
		if at >= len(f.data) {
			break
		}
		_, n := utf8.DecodeRune(f.data[at:])
		at += n
	}
	return at, nil
}

// lineOf is the index of the line that holds a byte.
func (f *file) lineOf(at int) int {
	i, found := slices.BinarySearch(f.lines, at)
	if !found {
		i--
	}
	return max(i, 0)
}

// line is the text of a line, without its end.
func (f *file) line(i int) string {
	return strings.TrimRight(string(f.data[f.lines[i]:f.next(i)]), "\r\n\u0085\u2028\u2029")
}

// next is where the line behind line i starts.
func (f *file) next(i int) int {
	if i+1 < len(f.lines) {
		return f.lines[i+1]
	}
	return len(f.data)
}

// column of a byte, in characters.
func (f *file) column(at int) int { return utf8.RuneCount(f.data[f.lines[f.lineOf(at)]:at]) }

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// place turns a node into a place. from is where its absent value would stand, limit where what follows it begins.
func (f *file) place(n *yaml.Node, from, limit int) (*place, error) {
	p := &place{start: from, end: from, limit: limit}
	at, err := f.offset(n.Line, n.Column)
	if err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		p.start, p.alias = at, true
		p.end = at + len(n.Value) + 1
		return p, nil
	case yaml.ScalarNode:
		return p, f.scalar(p, n, at)
	}
	p.start = at
	p.flow = n.Style&yaml.FlowStyle != 0
	if p.kind = mapPlace; n.Kind == yaml.SequenceNode {
		p.kind = listPlace
	}
	if p.flow {
		open := f.afterProperties(at)
		if p.end, err = f.collectionEnd(open); err != nil {
			return nil, err
		}
		p.limit = p.end
	}
	if p.kind == mapPlace {
		err = f.mapping(p, n)
	} else {
		err = f.sequence(p, n)
	}
	return p, err
}

func (f *file) mapping(p *place, n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		start, err := f.offset(k.Line, k.Column)
		if err != nil {
			return err
		}
		if k.Kind != yaml.ScalarNode {
			return handf("line %d has a key that is no plain text", k.Line)
		}
		limit := p.limit
		if i+2 < len(n.Content) {
			if limit, err = f.offset(n.Content[i+2].Line, n.Content[i+2].Column); err != nil {
				return err
			}
		}
		e := entry{key: k.Value, start: start}
		keyEnd, err := f.scalarEnd(start, p.flow)
		if err != nil {
			return err
		}
		e.colon = keyEnd
		if rest := f.data[keyEnd:limit]; len(rest) > 0 {
			if s := bytes.TrimLeft(rest, " \t"); len(s) > 0 && s[0] == ':' {
				e.colon = keyEnd + len(rest) - len(s) + 1
			} else if !p.flow {
				return handf("line %d has a key in a long form", k.Line)
			}
		}
		if e.value, err = f.place(v, e.colon, limit); err != nil {
			return err
		}
		if i == 0 {
			p.col = f.column(start)
		}
		p.fields = append(p.fields, e)
	}
	return nil
}

func (f *file) sequence(p *place, n *yaml.Node) error {
	for i, item := range n.Content {
		start, err := f.offset(item.Line, item.Column)
		if err != nil {
			return err
		}
		limit := p.limit
		if i+1 < len(n.Content) {
			if limit, err = f.offset(n.Content[i+1].Line, n.Content[i+1].Column); err != nil {
				return err
			}
		}
		v, err := f.place(item, start, limit)
		if err != nil {
			return err
		}
		if i == 0 && !p.flow {
			before := strings.TrimRight(string(f.data[f.lines[f.lineOf(start)]:start]), " ")
			if !strings.HasSuffix(before, "-") {
				return handf("line %d holds a list whose dashes stand apart", item.Line)
			}
			p.col = utf8.RuneCountInString(before) - 1
		}
		p.items = append(p.items, v)
	}
	return nil
}

func (f *file) scalar(p *place, n *yaml.Node, at int) (err error) {
	if n.ShortTag() != "!!null" {
		p.kind, p.text = textPlace, n.Value
	} else if n.Value == "" && n.Style == 0 {
		p.absent = true
		return nil
	}
	p.start = at
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		p.end = p.limit
		return nil
	}
	p.end, err = f.scalarEnd(at, false)
	if err == nil && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		// Plain texts end earlier in flow, and may go on in further lines.
		body := f.data[f.afterProperties(at):]
		p.end = at
		if bytes.HasPrefix(body, []byte(n.Value)) {
			p.end = f.afterProperties(at) + len(n.Value)
		} else {
			p.end = p.limit
		}
	}
	return err
}

// severalLines says whether a text goes on behind its first line.
func (f *file) severalLines(p *place) bool {
	return f.lineOf(p.start) != f.lineOf(max(p.start, p.end-1))
}

// afterProperties skips anchors and tags.
func (f *file) afterProperties(at int) int {
	for at < len(f.data) && (f.data[at] == '&' || f.data[at] == '!') {
		for at < len(f.data) && !blank(f.data[at]) {
			at++
		}
		at = f.skipSpace(at)
	}
	return at
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// skipSpace skips white space and comments.
func (f *file) skipSpace(at int) int {
	for at < len(f.data) {
		switch {
		case blank(f.data[at]):
			at++
		case f.data[at] == '#' && (at == 0 || blank(f.data[at-1])):
			at = f.next(f.lineOf(at))
		default:
			return at
		}
	}
	return at
}

// scalarEnd is behind a key or a quoted text, or behind a plain text on one line.
func (f *file) scalarEnd(at int, flow bool) (int, error) {
	at = f.afterProperties(at)
	if at >= len(f.data) {
		return at, nil
	}
	quote := f.data[at]
	if quote == '"' || quote == '\'' {
		for i := at + 1; i < len(f.data); i++ {
			switch {
			case quote == '"' && f.data[i] == '\\':
				i++
			case f.data[i] != quote:
			case quote == '\'' && i+1 < len(f.data) && f.data[i+1] == '\'':
				i++
			default:
				return i + 1, nil
			}
		}
		return 0, handf("a quote does not end")
	}
	end := at
	for i := at; i < len(f.data); i++ {
		c := f.data[i]
		follows := byte('\n')
		if i+1 < len(f.data) {
			follows = f.data[i+1]
		}
		if c == '\n' || c == '\r' || c == ':' && (blank(follows) || flow && strings.IndexByte(",[]{}", follows) >= 0) ||
			c == '#' && i > at && blank(f.data[i-1]) || flow && strings.IndexByte(",[]{}", c) >= 0 {
			break
		}
		if !blank(c) {
			end = i + 1
		}
	}
	return end, nil
}

// collectionEnd is behind the bracket that closes the one at a byte.
func (f *file) collectionEnd(at int) (int, error) {
	depth := 0
	for at < len(f.data) {
		at = f.afterProperties(f.skipSpace(at))
		if at >= len(f.data) {
			break
		}
		switch c := f.data[at]; c {
		case '[', '{':
			depth++
			at++
		case ']', '}':
			depth--
			at++
			if depth == 0 {
				return at, nil
			}
		case ',', '?', ':':
			at++
		default:
			end, err := f.scalarEnd(at, true)
			if err != nil {
				return 0, err
			}
			at = max(end, at+1)
		}
	}
	return 0, handf("a bracket does not close")
}

// blockEnd is where lines can be added behind a block value: behind its last line that holds anything, comments that are as deep as
// col included. Comments of what follows, and blank lines before them, stay with it. parent is the column of the key above, -1 at the root.
func (f *file) blockEnd(p *place, col, parent int) int {
	first := f.lineOf(p.start)
	last := f.lineOf(p.limit)
	if p.limit >= len(f.data) && p.limit > f.lines[last] {
		last++ // the file's last line has no end
	}
	for last-1 > first {
		line := f.line(last - 1)
		trimmed := strings.TrimLeft(line, " \t")
		depth := indent(line)
		if trimmed != "" && (trimmed[0] != '#' || depth >= col && depth > parent) {
			break
		}
		last--
	}
	return f.next(max(last-1, first))
}
