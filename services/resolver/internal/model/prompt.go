package model

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/llm"
)

// PromptID names the version of the instruction. Raise it with the prompt's file.
const PromptID = "judge/1"

var (
	//go:embed prompts/judge-1.txt
	judgeText string
	//go:embed prompts/repair-1.txt
	repairText string
)

// maxReason is how many characters of a reason the format lets a model write.
const maxReason = 160

// shownPair is a pair as a model is shown it. Which of the names comes first does not depend on who asked.
type shownPair struct {
	Pair  int    `json:"pair"`
	Label string `json:"label"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Shown is what a model is shown of pairs: a JSON object a line. Names are data: as JSON they hold neither a line's end nor what opens or
// closes a tag, nor what nobody sees, and the mark of the lines around them is a hash of them, so that they do not hold their own end.
func Shown(pairs []api.JudgePair) (string, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // an ampersand is common in names
	for i, p := range pairs {
		if err := enc.Encode(shownPair{i, p.Label, min(p.A, p.B), max(p.A, p.B)}); err != nil {
			return "", fmt.Errorf("encode pair %d: %w", i, err)
		}
	}
	return llm.Marked(llm.Visible(body.String())), nil
}

type object = map[string]any

// format is the JSON schema of an answer for n pairs: each has its place, since models like to count from 1.
func format(n int) (json.RawMessage, error) {
	places := make([]object, n)
	for i := range places {
		places[i] = object{
			"type": "object", "required": []string{"pair", "verdict", "reason"}, "properties": object{
				"pair":    object{"const": i},
				"verdict": object{"enum": []string{api.VerdictMatch, api.VerdictNoMatch, api.VerdictUncertain}},
				"reason":  object{"type": "string", "maxLength": maxReason},
			},
		}
	}
	b, err := json.Marshal(object{"type": "object", "required": []string{"answers"}, "properties": object{
		"answers": object{"type": "array", "minItems": n, "maxItems": n, "prefixItems": places},
	}})
	if err != nil {
		return nil, fmt.Errorf("format of answers: %w", err)
	}
	return b, nil
}

// repair is the message after a reply that could not be used.
func repair(fault string) string { return strings.ReplaceAll(repairText, "%FAULT%", fault) }
