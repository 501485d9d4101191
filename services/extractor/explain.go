package extractor

import (
	"context"
	"fmt"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
	"github.com/factmill/factmill/services/extractor/internal/validate"
)

// Explanation is what was read out of a text, sentence by sentence.
type Explanation struct {
	Sentences []Sentence `json:"sentences"`
	// Dropped counts every reason of every item that was not kept.
	Dropped []graph.Dropped `json:"dropped,omitempty"`
	// Incomplete says that a limit cut the items.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Sentence is one sentence of the text, at its bytes Start…End, and the items whose evidence begins in it.
type Sentence struct {
	Text  string `json:"text"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Items []Item `json:"items,omitempty"`
}

// Item is one item with the rule that found it. Outcome is "kept" or "candidate"; Reasons say why an item is a candidate.
type Item struct {
	Kind       string   `json:"kind"`
	Label      string   `json:"label"`
	Text       string   `json:"text"`
	Of         string   `json:"of,omitempty"`
	Source     string   `json:"source,omitempty"`
	Target     string   `json:"target,omitempty"`
	Value      any      `json:"value,omitempty"`
	Start      int      `json:"start"`
	End        int      `json:"end"`
	Confidence float64  `json:"confidence"`
	Assertion  string   `json:"assertion,omitempty"`
	Rule       string   `json:"rule,omitempty"`
	Outcome    string   `json:"outcome"`
	Reasons    []string `json:"reasons,omitempty"`
}

// Explain reads one text, as normalised by the loader, as a document of one chunk and tells what was found, by which rule, and
// what was not kept and why. It returns a *fault.Error for settings whose mode this build does not serve.
func Explain(s *schema.Schema, set settings.Pipeline, text string) (*Explanation, error) {
	if err := set.Validate(); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if set.Extractor.Mode != ModeRules {
		return nil, fault.CannotServe("explain: extractor.mode is %q, this build serves %q", set.Extractor.Mode, ModeRules)
	}
	p := newPlan(s, set)
	ctx := context.Background()
	r, err := p.extractor.Open(ctx, extract.Document{Text: text, Chunks: []graph.Chunk{{Start: 0, End: len(text)}}})
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	defer r.Close()
	items, err := r.Read(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	v := validate.New(s, set.Extractor, validate.Options{Extractor: p.extractor.Name()})
	got := v.Chunk(text, 0, items)
	out := &Explanation{Dropped: v.Dropped(), Incomplete: got.State != ""}
	out.Sentences = sentences(text)
	for _, it := range explained(got) {
		out.add(it)
	}
	return out, nil
}

func sentences(text string) []Sentence {
	tokens := prose.Tokens(text, nil)
	var out []Sentence
	for _, s := range prose.Sentences(text, tokens, nil) {
		start, end := int(tokens[s.First].Start), int(tokens[s.Last-1].End)
		out = append(out, Sentence{Text: text[start:end], Start: start, End: end})
	}
	return out
}

// add puts an item into the sentence in which its evidence ends.
func (x *Explanation) add(it Item) {
	for i := range x.Sentences {
		if s := &x.Sentences[i]; it.End <= s.End {
			s.Items = append(s.Items, it)
			return
		}
	}
}

func explained(c graph.ChunkItems) []Item {
	var out []Item
	for i := range c.Entities {
		e := &c.Entities[i]
		out = append(out, Item{
			Kind: graph.KindEntity, Label: e.Type, Text: e.Name, Of: e.Of, Start: e.Start, End: e.End,
			Confidence: e.Confidence, Rule: e.Rule, Outcome: "kept",
		})
		for _, p := range e.Properties {
			out = append(out, Item{
				Kind: graph.KindProperty, Label: p.Name, Source: e.Name, Value: p.Value, Start: p.Start, End: p.End,
				Confidence: p.Confidence, Outcome: "kept",
			})
		}
	}
	for i := range c.Relations {
		r := &c.Relations[i]
		out = append(out, Item{
			Kind: graph.KindRelation, Label: r.Type, Source: c.Entities[r.Source].Name, Target: c.Entities[r.Target].Name,
			Start: r.Start, End: r.End, Confidence: r.Confidence, Assertion: r.Assertion, Rule: r.Rule, Outcome: "kept",
		})
	}
	for i := range c.Candidates {
		k := &c.Candidates[i]
		out = append(out, Item{
			Kind: k.Kind, Label: k.Label, Text: k.Text, Source: k.SourceText, Target: k.TargetText, Start: k.Start, End: k.End,
			Confidence: k.Confidence, Assertion: k.Assertion, Rule: k.Rule, Outcome: "candidate", Reasons: k.Reasons,
		})
	}
	return out
}

// String shows the explanation for a terminal: each sentence, and under it a line an item.
func (x *Explanation) String() string {
	var b strings.Builder
	for _, s := range x.Sentences {
		fmt.Fprintf(&b, "%s\n", strings.Join(strings.Fields(s.Text), " "))
		for _, it := range s.Items {
			fmt.Fprintf(&b, "  %s\n", it)
		}
	}
	for _, d := range x.Dropped {
		fmt.Fprintf(&b, "not kept: %d × %s %s (%s)\n", d.Count, d.Kind, d.Label, d.Reason)
	}
	return b.String()
}

// String shows an item on one line.
func (it Item) String() string {
	what := fmt.Sprintf("%q", it.Text)
	switch it.Kind {
	case graph.KindRelation:
		what = fmt.Sprintf("%q -> %q", it.Source, it.Target)
	case graph.KindProperty:
		what = fmt.Sprintf("%q = %v", it.Source, it.Value)
		if it.Outcome != "kept" {
			what = fmt.Sprintf("%q = %q", it.Source, it.Text)
		}
	}
	if it.Of != "" {
		what += fmt.Sprintf(" of %q", it.Of)
	}
	line := fmt.Sprintf("%s %s %s %.2f", it.Kind, it.Label, what, it.Confidence)
	if it.Assertion != "" {
		line += " " + it.Assertion
	}
	if it.Rule != "" {
		line += " [" + it.Rule + "]"
	}
	if len(it.Reasons) > 0 {
		line += " candidate: " + strings.Join(it.Reasons, ", ")
	}
	return line
}
