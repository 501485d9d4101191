package model

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// The prompts of settings.PromptID.
var (
	//go:embed prompts/extract-1.txt
	extractText string
	//go:embed prompts/repair-1.txt
	repairText string
)

const (
	// maxItems and maxText bound what the format lets a model write: its grammar is expanded by the server.
	maxItems = 60
	maxName  = 200
	maxQuote = 300
	maxKind  = 60
	// Other is the type of what fits no declared one.
	Other = "other"
)

// Prompt is the instruction for one schema. It holds nothing of any document.
type Prompt struct {
	System string
	Format json.RawMessage
}

// NewPrompt renders the instruction for a schema.
func NewPrompt(s *schema.Schema) (*Prompt, error) {
	p := &Prompt{System: strings.NewReplacer("%ENTITIES%", entityList(s), "%RELATIONS%", relationList(s)).Replace(extractText)}
	var err error
	if p.Format, err = json.Marshal(format(s)); err != nil {
		return nil, fmt.Errorf("format of replies: %w", err)
	}
	return p, nil
}

func entityList(s *schema.Schema) string {
	var b strings.Builder
	for _, e := range s.Entities() {
		line(&b, "", e.Label, e.Description)
		for _, p := range s.Properties(e.Label) {
			property(&b, p)
		}
	}
	return b.String()
}

func relationList(s *schema.Schema) string {
	var b strings.Builder
	for _, r := range s.Relations() {
		ends := make([]string, len(r.Patterns))
		for i, p := range r.Patterns {
			ends[i] = p.Source + " -> " + p.Target
		}
		line(&b, "", r.Label+" ("+strings.Join(ends, ", ")+")", r.Description)
		for _, p := range r.Properties {
			property(&b, p)
		}
	}
	return b.String()
}

func property(b *strings.Builder, p schema.Property) {
	what := string(p.Type)
	if len(p.Enum) > 0 {
		what = "one of " + strings.Join(p.Enum, ", ")
	}
	line(b, "  ", "property "+p.Name+" ("+what+")", p.Description)
}

// line writes one line of a list; a description has one, whatever the schema's author wrote.
func line(b *strings.Builder, indent, name, description string) {
	b.WriteString(indent + "- " + name)
	if d := strings.Join(strings.Fields(description), " "); d != "" {
		b.WriteString(": " + d)
	}
	b.WriteByte('\n')
}

type object = map[string]any

// format is the JSON schema of a reply.
func format(s *schema.Schema) object {
	var entities, relations []string
	props := object{}
	add := func(list []schema.Property) {
		for _, p := range list {
			t := object{"type": jsonType(p.Type)}
			if have, ok := props[p.Name]; ok && have.(object)["type"] != t["type"] {
				t = object{"type": "string"}
			}
			props[p.Name] = t
		}
	}
	for _, e := range s.Entities() {
		entities = append(entities, e.Label)
		add(s.Properties(e.Label))
	}
	for _, r := range s.Relations() {
		relations = append(relations, r.Label)
		add(r.Properties)
	}
	text := func(n int) object { return object{"type": "string", "maxLength": n} }
	score := object{"type": "number", "minimum": 0, "maximum": 1}
	entity := object{
		"name": text(maxName), "type": object{"enum": append(entities, Other)}, "kind": text(maxKind), "confidence": score, "quote": text(maxQuote),
	}
	relation := object{
		"source": text(maxName), "target": text(maxName), "type": object{"enum": append(relations, Other)}, "kind": text(maxKind),
		"confidence": score, "quote": text(maxQuote), "assertion": object{"enum": []string{"explicit", "inferred", "opinion"}},
	}
	if len(props) > 0 {
		entity["properties"] = object{"type": "object", "properties": props}
		relation["properties"] = entity["properties"]
	}
	list := func(item object, required ...string) object {
		return object{"type": "array", "maxItems": maxItems, "items": object{"type": "object", "properties": item, "required": required}}
	}
	return object{"type": "object", "required": []string{"entities", "relations"}, "properties": object{
		"entities": list(entity, "name", "type"), "relations": list(relation, "source", "target", "type"),
	}}
}

func jsonType(t schema.Type) string {
	switch t {
	case schema.TypeInteger:
		return "integer"
	case schema.TypeFloat:
		return "number"
	case schema.TypeBoolean:
		return "boolean"
	}
	return "string"
}

// Shown is what a model is shown of a chunk: its heading path when heading, the repeated head of its table, and its text, each as it
// stands in the document. The mark of the lines around it is a hash of it all, so that a text does not hold its own end.
func Shown(c graph.Chunk, text string, heading bool) string {
	context := ""
	if heading && len(c.Heading) > 0 {
		context = strings.Join(c.Heading, " > ")
	}
	if c.Prefix != "" {
		text = c.Prefix + "\n" + text
	}
	sum := sha256.Sum256([]byte(context + "\x00" + text))
	mark := hex.EncodeToString(sum[:8])
	var b strings.Builder
	if context != "" {
		b.WriteString("SECTION " + mark + "\n" + context + "\n")
	}
	b.WriteString("BEGIN " + mark + "\n" + text + "\nEND " + mark + "\n")
	return b.String()
}

// hash of what is shown, as the key of its reply.
func hash(shown string) string {
	sum := sha256.Sum256([]byte(shown))
	return hex.EncodeToString(sum[:16])
}

// repair is the message after a reply that could not be used.
func repair(fault string) string { return strings.ReplaceAll(repairText, "%FAULT%", fault) }
