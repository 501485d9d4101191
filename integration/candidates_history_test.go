package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// sighting is what a document says of a craft, or the record of it.
type sighting struct {
	state string
	count int
	best  float64
}

// queueBook is the model of a review queue: what documents say, what is stored of it, and what people decided.
type queueBook struct {
	says    map[string]map[string]sighting // open documents
	under   map[string]string              // document → schema and settings that it was read under
	now     string                         // schema and settings
	records map[string]map[string]sighting // document → craft; decided ones outlive the document
	decided map[string]string              // craft → state
}

// read takes what a document says now, and returns how many records that writes and how many are suppressed.
func (b *queueBook) read(doc string, says map[string]sighting, candidates bool) (written, suppressed int) {
	b.says[doc], b.under[doc] = says, b.now
	if b.records[doc] == nil {
		b.records[doc] = map[string]sighting{}
	}
	mine := b.records[doc]
	maps.DeleteFunc(mine, func(_ string, r sighting) bool { return r.state == api.StatePending })
	if !candidates {
		return 0, 0
	}
	for craft, s := range says {
		switch b.decided[craft] {
		case api.StateRejected:
			suppressed++
			continue
		case api.StateApproved:
			s.state = api.StateApproved
		default:
			s.state = api.StatePending
		}
		mine[craft] = s
		written++
	}
	return written, suppressed
}

// forget removes the records of crafts that are in a state.
func (b *queueBook) forget(state string, which func(craft string) bool) (gone int) {
	for _, mine := range b.records {
		maps.DeleteFunc(mine, func(craft string, r sighting) bool {
			if r.state != state || !which(craft) {
				return false
			}
			gone++
			return true
		})
	}
	return gone
}

// move gives every record of a craft a state, and says whether there was one that had another.
func (b *queueBook) move(craft, state string) (moved bool) {
	for _, mine := range b.records {
		if r, ok := mine[craft]; ok && r.state != state {
			r.state, moved = state, true
			mine[craft] = r
		}
	}
	if moved {
		b.decided[craft] = state
	}
	return moved
}

// groups are the records by craft and state.
func (b *queueBook) groups() map[string]string {
	type sum struct {
		docs, count int
		best        float64
	}
	sums := map[string]sum{}
	for _, mine := range b.records {
		for craft, r := range mine {
			x := sums[craft+" "+r.state]
			sums[craft+" "+r.state] = sum{x.docs + 1, x.count + r.count, max(x.best, r.best)}
		}
	}
	out := map[string]string{}
	for k, x := range sums {
		out[k] = fmt.Sprintf("×%d in %d @%v", x.count, x.docs, x.best)
	}
	return out
}

// folded are the groups that somebody has who reads the candidate events alone.
func folded(all []events.CandidateEvent) map[string]string {
	b := queueBook{records: map[string]map[string]sighting{}}
	for _, e := range all {
		for _, it := range e.Items {
			if b.records[it.Document] == nil {
				b.records[it.Document] = map[string]sighting{}
			}
			switch e.Verb {
			case "proposed", "approved", "rejected":
				b.records[it.Document][craftOf(it.Key)] = sighting{it.State, it.Count, it.Confidence}
			default:
				delete(b.records[it.Document], craftOf(it.Key))
			}
		}
	}
	return b.groups()
}

func craftOf(key string) string { return strings.TrimPrefix(key, "entity|craft|") }

// TestCandidateHistories: whatever documents and people do, in any order, the queue is what a simple book says, and so is what the events tell.
func TestCandidateHistories(t *testing.T) {
	f := telling(t, fleetOptions{Replicas: 2})
	for i, seed := range seeds(t, 1) {
		t.Logf("seed %d", seed)
		g := fmt.Sprint("g", i)
		f.putSchema(g, desk)
		f.putSettings(g, map[string]string{"extractor.mode": "llm", "ollama.model": "fake:1"})
		h := queueHistorian{f: f, g: g, r: random(seed, "candidates"), rejections: map[string]string{},
			book: queueBook{says: map[string]map[string]sighting{}, under: map[string]string{}, records: map[string]map[string]sighting{}, decided: map[string]string{}}}
		for range 70 {
			h.step()
			got := map[string]string{}
			for _, x := range f.groups(g) {
				got[craftOf(x.Key)+" "+x.State] = fmt.Sprintf("×%d in %d @%v", x.Count, x.Documents, x.Confidence)
			}
			require.Equal(t, h.book.groups(), got, "%s", strings.Join(h.log, "\n"))
		}
		_, _ = f.spoken(g, 0)
		require.Equal(t, h.book.groups(), folded(f.candidateEvents(g)), "%s", strings.Join(h.log, "\n"))
		decisions := map[string]string{}
		for line := range strings.Lines(f.exported(g, 0)) {
			if d := loose[struct{ Kind, Key, State string }](t, line); d.Kind == "decision" {
				decisions[craftOf(d.Key)] = d.State
			}
		}
		require.Equal(t, h.book.decided, decisions)
		f.sound(g)
	}
}

type queueHistorian struct {
	f          *fleet
	g          string
	r          *rand.Rand
	book       queueBook
	rejections map[string]string // craft → audit record of the rejection that stands
	log        []string
}

var crafts = []string{"ariel", "beagle", "cassini", "dawn", "echo"}

