package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// Codes of replies that could not be used.
const (
	CodeProse     = "reply_prose"       // no JSON in it
	CodeInvalid   = "reply_invalid"     // JSON of another shape
	CodeEcho      = "reply_schema_echo" // the schema instead of an answer
	CodeTruncated = "reply_truncated"   // cut
	CodeRefused   = "reply_refused"     // the model will not
	CodeEmpty     = "reply_empty"
)

// ReplyError says why a reply could not be used.
type ReplyError struct{ Code, Message string }

func (e *ReplyError) Error() string { return e.Message }

func bad(code, format string, args ...any) error {
	return &ReplyError{code, fmt.Sprintf(format, args...)}
}

const (
	// maxReply is what is read of a reply.
	maxReply = 4 << 20
	// maxStarts is how many places are tried as the beginning of the JSON.
	maxStarts = 64
)

var (
	thinking = regexp.MustCompile(`(?is)<(think|thinking|reasoning)>.*?</(?:think|thinking|reasoning)>`)
	thought  = regexp.MustCompile(`(?is)<(?:think|thinking|reasoning)>.*$`)
	refusing = regexp.MustCompile(`(?i)^\W*(i'?m sorry|i am sorry|sorry\b|i apologi[sz]e|i (really )?(can ?not|can[’']?t|am (not able|unable)|won[’']?t)|as an ai\b|unfortunately,? i\b|i must decline` +
		`|es tut mir leid|(ich )?(entschuldigung|kann (dabei|das|ihnen|dir) nicht)|je suis désolée?|désolée?\b|je ne peux pas|lo siento|no puedo\b|desculpe|não posso|mi dispiace|non posso` +
		`|извините|простите|к сожалению|я не могу|对不起|抱歉|很抱歉|我不能|我无法|申し訳|すみません|お答えできません|عذر|آسف|لا أستطيع|لا يمكنني)`)
	bareWord = regexp.MustCompile(`^(?:-?Infinity|NaN|nan|None|True|False|undefined)`)
)

// Parse reads a reply: thoughts, fences and prose around the JSON are taken off, known variants of its shape are mapped. The error is a
// *ReplyError. Nothing in a reply is believed: what an item is worth is the validator's to say.
func Parse(raw string) (extract.Items, error) {
	if len(raw) > maxReply {
		return extract.Items{}, bad(CodeInvalid, "the reply has %d bytes, at most %d are read", len(raw), maxReply)
	}
	text := strings.ToValidUTF8(raw, "\uFFFD")
	text = thinking.ReplaceAllString(text, "")
	text = strings.TrimSpace(thought.ReplaceAllString(text, ""))
	if text == "" {
		return extract.Items{}, bad(CodeEmpty, "the reply is empty")
	}
	var whole string
	if text[0] == '"' && json.Unmarshal([]byte(text), &whole) == nil { // JSON as a text of JSON
		text = strings.TrimSpace(whole)
	}
	found, err := lookFor(text)
	if err != nil {
		return extract.Items{}, err
	}
	return items(found)
}

// lookFor returns what the JSON values in a text that have the shape of an answer come to: a later one takes the place of an
// earlier one, list by list, unless it says nothing.
func lookFor(text string) (answer, error) {
	var out answer
	var other error
	cut, found := false, false
	for i, tries := 0, 0; i < len(text) && tries < maxStarts; i++ {
		if c := text[i]; c != '{' && c != '[' {
			continue
		}
		if !opens(text[i:]) {
			continue
		}
		tries++
		end, ok := balanced(text[i:])
		if !ok {
			cut = true
			if answers(text[i:]) {
				return answer{}, bad(CodeTruncated, "the reply is cut") // what is inside it is not the reply
			}
			continue
		}
		v, err := decode(text[i : i+end])
		if err != nil {
			if answers(text[i:]) { // what is inside it is not the reply
				return answer{}, bad(CodeInvalid, "the JSON does not parse: %v", err)
			}
			if other == nil {
				other = bad(CodeInvalid, "the JSON does not parse: %v", err)
			}
			continue
		}
		i += end - 1
		a, err := shape(v)
		if err != nil {
			if other == nil {
				other = err
			}
			continue
		}
		found = true
		if len(a.entities) > 0 {
			out.entities = a.entities
		}
		if len(a.relations) > 0 {
			out.relations = a.relations
		}
	}
	switch {
	case found:
		return out, nil
	case other != nil:
		return answer{}, other
	case cut:
		return answer{}, bad(CodeTruncated, "the reply is cut")
	case refusing.MatchString(text):
		return answer{}, bad(CodeRefused, "the model refuses")
	}
	return answer{}, bad(CodeProse, "there is no JSON in the reply")
}

