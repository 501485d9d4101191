// Package researcher answers a question in words from the graph: a model decides what is looked up and what is said, and every
// sentence it says is checked here against the graph before anybody sees it as an answer.
package researcher

import (
	"context"
	"time"

	"github.com/factmill/factmill/pkg/api"
)

// Why a research ended.
const (
	StopAnswered = "answered"    // with an answer of the model, of which there may be nothing left
	StopNoModel  = "no_model"    // none is configured, or none was wanted
	StopAway     = "model_away"  // the model server cannot be reached, or does not have the model
	StopBusy     = "model_busy"  // the model server says so, again and again
	StopError    = "model_error" // the model server answers with errors
	StopReply    = "reply"       // what the model says cannot be used
	StopLoop     = "loop"        // the model takes the same steps again and again
	StopSteps    = "steps"       // the bound of steps
	StopTokens   = "tokens"      // the bound of tokens
	StopTime     = "time"        // the bound of time
)

// Reply is what a research comes to. Sequences, offsets (bytes of the stored text) and documents are as in the replies of the graph.
type Reply struct {
	Question string `json:"question"`
	// Answer are the sentences that were checked: every citation of each is of a piece of evidence that is current, and its quote is a slice of
	// it. That the quote entails the sentence is not checked.
	Answer []Sentence `json:"answer"`
	// Unsupported is what the model said without that, or says is missing: it is no part of the answer.
	Unsupported []Unsupported `json:"unsupported"`
	// Evidence is what was found, in the order in which it was found: the ranked hits of the question first.
	Evidence []Evidence `json:"evidence"`
	Steps    []Step     `json:"steps"`
	Tokens   Tokens     `json:"tokens"`
	// Within is what the research was limited to.
	Within *api.Within `json:"within,omitempty"`
	// StoppedBy is one of the Stop constants, Why says more of it in words.
	StoppedBy string `json:"stopped_by"`
	Why       string `json:"why,omitempty"`
	// Model that was asked, empty when none was; PromptID names what it was told.
	Model    string `json:"model,omitempty"`
	PromptID string `json:"prompt_id,omitempty"`
	// Notes say what hindered the search without ending it.
	Notes []string `json:"notes,omitempty"`
	// Seq is the commit that the answer was checked at; without an answer, that of the evidence.
	Seq    uint64 `json:"seq"`
	Millis int64  `json:"millis"`
}

// Sentence is one checked sentence.
type Sentence struct {
	Text      string     `json:"text"`
	Citations []Citation `json:"citations"`
}

// Citation is a quote as it stands in a document: text[start:end] of its open version.
type Citation struct {
	N        int    `json:"n"`        // of the reply's evidence
	Evidence string `json:"evidence"` // id, as fetch_evidence takes it
	Document string `json:"document"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Quote    string `json:"quote"`
}

// Unsupported is what is no answer, and why.
type Unsupported struct {
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

// Evidence is one piece that a model may cite, by the number N.
type Evidence struct {
	N     int    `json:"n"`
	ID    string `json:"evidence"`
	Cited bool   `json:"cited"`
	// About says which entity or relation it is evidence of; empty for a passage.
	About    string `json:"about,omitempty"`
	Document string `json:"document"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Quote    string `json:"quote"`
	// Best is the sentence of it that has the most words of the question.
	Best Span `json:"best"`
	// Kept: no open version of the document says it, and nobody withdrew it. It cannot be cited.
	Kept bool `json:"kept,omitempty"`
}

// Step is one turn of the model.
type Step struct {
	N int `json:"step"`
	Action
	// Found are the numbers of the pieces that it brought.
	Found []int `json:"found"`
	// Note is what else it brought, for example names of types.
	Note string `json:"note,omitempty"`
	// Refused says why nothing was done, or why an answer was not taken.
	Refused string `json:"refused,omitempty"`
}

// Tokens of prompts and replies, as the model server counts; what it does not count is guessed from the bytes.
type Tokens struct {
	Prompt     int `json:"prompt"`
	Completion int `json:"completion"`
	Limit      int `json:"limit"`
	Requests   int `json:"requests"`
}

// Limits bound a research.
type Limits struct {
	Steps  int
	Tokens int
	Time   time.Duration
}

// Bounds of limits, and what they are when nobody says.
const (
	DefaultSteps, MaxSteps              = 8, 64
	DefaultTokens, MinTokens, MaxTokens = 20_000, 1_000, 10_000_000
	DefaultTime, MinTime                = 3 * time.Minute, time.Second
	maxPieces                           = 60 // that a research holds
	MaxQuestion                         = 2000
)

// Desk is where the graph is asked. Errors are those of the way there: what the graph refuses is a note of what was found.
type Desk interface {
	// Do takes a step: search, entity, relations, path, types, or read (of piece at).
	Do(ctx context.Context, a Action, at Evidence) (Found, error)
	// Check says of each citation whether it can be used now: its evidence exists and is current, and its quote is in it.
	Check(ctx context.Context, quotes []Quoted) ([]Verdict, uint64, error)
}

// Found is what a step brought. N of the evidence is not set.
type Found struct {
	Evidence []Evidence
	// Note is what else there is to say, for the model: data of the graph too.
	Note string
	// Hindered says what did not work and was done without, for people.
	Hindered string
	Seq      uint64
}

// Quoted is a quote of a piece of evidence.
type Quoted struct{ Evidence, Quote string }

// Verdict is what the graph says of a Quoted.
type Verdict struct {
	OK bool
	// Why it cannot be used, in words.
	Why string
}
