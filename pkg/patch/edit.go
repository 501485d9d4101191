package patch

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/schema"
)

// editor collects edits of one file.
type editor struct {
	*file
	s     *schema.Schema // what the file says
	edits []edit
	eol   string
	unit  int    // spaces a level
	quote string // how patterns are written: ", ' or nothing
	added map[*place]bool
}

var escapes = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// plainEscapes takes out of JSON what YAML does not read: halves of characters, and \/. Only places matter here.
func plainEscapes(data []byte) []byte {
	return escapes.ReplaceAllFunc(data, func(x []byte) []byte {
		switch {
		case string(x) == `\/`:
			return []byte("//")
		case x[1] == 'u' && (x[2] == 'd' || x[2] == 'D') && x[3] >= '8':
			return []byte(`\u0041`)
		}
		return x
	})
}

// edits are what writes the additions into a file.
func (t *todo) edits(data []byte, name string, s *schema.Schema) ([]edit, error) {
	body := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n")
	isJSON := strings.EqualFold(path.Ext(name), ".json") || len(body) > 0 && body[0] == '{' && json.Valid(body)
	view := data
	if isJSON {
		view = plainEscapes(data)
	}
	f, err := open(view)
	if err != nil {
		return nil, err
	}
	f.json = isJSON
	e := &editor{file: f, s: s, eol: "\n", unit: 2, quote: `"`, added: map[*place]bool{}}
	if bytes.Contains(data, []byte("\r\n")) {
		e.eol = "\r\n"
	}
	if f.root.kind != mapPlace || f.root.alias {
		return nil, handf("it is no map")
	}
	e.style()
	if err := e.version(raised(s.Version())); err != nil {
		return nil, err
	}
	if err := t.entityEdits(e); err != nil {
		return nil, err
	}
	if err := t.relationEdits(e); err != nil {
		return nil, err
	}
	slices.SortStableFunc(e.edits, func(x, y edit) int { return x.at - y.at })
	return e.edits, nil
}

// entityEdits puts what goes into types that are there before new types: at one place, inner ends come first. A type of an extended
// file is overridden.
func (t *todo) entityEdits(e *editor) error {
	var types []pair
	for _, label := range slices.Sorted(maps.Keys(t.properties)) {
		list := t.properties[label]
		if _, declared := e.s.Entity(label); !declared {
			continue
		}
		if at, ok := e.find("entities", label, fieldNames); !ok {
			body := []pair{{"override", out{text: "true", raw: true}}, {"properties", out{pairs: e.specs(list, nil), isMap: true}}}
			types = append(types, pair{label, out{pairs: body, isMap: true}})
		} else if err := e.properties(at, list); err != nil {
			return err
		}
	}
	for _, x := range t.entities {
		body := describe(nil, x.Description)
		if list := t.properties[x.Label]; len(list) > 0 {
			body = append(body, pair{"properties", out{pairs: e.specs(list, nil)}})
		}
		types = append(types, pair{x.Label, out{pairs: body, isMap: true}})
	}
	return e.section("entities", types)
}

func (t *todo) relationEdits(e *editor) error {
	var types []pair
	var shorts []string // their patterns are put behind all relations
	for _, label := range slices.Sorted(maps.Keys(t.patterns)) {
		list := t.patterns[label]
		if at, ok := e.find("relations", label, fieldNames); !ok { // of an extended file
			types = append(types, pair{label, out{pairs: []pair{{"add_patterns", out{list: list}}}, isMap: true}})
		} else if at.form == short {
			shorts = append(shorts, label)
		} else if err := e.patterns(at, label, list); err != nil {
			return err
		}
	}
	for _, label := range shorts {
		at, _ := e.find("relations", label, fieldNames)
		if err := e.shorts(at, label, t.patterns[label]); err != nil {
			return err
		}
	}
	for _, x := range t.relations {
		types = append(types, pair{x.Label, out{pairs: describe([]pair{{"patterns", out{list: x.Patterns}}}, x.Description), isMap: true}})
	}
	return e.section("relations", types)
}

func describe(body []pair, description string) []pair {
	if description != "" {
		body = append(body, pair{"description", out{text: description}})
	}
	return body
}

// style looks at how the file is written.
func (e *editor) style() {
	for _, section := range []string{"entities", "relations"} {
		f, ok := e.root.field(section)
		if !ok || f.value.flow || f.value.kind != mapPlace {
			continue
		}
		if n := f.value.col - e.root.col; n > 0 {
			e.unit = n
		}
	}
	f, ok := e.root.field("relations")
	if !ok || e.json {
		return
	}
	e.each(f.value, func(p *place) bool {
		if p.kind != textPlace || !strings.Contains(p.text, "->") {
			return true
		}
		switch e.data[p.start] {
		case '\'':
			e.quote = "'"
		case '"':
		default:
			e.quote = ""
		}
		return false
	})
}

