package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/researcher"
	"github.com/factmill/factmill/pkg/graph"
)

// evidenceShown is how many pieces are shown where there is no answer.
const evidenceShown = 10

// Answer shows what a research came to: the sentences that were checked with their quotes, what is not supported, and without an answer
// the evidence.
func Answer(w io.Writer, r *researcher.Reply) error {
	p := &printer{w: w}
	for _, s := range r.Answer {
		var marks strings.Builder
		for _, c := range s.Citations {
			marks.WriteString(" [" + strconv.Itoa(c.N) + "]")
		}
		p.f("%s%s", s.Text, marks.String())
	}
	for _, u := range r.Unsupported {
		p.f("not supported: %s (%s)", u.Text, u.Reason)
	}
	if len(r.Answer)+len(r.Unsupported) > 0 {
		p.f("")
	}
	if len(r.Answer) > 0 {
		for _, s := range r.Answer {
			for _, c := range s.Citations {
				p.f("[%d] %s  %s", c.N, Quote(c.Quote, 0), place(graph.Evidence{Document: c.Document, Start: c.Start, End: c.End}))
			}
		}
	} else {
		p.without(r)
	}
	for _, n := range r.Notes {
		p.f("note: %s", n)
	}
	if r.Model != "" {
		p.f("%s", ending(r))
	}
	return p.err
}

// without shows the evidence where no answer stands on it.
func (p *printer) without(r *researcher.Reply) {
	switch r.StoppedBy {
	case researcher.StopNoModel, researcher.StopAway, researcher.StopBusy, researcher.StopError:
		p.f("no model answered: %s", r.Why)
	default:
		p.f("no answer: %s", r.Why)
	}
	if len(r.Evidence) == 0 {
		limits := ""
		if r.Within.Any() {
			limits = " within " + r.Within.String()
		}
		p.f("nothing was found in the graph for this question%s", limits)
		return
	}
	p.f("the evidence, best first:")
	for _, e := range r.Evidence[:min(len(r.Evidence), evidenceShown)] {
		about := ""
		if e.About != "" {
			about = "  " + e.About
		}
		if e.Kept {
			about += "  (kept: no open version says it)"
		}
		p.f("[%d] %s  %s%s", e.N, Quote(e.Best.Quote, 2*quoteWidth), place(graph.Evidence{Document: e.Document, Start: e.Best.Start, End: e.Best.End}), about)
	}
	if more := len(r.Evidence) - evidenceShown; more > 0 {
		p.f("… and %s (--json has all)", Count(more, "more piece", "more pieces"))
	}
}

// ending says how the research went, and what was checked.
func ending(r *researcher.Reply) string {
	out := fmt.Sprintf("%s, %s and %s of %s", Line(r.Model), Count(len(r.Steps), "step", "steps"), Count(r.Tokens.Prompt+r.Tokens.Completion, "token", "tokens"), Number(r.Tokens.Limit))
	if why := map[string]string{
		researcher.StopSteps: "the bound of steps", researcher.StopTokens: "the bound of tokens", researcher.StopTime: "the bound of time", researcher.StopLoop: "a loop",
	}[r.StoppedBy]; why != "" {
		out += ", cut by " + why
	}
	if len(r.Answer) > 0 {
		out += fmt.Sprintf("; at sequence %d each quote stands in the current text: whether it says the sentence is for you to see", r.Seq)
	}
	return out
}
