package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
)

// guildhall is the schema of the random histories; %s are more types, how many firms and people there may be, more relations, and the review
// section.
const guildhall = `
name: guildhall
entities:
  Person: {properties: {born: {type: date, identifies: true}}}
  Organization: {properties: {founded: {type: integer}}}
%s
relations:
  WORKS_FOR: {patterns: ["Person->Organization"]%s}
%s
review: {%s}
rules:
  entities:
    Person: {names: [Lin Orre, Mara Velt, Mara Weld, Tom Reed]}
    Organization: {names: [Norrin Works, Norin Works, Norrin Works Ltd, Orva]}
  relations:
    WORKS_FOR: {phrases: ["works for"]}
`

// grown holds what the candidates of the histories can add.
var grown = [2]string{"  Event: {}\n  Location: {}", `  LOCATED_IN: {patterns: ["Event->Location", "Organization->Location"]}`}

// bounds are of how many firms one works for, and how many work for one.
var bounds = []string{"", ", cardinality: {max_per_source: 1}", ", cardinality: {max_per_source: 2, max_per_target: 1}"}

// reviews are the review sections that a graph changes to and fro between.
var reviews = []string{
	"stale: review", "stale: keep", "stale: withdraw",
	`stale: review, manual: [{deletes: true, kind: relation}]`,
	`stale: keep, manual: [{deletes: true}]`,
	`stale: withdraw, manual: [{deletes: true}], auto_reject: [{kind: relation, label: WORKS_FOR, reason: assertion_kind}]`,
	`stale: keep, auto_accept: [{kind: entity, label: Event}, {kind: relation, label: WORKS_FOR, reason: assertion_kind}], auto_reject: [{kind: entity, label: Location}]`,
	`stale: review, manual: [{kind: relation, label: WORKS_FOR}]`,
	`stale: review, manual: [{kind: job, deletes: true}]`,
}

var (
	histPeople = []string{"Lin Orre", "Mara Velt", "Mara Weld", "Tom Reed"}
	histFirms  = []string{"Norrin Works", "Norin Works", "Norrin Works Ltd", "Orva"}
	histEvents = []string{"Larch Workshop", "Reed Festival"}
	histKeys   = []string{"a", "b", "c", "d"}
)

// history is a graph with which random things happen.
type history struct {
	*cluster
	g   string
	rng *rand.Rand
	// crash ends the committer in the midst of what it does, and brings it back.
	crash func()
	// crashes is how often of a hundred something is done it happens.
	crashes int
	seen    map[string]int // what happened, by kind

	all    []hearing
	marks  []standing
	texts  map[string][]string // that each document ever had
	schema [3]int              // grown or not, review section, bounds
	n      int                 // operations
	next   []operation         // that come before others
}

// operation is one kind of thing that happens.
type operation struct {
	name   string
	weight int
	do     func(h *history)
}

// operations is the table: further kinds of items go here, and what replays them into replays.
var operations = []operation{
	{"write", 30, (*history).write},
	{"delete", 8, (*history).remove},
	{"candidates", 22, (*history).candidates},
	{"edit", 8, (*history).edit},
	{"convert", 10, (*history).convert},
	{"prune", 4, (*history).prune},
	{"match", 6, (*history).match},
	{"choose", 4, (*history).choose},
	{"conflict", 20, (*history).conflict},
	{"stale", 16, (*history).staleFact},
	{"undo", 16, (*history).undo},
	{"hold", 8, (*history).hold},
	{"job", 14, (*history).job},
	{"schema", 8, (*history).putsSchema},
}

// run does random things until n of them changed something, or little can be done.
func (h *history) run(n int) {
	h.t.Helper()
	h.texts = map[string][]string{}
	h.putGuildhall(0, 0, 0)
	for range 5 * n {
		if len(h.marks) == n {
			return
		}
		if len(h.next) > 0 {
			o := h.next[0]
			h.next = h.next[1:]
			h.step(o)
			continue
		}
		total := 0
		for _, o := range operations {
			total += o.weight
		}
		at := h.rng.IntN(total)
		for _, o := range operations {
			if at -= o.weight; at < 0 {
				h.step(o)
				break
			}
		}
	}
}

func (h *history) step(o operation) {
	h.t.Helper()
	h.n++
	o.do(h)
	h.mark(o.name)
}

