package model_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/services/resolver/internal/model"
)

// show writes verdicts on one line: "match", "uncertain:missing".
func show(list []api.JudgeVerdict) string {
	var out []string
	for _, v := range list {
		out = append(out, strings.TrimRight(v.Verdict+":"+v.Why, ":"))
	}
	return strings.Join(out, " ")
}

func code(err error) string {
	var r *llm.ReplyError
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

// sure is an answer for a pair.
func sure(pair, verdict string) string {
	return `{"pair":` + pair + `,"verdict":"` + verdict + `","reason":"r"}`
}

func answers(list ...string) string { return `{"answers":[` + strings.Join(list, ",") + `]}` }

func TestParse(t *testing.T) {
	short, err := os.ReadFile("testdata/cases/judge_short.txt")
	require.NoError(t, err)
	both := answers(sure("0", "match"), sure("1", "no_match"))
	const ok = "match no_match"
	for _, c := range []struct {
		name, raw string
		n         int
		want      string
	}{
		{"as asked", both, 2, ok},
		{"another order", answers(sure("1", "no_match"), sure("0", "match")), 2, ok},
		{"uncertain by itself", answers(sure("0", "uncertain"), sure("1", "match")), 2, "uncertain match"},
		// What the specification names.
		{"judge_short", string(short), 2, "match uncertain:out_of_range"},
		{"names pair 7 of 2", answers(sure("0", "no_match"), sure("7", "match")), 2, "no_match uncertain:out_of_range"},
		{"answers 1 of 10", answers(sure("4", "match")), 10, strings.Repeat("uncertain:missing ", 4) + "match" + strings.Repeat(" uncertain:missing", 5)},
		{"repeats one", answers(sure("0", "match"), sure("1", "no_match"), sure("0", "match")), 2, "uncertain:repeated no_match"},
		{"contradicts itself", answers(sure("0", "match"), sure("1", "no_match"), sure("0", "no_match")), 2, "uncertain:contradicted no_match"},
		{"takes it back", answers(sure("0", "match"), sure("0", "uncertain"), sure("1", "match")), 2, "uncertain:contradicted match"},
		{"no answers", answers(), 2, "uncertain:missing uncertain:missing"},
		{"an unknown verdict", answers(sure("0", "perhaps"), sure("1", "match")), 2, "uncertain:unknown_verdict match"},
		{"no verdict", answers(`{"pair":0}`, sure("1", "match")), 2, "uncertain:unknown_verdict match"},
		{"negative", answers(sure("-1", "match"), sure("0", "match")), 2, "match uncertain:out_of_range"},
		{"no number", answers(`{"verdict":"match"}`, sure("0", "match")), 2, "match uncertain:out_of_range"},
		{"a number that is none", answers(sure("1.5", "match"), sure("0", "match")), 2, "match uncertain:out_of_range"},
		{"a huge number", answers(sure("99999999999999999999", "match"), sure("0", "match")), 2, "match uncertain:out_of_range"},
		{"no objects", `{"answers":["match",7,null]}`, 2, "uncertain:out_of_range uncertain:out_of_range"},
		// Numbered from 1: every answer may be its neighbour's.
		{"numbered from 1", answers(sure("1", "match"), sure("2", "no_match")), 2, llm.CodeInvalid},
		{"numbered from 1 as far as the format lets", answers(sure("1", "match"), sure("2", "no_match")), 3, llm.CodeInvalid},
		{"one pair, numbered 1", answers(sure("1", "match")), 1, "uncertain:out_of_range"},
		// Around the JSON.
		{"fence", "```json\n" + both + "\n```", 2, ok},
		{"prose", "Here are my verdicts:\n\n" + both + "\n\nI hope this helps {a, b}.", 2, ok},
		{"thoughts", "<think>{\"answers\":[" + sure("0", "no_match") + "]} hmm</think>" + both, 2, ok},
		{"JSON as a text", `"{\"answers\":[{\"pair\":0,\"verdict\":\"match\"}]}"`, 1, "match"},
		{"commas and words", `{"answers":[{"pair":0,"verdict":"match","sure":True,},],}`, 1, "match"},
		{"the answer twice", both + both, 2, "uncertain:repeated uncertain:repeated"},
		{"a line an answer", sure("0", "match") + "\n" + sure("1", "no_match"), 2, ok},
		// Shapes.
		{"bare list", "[" + sure("0", "match") + "," + sure("1", "no_match") + "]", 2, ok},
		{"wrapped", `{"result":` + both + `}`, 2, ok},
		{"by number", `{"answers":{"0":"match","1":{"verdict":"no match"}}}`, 2, ok},
		{"numbers as texts", `{"Answers":[{"Pair":"0","Verdict":"Match"},{"pair":" 1 ","verdict":"No-Match."}]}`, 2, ok},
		{"one object", `{"answers":{"pair":0,"verdict":"match"}}`, 2, "match uncertain:missing"},
		{"truth", `{"answers":[{"pair":0,"match":true},{"pair":1,"match":false}]}`, 2, ok},
		// No answer at all.
		{"empty", " \n", 2, llm.CodeEmpty},
		{"thoughts without end", "<think>Both are", 2, llm.CodeEmpty},
		{"only prose", "They are all the same.", 2, llm.CodeProse},
		{"another shape", `{"entities":[]}`, 2, llm.CodeInvalid},
		{"answers of another kind", `{"answers":"match"}`, 2, llm.CodeInvalid},
		{"a list of nothing", `[]`, 2, llm.CodeInvalid},
		{"a list of words", `["match","no_match"]`, 2, llm.CodeInvalid},
		{"the schema", `{"type":"object","properties":{"answers":{"type":"array"}}}`, 2, llm.CodeEcho},
		{"cut", both[:60], 2, llm.CodeTruncated},
		{"broken inside", `{"answers":[{"pair":0 "verdict":"match"}]}`, 2, llm.CodeInvalid},
		{"refused", "I'm sorry, but I can't compare people.", 2, llm.CodeRefused},
		{"refused in a field", `{"refusal":"I will not"}`, 2, llm.CodeRefused},
	} {
		got, err := model.Parse(c.raw, c.n)
		if err != nil {
			require.Empty(t, got, c.name)
			require.Equal(t, c.want, code(err), c.name)
			continue
		}
		require.Len(t, got, c.n, c.name)
		require.Equal(t, c.want, show(got), c.name)
	}
}

func TestReasonIsOneShortLine(t *testing.T) {
	got, err := model.Parse(`{"answers":[{"pair":0,"verdict":"match","reason":" a\n\u001b[31mb\u202e c "},{"pair":1,"verdict":"match","reason":"`+strings.Repeat("ü", 400)+`"}]}`, 2)
	require.NoError(t, err)
	require.Equal(t, "a [31mb c", got[0].Reason)
	require.Equal(t, strings.Repeat("ü", 150)+"…", got[1].Reason)
	require.True(t, utf8.ValidString(got[1].Reason))
}

// FuzzParse: any bytes are one verdict a pair, or a typed error; only an answer for the pair itself is a match.
func FuzzParse(f *testing.F) {
	f.Add(answers(sure("0", "match"), sure("7", "match")), 2)
	f.Add("[[[[{\"pair\":", 3)
	f.Add(`{"answers":{"0":[],"x":{"pair":{}}}}`, 1)
	f.Add(`{"pair":0,"verdict":"match"}`, 10)
	f.Fuzz(func(t *testing.T, raw string, n int) {
		n = 1 + (n%api.MaxJudgePairs+api.MaxJudgePairs)%api.MaxJudgePairs
		got, err := model.Parse(raw, n)
		if err != nil {
			if code(err) == "" || len(got) != 0 {
				t.Fatalf("%q: no code, or verdicts with it: %v", raw, err)
			}
			return
		}
		if len(got) != n {
			t.Fatalf("%q: %d verdicts for %d pairs", raw, len(got), n)
		}
		for _, v := range got {
			switch {
			case v.Verdict == api.VerdictUncertain:
			case v.Verdict != api.VerdictMatch && v.Verdict != api.VerdictNoMatch, v.Why != "":
				t.Fatalf("%q: %+v", raw, v)
			}
			if len(v.Reason) > 310 || !utf8.ValidString(v.Reason) {
				t.Fatalf("%q: reason %q", raw, v.Reason)
			}
		}
	})
}
