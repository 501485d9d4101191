package render

import (
	"fmt"
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// jobs shows a page of the review list that has held jobs only.
func heldJobs(p *printer, groups []api.Group) {
	t := NewTable("JOB", "OP", "STATE", "HELD BY", ">DOCUMENTS", "FIRST", "KEY").Cap(5, 60)
	for _, g := range groups {
		t.Row(g.Text, g.Label, g.State, strings.Join(g.Reasons, ", "), Number(g.Documents), g.Sample.Document, g.Key)
	}
	p.table(t)
}

// job shows a held job whole: what it would do, and what was read out of its documents.
func (p *printer) job(r api.ReviewShowReply) {
	j := r.Job
	p.f("job %s  held  %s of %s", j.Job, j.Op, Count(j.DocumentsTotal, "document", "documents"))
	if j.HeldBy != "" {
		p.f("  held by  %s", j.HeldBy)
	}
	if j.Deadline != "" {
		p.f("  rolled back at  %s", Time(j.Deadline))
	}
	p.f("  key %s  revision %d", r.Item.Key, r.Revision)
	p.f("  would  %s", does(j.Does))
	p.plan(r.Planned)
	for _, d := range j.Documents {
		if len(d.Items) == 0 {
			continue
		}
		p.f("\n%s  %s  %s", Line(d.Key), d.Outcome, Count(d.ItemsTotal, "item", "items"))
		t := NewTable("  ITEM", "KIND", "SAYS", "QUOTE", ">SCORE").Cap(2, 60).Cap(3, 60)
		for _, x := range d.Items {
			score := ""
			if x.Confidence > 0 {
				score = Confidence(x.Confidence)
			}
			t.Row("  "+x.Item, x.Kind, staged(x), place3(x), score)
		}
		p.table(t)
		if n := d.ItemsTotal - len(d.Items); n > 0 {
			p.f("  and %s: review show %s --document %s", Count(n, "more item", "more items"), r.Item.Key, Line(d.Key))
		}
	}
	if n := j.DocumentsTotal - len(j.Documents); n > 0 && len(j.Documents) > 1 {
		p.f("\nand %s", Count(n, "more document", "more documents"))
	}
	p.history(r.History)
}

// staged is an item in words.
func staged(x api.StagedItem) string {
	switch x.Kind {
	case "entity":
		return x.Label + " " + x.Text
	case "mention":
		return x.Text + " is " + x.Source
	case "property":
		return x.Label + " of " + x.Source + " = " + Any(x.Value)
	case "relation":
		return x.Source + " " + x.Label + " " + x.Target
	}
	return strings.TrimSpace(x.Source + " " + x.Label + " " + x.Target + " " + x.Text)
}

func place3(x api.StagedItem) string {
	if x.End == 0 {
		return ""
	}
	return fmt.Sprintf("[%d:%d] %s", x.Start, x.End, x.Quote)
}

// does are the counts of what a job would do.
func does(d api.JobDoes) string {
	var out []string
	for _, x := range []struct {
		n         int
		one, many string
	}{
		{d.Documents.Added, "document added", "documents added"}, {d.Documents.Updated, "document updated", "documents updated"},
		{d.Documents.Deleted, "document deleted", "documents deleted"}, {d.Documents.Superseded, "document superseded", "documents superseded"},
		{d.Documents.Unchanged, "document unchanged", "documents unchanged"},
		{d.EntitiesCreated, "new entity", "new entities"}, {d.EntitiesRemoved, "entity gone", "entities gone"},
		{d.RelationsCreated, "new relation", "new relations"}, {d.RelationsJoined, "relation has more evidence", "relations have more evidence"},
		{d.RelationsRemoved, "relation gone", "relations gone"}, {d.Conflicts, "conflict", "conflicts"}, {d.StaleAsked, "stale fact to decide", "stale facts to decide"},
		{d.StaleKept - d.StaleAsked, "stale fact kept", "stale facts kept"}, {d.CandidatesWritten, "candidate", "candidates"},
	} {
		if x.n > 0 {
			out = append(out, Count(x.n, x.one, x.many))
		}
	}
	if len(out) == 0 {
		return "change nothing"
	}
	return strings.Join(out, ", ")
}

// JobPlan is what a held job would do in at most so many lines of its plan.
func JobPlan(x api.HeldReply, most int) []string {
	out := []string{"job " + Line(x.Job.Job) + " would: " + does(x.Job.Does)}
	if x.Plan == nil {
		return out
	}
	left := x.PlanLeftOut
	n := 0
	for _, line := range x.Plan.Lines() {
		if strings.HasPrefix(line, " ") { // a quote
			continue
		}
		if n++; n <= most {
			out = append(out, "  "+Middle(Line(line), 160))
		} else {
			left++
		}
	}
	if left > 0 {
		out = append(out, "  and "+Number(left)+" more: factmill review show "+x.Item.Key)
	}
	return append(out, "fingerprint "+x.Fingerprint)
}