// each walks a value until fn has seen enough.
func (e *editor) each(p *place, fn func(*place) bool) bool {
	if !fn(p) {
		return false
	}
	for _, f := range p.fields {
		if !e.each(f.value, fn) {
			return false
		}
	}
	for _, it := range p.items {
		if !e.each(it, fn) {
			return false
		}
	}
	return true
}

func (e *editor) put(at, cut int, text string) { e.edits = append(e.edits, edit{at, cut, text}) }

// putLines adds whole lines before a line's start, or behind the last line.
func (e *editor) putLines(at int, lines []string) {
	if at == len(e.data) && at > 0 && e.data[at-1] != '\n' && e.data[at-1] != '\r' {
		e.put(at, 0, e.eol+strings.Join(lines, e.eol))
		return
	}
	e.put(at, 0, strings.Join(lines, e.eol)+e.eol)
}

// version raises the version; a file without one says 1.
func (e *editor) version(next string) error {
	f, ok := e.root.field("version")
	if !ok {
		p := pair{"version", out{text: next, quoted: true}}
		if e.root.flow {
			return e.flowAppend(e.root, e.flowPair(p))
		}
		at := e.lines[e.lineOf(e.root.fields[0].start)]
		if name, ok := e.root.field("name"); ok && !name.value.alias {
			at = e.blockEnd(name.value, e.root.col+1, e.root.col)
		}
		e.putLines(at, e.blockPair(p, e.root.col))
		return nil
	}
	v := f.value
	switch {
	case v.alias || v.kind == listPlace || v.kind == mapPlace:
		return handf("its version is an alias")
	case v.absent:
		e.put(f.colon, 0, ` "`+next+`"`)
	case v.kind == nullPlace:
		e.put(v.start, v.end-v.start, `"`+next+`"`)
	default:
		end := v.end
		if c := e.data[end-1]; c == '"' || c == '\'' {
			end--
		}
		text := strings.TrimSpace(v.text)
		same := 0
		for same < len(text) && same < len(next) && text[same] == next[same] {
			same++
		}
		was := text[same:]
		if !bytes.HasSuffix(e.data[v.start:end], []byte(was)) {
			return handf("its version is written in an unusual way")
		}
		e.put(end-len(was), len(was), next[same:])
	}
	return nil
}

// section adds types to a section of the file, which it makes where there is none.
func (e *editor) section(name string, types []pair) error {
	if len(types) == 0 {
		return nil
	}
	f, ok := e.root.field(name)
	if !ok {
		whole := pair{name, out{pairs: types, isMap: true}}
		if e.root.flow {
			return e.flowAppend(e.root, e.flowPair(whole))
		}
		e.putLines(e.blockEnd(e.root, e.root.col, -1), e.blockPair(whole, e.root.col))
		return nil
	}
	if f.value.alias {
		return handf("%s is an alias", name)
	}
	if f.value.kind != listPlace {
		for i, t := range types {
			if name == "relations" && shortRelations(f.value) && len(t.value.pairs) == 1 && t.value.pairs[0].key == "patterns" {
				types[i].value = out{list: t.value.pairs[0].value.list}
			}
		}
		return e.addPairs(f, e.root.flow, e.root.col, types)
	}
	for _, t := range types {
		if err := e.item(f.value, name, t); err != nil {
			return err
		}
	}
	return nil
}

// item adds a type to a list in the way that its other types are written.
func (e *editor) item(v *place, name string, t pair) error {
	body := t.value.pairs
	if name == "relations" && len(v.items) > 0 && v.items[len(v.items)-1].kind == textPlace && len(body) == 1 && body[0].key == "patterns" {
		for _, x := range body[0].value.list {
			if err := e.addItem(v, e.root.col, e.pattern(arrow(t.key, x))); err != nil {
				return err
			}
		}
		return nil
	}
	objects := slices.ContainsFunc(v.items, func(p *place) bool { return p.kind == mapPlace })
	if len(body) == 0 && !objects {
		return e.addItem(v, e.root.col, e.word(t.key))
	}
	body = append([]pair{{"label", out{text: t.key}}}, body...)
	if v.flow || len(v.items) > 0 && v.items[len(v.items)-1].flow {
		return e.addItem(v, e.root.col, e.flow(out{pairs: body}))
	}
	var lines []string
	for _, p := range body {
		lines = append(lines, e.blockPair(p, v.col+2)...)
	}
	lines[0] = strings.Repeat(" ", v.col) + "- " + strings.TrimLeft(lines[0], " ")
	e.putLines(e.blockEnd(v, v.col, e.root.col), lines)
	return nil
}

