package model_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/model"
)

// show writes items on one line: "Name:Type@confidence", "source>target:TYPE".
func show(it extract.Items) string {
	var out []string
	score := func(s extract.Score) string {
		if s == (extract.Score{}) {
			return ""
		}
		v, ok := s.Value(0)
		if !ok {
			return "@bad"
		}
		return fmt.Sprintf("@%g", v)
	}
	for _, e := range it.Entities {
		x := e.Name + ":" + e.Type + score(e.Confidence)
		for _, p := range e.Properties {
			x += fmt.Sprintf(" %s=%v", p.Name, p.Value)
		}
		out = append(out, x)
	}
	for _, r := range it.Relations {
		out = append(out, r.SourceName+">"+r.TargetName+":"+r.Type+score(r.Confidence)+strings.TrimRight(" "+r.Assertion, " "))
	}
	return strings.Join(out, "; ")
}

func code(err error) string {
	var r *llm.ReplyError
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

const ok = "Acme:Organization@0.9; Bob:Person@0.9; Bob>Acme:WORKS_AT@0.9"

// TestCases: replies that broke others.
func TestCases(t *testing.T) {
	want := map[string]string{
		"ok": ok, "fence": ok, "fence_prose": ok, "think": ok,
		"bare_list": llm.CodeInvalid, "prose": llm.CodeProse, "truncated": llm.CodeTruncated, "judge_short": llm.CodeInvalid,
		"conf_str":         "Acme:Organization@0.9; Bob:Person@0.9",
		"conf_pct":         "Acme:Organization@bad; Bob:Person@0.9",
		"conf_null":        "Acme:Organization@bad; Bob:Person@0.9",
		"conf_nan":         "Acme:Organization@bad; Bob:Person@0.9",
		"nested_prop":      "Acme:Organization@0.9 founded=about 1990 tags=map[a:[1]]",
		"missing_endpoint": "Bob:Person@0.9; Bob>Acme:WORKS_AT@0.9",
		"self_loop":        "Acme:Organization@0.9; Acme>ACME:OWNS@0.9",
		"extra_schema":     "Smaug:Dragon@0.9; Bob:Person@0.9; Smaug>Bob:FLIES_OVER@0.9",
	}
	files, err := filepath.Glob("testdata/cases/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		it, err := model.Parse(string(raw))
		got := show(it)
		if err != nil {
			got = code(err)
		}
		require.Equal(t, want[strings.TrimSuffix(filepath.Base(f), ".txt")], got, f)
	}
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{
		`{"entities":[],"relations":[]}`:                    "",
		`{"entities":[]}`:                                   "",
		`{"result":{"entities":[{"name":"A","type":"T"}]}}`: "A:T",
		`{"nodes":[{"name":"A","label":"T"}],"edges":[{"from":"A","to":"B","relation":"R"}]}`: "A:T; A>B:R",
		`{"entities":[{"name":"A","type":"other","kind":"Comet"}]}`:                           "A:Comet",
		`{"entities":[{"name":"A","type":"other"}]}`:                                          "A:other",
		`{"entities":[{"name":"A","type":"T"},{"name":"B"}]}`:                                 "A:T; B:unknown",
		`{"entities":[{"name":"A","type":"T"},"B",7]}`:                                        "A:T; B:unknown; :unknown",
		`{"entities":{"name":"A","type":"T"}}`:                                                "A:T",
		`{"entities":[{"name":"A","type":"T","confidence":True,},],}`:                         "A:T@bad",
		`{"entities":[{"name":"A","type":"T","confidence":-Infinity}]}`:                       "A:T@bad",
		`[{"name":"A","type":"T"}]`:                                                           "A:T",
		`[{"subject":"A","object":"B","predicate":"R","assertion":"Opinion"}]`:                "A>B:R opinion",
		`{"relations":[{"source":{"name":"A"},"target":{"name":"B"},"type":"R"}]}`:            "A>B:R",
		"{\"entities\":[{\"name\":\"A\nB\",\"type\":\"T\"}]}":                                 "A\nB:T",
		`<think>{"entities":[`:                                                                llm.CodeEmpty,
		``:                                                                                    llm.CodeEmpty,
		` `:                                                                                   llm.CodeEmpty,
		`{}`:                                                                                  llm.CodeInvalid,
		`[]`:                                                                                  llm.CodeInvalid,
		`{"answer":42}`:                                                                       llm.CodeInvalid,
		`{"entities":"none"}`:                                                                 llm.CodeInvalid,
		`{"entities":["A","B"]}`:                                                              llm.CodeInvalid,
		`{"type":"object","properties":{"entities":{"type":"array"}}}`:                        llm.CodeEcho,
		`{"$schema":"x","entities":[]}`:                                                       llm.CodeEcho,
		`I'm sorry, but I can't help with that.`:                                              llm.CodeRefused,
		`As an AI language model I cannot.`:                                                   llm.CodeRefused,
		`The set {a, b} and the list [1, 2] are all there is.`:                                llm.CodeProse,
		`null`: llm.CodeProse,
		`Sure: {"entities":[{"name":"A","type":"T"},{"name":"B","ty`:                              llm.CodeTruncated,
		`See {"x": 1} first. {"entities":[{"name":"A","type":"T"}]}`:                              "A:T",
		"```json\n{\"entities\":[{\"name\":\"A\",\"type\":\"T\"}]}\n```\n```json\n{\"a\":1}\n```": "A:T",
		// An error of syntax inside an answer is no answer of its own.
		`{"entities":[{"name":"A","type":"T","quote":"A "is" B"}],"relations":[]}`:      llm.CodeInvalid,
		`{entities: [{"name":"A","type":"T"}], relations: []}`:                          llm.CodeInvalid,
		`{"entities":[{"name":"A","type":"T"} {"name":"B","type":"T"}],"relations":[]}`: llm.CodeInvalid,
		`{"entities":[{"name":"A","type":"T"}],"relations":[ // none` + "\n]}":          llm.CodeInvalid,
		// Several values are one: of the same item the later one counts, and nothing is lost.
		`{"entities":[{"name":"A","type":"T"}]}{"entities":[{"name":"B","type":"T"}]}`:                                                                                               "A:T; B:T",
		"{\"entities\":[{\"name\":\"A\",\"type\":\"T\"}]}\nAnd:\n{\"entities\":[{\"name\":\"B\",\"type\":\"T\"}]}":                                                                   "A:T; B:T",
		`{"entities":[{"name":"A","type":"T"},{"name":"B","type":"T"}]} No: {"entities":[{"name":"a","type":"P"}]}`:                                                                  "B:T; a:P",
		`{"relations":[{"source":"A","target":"B","type":"R"}]} {"relations":[{"source":"A","target":"B","type":"r","assertion":"opinion"},{"source":"B","target":"A","type":"R"}]}`: "A>B:r opinion; B>A:R",
		// A name twice in one object.
		`{"entities":[{"name":"A","type":"T"}],"entities":[{"name":"B","type":"T"}]}`:                   "A:T; B:T",
		`{"Entities":[{"name":"A","type":"T"}],"relations":[],"entities":[{"name":"B","type":"T"}]}`:    "A:T; B:T",
		`{"entities":[{"name":"A","type":"T"}],"nodes":[{"name":"B","type":"T"}]}`:                      "A:T; B:T",
		`{"entities":{"name":"A","type":"T"},"entities":{"name":"B","type":"T"}}`:                       "A:T; B:T",
		`{"entities":[{"name":"A","type":"T"}],"entities":null}`:                                        "A:T",
		`{"entities":[{"name":"A","type":"T","name":"B"}]}`:                                             llm.CodeInvalid,
		`{"entities":[{"name":"A","type":"T","type":"U"}]}`:                                             "A:U",
		`{"entities":[{"name":"A","type":"T","properties":{"a":1},"properties":{"b":2}}]}`:              "A:T a=1 b=2",
		`{"entities":[{"name":"A","type":"T"}]} {"relations":[{"source":"A","target":"B","type":"R"}]}`: "A:T; A>B:R",
		`{"entities":[],"relations":[]} {"entities":[{"name":"A","type":"T"}],"relations":[]}`:          "A:T",
		`{"entities":[{"name":"A","type":"T"}]} {"entities":[],"relations":[]}`:                         "A:T",
		`{"entities":[{"name":"A","type":"L"}]} No: {"entities":[{"name":"A","type":"P"}]}`:             "A:P",
		`{"Entities":[{"Name":"A","Type":"T"}],"Relations":[{"Source":"A","Target":"B","Type":"R"}]}`:   "A:T; A>B:R",
		`"{\"entities\":[{\"name\":\"A\",\"type\":\"T\"}]}"`:                                            "A:T",
		`{"refusal":"I will not."}`:        llm.CodeRefused,
		`Es tut mir leid, das geht nicht.`: llm.CodeRefused,
		`对不起，我不能这样做。`:                      llm.CodeRefused,
		// Nodes by id.
		`{"nodes":[{"id":"Bob","label":"Person"},{"id":"Acme","label":"Firm"}],"edges":[{"source":"Bob","target":"Acme","label":"WORKS_AT"}]}`:                     "Bob:Person; Acme:Firm; Bob>Acme:WORKS_AT",
		`{"nodes":[{"id":1,"label":"Bob","type":"Person"},{"id":2,"label":"Acme","type":"Firm"}],"edges":[{"from":1,"to":2,"type":"WORKS_AT"}]}`:                   "Bob:Person; Acme:Firm; Bob>Acme:WORKS_AT",
		`{"entities":[{"id":"e1","name":"Bob","type":"Person"},{"id":"e2","name":"e1","type":"Code"}],"relations":[{"source":"e1","target":"e2","type":"KNOWS"}]}`: "Bob:Person; e1:Code; e1>e1:KNOWS",
		`{"entities":[{"id":1,"name":"Bob","type":"Person"}],"relations":[{"source":1,"target":7,"type":"KNOWS"}]}`:                                                "Bob:Person; Bob>7:KNOWS",
		// Fields of the wrong kind are seen.
		`{"relations":[{"source":"A","target":"B","type":"R","assertion":false}]}`:       "A>B:R malformed",
		`{"entities":[{"name":"A","type":"T","properties":[{"name":"age","value":4}]}]}`: "A:T age=4",
		`{"entities":[{"name":"A","type":"T","properties":"age=4"}]}`:                    "A:T properties=age=4",
		// Names are normalised as texts are.
		"{\"entities\":[{\"name\":\"Zoe\u0308\",\"type\":\"T\"}]}": "Zo\u00eb:T",
	} {
		it, err := model.Parse(raw)
		got := show(it)
		if err != nil {
			got = code(err)
		}
		require.Equal(t, want, got, "%s", raw)
	}
	many := `{"entities":[` + strings.Repeat(`{"name":"A","type":"T"},`, 60) + `]}`
	it, err := model.Parse(many)
	require.NoError(t, err)
	require.Len(t, it.Entities, 60)
	require.True(t, it.Incomplete, "a list that the format bounds may have been longer")
}

// FuzzParse: any bytes are items or a typed error, and every item can be shown.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/*.txt")
	require.NoError(f, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(raw))
	}
	f.Add("[[[[[[{\"")
	f.Add("{\"entities\":[{\"name\":1,\"properties\":[]}],\"relations\":{}}")
	f.Fuzz(func(t *testing.T, raw string) {
		it, err := model.Parse(raw)
		if err != nil {
			if code(err) == "" {
				t.Fatalf("%q: no code: %v", raw, err)
			}
			return
		}
		_ = show(it)
	})
}
