package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// Document shows one document: state, versions, fingerprints, and on request items and text.
func Document(w io.Writer, r api.DocumentReply) error {
	p := &printer{w: w}
	d := r.Document
	p.f("%s  (%s)", d.Key, stateOf(r))
	for _, row := range [][2]string{
		{"title", d.Title}, {"id", d.ID}, {"published", d.PublishedAt}, {"content date", d.ContentDate},
		{"scope", strings.Join(d.Scope, ", ")}, {"content", d.ContentHash}, {"schema", schemaLine(r)},
		{"chunker", d.ChunkerFP}, {"extraction", d.ExtractionFP},
	} {
		if row[1] != "" {
			p.f("  %-13s %s", row[0], row[1])
		}
	}
	for _, k := range Keys(d.Metadata) {
		p.f("  metadata      %s = %s", k, Any(d.Metadata[k]))
	}
	if len(r.Versions) > 0 {
		t := NewTable("  ", ">VERSION", "FROM", "CLOSED", "JOB", "CONTENT").Cap(5, 16)
		for _, v := range r.Versions {
			mark := ""
			if v.Version == r.Version {
				mark = "* "
			}
			t.Row(mark, fmt.Sprint(v.Version), Time(v.FromTime), Time(v.ClosedTime), v.Job, v.ContentHash)
		}
		p.table(t)
	}
	p.f("  %s", Count(len(r.Chunks), "chunk", "chunks"))
	if r.Items != nil {
		p.items(r.Items)
	}
	if r.Text != "" && p.err == nil {
		_, p.err = fmt.Fprintf(w, "\n%s\n", Block(r.Text))
	}
	return p.err
}

// stateOf is the document's state, and that of the version that is shown when it is closed.
func stateOf(r api.DocumentReply) string {
	for _, v := range r.Versions {
		if v.Version != r.Version || v.ClosedSeq == 0 {
			continue
		}
		closed := fmt.Sprintf("version %d, closed %s", v.Version, Time(v.ClosedTime))
		if r.State == "open" {
			return closed
		}
		return r.State + "; " + closed
	}
	return r.State
}

func schemaLine(r api.DocumentReply) string {
	if r.SchemaName == "" {
		return r.Document.SchemaFP
	}
	return fmt.Sprintf("%s %s, revision %d (%s)", r.SchemaName, r.SchemaVersion, r.SchemaRevision, r.Document.SchemaFP)
}

func (p *printer) items(in *api.DocumentItems) {
	t := NewTable("  OUTCOME", "KIND", "LABEL", "TEXT", ">CONFIDENCE", "SPAN", "FOUND BY", "WHY").Cap(3, 60).Cap(7, 40)
	for _, i := range in.Items {
		text := i.Text
		if i.Kind == graph.KindRelation && i.SourceText+i.TargetText != "" {
			text = cmp.Or(i.SourceText, "(nothing)") + " → " + cmp.Or(i.TargetText, "(nothing)")
		} else if i.SourceText != "" {
			text = i.SourceText + " = " + i.Text
		}
		by := i.Extractor
		if i.Rule != "" {
			by += "/" + i.Rule
		}
		confidence := Confidence(i.Confidence)
		if slices.Contains(i.Reasons, graph.ReasonBadConfidence) {
			confidence = "none" // what was given is no confidence
		}
		t.Row("  "+i.Outcome, i.Kind, i.Label, text, confidence, fmt.Sprintf("%d:%d", i.Start, i.End), by, strings.Join(i.Reasons, ", "))
	}
	p.table(t)
	for _, d := range in.Dropped { // the candidates stand in the table
		if n := d.Count - d.Candidates; n > 0 {
			p.f("  dropped %s: %s %s, %s, such as %s", Count(n, "item", "items"), d.Kind, d.Label, d.Reason, Quote(d.Sample, 60))
		}
	}
}

// Verify shows what was checked and what is wrong.
func Verify(w io.Writer, r api.VerifyReply) error {
	p := &printer{w: w}
	p.f("%s checked at sequence %d", Count(r.Keys, "key", "keys"), r.Seq)
	p.table(Counts(r.Checked))
	for _, x := range r.Problems {
		p.f("problem: %s %s: %s", x.Kind, x.Key, x.Message)
	}
	if more := r.Total - len(r.Problems); more > 0 {
		p.f("… and %s", Count(more, "more problem", "more problems"))
	}
	for _, u := range r.Unchecked {
		p.f("not checked: %s", u)
	}
	if r.Total == 0 {
		p.f("no problems")
	}
	return p.err
}
