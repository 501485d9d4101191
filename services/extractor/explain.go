package extractor

import (
	"context"
	"fmt"
	"sort"
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

// Sentence is one sentence of the text, at its bytes Start…End, and the items whose evidence ends in it.
type Sentence struct {
	Text  string `json:"text"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Items []Item `json:"items,omitempty"`
}

// Outcomes of an item.
const (
	Kept    = "kept"
	Waits   = "candidate" // waits for review
	Dropped = "dropped"   // only counted
)

// Item is one item with the rule that found it. Reasons say why an item was not kept.
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
	return ExplainChunks(context.Background(), s, set, "", text, []graph.Chunk{{Start: 0, End: len(text)}})
}

// ExplainChunks is Explain for a document with a title and the chunks that the chunker made of it.
func ExplainChunks(ctx context.Context, s *schema.Schema, set settings.Pipeline, title, text string, chunks []graph.Chunk) (*Explanation, error) {
	if err := set.Validate(); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if set.Extractor.Mode != ModeRules {
		return nil, fault.CannotServe("explain: extractor.mode is %q, this build serves %q", set.Extractor.Mode, ModeRules)
	}
	p := newPlan(s, set)
	doc := extract.Document{Title: title, Text: text, Chunks: chunks}
	r, err := p.extractor.Open(ctx, doc)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	defer r.Close()
	var told []lost
	v := validate.New(s, set.Extractor, validate.Options{Extractor: p.extractor.Name(), Explain: func(kind, label, text string, reasons []string) {
		told = append(told, lost{kind, label, text, reasons})
	}})
	out := &Explanation{Sentences: []Sentence{}}
	for i, c := range chunks {
		items, err := r.Read(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("explain chunk %d: %w", i, err)
		}
		told = told[:0]
		got := v.Chunk(doc.Chunk(i), c.Start, items)
		out.Incomplete = out.Incomplete || got.State != ""
		from := len(out.Sentences)
		out.Sentences = append(out.Sentences, sentences(doc.Chunk(i), c.Start)...)
		for _, it := range explained(got) {
			place(out.Sentences[from:], it)
		}
		for _, it := range dropped(told, got, items, c.Start) {
			place(out.Sentences[from:], it)
		}
	}
	out.Dropped = v.Dropped()
	return out, nil
}

// sentences are those of a chunk that begins at byte base of its document.
func sentences(text string, base int) []Sentence {
	tokens := prose.Tokens(text, nil)
	var out []Sentence
	for _, s := range prose.Sentences(text, tokens, nil) {
		start, end := int(tokens[s.First].Start), int(tokens[s.Last-1].End)
		out = append(out, Sentence{Text: text[start:end], Start: base + start, End: base + end})
	}
	return out
}

// place puts an item into the sentence in which its evidence ends, or into the last one.
func place(list []Sentence, it Item) {
	if len(list) == 0 {
		return
	}
	i := sort.Search(len(list), func(i int) bool { return it.End <= list[i].End })
	s := &list[min(i, len(list)-1)]
	s.Items = append(s.Items, it)
}

// lost is an item that the validator did not keep.
type lost struct {
	kind, label, text string
	reasons           []string
}

// dropped lists what was only counted, each with where the mode had seen it. What became a candidate is listed as one.
func dropped(told []lost, got graph.ChunkItems, raw extract.Items, base int) []Item {
	var out []Item
	waits := map[string]int{}
	for i := range got.Candidates {
		k := &got.Candidates[i]
		text := k.Text
		if k.Kind == graph.KindRelation {
			text = k.SourceText + " → " + k.TargetText
		}
		waits[fmt.Sprint(k.Kind, "\x00", k.Label, "\x00", text, "\x00", k.Reasons)]++
	}
	taken := map[[2]int]bool{}
	for _, l := range told {
		if key := fmt.Sprint(l.kind, "\x00", l.label, "\x00", l.text, "\x00", l.reasons); waits[key] > 0 {
			waits[key]--
			continue
		}
		it := Item{Kind: l.kind, Label: l.label, Text: l.text, Outcome: Dropped, Reasons: l.reasons, Start: base, End: base}
		l.find(raw, base, taken, &it)
		out = append(out, it)
	}
	return out
}

// find fills in what the mode said of the item; taken are raw items that were found before, by kind and place.
func (l *lost) find(raw extract.Items, base int, taken map[[2]int]bool, it *Item) {
	same := func(a string) bool { return strings.Join(strings.Fields(a), " ") == l.text }
	fill := func(kind, i, start, end int, rule string, score extract.Score) {
		taken[[2]int{kind, i}] = true
		it.Start, it.End, it.Rule = base+max(start, 0), base+max(end, 0), rule
		it.Confidence, _ = score.Value(0)
	}
	switch l.kind {
	case graph.KindEntity:
		for i := range raw.Entities {
			if e := &raw.Entities[i]; !taken[[2]int{0, i}] && same(e.Name) {
				fill(0, i, e.Start, e.End, e.Rule, e.Confidence)
				return
			}
		}
	case graph.KindRelation:
		name := func(place int, text string) string {
			if place >= 0 && place < len(raw.Entities) {
				return raw.Entities[place].Name
			}
			return text
		}
		for i := range raw.Relations {
			r := &raw.Relations[i]
			source, target := name(r.Source, r.SourceName), name(r.Target, r.TargetName)
			if !taken[[2]int{1, i}] && same(source+" → "+target) {
				fill(1, i, r.Start, r.End, r.Rule, r.Confidence)
				it.Text, it.Source, it.Target, it.Assertion = "", source, target, r.Assertion
				return
			}
		}
	case graph.KindProperty:
		for i := range raw.Entities {
			e := &raw.Entities[i]
			for k := range e.Properties {
				if p := &e.Properties[k]; !taken[[2]int{2 + i, k}] && p.Name == l.label {
					taken[[2]int{2 + i, k}] = true
					it.Source, it.Start, it.End = e.Name, base+max(p.Start, 0), base+max(p.End, 0)
					it.Confidence, _ = p.Confidence.Value(0)
					return
				}
			}
		}
	}
}

func explained(c graph.ChunkItems) []Item {
	var out []Item
	for i := range c.Entities {
		e := &c.Entities[i]
		out = append(out, Item{
			Kind: graph.KindEntity, Label: e.Type, Text: e.Name, Of: e.Of, Start: e.Start, End: e.End,
			Confidence: e.Confidence, Rule: e.Rule, Outcome: Kept,
		})
		for _, p := range e.Properties {
			out = append(out, Item{
				Kind: graph.KindProperty, Label: p.Name, Source: e.Name, Value: p.Value, Start: p.Start, End: p.End,
				Confidence: p.Confidence, Outcome: Kept,
			})
		}
	}
	for i := range c.Relations {
		r := &c.Relations[i]
		out = append(out, Item{
			Kind: graph.KindRelation, Label: r.Type, Source: c.Entities[r.Source].Name, Target: c.Entities[r.Target].Name,
			Start: r.Start, End: r.End, Confidence: r.Confidence, Assertion: r.Assertion, Rule: r.Rule, Outcome: Kept,
		})
	}
	for i := range c.Candidates {
		k := &c.Candidates[i]
		out = append(out, Item{
			Kind: k.Kind, Label: k.Label, Text: k.Text, Source: k.SourceText, Target: k.TargetText, Start: k.Start, End: k.End,
			Confidence: k.Confidence, Assertion: k.Assertion, Rule: k.Rule, Outcome: Waits, Reasons: k.Reasons,
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

// What shows what an item says: a name, two ends, or a value.
func (it Item) What() string {
	what := fmt.Sprintf("%q", it.Text)
	switch it.Kind {
	case graph.KindRelation:
		what = fmt.Sprintf("%q -> %q", it.Source, it.Target)
	case graph.KindProperty:
		what = fmt.Sprintf("%q = %v", it.Source, it.Value)
		if it.Outcome != Kept {
			what = fmt.Sprintf("%q = %q", it.Source, it.Text)
		}
	}
	if it.Of != "" {
		what += fmt.Sprintf(" of %q", it.Of)
	}
	return what
}

// String shows an item on one line.
func (it Item) String() string {
	line := fmt.Sprintf("%s %s %s %.2f", it.Kind, it.Label, it.What(), it.Confidence)
	if it.Assertion != "" {
		line += " " + it.Assertion
	}
	if it.Rule != "" {
		line += " [" + it.Rule + "]"
	}
	if len(it.Reasons) > 0 {
		line += " " + it.Outcome + ": " + strings.Join(it.Reasons, ", ")
	}
	return line
}