// then lets something rare be followed by what is rarer, half of the time.
func (h *history) then(next ...operation) {
	if h.rng.IntN(2) == 0 {
		h.next = append(h.next, next...)
	}
}

func (h *history) mark(what string) {
	h.t.Helper()
	if n := len(h.marks); n > 0 && h.marks[n-1].heard == len(h.all) && h.marks[n-1].seq == ask[api.StatsReply](h.cluster, h.g, "query.stats", nil).Seq {
		return
	}
	seq := h.still(h.g, true)
	h.marks = append(h.marks, standing{seq, len(h.all), h.canonical(), what})
}

// canonical is the canonical export, page by page.
func (h *history) canonical() string { return (&fleet{cluster: h.cluster}).exported(h.g, 0) }

func (h *history) pick(list []string) string { return list[h.rng.IntN(len(list))] }

func (h *history) putGuildhall(more, review, bound int) {
	h.t.Helper()
	h.schema = [3]int{more, review, bound}
	types, relations := "", ""
	if more == 1 {
		types, relations = grown[0], grown[1]
	}
	text := fmt.Sprintf(guildhall, types, bounds[bound], relations, reviews[review])
	seq := ask[api.StatsReply](h.cluster, h.g, "query.stats", nil).Seq
	if r := ask[api.SchemaReply](h.cluster, h.g, "schema.put", api.SchemaPut{Schema: text, Name: "test"}); r.Changed {
		require.Equal(h.t, seq, r.Seq, "a schema says behind which commit it was put")
	}
	h.all = append(h.all, hearing{seq: seq, schema: text})
}

func (h *history) putsSchema() {
	h.t.Helper()
	more := h.schema[0]
	if h.rng.IntN(4) == 0 {
		more = 1 - more
	}
	review := h.rng.IntN(len(reviews))
	h.putGuildhall(more, review, h.rng.IntN(len(bounds)))
	if strings.Contains(reviews[review], "deletes: true") {
		h.then(operation{"delete", 0, (*history).remove}, operation{"delete", 0, (*history).remove})
	}
}

func (h *history) sentence() string {
	p, f := h.pick(histPeople), h.pick(histFirms)
	switch h.rng.IntN(12) {
	case 0, 1, 2:
		return p + " works for " + f + "."
	case 3:
		return "Perhaps " + p + " will work for " + f + "."
	case 4, 5:
		return fmt.Sprintf("%s was born on %d May 1950.", p, 1+h.rng.IntN(2))
	case 6, 7, 8:
		return fmt.Sprintf("%s was founded in %d.", f, 1901+h.rng.IntN(3))
	case 9, 10:
		return "The " + h.pick(histEvents) + " took place in Vell Harbour."
	default:
		return "The " + h.pick(histEvents) + " was full."
	}
}

// write adds or replaces documents.
func (h *history) write() {
	h.t.Helper()
	h.ingest(h.documents())
}

// documents is an event that adds or replaces some.
func (h *history) documents() map[string]any {
	docs := []map[string]any{}
	keys := slices.Clone(histKeys)
	h.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys[:1+h.rng.IntN(2)] {
		text := ""
		for range 1 + h.rng.IntN(5) {
			text += h.sentence() + " "
		}
		if was := h.texts[k]; len(was) > 0 && h.rng.IntN(4) == 0 {
			text = h.pick(was) // again, be it what is there, or what was there before or behind another
		}
		h.texts[k] = append(h.texts[k], text)
		d := doc(k, strings.TrimSpace(text))
		if h.rng.IntN(6) == 0 { // perhaps before what is there: superseded
			d["source_updated_at"] = fmt.Sprintf("2001-01-%02dT00:00:00Z", 1+h.rng.IntN(28))
		}
		if h.rng.IntN(6) == 0 {
			d["content_date"] = fmt.Sprintf("2020-01-%02d", 1+h.rng.IntN(28))
		}
		docs = append(docs, d)
	}
	e := map[string]any{"documents": docs}
	if h.rng.IntN(8) == 0 {
		e["force"] = true
	}
	return e
}

func (h *history) remove() {
	h.t.Helper()
	h.ingest(map[string]any{"op": "delete", "key": h.pick(histKeys)})
}

