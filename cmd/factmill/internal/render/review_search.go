package render

import (
	"io"
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// CandidateHits shows what a search for candidates found.
func CandidateHits(w io.Writer, r api.SearchCandidatesReply) error {
	p := &printer{w: w}
	if len(r.Results) == 0 {
		p.f("no candidate has one of these words")
		return p.err
	}
	t := NewTable("CANDIDATE", "KIND", "STATE", ">WORDS", ">SEEN", ">DOCUMENTS", ">CONFIDENCE", "REASONS", "KEY").Cap(0, 70).Cap(7, 40)
	for _, h := range r.Results {
		state := h.State
		if h.Unreviewed {
			state += " (unreviewed)"
		}
		t.Row(Subject(api.Group{Kind: h.Kind, Label: h.Label, Text: h.Text, SourceText: h.SourceText, TargetText: h.TargetText}), h.Kind, state, Number(h.Matched),
			Number(h.Count), Number(h.Documents), Confidence(h.Confidence), strings.Join(h.Reasons, ", "), h.Key)
	}
	p.table(t)
	p.f("%s of %s; these are no facts", Number(len(r.Results)), Count(r.Total, "candidate", "candidates"))
	return p.err
}
