package integration

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// mark is how a text of these tests tells the model what to find in it: «Spacecraft: Apollo 11 @0.31», «Bob -OWNS-> Acme @0.9». What stands
// behind the confidence tells two marks of one chunk apart.
var mark = regexp.MustCompile(`«(?:([^:»]+): ([^»]*?)|([^»]*?) -([^»]+?)-> ([^»]*?)) @([0-9.]+)[^»]*»`)

// told answers with what the marks of the text say.
func told(c testkit.ModelCall) testkit.ModelReply {
	type item map[string]any
	entities, relations := []item{}, []item{}
	for _, m := range mark.FindAllStringSubmatch(c.Last(), -1) {
		confidence, _ := strconv.ParseFloat(m[6], 64)
		if m[1] != "" {
			entities = append(entities, item{"type": m[1], "name": m[2], "confidence": confidence, "quote": m[0]})
		} else {
			relations = append(relations, item{"source": m[3], "type": m[4], "target": m[5], "confidence": confidence, "quote": m[0]})
		}
	}
	b, err := json.Marshal(map[string]any{"entities": entities, "relations": relations})
	if err != nil {
		panic(err)
	}
	return testkit.ModelReply{Content: string(b)}
}

// telling is a fleet whose model says what the marks say.
func telling(t *testing.T, opt fleetOptions, graphs ...string) *fleet {
	t.Helper()
	return asking(t, opt, testkit.NewModel(t, testkit.ModelOptions{Reply: told}), graphs...)
}

// queue lists the groups of a state in the list's order: "key ×count in documents @confidence".
func (f *fleet) queue(graph, state string) []string {
	f.t.Helper()
	out := []string{}
	for _, g := range ask[api.ReviewListReply](f.cluster, graph, "review.list", map[string]any{"state": state}).Groups {
		out = append(out, fmt.Sprintf("%s ×%d in %d @%v", g.Key, g.Count, g.Documents, g.Confidence))
	}
	return out
}

// spoken are the candidate events of a graph from a number on: "verb kind: document key, …". Each is told once, under its own subject, in
// order, without gaps.
func (f *fleet) spoken(graph string, after uint64) (out []string, last uint64) {
	f.t.Helper()
	no := ask[api.SeqReply](f.cluster, graph, "query.seq", nil).No
	var all []events.CandidateEvent
	testkit.Await(f.t, fmt.Sprintf("candidate event %d of %s", no, graph), func() bool {
		all = f.candidateEvents(graph)
		return no == 0 || len(all) > 0 && all[len(all)-1].No >= no
	})
	for i, e := range all {
		require.Equal(f.t, uint64(i+1), e.No)
		if e.No <= after {
			continue
		}
		var items []string
		for _, it := range e.Items {
			require.Equal(f.t, e.Kind, it.Kind)
			items = append(items, it.Document+" "+it.Key)
		}
		out = append(out, e.Verb+": "+strings.Join(items, ", "))
	}
	return out, no
}

// candidateEvents reads the kept candidate events of a graph.
func (c *cluster) candidateEvents(graph string) (out []events.CandidateEvent) {
	c.t.Helper()
	stream, err := c.conn.JS.Stream(c.t.Context(), bus.StreamCandidates)
	require.NoError(c.t, err)
	info, err := stream.Info(c.t.Context())
	require.NoError(c.t, err)
	for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(c.t.Context(), seq)
		require.NoError(c.t, err)
		e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
		require.NoError(c.t, err)
		if x := e.(*events.CandidateEvent); x.Graph == graph {
			require.Equal(c.t, "factmill."+graph+".candidate."+x.Verb+"."+x.Kind, m.Subject)
			out = append(out, *x)
		}
	}
	return out
}

// decided sends a decision that must change exactly these keys.
func (f *fleet) decided(graph, verb string, keys ...string) api.DecideReply {
	f.t.Helper()
	r := ask[api.DecideReply](f.cluster, graph, "review."+verb, api.ReviewDecide{Keys: keys, Actor: "eva"})
	require.ElementsMatch(f.t, keys, r.Outcome.Changed, "%v", r.Outcome.Skipped)
	return r
}

