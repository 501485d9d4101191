package resolve

import (
	"cmp"
	"slices"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// MaxMore is how many sightings a candidate lists besides its first.
const MaxMore = 20

// sighting is one candidate item and where it stands.
type sighting struct {
	chunk int
	key   string
	item  *graph.CandidateItem
}

// candidates makes one record a key: sightings counted, the highest confidence, all reasons; everything else is of the first
// sighting. The same item at the same place, read twice, is one sighting.
func (d *document) candidates(chunks []*chunk) []graph.Candidate {
	n := 0
	for _, c := range chunks {
		n += len(c.candidates)
	}
	if n == 0 {
		return nil
	}
	all := make([]sighting, 0, n)
	for _, c := range chunks {
		for i := range c.candidates {
			all = append(all, sighting{c.index, candidateKey(&c.candidates[i]), &c.candidates[i]})
		}
	}
	slices.SortFunc(all, bySighting)
	d.index(chunks)
	var out []graph.Candidate
	for i := 0; i < len(all); {
		k := i + 1
		for k < len(all) && all[k].key == all[i].key {
			k++
		}
		out = append(out, d.candidate(all[i:k]))
		i = k
	}
	return out
}

func candidateKey(c *graph.CandidateItem) string {
	switch c.Kind {
	case graph.KindRelation:
		return fingerprint.RelationKey(c.Label, c.SourceText, c.TargetText)
	case graph.KindProperty:
		return fingerprint.PropertyKey(c.Label, c.SourceText, c.Text)
	default:
		return fingerprint.EntityKey(c.Label, c.Text)
	}
}

// bySighting orders by key, then place; of several at one place the most confident comes first.
func bySighting(a, b sighting) int {
	x, y := a.item, b.item
	return cmp.Or(
		cmp.Compare(a.key, b.key), cmp.Compare(a.chunk, b.chunk), cmp.Compare(x.Start, y.Start), cmp.Compare(x.End, y.End),
		cmp.Compare(y.Confidence, x.Confidence), cmp.Compare(x.Label, y.Label), cmp.Compare(x.Text, y.Text),
		cmp.Compare(x.SourceText, y.SourceText), cmp.Compare(x.TargetText, y.TargetText),
		cmp.Compare(x.SourceLabel, y.SourceLabel), cmp.Compare(x.TargetLabel, y.TargetLabel),
		cmp.Compare(x.Assertion, y.Assertion), cmp.Compare(x.Extractor, y.Extractor), cmp.Compare(x.Rule, y.Rule),
		slices.Compare(x.Reasons, y.Reasons),
	)
}

// candidate makes the record of one key out of its sightings, in order.
func (d *document) candidate(seen []sighting) graph.Candidate {
	first := seen[0].item
	out := graph.Candidate{
		Key: seen[0].key, Kind: first.Kind, Label: first.Label, Text: first.Text,
		SourceText: first.SourceText, TargetText: first.TargetText, SourceLabel: first.SourceLabel, TargetLabel: first.TargetLabel,
		Chunk: seen[0].chunk, Start: first.Start, End: first.End,
		Assertion: first.Assertion, Extractor: first.Extractor, Rule: first.Rule, Reasons: []string{},
	}
	if first.Kind != graph.KindEntity {
		out.SourceEntity = d.end(first.SourceText, first.SourceLabel)
	}
	if first.Kind == graph.KindRelation {
		out.TargetEntity = d.end(first.TargetText, first.TargetLabel)
	}
	last := [3]int{-1, -1, -1}
	for _, s := range seen {
		out.Confidence = max(out.Confidence, s.item.Confidence)
		out.Reasons = append(out.Reasons, s.item.Reasons...)
		place := [3]int{s.chunk, s.item.Start, s.item.End}
		if place == last {
			continue
		}
		if last = place; out.Count > 0 && len(out.More) < MaxMore {
			out.More = append(out.More, place)
		}
		out.Count++
	}
	slices.Sort(out.Reasons)
	out.Reasons = slices.Compact(out.Reasons)
	return out
}

// index notes which entities a text names in this document: by their merge keys and as their mentions are written.
func (d *document) index(chunks []*chunk) {
	d.surfaces = make(map[string][]int, len(d.refs))
	note := func(folded string, place int) {
		if !slices.Contains(d.surfaces[folded], place) {
			d.surfaces[folded] = append(d.surfaces[folded], place)
		}
	}
	for place, r := range d.refs {
		note(r.Key, place)
	}
	for _, c := range chunks {
		for i := range c.mentions {
			note(d.fold(c.mentions[i].Name), c.mentions[i].Entity)
		}
	}
}

// end returns the id of the entity that an end's text names, when it is exactly one with the end's label, where it has one.
func (d *document) end(text, label string) string {
	id := ""
	for _, place := range d.surfaces[d.fold(text)] {
		r := &d.refs[place]
		if label != "" && r.Label != label {
			continue
		}
		if id != "" {
			return ""
		}
		id = r.ID
	}
	return id
}
