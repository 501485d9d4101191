package render

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func shown(t *testing.T, f func(w io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, f(&b))
	return b.String()
}

// An empty list says whether there is nothing at all, or nothing of what was asked for.
func TestEmptyLists(t *testing.T) {
	for want, f := range map[string]func(w io.Writer) error{
		"no candidate waits for review here; factmill review stats counts matches, conflicts, stale facts and held jobs\n": func(w io.Writer) error { return Groups(w, api.ReviewListReply{}, false) },
		"no group matches\n":                          func(w io.Writer) error { return Groups(w, api.ReviewListReply{}, true) },
		"no group matches here, of 7 groups in all\n": func(w io.Writer) error { return Groups(w, api.ReviewListReply{Total: 7}, true) },
		"no jobs\n":                func(w io.Writer) error { return Jobs(w, api.JobListReply{}, "") },
		"no job is rolling back\n": func(w io.Writer) error { return Jobs(w, api.JobListReply{}, api.JobRollingBack) },
		"no documents: factmill ingest PATH puts some in\n": func(w io.Writer) error {
			return Documents(w, api.DocumentListReply{}, true)
		},
		"no document's key begins so, of 3 documents in the graph\n": func(w io.Writer) error {
			return Documents(w, api.DocumentListReply{Total: 3}, true)
		},
		"no entities\n": func(w io.Writer) error { return Entities(w, api.EntityListReply{}, true) },
		"no facts\n":    func(w io.Writer) error { return Facts(w, api.RelationListReply{}, true) },
		"":              func(w io.Writer) error { return Facts(w, api.RelationListReply{Next: "c"}, true) }, // more may follow
	} {
		require.Equal(t, want, shown(t, f))
	}
}

func TestLists(t *testing.T) {
	docs := api.DocumentListReply{Documents: []api.ListedDocument{
		{DocumentRow: graph.DocumentRow{Key: "a.txt", Title: "A\x1b"}, Version: 2, Chunks: 1500, FromTime: "2026-01-02T03:04:05.6Z"},
		{DocumentRow: graph.DocumentRow{Key: "b.txt"}, Version: 1, Chunks: 1, FromTime: "2026-01-02T03:04:05Z"},
	}}
	require.Equal(t, "KEY    VERSION  CHUNKS  SINCE                 TITLE\n"+
		"a.txt        2   1,500  2026-01-02 03:04:05Z  A\\x1b\n"+
		"b.txt        1       1  2026-01-02 03:04:05Z\n", shown(t, func(w io.Writer) error { return Documents(w, docs, true) }))
	ents := api.EntityListReply{Entities: []graph.EntityRow{{ID: "e1", Name: "Ada", Type: "Person", MentionsTotal: 3, DocumentsTotal: 2}}}
	require.Equal(t, "NAME  TYPE    MENTIONS  DOCUMENTS  ID\nAda   Person         3          2  e1\n", shown(t, func(w io.Writer) error { return Entities(w, ents, true) }))
	require.Equal(t, "Ada  Person  3  2  e1\n", shown(t, func(w io.Writer) error { return Entities(w, ents, false) }), "a further page")
	facts := api.RelationListReply{Relations: []graph.RelationRow{{Type: "WORKS_FOR", Source: "e1", SourceName: "Ada", Target: "e2", TargetName: "Acme", EvidenceTotal: 2,
		Evidence: []graph.Evidence{{Document: "a.txt", Start: 0, End: 9, Quote: "Ada works", Confidence: 0.8}}}}}
	require.Equal(t, "Ada  WORKS_FOR  Acme\n  “Ada works”  a.txt [0:9]  0.80\n  … and 1 more quote\n", shown(t, func(w io.Writer) error { return Facts(w, facts, true) }))
}

// What a model was asked, and what a job cost of which nothing else is known.
func TestAsked(t *testing.T) {
	for want, x := range map[string]api.Escalation{
		"": {},
		"12 of 12 eligible chunks: 5 asked, 7 failed; 5 requests, 750 tokens spent": {SpentRequests: 5, SpentTokens: 750,
			EscalationStats: events.EscalationStats{Escalated: 12, Eligible: 12, Asked: 5, Failed: 7, Requests: 5, PromptTokens: 700, CompletionTokens: 50}},
		"2 of 9 eligible chunks: 1 asked, 1 by kept replies; 4 requests, 1,200 tokens spent": {SpentRequests: 4, SpentTokens: 1200,
			EscalationStats: events.EscalationStats{Escalated: 2, Eligible: 9, Asked: 1, CacheHits: 1, Requests: 1, PromptTokens: 100}},
		"1 request, 1 token spent": {SpentRequests: 1, SpentTokens: 1},
	} {
		require.Equal(t, want, asked(x))
	}
}

