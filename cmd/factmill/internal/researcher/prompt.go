package researcher

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/llm"
)

// PromptID names the version of the instruction. Raise it with the prompt's file.
const PromptID = "ask/1"

var (
	//go:embed prompts/ask-1.txt
	askText string
	//go:embed prompts/repair-1.txt
	repairText string

	system = strings.ReplaceAll(askText, "%MIN%", strconv.Itoa(MinQuote))
)

// What the format lets a model write: its grammar is expanded by the server.
const (
	maxSentences = 8
	maxCitations = 3
	maxMissing   = 4
	maxSentence  = 400
	maxQuote     = 300
	maxQuery     = 160
)

// pieceShown is how much of a piece a model is shown, in bytes.
const pieceShown = 900

type (
	shownQuestion struct {
		Question string `json:"question"`
	}
	shownPiece struct {
		Evidence int    `json:"evidence"`
		Document string `json:"document"`
		About    string `json:"about,omitempty"`
		Text     string `json:"text"`
	}
	shownStep struct {
		Step int `json:"step"`
		Action
		Found   []int  `json:"found"`
		Note    string `json:"note,omitempty"`
		Refused string `json:"refused,omitempty"`
	}
)

// prompt is the message of one turn: the question, what was found, the steps taken, and which turn it is. At most room bytes of evidence and steps
// are shown: every step, then the pieces that the last one found, then the others in their order. shown are the numbers of the pieces.
func prompt(question string, pieces []Evidence, steps []Step, turn, turns, room int, last bool) (text string, shown []int, err error) {
	q, err := line(shownQuestion{question})
	if err != nil {
		return "", nil, err
	}
	var done bytes.Buffer
	for _, s := range steps {
		a := s.Action
		a.Sentences, a.Missing = nil, nil
		b, err := line(shownStep{s.N, a, s.Found, s.Note, s.Refused})
		if err != nil {
			return "", nil, err
		}
		done.Write(b)
	}
	room -= done.Len()
	lines := make([][]byte, len(pieces))
	for _, i := range byNeed(pieces, steps) {
		e := pieces[i]
		if e.Kept {
			continue // it cannot be cited
		}
		b, err := line(shownPiece{e.N, e.Document, e.About, llm.Clip(e.Quote, pieceShown)})
		if err != nil {
			return "", nil, err
		}
		if room -= len(b); room < 0 {
			break
		}
		lines[i] = b
	}
	var body bytes.Buffer
	for i, b := range lines {
		if body.Write(b); b != nil {
			shown = append(shown, pieces[i].N)
		}
	}
	body.Write(done.Bytes())
	var b strings.Builder
	b.Write(q)
	switch {
	case len(pieces) == 0 && body.Len() == 0:
		b.WriteString("Nothing was found yet.\n")
	default:
		b.WriteString(llm.Marked(body.String()))
	}
	if last {
		fmt.Fprintf(&b, "This is the last step: answer now. Without evidence, \"sentences\" is [].\n")
	} else {
		fmt.Fprintf(&b, "This is step %d of at most %d. Take one step.\n", turn, turns)
	}
	return b.String(), shown, nil
}

// line is v as a line of JSON in which nothing is hidden.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode what a model is shown: %w", err)
	}
	return []byte(llm.Visible(b.String())), nil
}

// byNeed are the places of pieces: what the last step brought first, then all others in their order.
func byNeed(pieces []Evidence, steps []Step) []int {
	first := map[int]bool{}
	if len(steps) > 0 {
		for _, n := range steps[len(steps)-1].Found {
			first[n] = true
		}
	}
	var out, rest []int
	for i, e := range pieces {
		if first[e.N] {
			out = append(out, i)
		} else {
			rest = append(rest, i)
		}
	}
	return append(out, rest...)
}

type object = map[string]any

// format is the JSON schema of a turn: an answer that cites the pieces of shown, or another step where the turn is not the last. A model
// writes properties in their order here, by name: a sentence comes after its quotes.
func format(shown []int, last bool) (json.RawMessage, error) {
	text := func(n int) object { return object{"type": "string", "maxLength": n} }
	list := func(item object, n int) object { return object{"type": "array", "maxItems": n, "items": item} }
	step := func(name string, required []string, props object) object {
		props["action"] = object{"const": name}
		return object{"type": "object", "required": append([]string{"action"}, required...), "properties": props}
	}
	sentences := object{"type": "array", "maxItems": 0}
	if len(shown) > 0 {
		cite := object{"type": "object", "required": []string{"evidence", "quote"}, "properties": object{"evidence": object{"enum": shown}, "quote": text(maxQuote)}}
		cites := list(cite, maxCitations)
		cites["minItems"] = 1
		sentences = list(object{"type": "object", "required": []string{"text", "citations"}, "properties": object{"text": text(maxSentence), "citations": cites}}, maxSentences)
	}
	answer := step(ActAnswer, []string{"sentences", "unanswered"}, object{"sentences": sentences, "unanswered": list(text(maxQuery), maxMissing)})
	f := answer
	if !last {
		all := []object{}
		if len(shown) > 0 {
			all = append(all, answer, step(ActRead, []string{"evidence"}, object{"evidence": object{"enum": shown}}))
		}
		f = object{"anyOf": append(all,
			step(ActSearch, []string{"query"}, object{"query": text(maxQuery)}),
			step(ActEntity, []string{"query"}, object{"query": text(maxQuery)}),
			step(ActRelations, []string{"query"}, object{"query": text(maxQuery), "relation": text(maxQuery)}),
			step(ActPath, []string{"from", "to"}, object{"from": text(maxQuery), "to": text(maxQuery)}),
			step(ActTypes, nil, object{}),
		)}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("format of a step: %w", err)
	}
	return b, nil
}

// repair is the message after a reply that could not be used.
func repair(fault string) string { return strings.ReplaceAll(repairText, "%FAULT%", fault) }
