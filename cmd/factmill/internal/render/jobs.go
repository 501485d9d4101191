package render

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// shownFailures is how many failures of one stage are named; --json has all that were kept.
const shownFailures = 10

// Job shows what a job did.
func Job(w io.Writer, s api.JobStatus) error {
	p := &printer{w: w}
	p.f("job %s %s", s.Job, headline(s))
	if s.Reason != "" {
		p.f("  reason      %s", s.Reason)
	}
	if s.Next != "" {
		p.f("  waits for   %s", s.Next)
	}
	p.f("  documents   %s", documents(s.Documents))
	if s.Op != "delete" {
		p.work(s.Stages)
	}
	p.merge(s)
	p.links(s)
	for i, r := range s.Removed {
		if i == shownFailures {
			p.f("  removed     … and %s", Count(len(s.Removed)-i, "more", "more"))
			break
		}
		p.f("  removed     %s", End(r, quoteWidth))
	}
	for i, r := range s.WithdrawnDecided {
		if i == shownFailures {
			p.f("  withdrawn   … and %s that somebody had decided", Number(s.Stages.Storage.DecidedWithdrawn-i))
			break
		}
		p.f("  withdrawn   %s, which somebody had decided", End(r, quoteWidth))
	}
	for _, f := range AllFailures(s.Stages) {
		p.failures(f.stage, f.Failures)
	}
	return p.err
}

func headline(s api.JobStatus) string {
	state := strings.ReplaceAll(s.State, "_", " ")
	parts := []string{"graph " + s.Graph}
	if s.CommitSeq > 0 {
		parts = append(parts, fmt.Sprintf("sequence %d", s.CommitSeq))
	}
	if d, ok := took(s); ok {
		parts = append(parts, d)
	}
	return state + " (" + strings.Join(parts, ", ") + ")"
}

func took(s api.JobStatus) (string, bool) {
	from, err1 := time.Parse(time.RFC3339Nano, s.OpenedAt)
	to, err2 := time.Parse(time.RFC3339Nano, s.EndedAt)
	if err1 != nil || err2 != nil || to.Before(from) {
		return "", false
	}
	d := to.Sub(from)
	if d > time.Minute {
		return d.Round(time.Second).String(), true
	}
	return d.Round(10 * time.Millisecond).String(), true
}

func documents(d api.DocumentCounts) string {
	var parts []string
	for _, c := range []struct {
		n    int
		name string
	}{
		{d.Added, "added"}, {d.Updated, "updated"}, {d.Unchanged, "unchanged"}, {d.Deleted, "deleted"},
		{d.Superseded, "superseded"}, {d.Skipped, "skipped"}, {d.Quarantined, "quarantined"}, {d.Failed, "failed"},
	} {
		if c.n > 0 {
			parts = append(parts, Number(c.n)+" "+c.name)
		}
	}
	if len(parts) == 0 {
		return Number(d.Total)
	}
	return Number(d.Total) + ": " + strings.Join(parts, ", ")
}

func (p *printer) work(s api.Stages) {
	if s.Chunking.Chunks > 0 {
		p.f("  chunks      %s (%s)", Number(s.Chunking.Chunks), Count(s.Chunking.Tables, "table", "tables"))
	}
	e := s.Extraction
	if e.ChunksProcessed > 0 {
		p.f("  read        %s, %s, %s", Count(e.Entities, "mention", "mentions"), Count(e.Relations, "relation", "relations"),
			Count(e.Properties, "property value", "property values"))
	}
	dropped, kept := byReason(e.Dropped)
	if e.CandidatesWritten+e.CandidatesSuppressed > 0 {
		p.f("  candidates  %s for review, %s suppressed%s", Number(e.CandidatesWritten), Number(e.CandidatesSuppressed), reasons(kept))
	} else if e.ItemsUndecided > 0 {
		p.f("  kept out    %s, of which no candidate is kept%s", Count(e.ItemsUndecided, "item", "items"), reasons(kept))
	}
	if e.ItemsDropped > 0 {
		p.f("  dropped     %s without evidence or sense%s", Count(e.ItemsDropped, "item", "items"), reasons(dropped))
	}
	if r := s.Resolution; r.Registry+r.Ambiguous > 0 {
		line := Count(r.Registry, "mention is a known entity", "mentions are known entities")
		if r.Ambiguous > 0 {
			line += fmt.Sprintf(", %s by a name that several known entities have", Number(r.Ambiguous))
		}
		p.f("  registry    %s", line)
	}
	if line := asked(s.Escalation); line != "" {
		p.f("  model       %s", line)
	}
}