// What keeps an item out for good is told from what makes it a candidate.
func TestDroppedAndCandidates(t *testing.T) {
	s := api.JobStatus{Job: "j1", Graph: "default", Op: "add", State: api.JobPending, Next: "the commit"}
	s.Stages.Extraction.CandidatesWritten, s.Stages.Extraction.CandidatesSuppressed = 1200, 3
	s.Stages.Extraction.ItemsDropped, s.Stages.Extraction.ItemsUndecided = 1007, 1195
	for reason, n := range map[string][2]int{ // in all, and of candidates
		graph.ReasonNoEvidence: {4, 0}, graph.ReasonBadName: {1, 0}, graph.ReasonSelfLoop: {2, 0}, graph.ReasonBelowFloor: {1000, 0}, graph.ReasonLimit: {1, 0},
		graph.ReasonUndeclaredLabel: {1200, 1190}, graph.ReasonOffPattern: {5, 5}, graph.ReasonEntityBand: {5, 5},
	} {
		s.Stages.Extraction.Dropped = append(s.Stages.Extraction.Dropped, graph.Dropped{Kind: "entity", Label: "X", Reason: reason, Count: n[0], Candidates: n[1]})
	}
	require.Equal(t, `job j1 pending (graph default)
  waits for   the commit
  documents   0
  candidates  1,200 for review, 3 suppressed; reasons: undeclared_label 1,190, entity_band 5, off_pattern 5
  dropped     1,007 items without evidence or sense; reasons: below_floor 1,000, undeclared_label 10, no_evidence 4, self_loop 2, bad_name 1, limit 1
`, shown(t, func(w io.Writer) error { return Job(w, s) }))
	// Without candidates what the schema keeps out is seen here only.
	x := &s.Stages.Extraction
	x.CandidatesWritten, x.CandidatesSuppressed = 0, 0
	for i := range x.Dropped {
		x.Dropped[i].Candidates = 0
	}
	require.Contains(t, shown(t, func(w io.Writer) error { return Job(w, s) }),
		"  kept out    1,195 items, of which no candidate is kept; reasons: undeclared_label 1,200, entity_band 5, off_pattern 5\n")
}

// A candidate is an item and no dropped one; a relation without an end shows that.
func TestItemsOfADocument(t *testing.T) {
	r := api.DocumentReply{State: "open", Document: graph.DocumentRow{Key: "a"}, Items: &api.DocumentItems{
		Items: []api.ItemRow{
			{Outcome: "candidate", Kind: "relation", Label: "OWNS", SourceText: "Bela Hugoson", Text: "Bela Hugoson owns", Confidence: 0.5, Reasons: []string{"unresolved_endpoint"}},
			{Outcome: "candidate", Kind: "property", Label: "born", SourceText: "Bob", Text: "in May", Reasons: []string{"bad_value", "bad_confidence"}},
		},
		Dropped: []graph.Dropped{
			{Kind: "relation", Label: "OWNS", Reason: "unresolved_endpoint", Count: 1, Candidates: 1},
			{Kind: "entity", Label: "Dragon", Reason: "undeclared_label", Count: 3, Candidates: 1, Sample: "Smaug"},
		},
	}}
	require.Equal(t, `a  (open)
  0 chunks
  OUTCOME    KIND      LABEL  TEXT                      CONFIDENCE  SPAN  FOUND BY  WHY
  candidate  relation  OWNS   Bela Hugoson → (nothing)        0.50  0:0             unresolved_endpoint
  candidate  property  born   Bob = in May                    none  0:0             bad_value, bad_confidence
  dropped 2 items: entity Dragon, undeclared_label, such as “Smaug”
`, shown(t, func(w io.Writer) error { return Document(w, r) }))
}

func TestSent(t *testing.T) {
	require.Empty(t, shown(t, func(w io.Writer) error { return Sent(w, nil, nil) }))
	require.Equal(t, "  key         a.txt\n", shown(t, func(w io.Writer) error { return Sent(w, []string{"a.txt"}, nil) }))
	require.Equal(t, "  keys        a.txt … c.txt: factmill documents lists them\n  not sent    1 file\n    x: permission denied\n",
		shown(t, func(w io.Writer) error {
			return Sent(w, []string{"a.txt", "b.txt", "c.txt"}, []string{"x: permission denied"})
		}))
	many := shown(t, func(w io.Writer) error { return Sent(w, nil, strings.Split(strings.Repeat("f,", 11)+"f", ",")) })
	require.Equal(t, "  not sent    12 files\n"+strings.Repeat("    f\n", 10)+"    … and 2 more\n", many)
}

// A closed version says so, whatever the document is now.
func TestClosedVersion(t *testing.T) {
	r := api.DocumentReply{State: "open", Version: 1, Document: graph.DocumentRow{Key: "a"}, Versions: []api.VersionRow{
		{Version: 1, ClosedSeq: 4, ClosedTime: "2026-01-02T03:04:05Z"}, {Version: 2}}}
	head := func() string {
		line, _, _ := strings.Cut(shown(t, func(w io.Writer) error { return Document(w, r) }), "\n")
		return line
	}
	require.Equal(t, "a  (version 1, closed 2026-01-02 03:04:05Z)", head())
	r.Version = 2
	require.Equal(t, "a  (open)", head())
	r.State, r.Version = "deleted", 1
	require.Equal(t, "a  (deleted; version 1, closed 2026-01-02 03:04:05Z)", head())
}

// A line of progress ends with what hinders the work, as long as it does.
func TestProgressNotes(t *testing.T) {
	now := time.Unix(0, 0)
	var b strings.Builder
	p := NewProgress(&b, false, func() time.Time { now = now.Add(2 * time.Second); return now })
	p.Note("the extractor is not ready: no")
	p.Set(1, 2, "job j1")
	p.Note("")
	p.Set(1, 2, "job j1")
	require.Equal(t, "job j1: 1 of 2; the extractor is not ready: no\njob j1: 1 of 2\n", b.String())
}