// arrow is "A-REL->B" of REL and "A->B".
func arrow(label, pattern string) string {
	a, b, _ := strings.Cut(pattern, "->")
	return a + "-" + label + "->" + b
}

// shortRelations says whether all relations of a section are patterns alone.
func shortRelations(v *place) bool {
	return len(v.fields) > 0 && !slices.ContainsFunc(v.fields, func(f entry) bool { return f.value.kind != textPlace && f.value.kind != listPlace })
}

// addItem adds an item to a list.
func (e *editor) addItem(v *place, parent int, text string) error {
	if v.flow {
		return e.flowAppend(v, text)
	}
	e.putLines(e.blockEnd(v, v.col, parent), []string{strings.Repeat(" ", v.col) + "- " + text})
	return nil
}

// addPairs adds fields to the map that a key holds, which may be nothing yet. inFlow says whether the key stands in a flow map;
// col is the column of the key.
func (e *editor) addPairs(at entry, inFlow bool, col int, pairs []pair) error {
	v := at.value
	switch {
	case v.alias:
		return handf("%s is an alias", at.key)
	case v.kind == mapPlace && v.flow:
		for _, p := range pairs {
			if err := e.flowAppend(v, e.flowPair(p)); err != nil {
				return err
			}
		}
	case v.kind == mapPlace:
		flat := flatMaps(v)
		var lines []string
		for _, p := range pairs {
			if flat && p.value.isMap {
				lines = append(lines, strings.Repeat(" ", v.col)+e.flowPair(p))
			} else {
				lines = append(lines, e.blockPair(p, v.col)...)
			}
		}
		e.putLines(e.blockEnd(v, v.col, col), lines)
	case v.kind == nullPlace && v.absent && !inFlow:
		var lines []string
		for _, p := range pairs {
			lines = append(lines, e.blockPair(p, col+e.unit)...)
		}
		e.putLines(e.next(e.lineOf(at.colon)), lines)
	case v.kind == nullPlace && v.absent:
		text := " " + e.flow(out{pairs: pairs, isMap: true})
		if e.data[at.colon-1] != ':' {
			text = ":" + text
		}
		e.put(at.colon, 0, text)
	case v.kind == nullPlace:
		e.put(v.start, v.end-v.start, e.flow(out{pairs: pairs, isMap: true}))
	default:
		return handf("%s is no map", at.key)
	}
	return nil
}

// flatMaps says whether the maps in a block map are all written in braces.
func flatMaps(v *place) bool {
	some := false
	for _, f := range v.fields {
		if f.value.kind == mapPlace && !f.value.flow {
			return false
		}
		some = some || f.value.kind == mapPlace && len(f.value.fields) > 0
	}
	return some
}

// flowAppend adds an element to a collection in brackets, on a line of its own where the last one has one.
func (e *editor) flowAppend(p *place, text string) error {
	start, end := 0, 0
	switch {
	case len(p.fields) > 0:
		last := p.fields[len(p.fields)-1]
		start, end = last.start, last.value.end
		if last.value.absent {
			end = last.colon
		}
	case len(p.items) > 0:
		last := p.items[len(p.items)-1]
		start, end = last.start, last.end
	default:
		e.put(e.afterProperties(p.start)+1, 0, e.again(p, ", ")+text)
		return nil
	}
	line := e.lineOf(start)
	margin := string(e.data[e.lines[line]:start])
	behind := e.skipSpace(end)
	comma := behind < len(e.data) && e.data[behind] == ','
	if strings.Trim(margin, " \t") != "" || comma && e.lineOf(behind) != e.lineOf(end) {
		e.put(end, 0, ", "+text)
		return nil
	}
	stop := e.lines[e.lineOf(end)] + len(e.line(e.lineOf(end)))
	if closes := bytes.IndexAny(e.data[end:stop], "]}"); closes >= 0 { // the bracket closes on this line
		stop = end
	}
	more := e.again(p, ",")
	switch {
	case comma && stop > end:
		e.put(stop, 0, e.eol+margin+text+",")
	case comma:
		e.put(behind+1, 0, more+e.eol+margin+text)
	case more != "":
		e.put(stop, 0, more+e.eol+margin+text)
	default:
		e.put(end, 0, ",")
		e.put(stop, 0, e.eol+margin+text)
	}
	return nil
}

// again returns the separator once something was added to a collection.
func (e *editor) again(p *place, separator string) string {
	if e.added[p] {
		return separator
	}
	e.added[p] = true
	return ""
}