// ingest publishes an event and waits for the end of its job, or until it is held, perhaps over a crash.
func (h *history) ingest(event map[string]any) {
	h.t.Helper()
	event["job"] = fmt.Sprintf("op-%d", h.n)
	job := h.publish(h.g, event)
	if h.falls() {
		h.moment(20)
		h.crash()
	}
	s := h.outcome(h.g, job, func(s api.JobStatus) bool { return through(s) || s.State == api.JobHeld })
	x := hearing{seq: s.CommitSeq, event: event, held: s.State == api.JobHeld}
	if x.held {
		h.seen["held"]++
		if event["hold"] == nil {
			h.seen["held by the policy"]++
		}
		x.seq = ask[api.StatsReply](h.cluster, h.g, "query.stats", nil).Seq
	} else {
		require.Equal(h.t, api.JobCommitted, s.State, "job %s of %s: %s", job, h.g, s.Reason)
		require.NotZero(h.t, s.CommitSeq)
		h.did(s)
	}
	h.all = append(h.all, x)
}

// did counts what a committed job did.
func (h *history) did(s api.JobStatus) {
	for what, n := range map[string]int{"superseded": s.Documents.Superseded, "unchanged": s.Documents.Unchanged, "deleted": s.Documents.Deleted,
		"stale kept": s.Stages.Storage.StaleKept, "delete withdrew decided": s.Stages.Storage.DecidedWithdrawn} {
		h.seen[what] += n
	}
	if s.Documents.Deleted > 0 {
		if h.seen["delete asked"] += s.Stages.Storage.StaleAsked; s.Stages.Storage.StaleAsked > 0 {
			h.next = append(h.next, operation{"stale", 0, (*history).staleFact}, takesBack, operation{"stale", 0, (*history).staleFact})
		}
	} else {
		h.seen["stale asked"] += s.Stages.Storage.StaleAsked
	}
}

func (h *history) falls() bool {
	if h.crash == nil || h.rng.IntN(100) >= h.crashes {
		return false
	}
	h.seen["crash"]++
	return true
}

// moment lets up to some milliseconds pass, so that a crash meets the work anywhere.
func (h *history) moment(most int) {
	timer := time.NewTimer(time.Duration(h.rng.IntN(1000*most)) * time.Microsecond)
	<-timer.C
}

// does sends a request that changes something; a crash on its way is answered by the same request again.
func does[R any](h *history, verb string, req any) (r R, ok bool) {
	h.t.Helper()
	if !h.falls() {
		return asked[R](h.cluster, h.g, verb, req)
	}
	first := make(chan struct{})
	ctx, lose := context.WithCancel(context.Background())
	go func() {
		defer close(first)
		var lost R
		_ = h.conn.Request(ctx, "factmill."+h.g+"."+verb, req, &lost) // whatever comes of it, the request is sent again
	}()
	h.moment(4)
	h.crash()
	lose()
	<-first
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var again R
		err := h.conn.Request(ctx, "factmill."+h.g+"."+verb, req, &again)
		cancel()
		var e *api.Error
		switch is := errors.As(err, &e); {
		case err == nil:
			return again, true
		case is && e.Status != 503 && e.Status != 429:
			require.Contains(h.t, []int{400, 404, 409, 412}, e.Status, "%s: %v", verb, err)
			return again, false
		}
		require.True(h.t, time.Now().Before(deadline), "%s: %v", verb, err)
	}
}

// request is a name for what is done now.
func (h *history) request() string { return fmt.Sprintf("op-%d", h.n) }

// groups of some kinds in a state ("": all) in the order of the list.
func (h *history) list(state string, kinds ...string) []api.Group {
	h.t.Helper()
	req := map[string]any{"kinds": kinds, "state": state}
	if state == "" {
		req["state"] = nil
	}
	return ask[api.ReviewListReply](h.cluster, h.g, "review.list", req).Groups
}

var candidateKinds = []string{"entity", "relation", "property"}