func said(s api.JobStatus) []int {
	return []int{s.Stages.Extraction.CandidatesWritten, s.Stages.Extraction.CandidatesSuppressed}
}

// Sightings of one key in one reading are one record: counted, with the highest confidence and the first evidence.
func TestSightingsOfOneRunAreOneRecord(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	f.putSettings("g", map[string]string{"chunker.size": "30", "chunker.min_size": "1"})
	text := "# One\n\nIt began with «Spacecraft: Apollo 11 @0.31» in July.\n\n# Two\n\nAnd then «Spacecraft: apollo  11 @0.44» flew on.\n\n# Three\n\nAt last «Spacecraft: The Apollo 11 @0.40» came home."
	s := f.run("g", doc("d", text))
	require.Equal(t, 3, s.Stages.Chunking.Chunks)
	require.Equal(t, []int{1, 0}, said(s))
	require.Equal(t, []string{"entity|spacecraft|apollo 11 ×3 in 1 @0.44"}, f.queue("g", "pending"))
	shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: "entity|spacecraft|apollo 11"})
	at := strings.Index(text, "Apollo 11")
	require.Equal(t, []any{"Apollo 11", at, at + len("Apollo 11"), "Apollo 11"}, []any{shown.Item.Text, shown.Evidence[0].Start, shown.Evidence[0].End, shown.Evidence[0].Quote})
	require.Len(t, shown.Records, 1)
	require.Len(t, shown.Records[0].More, 2, "the others can be counted")
	read, r := f.documentAt("g", map[string]any{"key": "d"}), shown.Records[0]
	require.Equal(t, []any{read.Version, read.SchemaVersion, read.Document.SchemaFP, read.Document.ExtractionFP}, []any{r.Version, r.SchemaVersion, r.SchemaFP, r.ExtractionFP})
	require.NotEmpty(t, r.At)
	spoken, _ := f.spoken("g", 0)
	require.Equal(t, []string{"proposed: d entity|spacecraft|apollo 11"}, spoken)
}

// The most seen come first; min_count and limit mean what they say; names that differ by + and # alone are three keys.
func TestQueueIsOrderedByCount(t *testing.T) {
	f := telling(t, fleetOptions{}, "g", "c")
	f.run("g", map[string]any{"documents": []map[string]any{
		doc("a", "«Spacecraft: Vostok @0.9 1» «Spacecraft: Vostok @0.9 2»"),
		doc("b", "«Spacecraft: Vostok @0.8 1» «Spacecraft: Vostok @0.8 2» «Spacecraft: Vostok @0.8 3»"),
		doc("c", "«Spacecraft: Soyuz @0.95 1» «Spacecraft: Soyuz @0.9 2» «Spacecraft: Soyuz @0.9 3» «Spacecraft: Soyuz @0.9 4»"),
	}})
	want := []string{"entity|spacecraft|vostok ×5 in 2 @0.9", "entity|spacecraft|soyuz ×4 in 1 @0.95"}
	require.Equal(t, want, f.queue("g", "pending"))
	five := ask[api.ReviewListReply](f.cluster, "g", "review.list", api.ReviewList{MinCount: 5})
	require.Equal(t, []any{1, 1, "entity|spacecraft|vostok"}, []any{len(five.Groups), five.Total, five.Groups[0].Key})
	limit := -1
	e := refused(f.cluster, "g", "review.list", api.ReviewList{Limit: &limit})
	require.Equal(t, []any{400, "bad_value"}, []any{e.Status, e.Code})
	require.Contains(t, e.Message, "limit is -1")
	for _, bad := range []map[string]any{{"min_count": -1}, {"skip": -1}, {"limit": 1001}, {"kinds": []string{"dragon"}}, {"state": "held"}, {"cursor": "x"}, {"min_score": 2}} {
		require.Equal(t, "bad_value", refused(f.cluster, "g", "review.list", bad).Code, "%v", bad)
	}
	many := make([]string, 10_001)
	for i := range many {
		many[i] = fmt.Sprintf("entity|x|%d", i)
	}
	e = refused(f.cluster, "g", "review.approve", api.ReviewDecide{Keys: many, Actor: "eva"})
	require.Equal(t, []any{413, "too_large"}, []any{e.Status, e.Code})
	e = refused(f.cluster, "g", "review.approve", api.ReviewDecide{IDs: many, Actor: "eva"})
	require.Equal(t, []any{413, "too_large"}, []any{e.Status, e.Code})
	f.run("c", doc("d", "«Language: C @0.9», «Language: C++ @0.9» and «Language: C# @0.9»; «Language: The U.S. Steel Corp. @0.9»; «Language: Café—Zürich @0.9»; «Language: snake_case_name @0.9»"))
	keys := []string{}
	for _, g := range f.groups("c") {
		keys = append(keys, g.Key)
	}
	require.ElementsMatch(t, []string{"entity|language|c", "entity|language|c++", "entity|language|c#", "entity|language|us steel corp", "entity|language|cafe zurich", "entity|language|snake case name"}, keys)
}

