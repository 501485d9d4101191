package api

import (
	"strings"
	"unicode/utf8"
)

// Bounds of match.judge.
const (
	// MaxJudgePairs of a request.
	MaxJudgePairs = 10
	// MaxJudgeName is how many runes a name or label has.
	MaxJudgeName = 200
)

// JudgeRequest asks the resolver whether names are of one thing (internal verb match.judge). Nothing is stored: asking again asks the
// model again. The caller's deadline must leave room for model calls (ollama.timeout each).
type JudgeRequest struct {
	Model string `json:"model"`
	// ModelDigest is what the server must have under that name; empty: whatever it has.
	ModelDigest string `json:"model_digest,omitempty"`
	// MaxRequests that may be made of the model, counting those that are tried again; 0 is no bound of the caller's.
	MaxRequests int         `json:"max_requests,omitempty"`
	Pairs       []JudgePair `json:"pairs"`
}

// JudgePair is two names of one label. Their order does not matter.
type JudgePair struct {
	Label string `json:"label"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Verdicts.
const (
	VerdictMatch     = "match"
	VerdictNoMatch   = "no_match"
	VerdictUncertain = "uncertain"
)

// Whys of a verdict that is uncertain not because the model says so: of one pair…
const (
	WhyMissing      = "missing"         // no answer is for the pair
	WhyOutOfRange   = "out_of_range"    // the answers are for pairs that were not asked about, and none for this one
	WhyRepeated     = "repeated"        // several answers, of one mind
	WhyContradicted = "contradicted"    // several answers, not of one mind
	WhyUnknown      = "unknown_verdict" // an answer that is no verdict
	// …or of the whole question, which is counted as failed: one of the codes of replies (reply_truncated, reply_refused, reply_prose,
	// reply_invalid, reply_schema_echo, reply_empty), or
	WhyModelError = "model_error"  // the server answered with errors
	WhyBudget     = "max_requests" // the question was not answered within max_requests
)

// JudgeVerdict of one pair.
type JudgeVerdict struct {
	Verdict string `json:"verdict"`
	// Reason is the model's, in its words; at most 300 bytes. It is shown, never acted on.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
}

// JudgeReply has one verdict a pair, in order.
type JudgeReply struct {
	Verdicts []JudgeVerdict `json:"verdicts"`
	// PromptID names the version of the instruction.
	PromptID string `json:"prompt_id"`
	// Requests made of the model, and Failed: 1 when they brought no answer that can be used.
	Requests         int `json:"requests"`
	Failed           int `json:"failed"`
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// Check names the first thing about a request that cannot be.
func (r JudgeRequest) Check() *Error {
	switch {
	case r.Model == "" || utf8.RuneCountInString(r.Model) > MaxJudgeName:
		return Errorf(400, "bad_value", "model is empty or has more than %d characters: name one that the model server has", MaxJudgeName)
	case r.MaxRequests < 0:
		return Errorf(400, "bad_value", "max_requests is %d: it must not be below 0", r.MaxRequests)
	case len(r.Pairs) == 0 || len(r.Pairs) > MaxJudgePairs:
		return Errorf(400, "bad_value", "pairs has %d entries: it must have 1 to %d", len(r.Pairs), MaxJudgePairs)
	}
	for i, p := range r.Pairs {
		for _, f := range []struct{ name, value string }{{"label", p.Label}, {"a", p.A}, {"b", p.B}} {
			if n := utf8.RuneCountInString(f.value); strings.TrimSpace(f.value) == "" || n > MaxJudgeName {
				return Errorf(400, "bad_value", "pairs[%d].%s has %d characters: it must have 1 to %d", i, f.name, n, MaxJudgeName)
			}
		}
	}
	return nil
}
