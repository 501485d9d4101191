package extractor_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/extractor"
)

const firm = `
entities:
  Person: {properties: {born: {type: integer}}}
  Organization: {}
  Location: {}
relations:
  WORKS_AT: {patterns: ["Person->Organization"]}
  LOCATED_IN: {patterns: ["Organization->Location"]}
`

// asking is a stage in a mode that asks a model.
type asking struct {
	t     *testing.T
	model *testkit.Model
	stage *extractor.Stage
	sch   *schema.Schema
	set   settings.Pipeline
}

func newAsking(t *testing.T, mode string, more map[string]string, reply func(testkit.ModelCall) testkit.ModelReply) *asking {
	t.Helper()
	a := &asking{t: t, model: testkit.NewModel(t, testkit.ModelOptions{Reply: reply})}
	var err error
	a.sch, err = schema.Parse([]byte(firm), "firm.yaml", nil)
	require.NoError(t, err)
	values := map[string]string{"extractor.mode": mode, "ollama.model": "fake:1", "extractor.escalation_budget": "all"}
	for k, v := range more {
		values[k] = v
	}
	a.set, err = settings.Default().Apply(values)
	require.NoError(t, err)
	a.stage, err = extractor.NewStage(extractor.Config{ModelURL: a.model.URL(), Slots: 2}, app.Deps{}, fixed{schema: a.sch})
	require.NoError(t, err)
	return a
}

func (a *asking) document(policy string, texts ...string) *events.Chunked {
	e := chunked(a.sch, texts...)
	e.Job.Settings, e.Job.ExtractionFP, e.Job.ErrorPolicy = a.set, a.set.ExtractionFingerprint(a.sch), policy
	return e
}

func (a *asking) handle(policy string, texts ...string) (*events.Extracted, error) {
	out, err := a.stage.Handle(a.t.Context(), bus.Delivery{Event: a.document(policy, texts...), Trace: "trace"})
	if err != nil {
		return nil, err
	}
	require.Len(a.t, out, 1)
	return out[0].(*events.Extracted), nil
}

// listed lists what was kept of a document, by chunk.
func listed(e *events.Extracted) []string {
	var out []string
	for _, c := range e.Extraction.Chunks {
		for _, m := range c.Entities {
			x := fmt.Sprintf("%d %s:%s@%.2f %s", c.Index, m.Name, m.Type, m.Confidence, m.Extractor)
			for _, p := range m.Properties {
				x += fmt.Sprintf(" %s=%v", p.Name, p.Value)
			}
			out = append(out, x)
		}
		for _, r := range c.Relations {
			out = append(out, fmt.Sprintf("%d %s>%s:%s@%.2f %s", c.Index, c.Entities[r.Source].Name, c.Entities[r.Target].Name, r.Type, r.Confidence, r.Extractor))
		}
		for _, k := range c.Candidates {
			out = append(out, fmt.Sprintf("%d ? %s %s %v %s", c.Index, k.Label, k.Text, k.Reasons, k.Extractor))
		}
	}
	return out
}

// said makes a model that answers by what the shown text holds; the first part that it holds decides.
func said(parts ...string) func(testkit.ModelCall) testkit.ModelReply {
	return func(c testkit.ModelCall) testkit.ModelReply {
		for i := 0; i+1 < len(parts); i += 2 {
			if strings.Contains(c.Messages[1].Content, parts[i]) {
				return testkit.ModelReply{Content: parts[i+1], PromptTokens: 100, CompletionTokens: 10}
			}
		}
		return testkit.ModelReply{Content: `{"entities":[],"relations":[]}`, PromptTokens: 100, CompletionTokens: 10}
	}
}

const bobAtAcme = `{"entities":[{"name":"Bob","type":"Person","confidence":0.9},{"name":"Acme","type":"Organization","confidence":0.8}],
 "relations":[{"source":"Bob","target":"Acme","type":"works at","confidence":0.9}]}`

