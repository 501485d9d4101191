package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
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

// Bad makes a *ReplyError.
func Bad(code, format string, args ...any) error {
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

// Object is a JSON object as it was decoded; its numbers are json.Number.
type Object = map[string]any

// Read hands the JSON values of a reply to take, one after the other: thoughts, fences and prose around them are taken off, slips that
// models make are mended. take returns an error for a value that is no answer.
//
// keys are the names, in lower case, by which an answer that is broken or cut is known. Read returns nil when take took a value; else why
// there was none, as a *ReplyError or as take's first error.
func Read(raw string, keys []string, take func(v any) error) error {
	if len(raw) > maxReply {
		return Bad(CodeInvalid, "the reply has %d bytes, at most %d are read", len(raw), maxReply)
	}
	text := strings.ToValidUTF8(raw, "\uFFFD")
	text = thinking.ReplaceAllString(text, "")
	text = strings.TrimSpace(thought.ReplaceAllString(text, ""))
	if text == "" {
		return Bad(CodeEmpty, "the reply is empty")
	}
	var whole string
	if text[0] == '"' && json.Unmarshal([]byte(text), &whole) == nil { // JSON as a text of JSON
		text = strings.TrimSpace(whole)
	}
	return values(text, keys, take)
}

func values(text string, keys []string, take func(v any) error) error {
	var other error
	cut, found := false, false
	for i, tries := 0, 0; i < len(text) && tries < maxStarts; i++ {
		if c := text[i]; c != '{' && c != '[' {
			continue
		}
		if !opens(text[i:], keys) {
			continue
		}
		tries++
		end, ok := balanced(text[i:])
		if !ok {
			cut = true
			if names(text[i:], keys) {
				return Bad(CodeTruncated, "the reply is cut") // what is inside it is not the reply
			}
			continue
		}
		v, err := decode(text[i:i+end], keys)
		if err != nil {
			if names(text[i:], keys) { // what is inside it is not the reply
				return Bad(CodeInvalid, "the JSON does not parse: %v", err)
			}
			if other == nil {
				other = Bad(CodeInvalid, "the JSON does not parse: %v", err)
			}
			continue
		}
		i += end - 1
		if err := take(v); err != nil {
			if other == nil {
				other = err
			}
			continue
		}
		found = true
	}
	switch {
	case found:
		return nil
	case other != nil:
		return other
	case cut:
		return Bad(CodeTruncated, "the reply is cut")
	case refusing.MatchString(text):
		return Bad(CodeRefused, "the model refuses")
	}
	return Bad(CodeProse, "there is no JSON in the reply")
}

// opens says whether an opening bracket can begin JSON rather than prose.
func opens(s string, keys []string) bool {
	rest := strings.TrimLeft(s[1:min(len(s), 200)], " \t\r\n")
	if rest == "" {
		return len(s) < 200
	}
	if s[0] == '{' {
		return rest[0] == '"' || rest[0] == '}' || names(s[:1]+rest[:min(len(rest), 14)], keys)
	}
	return rest[0] == '{' || rest[0] == '[' || rest[0] == ']' || rest[0] == '"'
}

// names says whether a text that opens with a bracket begins as an answer does.
func names(s string, keys []string) bool {
	s = strings.ToLower(s[:min(len(s), 200)])
	for _, k := range keys {
		if strings.Contains(s, `"`+k+`"`) || strings.Contains(s, k+":") {
			return true
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

// Answering returns an object with its keys in lower case, or why it is no answer at all: a refusal, or the schema said over again.
func Answering(o Object) (Object, error) {
	o = Lowered(o)
	if s, ok := o["refusal"].(string); ok && s != "" {
		return nil, Bad(CodeRefused, "the model refuses")
	}
	if o["$schema"] != nil || o["$defs"] != nil || o["type"] == "object" && o["properties"] != nil {
		return nil, Bad(CodeEcho, "the reply is the schema, not an answer")
	}
	return o, nil
}

// Lowered is an object whose keys are in lower case.
func Lowered(o Object) Object {
	for k := range o {
		if l := strings.ToLower(strings.TrimSpace(k)); l != k {
			out := make(Object, len(o))
			for _, k := range Sorted(o) {
				out[strings.ToLower(strings.TrimSpace(k))] = o[k]
			}
			return out
		}
	}
	return o
}

// First is the value of the first key that is there.
func First(o Object, keys ...string) any {
	for _, k := range keys {
		if v, ok := o[k]; ok && v != nil {
			return v
		}
	}
	return nil
}

// Sorted are the keys of an object.
func Sorted(o Object) []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Clip cuts s to n bytes at a rune's border.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
