package model

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// minWord is how many characters a word has at least that is looked for.
const minWord = 3

// Words returns the words of over two characters of texts, folded as keys are, each once.
func Words(texts ...string) (out []string) {
	for _, text := range texts {
		for _, part := range strings.Fields(text) {
			for _, w := range strings.Fields(fingerprint.CNorm(part)) {
				if utf8.RuneCountInString(w) >= minWord && !slices.Contains(out, w) {
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// words is the index from words to the groups, pending and approved, whose label or texts have them. It is made at the first search.
type words struct {
	places map[string]*places
	search uint64 // number of the last one
}

// places are the entries of a word. Those that are gone are taken out when they are many.
type places struct {
	word    string
	entries []*entry
	gone    int
}

// entry is a group in the index, with the words that it had when it was put there.
type entry struct {
	group *group // nil when it is gone
	of    *body  // the words are of
	words []*places
	// Found is how many words the search of that number found.
	search uint64
	found  int
}

func (b *body) words() []string {
	return Words(b.label, b.text, b.sourceText, b.targetText)
}

// put brings a group's entry up to date.
func (w *words) put(gr *group) {
	if w == nil || gr.state == api.StateRejected {
		return
	}
	b := gr.records[0].body
	if gr.entry != nil && gr.entry.of == b {
		return
	}
	has := b.words()
	if gr.entry != nil {
		if slices.EqualFunc(gr.entry.words, has, func(p *places, word string) bool { return p.word == word }) {
			gr.entry.of = b
			return
		}
		w.remove(gr)
	}
	e := &entry{group: gr, of: b, words: make([]*places, 0, len(has))}
	for _, word := range has {
		p := w.places[word]
		if p == nil {
			p = &places{word: strings.Clone(word)}
			w.places[p.word] = p
		}
		p.entries = append(p.entries, e)
		e.words = append(e.words, p)
	}
	gr.entry = e
}

// remove takes a group's entry out.
func (w *words) remove(gr *group) {
	if w == nil || gr.entry == nil {
		return
	}
	gr.entry.group = nil
	for _, p := range gr.entry.words {
		p.gone++
		if 2*p.gone < len(p.entries) {
			continue
		}
		p.entries = slices.DeleteFunc(p.entries, func(e *entry) bool { return e.group == nil })
		p.entries, p.gone = slices.Clip(p.entries), 0
		if len(p.entries) == 0 {
			delete(w.places, p.word)
		}
	}
	gr.entry = nil
}

// Found is a group with how many of the words that were looked for are in its label and texts.
type Found struct {
	api.Group
	Matched int
}

// Search returns the groups, pending and approved, that have some of the words (as Words gives them): those with most of them first, then
// by count, key and state. At most limit are returned, and how many there are in all. An empty kind is all.
func (g *Graph) Search(look []string, kind string, limit int) (out []Found, total int) {
	g.Settle()
	g.index()
	g.words.search++
	var found []*entry
	for _, word := range look {
		p := g.words.places[word]
		if p == nil {
			continue
		}
		for _, e := range p.entries {
			switch {
			case e.group == nil || kind != "" && e.group.kind != kind:
			case e.search == g.words.search:
				e.found++
			default:
				e.search, e.found = g.words.search, 1
				found = append(found, e)
			}
		}
	}
	out = []Found{}
	for _, e := range most(found, limit) {
		out = append(out, Found{e.group.view(), e.found})
	}
	return out, len(found)
}

// most are the first entries in order, at most limit.
func most(found []*entry, limit int) (out []*entry) {
	for _, e := range found {
		if len(out) == limit && (limit == 0 || byFound(e, out[limit-1]) > 0) {
			continue
		}
		i, _ := slices.BinarySearchFunc(out, e, byFound)
		if out = slices.Insert(out, i, e); len(out) > limit {
			out = out[:limit]
		}
	}
	return out
}

func byFound(a, b *entry) int {
	if a.found != b.found {
		return b.found - a.found
	}
	if a.group.count != b.group.count {
		return b.group.count - a.group.count
	}
	if c := strings.Compare(a.group.key, b.group.key); c != 0 {
		return c
	}
	return strings.Compare(a.group.state, b.group.state)
}

// index makes the index of words, unless it is there.
func (g *Graph) index() {
	if g.words != nil {
		return
	}
	g.words = &words{places: map[string]*places{}}
	for _, gr := range g.keys {
		for ; gr != nil; gr = gr.next {
			g.words.put(gr)
		}
	}
}