// opens says whether an opening bracket can begin JSON rather than prose.
func opens(s string) bool {
	rest := strings.TrimLeft(s[1:min(len(s), 200)], " \t\r\n")
	if rest == "" {
		return len(s) < 200
	}
	if s[0] == '{' {
		return rest[0] == '"' || rest[0] == '}' || answers(s[:1]+rest[:min(len(rest), 14)])
	}
	return rest[0] == '{' || rest[0] == '[' || rest[0] == ']' || rest[0] == '"'
}

// answers says whether a text that opens with a bracket begins as an answer does.
func answers(s string) bool {
	s = strings.ToLower(s[:min(len(s), 200)])
	for _, keys := range [][]string{entitiesKeys, relationsKeys, nameKeys} {
		for _, k := range keys {
			if strings.Contains(s, `"`+k+`"`) || strings.Contains(s, k+":") {
				return true
			}
		}
	}
	return false
}

// balanced returns where the value that begins a text ends.
func balanced(s string) (int, bool) {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

// decode reads JSON with the slips that models make: words that JSON does not have, and commas before a closing bracket.
func decode(s string) (any, error) {
	v, err := unmarshal(s)
	if err == nil {
		return v, nil
	}
	if v, again := unmarshal(mended(s)); again == nil {
		return v, nil
	}
	return nil, err
}

func unmarshal(s string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// mended makes a text of each word that JSON does not have, but true, false and null of those that it has by another name, and leaves
// out commas that close a list.
func mended(s string) string {
	var b bytes.Buffer
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted && c == '\\' && i+1 < len(s):
			b.WriteByte(c)
			i++
			b.WriteByte(s[i])
			continue
		case c == '"':
			quoted = !quoted
		case quoted && c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		case quoted:
		case c == ',':
			if rest := strings.TrimLeft(s[i+1:], " \t\r\n"); rest != "" && (rest[0] == '}' || rest[0] == ']') {
				continue
			}
		default:
			if w := bareWord.FindString(s[i:]); w != "" {
				switch w {
				case "True", "False":
					b.WriteString(strings.ToLower(w))
				case "None", "undefined":
					b.WriteString("null")
				default:
					b.WriteString(`"` + w + `"`)
				}
				i += len(w) - 1
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// answer is a reply in its own shape: lists of objects.
type answer struct{ entities, relations []object }

// Names under which the parts of a reply are known.
var (
	entitiesKeys  = []string{"entities", "nodes", "entity"}
	relationsKeys = []string{"relations", "relationships", "edges", "triples", "relation"}
	nameKeys      = []string{"name", "entity_name", "entity", "text", "mention"}
	typeKeys      = []string{"type", "entity_type", "label", "category", "class"}
	sourceKeys    = []string{"source", "subject", "from", "head", "source_entity", "source_name"}
	targetKeys    = []string{"target", "object", "to", "tail", "target_entity", "target_name"}
	relationKeys  = []string{"type", "relation", "predicate", "relationship", "relation_type", "label"}
	quoteKeys     = []string{"quote", "evidence", "span"}
	scoreKeys     = []string{"confidence", "score", "probability"}
)

// shape recognises an answer.
func shape(v any) (answer, error) {
	switch v := v.(type) {
	case []any:
		// A bare list is one of entities, or of relations when its items have ends.
		list, err := objects("the reply", v)
		if err != nil {
			return answer{}, err
		}
		if len(list) == 0 {
			return answer{}, bad(CodeInvalid, "the reply is an empty list, not an object with entities and relations")
		}
		if first(list[0], sourceKeys...) != nil && first(list[0], targetKeys...) != nil {
			return answer{relations: list}, nil
		}
		return answer{entities: list}, nil
	case object:
		v = lowered(v)
		if s, ok := v["refusal"].(string); ok && s != "" {
			return answer{}, bad(CodeRefused, "the model refuses")
		}
		if v["$schema"] != nil || v["$defs"] != nil || v["type"] == "object" && v["properties"] != nil {
			return answer{}, bad(CodeEcho, "the reply is the schema, not an answer")
		}
		var a answer
		var err error
		es, rs := first(v, entitiesKeys...), first(v, relationsKeys...)
		if es == nil && rs == nil {
			// One level of wrapping, as in {"result": {...}}.
			for _, k := range sorted(v) {
				if in, ok := v[k].(object); ok && (first(in, entitiesKeys...) != nil || first(in, relationsKeys...) != nil) {
					return shape(in)
				}
			}
			return answer{}, bad(CodeInvalid, "the reply has neither entities nor relations")
		}
		if a.entities, err = objects("entities", es); err != nil {
			return answer{}, err
		}
		if a.relations, err = objects("relations", rs); err != nil {
			return answer{}, err
		}
		return a, nil
	}
	return answer{}, bad(CodeInvalid, "the reply is a %T, not an object", v)
}

// lowered is an object whose keys are in lower case.
func lowered(o object) object {
	for k := range o {
		if l := strings.ToLower(strings.TrimSpace(k)); l != k {
			out := make(object, len(o))
			for _, k := range sorted(o) {
				out[strings.ToLower(strings.TrimSpace(k))] = o[k]
			}
			return out
		}
	}
	return o
}

// objects makes a list of objects of what stands for one. What is no object in it becomes an empty one, which the validator counts.
func objects(what string, v any) ([]object, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case object:
		return []object{lowered(v)}, nil
	case []any:
		out := make([]object, 0, len(v))
		for _, x := range v {
			switch x := x.(type) {
			case object:
				out = append(out, lowered(x))
			case string:
				out = append(out, object{"name": x})
			default:
				out = append(out, object{})
			}
		}
		return out, nil
	}
	return nil, bad(CodeInvalid, "%s is a %T, not a list", what, v)
}

// items makes raw items of an answer. A list of entities of which none has a type is not an answer to what was asked.
func items(a answer) (extract.Items, error) {
	var out extract.Items
	typed := len(a.entities) == 0
	for _, o := range a.entities {
		e := extract.Entity{Name: text(o, nameKeys...), Start: -1, Quote: text(o, quoteKeys...), Confidence: score(o), Properties: properties(o)}
		e.Type, typed = kind(o, &typed, typeKeys...)
		out.Entities = append(out.Entities, e)
	}
	if !typed {
		return extract.Items{}, bad(CodeInvalid, "no entity of the reply has a type")
	}
	for _, o := range a.relations {
		r := extract.Relation{
			Source: -1, Target: -1, SourceName: text(o, sourceKeys...), TargetName: text(o, targetKeys...), Start: -1,
			Quote: text(o, quoteKeys...), Confidence: score(o), Assertion: assertion(o),
			Properties: properties(o),
		}
		r.Type, _ = kind(o, new(bool), relationKeys...)
		out.Relations = append(out.Relations, r)
	}
	out.Incomplete = len(out.Entities) >= maxItems || len(out.Relations) >= maxItems
	return out, nil
}

// assertion is the kind as it was given; what is no text is no kind that anybody admits.
func assertion(o object) string {
	switch v := o["assertion"].(type) {
	case nil:
		return ""
	case string:
		return strings.ToLower(strings.TrimSpace(v))
	}
	return "malformed"
}

// Unknown is the label of an item that came without a type.
const Unknown = "unknown"

// kind is an item's type; of one that fits no declared type, its kind. typed becomes true when there is one.
func kind(o object, typed *bool, keys ...string) (string, bool) {
	t := text(o, keys...)
	if strings.EqualFold(t, Other) {
		t = first1(text(o, "kind"), Other)
	}
	if t == "" {
		return Unknown, *typed
	}
	return t, true
}

func first1(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

// first is the value of the first key that is there.
func first(o object, keys ...string) any {
	for _, k := range keys {
		if v, ok := o[k]; ok && v != nil {
			return v
		}
	}
	return nil
}

// text is the first of the keys whose value is a text.
func text(o object, keys ...string) string {
	for _, k := range keys {
		switch v := o[k].(type) {
		case string:
			return norm.NFKC.String(v) // as the text is
		case object:
			if s, ok := v["name"].(string); ok {
				return norm.NFKC.String(s)
			}
		}
	}
	return ""
}

// score is the confidence as it was given: absent is unscored, null is not a number.
func score(o object) extract.Score {
	for _, k := range scoreKeys {
		if v, ok := o[k]; ok {
			return extract.ScoreOf(v)
		}
	}
	return extract.Score{}
}

// properties are those of an item: an object, or a list of names and values. Anything else is one property that no schema has.
func properties(o object) []extract.Property {
	var out []extract.Property
	add := func(name string, v any) {
		if s, ok := v.(string); ok {
			v = norm.NFKC.String(s)
		}
		if v != nil && v != "" { // a format that names all properties makes models fill in nothing
			out = append(out, extract.Property{Name: name, Value: v, Start: -1})
		}
	}
	switch p := o["properties"].(type) {
	case nil:
	case object:
		for _, name := range sorted(p) {
			add(name, p[name])
		}
	case []any:
		for _, x := range p {
			if one, ok := x.(object); ok && text(one, "name", "key", "property") != "" {
				add(text(one, "name", "key", "property"), first(one, "value"))
			} else {
				add("properties", x)
			}
		}
	default:
		add("properties", p)
	}
	return out
}

func sorted(o object) []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