// write makes what a document says: a text, and its sightings.
func (h *queueHistorian) write() (text string, says map[string]sighting) {
	says = map[string]sighting{}
	for _, c := range crafts {
		n := h.r.IntN(4) - 1
		for i := range max(n, 0) {
			confidence := float64(30+h.r.IntN(70)) / 100
			text += fmt.Sprintf("«Craft: %s @%v %d»\n\n", c, confidence, i)
			says[c] = sighting{count: n, best: max(says[c].best, confidence)}
		}
	}
	return text + "And that was all.", says
}

func (h *queueHistorian) step() {
	t, f, b := h.f.t, h.f, &h.book
	note := func(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }
	craft, key := pick(h.r, crafts), fmt.Sprint("d", h.r.IntN(4))
	candidate := "entity|craft|" + craft
	switch h.r.IntN(15) {
	case 0, 1:
		verb, state := "approve", api.StateApproved
		if h.r.IntN(2) == 0 {
			verb, state = "reject", api.StateRejected
		}
		note("%s %s", verb, craft)
		r := ask[api.DecideReply](f.cluster, h.g, "review."+verb, api.ReviewDecide{Keys: []string{candidate}, Actor: "eva"})
		was := b.decided[craft]
		switch {
		case was == api.StateRejected:
			require.Equal(t, map[string]string{candidate: api.SkippedRejected}, r.Outcome.Skipped)
		case b.move(craft, state):
			require.Equal(t, []string{candidate}, r.Outcome.Changed)
		case was == state:
			require.Equal(t, map[string]string{candidate: api.SkippedApproved}, r.Outcome.Skipped)
		default:
			require.Equal(t, map[string]string{candidate: api.SkippedNoCandidate}, r.Outcome.Skipped)
		}
		if state == api.StateRejected && len(r.Outcome.Changed) > 0 {
			h.rejections[craft] = r.Records[candidate]
		}
	case 2:
		if record := h.rejections[craft]; record != "" && b.decided[craft] == api.StateRejected {
			note("undo the rejection of %s", craft)
			ask[api.DecideReply](f.cluster, h.g, "review.undo", api.ReviewUndo{Decision: record, Actor: "eva"})
			b.forget(api.StateRejected, func(c string) bool { return c == craft })
			delete(b.decided, craft)
		}
	case 3:
		note("prune what is rejected")
		r := ask[api.ReviewPruneReply](f.cluster, h.g, "review.prune", api.ReviewPrune{Rejected: true, Apply: true, Actor: "eva"})
		require.Equal(t, b.forget(api.StateRejected, func(string) bool { return true }), r.Deleted)
		maps.DeleteFunc(b.decided, func(_, state string) bool { return state == api.StateRejected })
	case 4:
		below := h.r.IntN(4)
		note("prune what is seen less than %d times", below)
		r := ask[api.ReviewPruneReply](f.cluster, h.g, "review.prune", api.ReviewPrune{PendingBelowCount: &below, Apply: true, Actor: "eva"})
		few := map[string]int{}
		for _, mine := range b.records {
			for c, s := range mine {
				if s.state == api.StatePending {
					few[c] += s.count
				}
			}
		}
		require.Equal(t, b.forget(api.StatePending, func(c string) bool { return few[c] < below }), r.Deleted)
	case 5:
		note("delete %s", key)
		f.remove(h.g, key)
		delete(b.says, key)
		maps.DeleteFunc(b.records[key], func(_ string, r sighting) bool { return r.state == api.StatePending })
	case 6:
		text, _ := h.write()
		note("a job with %s fails", key)
		job := f.publish(h.g, map[string]any{"documents": []map[string]any{doc(key, text), {"key": "x", "text": "{", "format": "json"}}})
		require.Equal(t, api.JobRolledBack, f.settled(h.g, job).State)
	case 7:
		service := pick(h.r, []string{"reviewer", "committer"})
		note("restart of the %s", service)
		f.restart(service)
	case 8:
		size, version := pick(h.r, []string{"40", "100", "200"}), h.r.IntN(2)
		note("chunks of %s, schema %d", size, version)
		f.putSettings(h.g, map[string]string{"chunker.size": size, "chunker.min_size": "1"})
		f.putSchema(h.g, []string{desk, strings.Replace(desk, "entities:\n", "entities:\n  Ship: {}\n", 1)}[version])
		b.now = fmt.Sprint(size, version)
	default:
		h.reading(key, note)
	}
}

// reading is a job with one or two documents: new texts, or the old ones once more.
func (h *queueHistorian) reading(key string, note func(string, ...any)) {
	t, f, b := h.f.t, h.f, &h.book
	force, candidates := h.r.IntN(3) == 0, h.r.IntN(5) > 0
	keys := []string{key}
	if other := fmt.Sprint("d", h.r.IntN(4)); other != key {
		keys = append(keys, other)
	}
	var docs []map[string]any
	written, suppressed := 0, 0
	for _, k := range keys {
		stored, open := b.says[k]
		text, says := h.write()
		if open && h.r.IntN(3) == 0 {
			text, says = f.documentAt(h.g, map[string]any{"key": k, "text": true}).Text, stored
			if !force && b.under[k] == b.now {
				docs = append(docs, doc(k, text))
				note("%s as it is", k)
				continue
			}
		}
		docs = append(docs, doc(k, text))
		w, s := b.read(k, says, candidates)
		written, suppressed = written+w, suppressed+s
		note("%s force=%v candidates=%v: %s", k, force, candidates, text)
	}
	s := f.run(h.g, map[string]any{"documents": docs, "force": force, "candidates": candidates})
	require.Equal(t, []int{written, suppressed}, said(s), "%s", strings.Join(slices.Clone(h.log), "\n"))
}