// A rejected key is not asked again, whatever happens to the documents that say it, until it is pruned or the rejection is taken back.
func TestRejectedDragonStaysAway(t *testing.T) {
	f := telling(t, fleetOptions{Replicas: 2}, "g")
	const dragon = "entity|spacecraft|dragon"
	a := doc("a", "«Spacecraft: Dragon @0.9»")
	require.Equal(t, []int{1, 0}, said(f.run("g", a)))
	f.decided("g", "reject", dragon)
	rejected := []string{dragon + " ×1 in 1 @0.9"}
	force := map[string]any{"documents": []map[string]any{a}, "force": true}

	for _, again := range []struct {
		how   string
		event map[string]any
	}{{"in place", force}, {"a new version", doc("a", "Now «Spacecraft: Dragon @0.7» again.")}, {"as it was", a}} {
		require.Equal(t, []int{0, 1}, said(f.run("g", again.event)), again.how)
		require.Empty(t, f.queue("g", "pending"), again.how)
		require.Equal(t, rejected, f.queue("g", "rejected"), again.how)
	}
	f.remove("g", "a")
	require.Equal(t, rejected, f.queue("g", "rejected"))
	require.Equal(t, []int{0, 1}, said(f.run("g", a)))
	require.Equal(t, []int{0, 1}, said(f.run("g", doc("b", "«Spacecraft: dragon @0.9 1» «Spacecraft: The DRAGON @0.9 2»"))))
	require.Equal(t, []int{1, 0}, said(f.run("g", doc("c", "«Spacecraft: Dragons @0.9»"))))
	require.Equal(t, []string{"entity|spacecraft|dragons ×1 in 1 @0.9"}, f.queue("g", "pending"))
	require.Equal(t, rejected, f.queue("g", "rejected"), "no new record")

	again := map[string]any{"documents": []map[string]any{a, doc("b", "«Spacecraft: dragon @0.9 1» «Spacecraft: The DRAGON @0.9 2»")}, "force": true}
	pending := []string{dragon + " ×3 in 2 @0.9", "entity|spacecraft|dragons ×1 in 1 @0.9"}
	pruned := ask[api.ReviewPruneReply](f.cluster, "g", "review.prune", api.ReviewPrune{Rejected: true, Apply: true, Actor: "eva"})
	require.Equal(t, []any{[]string{dragon}, 1, true}, []any{pruned.Matched, pruned.Deleted, pruned.Applied})
	require.Equal(t, 2, f.run("g", map[string]any{"documents": again["documents"]}).Documents.Unchanged)
	require.Equal(t, pending[1:], f.queue("g", "pending"), "nothing is proposed until it is read again")
	require.Equal(t, []int{2, 0}, said(f.run("g", again)))
	require.Equal(t, pending, f.queue("g", "pending"))

	r := f.decided("g", "reject", dragon)
	require.Equal(t, []int{0, 2}, said(f.run("g", again)))
	require.Equal(t, []string{dragon}, ask[api.DecideReply](f.cluster, "g", "review.undo", api.ReviewUndo{Decision: r.Records[dragon], Actor: "bo"}).Outcome.Changed)
	require.Empty(t, f.queue("g", "rejected"))
	require.Equal(t, []int{2, 0}, said(f.run("g", again)))
	require.Equal(t, pending, f.queue("g", "pending"))
	f.sound("g")
}

