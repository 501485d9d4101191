package parse

import (
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/factmill/factmill/pkg/events"
)

// Bounds of a front matter. A block beyond maxFront is read as text; values beyond the others are left out.
const (
	maxFront       = 64 << 10
	maxFrontKeys   = 100
	maxFrontValues = 200 // of one list
	maxFrontValue  = 4 << 10
	maxFrontSum    = 32 << 10 // of all values that become metadata
)

// readMarkdown takes a YAML front matter out of the text, and the title out of it or the first heading.
func readMarkdown(text string) Record {
	block, body, ok := cutFrontMatter(text)
	if !ok {
		return Record{Text: text, Title: FirstHeading(text)}
	}
	r := Record{}
	if !r.frontMatter(block) { // a text between two rules
		return Record{Text: text, Title: FirstHeading(text)}
	}
	r.Text = body
	if r.Title == "" {
		r.Title = FirstHeading(body)
	}
	return r
}

// cutFrontMatter finds the block between "---" on the first line and "---" or "..." on a line of its own.
func cutFrontMatter(text string) (block, body string, ok bool) {
	rest := strings.TrimPrefix(text, "\uFEFF")
	line, rest := cutLine(rest)
	if strings.TrimRight(line, " \t") != "---" {
		return "", "", false
	}
	begin := rest
	for rest != "" {
		size := len(begin) - len(rest)
		if size > maxFront {
			return "", "", false
		}
		line, rest = cutLine(rest)
		if line = strings.TrimRight(line, " \t"); line == "---" || line == "..." {
			return begin[:size], strings.TrimLeft(rest, "\r\n"), true
		}
	}
	return "", "", false
}

// frontMatter takes over what a block says; false when it is no YAML mapping. Anchors are not followed, so nothing grows.
func (r *Record) frontMatter(block string) bool {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(block), &doc); err != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return false
	}
	pairs := doc.Content[0].Content
	sum := 0
	for i := 0; i+1 < len(pairs) && i < 2*maxFrontKeys; i += 2 {
		key, value := pairs[i], pairs[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "" || len(key.Value) > maxName {
			continue
		}
		if r.frontField(strings.ToLower(key.Value), value) {
			continue
		}
		v, size := plain(value)
		if v == nil || sum+size+len(key.Value) > maxFrontSum {
			continue
		}
		sum += size + len(key.Value)
		r.putMetadata(key.Value, v)
	}
	return true
}

// frontField takes a field with a meaning of its own; false leaves it to the metadata.
func (r *Record) frontField(name string, value *yaml.Node) bool {
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		return false
	}
	var into *string
	switch name {
	case "title":
		if r.Title = title(value.Value); r.Title != "" {
			return true
		}
		return false
	case "date", "published", fieldPublished, "publishdate", "pubdate":
		into = &r.PublishedAt
	case fieldDate:
		into = &r.ContentDate
	default:
		return false
	}
	when := frontDate(value.Value)
	if when == "" || *into != "" {
		return false
	}
	*into = when
	return true
}

// spaced is how YAML, and the generators of web sites, write a time.
var spaced = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[ Tt]\d{1,2}:\d{2}`)

// frontDate reads a date or a time; "" when it is none.
func frontDate(s string) string {
	s = strings.TrimSpace(s)
	if _, err := events.ParseTime(s); err == nil {
		return s
	}
	if !spaced.MatchString(s) {
		return ""
	}
	s = strings.Replace(strings.ToUpper(s), "T", " ", 1)
	for _, layout := range []string{"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05-07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04 -0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	if t, err := time.Parse("2006-01-02 15:04", s); err == nil { // of no place: the day is all that is sure
		return t.Format(time.DateOnly)
	}
	return ""
}

// plain is a value as metadata: a string, a number, or a list of these; nil for anything else. size is about its bytes.
func plain(n *yaml.Node) (value any, size int) {
	switch n.Kind {
	case yaml.ScalarNode:
		return scalarValue(n)
	case yaml.SequenceNode:
		list := []any{}
		for _, e := range n.Content[:min(len(n.Content), maxFrontValues)] {
			if e.Kind != yaml.ScalarNode {
				continue
			}
			v, s := scalarValue(e)
			if v != nil {
				list, size = append(list, v), size+s
			}
		}
		if len(list) == 0 {
			return nil, 0
		}
		return list, size
	default:
		return nil, 0
	}
}

func scalarValue(n *yaml.Node) (any, int) {
	if len(n.Value) > maxFrontValue {
		return nil, 0
	}
	switch n.Tag {
	case "!!int", "!!float":
		return numeric(n.Value), len(n.Value)
	case "!!str", "!!timestamp":
		if s := strings.TrimSpace(n.Value); s != "" {
			return s, len(s)
		}
	}
	return nil, 0
}
