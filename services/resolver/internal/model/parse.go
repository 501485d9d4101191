package model

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/llm"
)

// keptReason is what is kept of a reason, in bytes.
const keptReason = 300

// Names under which the parts of a reply are known.
var (
	answersKeys = []string{"answers", "verdicts", "results"}
	pairKeys    = []string{"pair", "index", "id"}
	verdictKeys = []string{"verdict", "answer", "decision", "match"}
	reasonKeys  = []string{"reason", "explanation", "rationale"}
	answerKeys  = append(answersKeys[:len(answersKeys):len(answersKeys)], "pair", "verdict")
)

// said is one answer; pair is -1 when it names no pair.
type said struct {
	pair            int
	verdict, reason string
	known           bool // the verdict is one
}

// Parse reads a reply about n pairs: one verdict a pair. Thoughts, fences and prose around the JSON are taken off. What is not one answer
// for the pair is uncertain and says why. The error is an *llm.ReplyError: the reply as a whole is no answer.
func Parse(raw string, n int) ([]api.JudgeVerdict, error) {
	var all []said
	err := llm.Read(raw, answerKeys, func(v any) error {
		list, err := shape(v)
		all = append(all, list...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return settle(all, n)
}

// settle makes one verdict a pair of what was said.
func settle(all []said, n int) ([]api.JudgeVerdict, error) {
	about := make([][]said, n)
	stray, after := false, false // an answer is about no pair of the question; about the one after the last
	for _, s := range all {
		if s.pair < 0 || s.pair >= n {
			stray, after = true, after || s.pair == n
			continue
		}
		about[s.pair] = append(about[s.pair], s)
	}
	if n > 1 && len(about[0]) == 0 {
		rest := true
		for _, a := range about[1:] {
			rest = rest && len(a) > 0
		}
		if after || rest { // every answer may be that of the pair before it
			return nil, llm.Bad(llm.CodeInvalid, "pairs are numbered from 0 to %d, and there is no answer for pair 0", n-1)
		}
	}
	out := make([]api.JudgeVerdict, n)
	for i, a := range about {
		out[i] = verdict(a, stray)
	}
	return out, nil
}

func verdict(a []said, stray bool) api.JudgeVerdict {
	unsure := func(why string) api.JudgeVerdict { return api.JudgeVerdict{Verdict: api.VerdictUncertain, Why: why} }
	switch {
	case len(a) == 0 && stray:
		return unsure(api.WhyOutOfRange)
	case len(a) == 0:
		return unsure(api.WhyMissing)
	}
	for _, s := range a[1:] {
		if s.verdict != a[0].verdict {
			return unsure(api.WhyContradicted)
		}
	}
	switch {
	case len(a) > 1:
		return unsure(api.WhyRepeated)
	case !a[0].known:
		return unsure(api.WhyUnknown)
	}
	return api.JudgeVerdict{Verdict: a[0].verdict, Reason: a[0].reason}
}

// shape recognises answers: an object with a list of them, or with the numbers of pairs as its keys; a bare list; one alone.
func shape(v any) ([]said, error) {
	switch v := v.(type) {
	case []any:
		list, numbered := answers(v)
		if !numbered {
			return nil, llm.Bad(llm.CodeInvalid, "the reply is a list without answers, not an object with answers")
		}
		return list, nil
	case object:
		o, err := llm.Answering(v)
		if err != nil {
			return nil, err
		}
		switch in := llm.First(o, answersKeys...).(type) {
		case []any:
			list, _ := answers(in)
			return list, nil
		case object:
			if llm.First(llm.Lowered(in), pairKeys...) != nil {
				return []said{answer(in)}, nil
			}
			return byNumber(in), nil
		case nil:
		default:
			return nil, llm.Bad(llm.CodeInvalid, "answers is a %T, not a list", in)
		}
		if llm.First(o, pairKeys...) != nil && llm.First(o, verdictKeys...) != nil {
			return []said{answer(o)}, nil
		}
		for _, k := range llm.Sorted(o) { // one level of wrapping, as in {"result": {...}}
			if in, ok := o[k].(object); ok && llm.First(llm.Lowered(in), answersKeys...) != nil {
				return shape(in)
			}
		}
		return nil, llm.Bad(llm.CodeInvalid, "the reply has no answers")
	}
	return nil, llm.Bad(llm.CodeInvalid, "the reply is a %T, not an object", v)
}

// answers reads a list; numbered says that some of it names a pair.
func answers(list []any) (out []said, numbered bool) {
	for _, x := range list {
		s := said{pair: -1}
		if o, ok := x.(object); ok {
			s = answer(o)
		}
		numbered = numbered || s.pair >= 0
		out = append(out, s)
	}
	return out, numbered
}

// byNumber reads an object of verdicts by number.
func byNumber(o object) []said {
	var out []said
	for _, k := range llm.Sorted(o) {
		s := said{}
		if in, ok := o[k].(object); ok {
			s = answer(in)
		} else {
			s.verdict, s.known = meaning(o[k])
		}
		s.pair = number(k)
		out = append(out, s)
	}
	return out
}

func answer(o object) said {
	o = llm.Lowered(o)
	s := said{pair: number(llm.First(o, pairKeys...))}
	s.verdict, s.known = meaning(llm.First(o, verdictKeys...))
	if r, ok := llm.First(o, reasonKeys...).(string); ok {
		s.reason = reason(r)
	}
	return s
}

// number is a pair's, given as a number or as a text of one; -1 when it is none.
func number(v any) int {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n
	}
	return -1
}

// meaning is a verdict as it was given, in our words when it is known.
func meaning(v any) (string, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return api.VerdictMatch, true
		}
		return api.VerdictNoMatch, true
	case string:
		switch w := strings.ToLower(strings.NewReplacer(" ", "_", "-", "_").Replace(strings.Trim(v, " \t\r\n.!\"'"))); w {
		case "match", "matches", "same", "yes":
			return api.VerdictMatch, true
		case "no_match", "nomatch", "not_match", "not_a_match", "different", "no":
			return api.VerdictNoMatch, true
		case "uncertain", "unclear", "unsure":
			return api.VerdictUncertain, true
		default:
			return w, false
		}
	}
	return "", false
}

// reason is a model's text for people: one line, bounded.
func reason(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
	return llm.Clip(strings.Join(strings.Fields(s), " "), keptReason)
}