// asked says of which chunks a model was asked, what became of that, and what all of it cost, also in attempts that are forgotten.
func asked(x api.Escalation) string {
	var parts []string
	if x.Escalated > 0 {
		line := fmt.Sprintf("%s of %s eligible chunks: %s asked", Number(x.Escalated), Number(x.Eligible), Number(x.Asked))
		if x.CacheHits > 0 {
			line += ", " + Number(x.CacheHits) + " by kept replies"
		}
		if x.EscalationStats.Failed > 0 {
			line += ", " + Number(x.EscalationStats.Failed) + " failed"
		}
		parts = append(parts, line)
	}
	requests, tokens := max(x.Requests, x.SpentRequests), max(x.PromptTokens+x.CompletionTokens, x.SpentTokens)
	if requests+tokens > 0 {
		parts = append(parts, fmt.Sprintf("%s, %s spent", Count(requests, "request", "requests"), Count(tokens, "token", "tokens")))
	}
	return strings.Join(parts, "; ")
}

// onlyCounted are the reasons that drop an item for good, whatever else is wrong with it.
var onlyCounted = map[string]bool{
	graph.ReasonNoEvidence: true, graph.ReasonBadName: true, graph.ReasonSelfLoop: true, graph.ReasonBelowFloor: true, graph.ReasonLimit: true,
}

// byReason sorts the reasons of items that did not become facts: of those that were only counted, and of those that a person can decide on.
// An item has one or more. Where no candidates are kept the reason itself tells.
func byReason(list []graph.Dropped) (dropped, kept map[string]int) {
	dropped, kept = map[string]int{}, map[string]int{}
	none := !slices.ContainsFunc(list, func(d graph.Dropped) bool { return d.Candidates > 0 })
	for _, d := range list {
		if none && !onlyCounted[d.Reason] {
			kept[d.Reason] += d.Count
			continue
		}
		if n := d.Count - d.Candidates; n > 0 {
			dropped[d.Reason] += n
		}
		if d.Candidates > 0 {
			kept[d.Reason] += d.Candidates
		}
	}
	return dropped, kept
}

// reasons writes counts by reason, most first.
func reasons(m map[string]int) string {
	if len(m) == 0 {
		return ""
	}
	names := Keys(m)
	sort.SliceStable(names, func(i, j int) bool { return m[names[i]] > m[names[j]] })
	for i, n := range names {
		names[i] = n + " " + Number(m[n])
	}
	return "; reasons: " + strings.Join(names, ", ")
}

// Sent shows what a command knows of its job besides the status: the keys that it made, and what it could not send.
func Sent(w io.Writer, made, unsent []string) error {
	p := &printer{w: w}
	switch n := len(made); {
	case n == 1:
		p.f("  key         %s", made[0])
	case n > 1:
		p.f("  keys        %s … %s: factmill documents lists them", made[0], made[n-1])
	}
	if len(unsent) > 0 {
		p.f("  not sent    %s", Count(len(unsent), "file", "files"))
	}
	for i, x := range unsent {
		if i == shownFailures {
			p.f("    … and %s", Count(len(unsent)-i, "more", "more"))
			break
		}
		p.f("    %s", x)
	}
	return p.err
}

func (p *printer) merge(s api.JobStatus) {
	m, st := s.Stages.Merge, s.Stages.Storage
	if m.EntitiesCreated+m.EntitiesUpdated+st.EntitiesRemoved > 0 {
		p.f("  entities    %s new, %s updated, %s removed", Number(m.EntitiesCreated), Number(m.EntitiesUpdated), Number(st.EntitiesRemoved))
	}
	if m.RelationsCreated+m.RelationsJoined+st.RelationsRemoved > 0 {
		p.f("  relations   %s new, %s with more evidence, %s removed", Number(m.RelationsCreated), Number(m.RelationsJoined), Number(st.RelationsRemoved))
	}
	if st.StaleKept > 0 {
		p.f("  stale       %s that documents do not state any more and that stay, %s for review", Count(st.StaleKept, "fact", "facts"), Number(st.StaleAsked))
	}
	if m.Conflicts > 0 {
		p.f("  conflicts   %s", Number(m.Conflicts))
	}
}