func TestLLM(t *testing.T) {
	a := newAsking(t, "llm", nil, said("Bob", bobAtAcme, "Carol", "I'm sorry, I cannot help with that."))
	out, err := a.handle(events.PolicySkip, "Bob works at Acme. ", "Carol is gone. ", "Nothing here.")
	require.NoError(t, err)
	require.Equal(t, []string{"0 Bob:Person@0.90 llm", "0 Acme:Organization@0.80 llm", "0 Bob>Acme:WORKS_AT@0.90 llm"}, listed(out))
	f := graph.Failure{Stage: "extractor", Item: "doc#1", Code: "reply_refused", Message: "the model refuses", TraceID: "trace",
		Reply: "I'm sorry, I cannot help with that.", Attempt: 1}
	require.Equal(t, []graph.Failure{f}, out.Stats.Failures)
	require.Equal(t, graph.ChunkItems{Index: 1, State: graph.Failed, Failure: &f}, out.Extraction.Chunks[1])
	require.Equal(t, 3, out.Stats.Processed)
	require.GreaterOrEqual(t, out.Escalation.Millis, int64(0))
	out.Escalation.Millis = 0
	require.Equal(t, &events.EscalationStats{Mode: "llm", Total: 3, Eligible: 3, Escalated: 3, Failed: 1, PromptTokens: 300, CompletionTokens: 30, Asked: 3, Requests: 3}, out.Escalation)

	_, err = a.handle(events.PolicyRaise, "Bob works at Acme. ", "Carol is gone. ")
	require.Equal(t, []any{fault.Document, "reply_refused"}, []any{fault.Of(err).Class, fault.Of(err).Code})
	require.EqualError(t, err, `document "doc", chunk 1: the model refuses (after 1 requests, the last reply: "I'm sorry, I cannot help with that.")`)
}

// Huge counts of tokens are counted as far as they can be, and cost no document.
func TestHugeCounts(t *testing.T) {
	a := newAsking(t, "llm", nil, func(testkit.ModelCall) testkit.ModelReply {
		return testkit.ModelReply{Content: bobAtAcme, PromptTokens: math.MaxInt64, CompletionTokens: math.MaxInt64}
	})
	out, err := a.handle(events.PolicyRaise, "Bob works at Acme. ", "Bob works at Acme.")
	require.NoError(t, err)
	require.Len(t, listed(out), 6)
	require.Equal(t, []int{2 << 24, 2 << 24}, []int{out.Escalation.PromptTokens, out.Escalation.CompletionTokens})
}

// A document's chunks are asked about side by side, never more than the slots.
func TestSlotsAreShared(t *testing.T) {
	free := make(chan struct{})
	a := newAsking(t, "llm", nil, func(testkit.ModelCall) testkit.ModelReply {
		return testkit.ModelReply{Content: `{"entities":[]}`, Wait: free}
	})
	done := make(chan error, 2)
	for range 2 {
		go func() { _, err := a.handle(events.PolicySkip, "one ", "two ", "three "); done <- err }()
	}
	a.model.Await(t, 2)
	close(free)
	require.NoError(t, testkit.Receive(t, "a document", done))
	require.NoError(t, testkit.Receive(t, "a document", done))
	require.Equal(t, []int{6, 2}, []int{a.model.Count(), a.model.MaxInFlight()})
}

func TestModelAway(t *testing.T) {
	a := newAsking(t, "llm", nil, said())
	a.model.Stop()
	_, err := a.handle(events.PolicySkip, "Bob works at Acme.")
	require.Equal(t, []any{fault.Transient, "model_away", true}, []any{fault.Of(err).Class, fault.Of(err).Code, fault.Of(err).Pause})

	b := newAsking(t, "llm", map[string]string{"ollama.model_digest": strings.Repeat("0", 64)}, said())
	_, err = b.handle(events.PolicySkip, "Bob works at Acme.")
	require.Equal(t, fault.Unserved, fault.Of(err).Class)
	require.ErrorContains(t, err, "put ollama.model_digest")
	require.Zero(t, b.model.Count())
}

