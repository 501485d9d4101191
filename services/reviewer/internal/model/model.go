// Package model is the reviewer's read model of one graph: candidate records grouped by key and state, fed by a snapshot of
// the committer and then by candidate events. Any number of replicas keep one each. Groups are kept in order, and the words of
// their texts in an index, so that a request costs what it shows.
package model

import (
	"maps"
	"strings"
	"unique"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
)

// Graph is the read model of one graph. Not safe for concurrent use: its owner locks.
type Graph struct {
	// Seq and No are how far the model is: commit sequence and number of the newest candidate event it includes.
	Seq, No uint64
	// Approved and Rejected count decided keys, also those whose records became facts.
	Approved, Rejected int

	keys    map[string]*group // the groups of a key are a list
	groups  int               // in order
	moved   []*group          // groups that changed since the order was last looked at; they are on no shelf
	shelves map[shelf]*ordered
	shapes  map[unique.Handle[shape]]int // how many groups in order have each
	words   *words                       // nil until somebody searches
	tally   tally
}

// tally counts records.
type tally struct {
	records               int
	kinds, states, labels map[string]int
	pending               map[pending]int
}

// pending is under what pending records are counted.
type pending struct {
	kind string
	at   unique.Handle[string]
}

// New returns an empty model at (seq, no).
func New(seq, no uint64) *Graph {
	return &Graph{Seq: seq, No: no, keys: map[string]*group{}, shelves: map[shelf]*ordered{}, shapes: map[unique.Handle[shape]]int{},
		tally: tally{kinds: map[string]int{}, states: map[string]int{}, labels: map[string]int{}, pending: map[pending]int{}}}
}

// Put inserts or replaces a record.
func (g *Graph) Put(r api.Record) {
	gr := g.group(&r)
	g.touch(gr)
	made := compact(&r, gr.records)
	g.forget(document{r.Document, r.DocumentID}, r.Key)
	i, _ := gr.find(made.document.Value())
	gr.add(i, made)
	g.tally.add(gr, made, 1)
}

// group returns the group of a record, which may be new.
func (g *Graph) group(r *api.Record) *group {
	head := g.keys[r.Key]
	for gr := head; gr != nil; gr = gr.next {
		if gr.state == r.State {
			return gr
		}
	}
	gr := &group{state: intern(r.State), kind: intern(r.Kind), next: head}
	if head != nil {
		gr.key = head.key
	} else {
		gr.key = strings.Clone(r.Key)
	}
	g.keys[gr.key] = gr
	return gr
}

// Remove forgets a document's record of a key.
func (g *Graph) Remove(documentKey, documentID, key string) {
	g.forget(document{documentKey, documentID}, key)
}

func (g *Graph) forget(d document, key string) {
	for gr := g.keys[key]; gr != nil; gr = gr.next {
		if i, there := gr.find(d); there {
			g.touch(gr)
			g.tally.add(gr, gr.drop(i), -1)
			return
		}
	}
}

func (t *tally) add(gr *group, r *record, n int) {
	t.records += n
	count(t.kinds, gr.kind, n)
	count(t.states, gr.state, n)
	count(t.labels, r.body.label, n)
	if gr.state == api.StatePending && r.at.Value() != "" {
		count(t.pending, pending{gr.kind, r.at}, n)
	}
}

func count[K comparable](m map[K]int, k K, n int) {
	if m[k] += n; m[k] == 0 {
		delete(m, k)
	}
}

// touch takes a group out of the order before it changes.
func (g *Graph) touch(gr *group) {
	if gr.moved {
		return
	}
	if gr.label != (unique.Handle[string]{}) {
		g.unshelve(gr)
	}
	gr.moved = true
	g.moved = append(g.moved, gr)
}

// Settle puts the groups that changed where they belong; whatever changes together is moved once. Whatever reads the model does it too, so
// that calling it only chooses the time.
func (g *Graph) Settle() {
	for _, gr := range g.moved {
		gr.moved = false
		if len(gr.records) == 0 {
			g.words.remove(gr)
			g.unlink(gr)
			continue
		}
		gr.best()
		if b := gr.records[0].body; b != gr.folded {
			gr.label, gr.folded = unique.Make(schema.FoldLabel(b.label)), b
		}
		g.shelve(gr)
		g.words.put(gr)
	}
	g.moved = nil
}

// unlink forgets an empty group.
func (g *Graph) unlink(gr *group) {
	head := g.keys[gr.key]
	if head == gr {
		if gr.next == nil {
			delete(g.keys, gr.key)
		} else {
			g.keys[gr.key] = gr.next
		}
		return
	}
	for ; head != nil; head = head.next {
		if head.next == gr {
			head.next = gr.next
			return
		}
	}
}

// Apply takes one candidate event. It says whether the event fits: one that leaves a gap does not, and the model must be
// loaded anew; one that is included already changes nothing.
func (g *Graph) Apply(e *events.CandidateEvent) bool {
	if e.No <= g.No {
		return true
	}
	if e.No != g.No+1 {
		return false
	}
	for _, it := range e.Items {
		switch e.Verb {
		case "proposed", "approved", "rejected":
			g.Put(api.Record{CandidateItem: it, Seq: e.Seq})
		default: // converted, withdrawn, pruned
			g.Remove(it.Document, it.DocumentID, it.Key)
		}
	}
	g.Settle()
	g.No, g.Seq = e.No, max(g.Seq, e.Seq)
	return true
}

// Find returns the key of a record id, "" when there is none.
func (g *Graph) Find(id string) string {
	want := string(pack(nil, id))
	for key, gr := range g.keys {
		for ; gr != nil; gr = gr.next {
			for _, r := range gr.records {
				if strings.HasPrefix(r.packed, want) {
					return key
				}
			}
		}
	}
	return ""
}

// Group returns the group of a key: the pending one first.
func (g *Graph) Group(key string) (api.Group, bool) {
	g.Settle()
	for _, s := range states {
		for gr := g.keys[key]; gr != nil; gr = gr.next {
			if gr.state == s {
				return gr.view(), true
			}
		}
	}
	return api.Group{}, false
}

// Waits is how many records of a kind are pending, and since when: an RFC 3339 time.
type Waits struct {
	Records int
	Oldest  string
}

// Waits counts what is pending, by kind.
func (g *Graph) Waits() map[string]Waits {
	out := map[string]Waits{}
	for p, n := range g.tally.pending {
		w := out[p.kind]
		w.Records += n
		if at := p.at.Value(); w.Oldest == "" || at < w.Oldest {
			w.Oldest = at
		}
		out[p.kind] = w
	}
	return out
}

// Stats counts the queue.
func (g *Graph) Stats() api.ReviewStatsReply {
	g.Settle()
	t := &g.tally
	s := api.ReviewStatsReply{Seq: g.Seq, Records: t.records, Groups: g.groups, ByKind: maps.Clone(t.kinds), ByState: maps.Clone(t.states), ByLabel: maps.Clone(t.labels)}
	for p := range t.pending {
		if at := p.at.Value(); s.Oldest == "" || at < s.Oldest {
			s.Oldest = at
		}
	}
	if n := g.Approved + g.Rejected; n > 0 {
		s.AcceptanceRate = float64(g.Approved) / float64(n)
	}
	return s
}