// With candidates off, what is kept out is counted, and the document's pending ones go; the decided ones stay.
func TestCandidatesOff(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	a := doc("a", "«Spacecraft: Dragon @0.9», «Spacecraft: Soyuz @0.9», «Spacecraft: Mir @0.9» and «Person: Bob @0.4»")
	require.Equal(t, []int{5, 0}, said(f.run("g", map[string]any{"documents": []map[string]any{a, doc("b", "«Spacecraft: Dragon @0.9»")}})))
	f.decided("g", "approve", "entity|spacecraft|soyuz")
	f.decided("g", "reject", "entity|spacecraft|mir")
	_, no := f.spoken("g", 0)
	s := f.run("g", map[string]any{"documents": []map[string]any{a}, "force": true, "candidates": false})
	require.Equal(t, []int{0, 0}, said(s))
	counted := map[string]int{}
	for _, d := range s.Stages.Extraction.Dropped {
		counted[d.Label+" "+d.Reason] += d.Count
	}
	require.Equal(t, map[string]int{"Spacecraft undeclared_label": 3, "Person entity_band": 1}, counted)
	require.Equal(t, []string{"entity|spacecraft|dragon ×1 in 1 @0.9"}, f.queue("g", "pending"), "that of the other document")
	require.Equal(t, []string{"entity|spacecraft|soyuz ×1 in 1 @0.9"}, f.queue("g", "approved"))
	require.Equal(t, []string{"entity|spacecraft|mir ×1 in 1 @0.9"}, f.queue("g", "rejected"))
	spoken, _ := f.spoken("g", no)
	require.Equal(t, []string{"withdrawn: a entity|person|bob, a entity|spacecraft|dragon"}, spoken)
	require.Equal(t, []int{3, 1}, said(f.run("g", map[string]any{"documents": []map[string]any{a}, "force": true})), "three are written, the approved one too")
	require.Equal(t, 2, len(f.queue("g", "pending")))
	f.sound("g")
}