// The rules read first. What they are sure of, where nothing more could be said, is not asked about.
func TestHybrid(t *testing.T) {
	sure, born, none := "Acme Ltd is located in Paris. ", "Ada Lovelace was born in 1815. ", "it rained for most of the day and then it stopped. "
	a := newAsking(t, "hybrid", nil, said("Ada", `{"entities":[{"name":"Ada Lovelace","type":"Organization","confidence":0.2,"properties":{"born":1815}}]}`,
		"rained", `{"entities":[{"name":"day","type":"Location","confidence":0.8}]}`))
	rules, err := newAsking(t, "rules", nil, said()).handle(events.PolicySkip, sure, born, none, "short one. ")
	require.NoError(t, err)
	out, err := a.handle(events.PolicySkip, sure, born, none, "short one. ")
	require.NoError(t, err)
	asked := out.Escalation.Escalated
	require.Equal(t, asked, a.model.Count())
	require.Equal(t, []int{4, 0, 0}, []int{out.Escalation.Total, out.Escalation.Left, out.Escalation.Failed})
	var shown []string
	for _, c := range a.model.Calls() {
		shown = append(shown, c.Messages[1].Content)
	}
	all := strings.Join(shown, "")
	require.Contains(t, all, born, "a kept type has declared properties")
	require.Contains(t, all, none, "nothing was kept of eight words and more")
	require.NotContains(t, all, "short one")
	got := listed(out)
	for _, f := range listed(rules) {
		if strings.HasPrefix(f, "0 ") {
			require.Contains(t, got, f, "nothing that the rules found is lost")
		}
	}
	i := slices.IndexFunc(got, func(f string) bool { return strings.HasPrefix(f, "1 Ada Lovelace:") })
	require.Positive(t, i)
	require.Regexp(t, `^1 Ada Lovelace:Organization@0\.\d\d rules$`, got[i], "the model's label wins, and the rule's confidence stays; born is no property of an organization")
	require.Contains(t, got, "2 day:Location@0.80 llm")
}

// The budget chooses by a hash of the text: the same chunks whatever the order and the company.
func TestEscalationBudget(t *testing.T) {
	var texts []string
	for i := range 200 {
		texts = append(texts, fmt.Sprintf("in the evening of day %d it rained again and again. ", i))
	}
	run := func(texts []string) []string {
		a := newAsking(t, "hybrid", map[string]string{"extractor.escalation_budget": "0.2"}, said())
		out, err := a.handle(events.PolicySkip, texts...)
		require.NoError(t, err)
		require.Equal(t, []int{200, 200, 200}, []int{out.Escalation.Total, out.Escalation.Eligible, out.Escalation.Escalated + out.Escalation.Left})
		var shown []string
		for _, c := range a.model.Calls() {
			shown = append(shown, c.Messages[1].Content)
		}
		slices.Sort(shown)
		return shown
	}
	first := run(texts)
	require.InDelta(t, 40, len(first), 15)
	slices.Reverse(texts)
	require.Equal(t, first, run(texts))
}

// What the mode hybrid does while no model server is there.
func TestHybridWithoutModel(t *testing.T) {
	const text = "Ada Lovelace was born in 1815."
	for without, want := range map[string]string{"wait": "model_away pause", "fail": "model_away", "rules": "goes on"} {
		for _, policy := range []string{events.PolicyRaise, events.PolicySkip} {
			a := newAsking(t, "hybrid", map[string]string{"extractor.without_model": without}, said())
			a.model.Stop()
			out, err := a.handle(policy, text)
			if without == "wait" || without == "fail" && policy == events.PolicyRaise {
				f := fault.Of(err)
				require.Equal(t, want, f.Code+map[bool]string{true: " pause"}[f.Pause], "%s %s", without, policy)
				continue
			}
			require.NoError(t, err, "%s %s", without, policy)
			require.Len(t, listed(out), 1)
			require.Contains(t, listed(out)[0], "0 Ada Lovelace:Person@")
			require.Len(t, out.Stats.Failures, 1)
			require.Equal(t, []string{"escalation", "model_away"}, []string{out.Stats.Failures[0].Stage, out.Stats.Failures[0].Code})
			require.Equal(t, graph.Incomplete, out.Extraction.Chunks[0].State, "what was not read whole removes nothing")
			require.Equal(t, []int{1, 1}, []int{out.Escalation.Escalated, out.Escalation.Failed})
		}
	}
}

// A reply that names nothing takes nothing away, and a failed one leaves what the rules found.
func TestHybridKeepsWhatRulesFound(t *testing.T) {
	for _, reply := range []string{`{"entities":[],"relations":[]}`, "no idea"} {
		a := newAsking(t, "hybrid", nil, said("Ada", reply))
		out, err := a.handle(events.PolicySkip, "Ada Lovelace works at Acme Ltd.")
		require.NoError(t, err)
		with := newAsking(t, "rules", nil, said())
		alone, err := with.handle(events.PolicySkip, "Ada Lovelace works at Acme Ltd.")
		require.NoError(t, err)
		require.Equal(t, listed(alone), listed(out))
		require.Len(t, listed(out), 3)
	}
}