// links is what was found between names behind the commit, and how many are still to be compared.
func (p *printer) links(s api.JobStatus) {
	if r := s.Stages.Resolution; r.Compared > 0 {
		m := r.Matched
		line := fmt.Sprintf("%s compared, %s linked", Count(r.Compared, "pair", "pairs"), Number(m.Fuzzy+m.Embedding+m.LLM))
		line += listed([]counted{{m.Fuzzy, "by name"}, {m.Embedding, "by cosine"}, {m.LLM, "by a model"}})
		if r.Unclear > 0 {
			line += fmt.Sprintf(", %s unclear for review", Number(r.Unclear))
		}
		if r.CapLeft > 0 {
			line += fmt.Sprintf(", %s not compared (caps)", Number(r.CapLeft))
		}
		if r.LLMRequests > 0 {
			line += ", " + Count(r.LLMRequests, "model request", "model requests") + listed([]counted{{r.LLMFailed, "failed"}})
		}
		if r.LLMLeft > 0 {
			line += fmt.Sprintf(", %s left for a later job (budget)", Count(r.LLMLeft, "pair", "pairs"))
		}
		p.f("  links       %s", line)
	}
	if s.State != api.JobCommitted {
		return
	}
	for _, x := range s.Progress {
		if x.Stage != api.StageLinker || x.Waiting == 0 {
			continue
		}
		line := Number(x.Waiting) + " to be compared or put before a model"
		if x.Why != "" {
			line += ": " + x.Why
		}
		p.f("  linker      %s", line)
	}
}

// counted is a number of what.
type counted struct {
	n    int
	what string
}

// listed writes what is not 0, in brackets.
func listed(list []counted) string {
	var parts []string
	for _, c := range list {
		if c.n > 0 {
			parts = append(parts, Number(c.n)+" "+c.what)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// StageFailures is the failures of one stage.
type StageFailures struct {
	stage string
	api.Failures
}

// AllFailures lists the stages that had failures, in pipeline order.
func AllFailures(s api.Stages) []StageFailures {
	var out []StageFailures
	for _, f := range []StageFailures{
		{"ingestion", s.Ingestion.Failures}, {"chunking", s.Chunking.Failures}, {"extraction", s.Extraction.Failures},
		{"escalation", s.Escalation.Failures}, {"resolution", s.Resolution.Failures}, {"merge", s.Merge.Failures},
		{"storage", s.Storage.Failures},
	} {
		if f.Total > 0 {
			out = append(out, f)
		}
	}
	return out
}

func (p *printer) failures(stage string, f api.Failures) {
	for i, x := range f.List {
		if i == shownFailures {
			break
		}
		p.f("  %-11s %s", stage, failure(x))
	}
	if more := f.Total - min(shownFailures, len(f.List)); more > 0 {
		p.f("  %-11s … and %s", stage, Count(more, "more failure", "more failures"))
	}
}

func failure(x graph.Failure) string {
	return fmt.Sprintf("%s: %s (%s)", x.Item, x.Message, x.Code)
}

// Jobs shows a list of jobs, of those in a state, or of all ("").
func Jobs(w io.Writer, r api.JobListReply, state string) error {
	p := &printer{w: w}
	switch {
	case len(r.Jobs) > 0:
	case state != "":
		p.f("no job is %s", strings.ReplaceAll(state, "_", " "))
	default:
		p.f("no jobs")
	}
	t := NewTable("JOB", "STATE", "OP", ">DOCUMENTS", ">SEQUENCE", "OPENED", "REASON").Cap(6, 60)
	for _, j := range r.Jobs {
		seq := ""
		if j.CommitSeq > 0 {
			seq = fmt.Sprint(j.CommitSeq)
		}
		t.Row(j.Job, j.State, j.Op, Number(j.Documents.Total), seq, Time(j.OpenedAt), j.Reason)
	}
	p.table(t)
	if r.Next != "" {
		p.f("more: --cursor %s", r.Next)
	}
	return p.err
}

// Step is how far a job is, in documents (done and total), and what it waits for: its attempt, its next step, and what waits
// before which stage. expect is how many documents there are at least, where that is known; records in files make them more.
func Step(s api.JobStatus, expect int) (done, total int64, what string) {
	what = "job " + s.Job
	if s.Attempt > 1 {
		what += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	var waiting []string
	for _, p := range s.Progress {
		done, total = int64(p.Done), max(total, int64(p.Done))
		if p.Waiting > 0 {
			waiting = append(waiting, p.Stage+" "+Number(p.Waiting))
		}
	}
	total = max(total, int64(expect))
	switch {
	case s.Next != "" && s.State == api.JobPending:
		what += " waits for " + s.Next
	default:
		what += " " + strings.ReplaceAll(s.State, "_", " ")
	}
	if len(waiting) > 0 {
		what += " (queued: " + strings.Join(waiting, ", ") + ")"
	}
	return done, total, what
}