// What a job that fails would have changed stays as it was, to the byte; deleting the document takes its pending ones only.
func TestCandidatesOverFailureAndDelete(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	a := doc("a", "«Spacecraft: Dragon @0.9», «Spacecraft: Soyuz @0.9», «Spacecraft: Mir @0.9»")
	f.run("g", a)
	approved := f.decided("g", "approve", "entity|spacecraft|soyuz")
	f.decided("g", "reject", "entity|spacecraft|mir")
	before := f.groups("g")
	_, no := f.spoken("g", 0)
	changed := doc("a", "«Spacecraft: Salyut @0.9», «Spacecraft: Soyuz @0.6»")
	failed := f.publish("g", map[string]any{"documents": []map[string]any{changed, {"key": "x", "text": "{", "format": "json"}}})
	require.Equal(t, api.JobRolledBack, f.settled("g", failed).State)
	held := f.publish("g", map[string]any{"documents": []map[string]any{changed}, "hold": true})
	f.await("g", held, api.JobHeld)
	require.Equal(t, before, f.groups("g"), "what waits for its commit is not seen")
	require.Equal(t, api.JobRolledBack, ask[api.JobStatus](f.cluster, "g", "jobs.cancel", api.JobCancel{Job: held}).State)
	require.Equal(t, before, f.groups("g"))
	spoken, _ := f.spoken("g", no)
	require.Empty(t, spoken)

	// Approved before a reading, it is approved behind it, with what was seen then; what is not seen any more stays approved, too.
	f.run("g", changed)
	require.Equal(t, []string{"entity|spacecraft|salyut ×1 in 1 @0.9"}, f.queue("g", "pending"))
	require.Equal(t, []string{"entity|spacecraft|soyuz ×1 in 1 @0.6"}, f.queue("g", "approved"))
	ids := f.candidateGroups("g", "approved")["entity|spacecraft|soyuz approved"].IDs
	require.NotContains(t, approved.Patch.CandidateIDs, ids[0], "the record has another id now")
	old := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{IDs: approved.Patch.CandidateIDs, Actor: "eva"})
	require.Equal(t, map[string]string{approved.Patch.CandidateIDs[0]: "unknown id"}, old.Outcome.Skipped)
	require.Equal(t, map[string]string{approved.Patch.CandidateIDs[0]: "entity|spacecraft|soyuz"}, old.Outcome.CurrentKeys)
	f.run("g", doc("a", "Nothing of it."))
	require.Empty(t, f.queue("g", "pending"))
	require.Equal(t, []string{"entity|spacecraft|soyuz ×1 in 1 @0.6"}, f.queue("g", "approved"))
	f.run("g", changed)
	f.run("g", doc("b", "«Spacecraft: Soyuz @0.8»"))
	require.Equal(t, []string{"entity|spacecraft|soyuz ×2 in 2 @0.8"}, f.queue("g", "approved"), "a later sighting asks nobody again")
	_, no = f.spoken("g", 0)
	f.remove("g", "a")
	require.Empty(t, f.queue("g", "pending"))
	require.Equal(t, []string{"entity|spacecraft|soyuz ×2 in 2 @0.8"}, f.queue("g", "approved"))
	require.Equal(t, []string{"entity|spacecraft|mir ×1 in 1 @0.9"}, f.queue("g", "rejected"))
	spoken, _ = f.spoken("g", no)
	require.Equal(t, []string{"withdrawn: a entity|spacecraft|salyut"}, spoken)
	require.Equal(t, []string{"b"}, slices.Collect(func(yield func(string) bool) {
		for _, r := range parseExport(t, strings.Join(nonDecisions(f.exported("g", 0)), "")).candidates {
			if !yield(r.Document) {
				return
			}
		}
	}), "the export has the approved sightings of open chunks")
	f.sound("g")
}

// What is decided while a job is under way counts at its commit: what was rejected meanwhile is not written, what was approved joins.
func TestDecidedWhileAJobWaits(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	f.run("g", doc("a", "«Spacecraft: Dragon @0.9», «Spacecraft: Soyuz @0.9»"))
	job := f.publish("g", map[string]any{"documents": []map[string]any{doc("b", "«Spacecraft: Dragon @0.9», «Spacecraft: Soyuz @0.9», «Spacecraft: Mir @0.9»")}, "hold": true})
	f.await("g", job, api.JobHeld)
	f.decided("g", "reject", "entity|spacecraft|dragon")
	f.decided("g", "approve", "entity|spacecraft|soyuz")
	unknown := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Keys: []string{"entity|spacecraft|mir"}, Actor: "eva"})
	require.Equal(t, map[string]string{"entity|spacecraft|mir": "candidate_not_found"}, unknown.Outcome.Skipped, "what is not committed cannot be decided")
	s := f.cluster.accept("g", job)
	require.Equal(t, []any{api.JobCommitted, []int{2, 1}}, []any{s.State, said(s)})
	require.Equal(t, []string{"entity|spacecraft|mir ×1 in 1 @0.9"}, f.queue("g", "pending"))
	require.Equal(t, []string{"entity|spacecraft|soyuz ×2 in 2 @0.9"}, f.queue("g", "approved"))
	require.Equal(t, []string{"entity|spacecraft|dragon ×1 in 1 @0.9"}, f.queue("g", "rejected"))
}