func (h *history) candidates() {
	h.t.Helper()
	state := ""
	if h.rng.IntN(4) > 0 {
		state = "pending"
	}
	groups := h.list(state, candidateKinds...)
	if len(groups) == 0 {
		return
	}
	req := api.ReviewDecide{Actor: "eva", Reason: "it says so", RequestID: h.request()}
	if h.rng.IntN(5) == 0 {
		req.Query = &api.ReviewList{Kinds: []string{h.pick(candidateKinds)}}
	} else {
		for range 1 + h.rng.IntN(3) {
			g := groups[h.rng.IntN(len(groups))]
			if h.rng.IntN(2) == 0 || len(req.IDs) > 0 {
				req.IDs, req.Keys = append(append(req.IDs, g.IDs...), idsOf(groups, req.Keys)...), nil
			} else {
				req.Keys = append(req.Keys, g.Key)
			}
		}
	}
	does[api.DecideReply](h, []string{"review.approve", "review.approve", "review.reject"}[h.rng.IntN(3)], req)
}

func idsOf(groups []api.Group, keys []string) (out []string) {
	for _, g := range groups {
		if slices.Contains(keys, g.Key) {
			out = append(out, g.IDs...)
		}
	}
	return out
}

func (h *history) edit() {
	h.t.Helper()
	groups := h.list("pending", candidateKinds...)
	if len(groups) == 0 {
		return
	}
	g := groups[h.rng.IntN(len(groups))]
	set := map[string]any{}
	switch h.rng.IntN(3) {
	case 0:
		set["start"], set["end"] = g.Sample.Start, g.Sample.End-1
	case 1:
		set["label"] = map[string]string{"entity": h.pick([]string{"Event", "Person", "Conference"}), "relation": h.pick([]string{"WORKS_FOR", "ADVISES"})}[g.Kind]
	default:
		set[map[string]string{"entity": "name", "relation": "source_text", "property": "value"}[g.Kind]] = h.pick(append(slices.Clone(histPeople), "Larch Week"))
	}
	does[api.ReviewEditReply](h, "review.edit", api.ReviewEdit{ID: g.IDs[h.rng.IntN(len(g.IDs))], Set: set, Actor: "bo", RequestID: h.request()})
}

// convert makes facts of what is approved, of all or of some; the schema is grown before where it has to be.
func (h *history) convert() {
	h.t.Helper()
	approved := h.list("approved", candidateKinds...)
	if len(approved) == 0 {
		return
	}
	req := api.ReviewPatch{}
	if h.rng.IntN(3) == 0 {
		req.IDs = approved[h.rng.IntN(len(approved))].IDs
	}
	p, ok := asked[patch.Patch](h.cluster, h.g, "review.patch", req)
	if !ok {
		return
	}
	if h.schema[0] == 0 && h.rng.IntN(4) > 0 {
		h.putGuildhall(1, h.schema[1], h.schema[2])
		h.still(h.g, true)
	}
	r, _ := does[api.ConvertReport](h, "review.convert", api.ReviewConvert{Patch: &p, Actor: "eva", RequestID: h.request()})
	h.seen["converted relations"] += r.CreatedRelations + r.JoinedRelations
}

func (h *history) prune() {
	h.t.Helper()
	req := api.ReviewPrune{Apply: true, Actor: "eva", RequestID: h.request(), Rejected: h.rng.IntN(2) == 0}
	if few := 2; !req.Rejected {
		req.PendingBelowCount = &few
	}
	if h.rng.IntN(2) == 0 {
		for _, g := range h.list("", candidateKinds...) {
			if h.rng.IntN(2) == 0 {
				req.Keys = append(req.Keys, g.Key)
			}
		}
	}
	if r, ok := does[api.ReviewPruneReply](h, "review.prune", req); ok && len(req.Keys) > 0 && r.Deleted > 0 {
		h.seen["prune keys"]++
	}
}

func (h *history) staleFact() {
	h.t.Helper()
	groups := h.list("pending", "stale")
	if len(groups) == 0 {
		return
	}
	g := h.ofSome(groups)
	shown := ask[api.ReviewShowReply](h.cluster, h.g, "review.show", api.ReviewShow{Key: g.Key})
	verb := []string{"review.approve", "review.reject"}[h.rng.IntN(2)]
	h.seen[g.Reasons[0]+" "+verb]++
	does[api.DecideReply](h, verb, api.ReviewDecide{Keys: []string{g.Key}, Fingerprint: shown.Fingerprint, Actor: "bo", RequestID: h.request()})
}
