package jobs

import (
	"sort"

	"github.com/factmill/factmill/pkg/graph"
)

// maxDropped bounds the kinds of drops a summary lists.
const maxDropped = 1000

func (l *live) drop(n graph.Dropped) {
	k := dropKey{n.Kind, n.Label, n.Reason}
	if have := l.dropped[k]; have != nil {
		have.Count, have.Candidates = have.Count+n.Count, have.Candidates+n.Candidates
		return
	}
	if len(l.dropped) >= maxDropped {
		k = dropKey{n.Kind, "(other)", n.Reason}
		n.Label = k.label
		if have := l.dropped[k]; have != nil {
			have.Count, have.Candidates = have.Count+n.Count, have.Candidates+n.Candidates
			return
		}
	}
	l.dropped[k] = &n
}

func (l *live) droppedList() []graph.Dropped {
	out := make([]graph.Dropped, 0, len(l.dropped))
	for _, d := range l.dropped {
		out = append(out, *d)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Count != b.Count {
			return a.Count > b.Count
		}
		if a.Kind != b.Kind {
			return a.Kind < b.Kind
		}
		if a.Label != b.Label {
			return a.Label < b.Label
		}
		return a.Reason < b.Reason
	})
	return out
}