// What was not read says nothing: the pending candidates of a chunk that the model refused stay while their quote stands in it.
func TestUnreadTextKeepsItsCandidates(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		if strings.Contains(c.Last(), "unreadable") {
			return testkit.ModelReply{Content: "I'm sorry, I cannot help with that."}
		}
		return told(c)
	}})
	f := asking(t, fleetOptions{}, m, "g")
	f.putSettings("g", map[string]string{"chunker.size": "30", "chunker.min_size": "1"})
	read := func(second string) api.JobStatus {
		return f.run("g", map[string]any{"documents": []map[string]any{doc("d", "# One\n\nIt began with «Craft: Ariel @0.9» in July.\n\n# Two\n\n"+second)}, "error_policy": "skip"})
	}
	require.Equal(t, []int{2, 0}, said(read("And then «Craft: Beagle @0.8 1» «Craft: Beagle @0.9 2».")))
	_, no := f.spoken("g", 0)
	s := read("This is unreadable: «Craft: Beagle @0.5» and Cassini.")
	require.Equal(t, 1, s.Stages.Extraction.ChunksFailed)
	require.Equal(t, []string{"entity|craft|ariel ×1 in 1 @0.9", "entity|craft|beagle ×1 in 1 @0.9"}, f.queue("g", "pending"))
	shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: "entity|craft|beagle"})
	require.Equal(t, []any{"Beagle", "This is unreadable: «Craft: "}, []any{shown.Evidence[0].Quote, shown.Evidence[0].Before[len(shown.Evidence[0].Before)-len("This is unreadable: «Craft: "):]}, "where it stands now")
	spoken, _ := f.spoken("g", no)
	require.Equal(t, []string{"withdrawn: d entity|craft|ariel, d entity|craft|beagle", "proposed: d entity|craft|ariel, d entity|craft|beagle"}, spoken, "they have other ids")
	read("This is unreadable: nothing of it.")
	require.Equal(t, []string{"entity|craft|ariel ×1 in 1 @0.9"}, f.queue("g", "pending"))
	read("«Craft: Cassini @0.9» ends it.")
	require.Equal(t, []string{"entity|craft|ariel ×1 in 1 @0.9", "entity|craft|cassini ×1 in 1 @0.9"}, f.queue("g", "pending"))
	f.sound("g")
}

// What a threshold kept out needs no change of the schema: its patch adds nothing, and no schema covers it. Approved ones are never pruned.
func TestBelowTheThreshold(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	f.run("g", doc("a", "«Person: Bob @0.4» and «Spacecraft: Dragon @0.9»"))
	bob := f.candidateGroups("g", "pending")["entity|person|bob pending"]
	require.Equal(t, []any{[]string{"entity_band"}, false}, []any{bob.Reasons, bob.Covered})
	p := f.decided("g", "approve", "entity|person|bob").Patch
	require.Equal(t, bob.IDs, p.CandidateIDs)
	require.True(t, p.Empty())
	require.NotEmpty(t, p.PatchID)
	none, days := 0, 1000
	require.Equal(t, "bad_value", refused(f.cluster, "g", "review.prune", api.ReviewPrune{Apply: true, Actor: "eva"}).Code)
	pruned := ask[api.ReviewPruneReply](f.cluster, "g", "review.prune", api.ReviewPrune{Rejected: true, PendingOlderThanDays: &none, PendingBelowCount: &days, Apply: true, Actor: "eva"})
	require.Equal(t, []string{"entity|spacecraft|dragon"}, pruned.Matched)
	require.Equal(t, []string{"entity|person|bob ×1 in 1 @0.4"}, f.queue("g", "approved"))
	require.Equal(t, []int{2, 0}, said(f.run("g", map[string]any{"documents": []map[string]any{doc("a", "«Person: Bob @0.4» and «Spacecraft: Dragon @0.9»")}, "force": true})))
	require.Equal(t, []string{"entity|spacecraft|dragon ×1 in 1 @0.9"}, f.queue("g", "pending"), "what was pruned may come again")
}

// nonDecisions are the lines of an export that are no decisions.
func nonDecisions(export string) (out []string) {
	for line := range strings.Lines(export) {
		if !strings.Contains(line, `"kind":"decision"`) {
			out = append(out, line)
		}
	}
	return out
}
