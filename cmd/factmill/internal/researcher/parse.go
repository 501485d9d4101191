package researcher

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/factmill/factmill/pkg/llm"
)

// Steps that a model may take.
const (
	ActAnswer    = "answer"
	ActSearch    = "search"
	ActEntity    = "entity"
	ActRelations = "relations"
	ActPath      = "path"
	ActTypes     = "types"
	ActRead      = "read"
)

var actions = []string{ActAnswer, ActSearch, ActEntity, ActRelations, ActPath, ActTypes, ActRead}

// Action is one step as a model decided it.
type Action struct {
	Name     string `json:"action"`
	Query    string `json:"query,omitempty"`
	Relation string `json:"relation,omitempty"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	// Evidence is the number of the piece to read around.
	Evidence int `json:"evidence,omitempty"`
	// Sentences and Missing are what an answer says; they are judged, not kept.
	Sentences []said   `json:"-"`
	Missing   []string `json:"-"`
}

// onlyAnswer begins what is said to a model that goes on looking where it may not.
const onlyAnswer = "only an answer is left"

// said is a sentence as a model gave it.
type said struct {
	text  string
	cites []cite
}

type cite struct {
	n     int // 0: none was given
	quote string
}

// Names under which the parts of a reply are known.
var (
	actionKeys   = []string{"action", "step", "tool", "name"}
	sentenceKeys = []string{"sentences", "answer", "answers"}
	citeKeys     = []string{"citations", "citation", "cites", "sources"}
	missingKeys  = []string{"unanswered", "missing"}
	evidenceKeys = []string{"evidence", "id", "source", "n"}
	textKeys     = []string{"text", "sentence", "answer"}
	replyKeys    = []string{"action", "sentences"}
)

// marker is a mark such as [1] in a sentence, as models write them beside their citations: shown are the citations that were checked.
var marker = regexp.MustCompile(`\s*\[\d+(?:\s*,\s*\d+)*\]`)

// parse reads a reply: the first object that is a step. last lets only an answer pass. The error is an *llm.ReplyError.
func parse(raw string, last bool) (Action, error) {
	var out Action
	taken := false
	err := llm.Read(raw, replyKeys, func(v any) error {
		if taken {
			return nil // what a model goes on to say is of a turn that it does not have
		}
		a, err := step(v)
		if err != nil {
			return err
		}
		if last && a.Name != ActAnswer {
			return llm.Bad(llm.CodeInvalid, onlyAnswer+", no %s", a.Name)
		}
		out, taken = a, true
		return nil
	})
	if taken {
		return out, nil
	}
	return out, err
}

func step(v any) (Action, error) {
	var a Action
	in, ok := v.(object)
	if !ok {
		return a, llm.Bad(llm.CodeInvalid, "the reply is a %T, not an object", v)
	}
	o, err := llm.Answering(in)
	if err != nil {
		return a, err
	}
	for _, k := range []string{"arguments", "args", "parameters", "input"} { // as models write calls of tools
		if args, ok := o[k].(object); ok {
			for key, v := range llm.Lowered(args) {
				if _, have := o[key]; !have {
					o[key] = v
				}
			}
		}
	}
	a.Name = strings.ToLower(strings.TrimSpace(str(llm.First(o, actionKeys...))))
	if a.Name == "" && llm.First(o, "sentences") != nil {
		a.Name = ActAnswer
	}
	text := func(key string) string { return clean(str(o[key]), maxQuery) }
	need := func(key, value string) error {
		if value == "" {
			return llm.Bad(llm.CodeInvalid, "%q needs %q", a.Name, key)
		}
		return nil
	}
	switch a.Name {
	case ActAnswer:
		return answer(o)
	case ActSearch, ActEntity, ActRelations:
		a.Query = text("query")
		if a.Name == ActRelations {
			a.Relation = text("relation")
		}
		return a, need("query", a.Query)
	case ActPath:
		a.From, a.To = text("from"), text("to")
		if err := need("from", a.From); err != nil {
			return a, err
		}
		return a, need("to", a.To)
	case ActTypes:
		return a, nil
	case ActRead:
		if a.Evidence = number(o["evidence"]); a.Evidence == 0 {
			return a, llm.Bad(llm.CodeInvalid, "%q needs the number of a piece of evidence", a.Name)
		}
		return a, nil
	}
	return a, llm.Bad(llm.CodeInvalid, "the action is %q: it must be one of %s", llm.Clip(a.Name, 40), strings.Join(actions, ", "))
}

// answer reads an answer. A sentence without what it needs is read as such: it is judged later, and told.
func answer(o object) (Action, error) {
	a := Action{Name: ActAnswer}
	var list []any
	switch in := llm.First(o, sentenceKeys...).(type) {
	case []any:
		list = in
	case string, object:
		list = []any{in}
	case nil:
		if llm.First(o, missingKeys...) == nil {
			return a, llm.Bad(llm.CodeInvalid, "the answer has no sentences")
		}
	default:
		return a, llm.Bad(llm.CodeInvalid, "sentences is a %T, not a list", in)
	}
	if len(list) > 4*maxSentences {
		return a, llm.Bad(llm.CodeInvalid, "the answer has %d sentences, at most %d are read", len(list), 4*maxSentences)
	}
	for _, x := range list {
		s := sentence(x)
		if s.text = strings.TrimSpace(marker.ReplaceAllString(s.text, "")); s.text != "" {
			a.Sentences = append(a.Sentences, s)
		}
	}
	for _, x := range asList(llm.First(o, missingKeys...)) {
		if m := clean(str(x), maxSentence); m != "" && len(a.Missing) < 2*maxMissing {
			a.Missing = append(a.Missing, m)
		}
	}
	return a, nil
}

func sentence(v any) said {
	o, ok := v.(object)
	if !ok {
		return said{text: clean(str(v), 2*maxSentence)}
	}
	o = llm.Lowered(o)
	s := said{text: clean(str(llm.First(o, textKeys...)), 2*maxSentence)}
	for _, x := range asList(llm.First(o, citeKeys...)) {
		if len(s.cites) == 4*maxCitations {
			break
		}
		switch x := x.(type) {
		case object:
			x = llm.Lowered(x)
			s.cites = append(s.cites, cite{number(llm.First(x, evidenceKeys...)), strings.TrimSpace(str(x["quote"]))})
		default:
			s.cites = append(s.cites, cite{n: number(x)})
		}
	}
	return s
}

func asList(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case nil:
		return nil
	}
	return []any{v}
}

func str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// number is that of a piece, given as a number or as a text of one, with or without brackets; 0 when it is none.
func number(v any) int {
	n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(str(v)), "[]#"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// clean is a model's text for people: one line, bounded.
func clean(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return llm.Clip(strings.Join(strings.Fields(s), " "), n)
}
