package store

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/graph"
)

// Text that was not read whole never removes a fact.

// keepUnread adds what the same version stated before in chunks that this reading did not read whole.
func (s *statements) keepUnread(was *statements) {
	if len(s.states) == 0 {
		return
	}
	for _, m := range was.ms {
		if _, unread := s.states[m.chunk]; unread {
			m.old = true
			s.ms = append(s.ms, m)
			s.refs[m.ent] = was.ref(s, m.ent)
		}
	}
	for _, p := range was.ps {
		if _, unread := s.states[p.chunk]; unread {
			p.old = true
			s.ps = append(s.ps, p)
			s.refs[p.ent] = was.ref(s, p.ent)
		}
	}
	for _, r := range was.rs {
		if _, unread := s.states[r.chunk]; unread {
			r.old = true
			s.rs = append(s.rs, r)
			s.refs[r.src], s.refs[r.dst] = was.ref(s, r.src), was.ref(s, r.dst)
		}
	}
}

// within says whether every span lies in a text of n bytes.
func (s *statements) within(n int) bool {
	in := func(start, end int) bool { return 0 <= start && start <= end && end <= n }
	for _, m := range s.ms {
		if !in(m.Start, m.End) {
			return false
		}
	}
	for _, p := range s.ps {
		if !in(p.Start, p.End) {
			return false
		}
	}
	for _, r := range s.rs {
		if !in(r.Start, r.End) {
			return false
		}
	}
	return true
}

// ref is the reference of an entity: the newer one where both know it.
func (s *statements) ref(newer *statements, ent string) graph.EntityRef {
	if r, ok := newer.refs[ent]; ok {
		return r
	}
	return s.refs[ent]
}

// anchors finds quotes in the chunks that were not read whole.
type anchors struct {
	text   string
	chunks []graph.Chunk
	unread []int // sorted
}

func (s *statements) anchors(text string, chunks []graph.Chunk) anchors {
	a := anchors{text: text, chunks: chunks}
	for i := range chunks {
		if _, ok := s.states[i]; ok {
			a.unread = append(a.unread, i)
		}
	}
	return a
}

// find returns the first place of a quote as whole words.
func (a anchors) find(quote string) (chunk, start, end int, ok bool) {
	if quote == "" {
		return 0, 0, 0, false
	}
	for _, i := range a.unread {
		c := a.chunks[i]
		for from := c.Start; from < c.End; {
			at := strings.Index(a.text[from:c.End], quote)
			if at < 0 {
				break
			}
			start, end := from+at, from+at+len(quote)
			if wholeWords(a.text[c.Start:c.End], start-c.Start, end-c.Start) {
				return i, start, end, true
			}
			_, size := utf8.DecodeRuneInString(a.text[start:])
			from = start + size
		}
	}
	return 0, 0, 0, false
}

// wholeWords says whether text[start:end] begins and ends where words do, in scripts that part words.
func wholeWords(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	first, _ := utf8.DecodeRuneInString(text[start:])
	last, _ := utf8.DecodeLastRuneInString(text[:end])
	next, _ := utf8.DecodeRuneInString(text[end:])
	return (start == 0 || !joined(before, first)) && (end == len(text) || !joined(last, next))
}

func joined(a, b rune) bool { return wordRune(a) && wordRune(b) }

func wordRune(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}

// reanchor adds what the version before stated where its quote stands in a chunk that was not read whole. A relation or
// property value comes along only with mentions of its entities.
func (s *statements) reanchor(was *statements, wasText, text string, chunks []graph.Chunk) {
	a := s.anchors(text, chunks)
	if len(a.unread) == 0 {
		return
	}
	mentioned := make(map[string]bool, len(s.ms))
	for _, m := range s.ms {
		mentioned[m.ent] = true
	}
	for _, m := range was.ms {
		chunk, start, end, ok := a.find(wasText[m.Start:m.End])
		if !ok {
			continue
		}
		m.chunk, m.Start, m.End, m.old = chunk, start, end, true
		s.ms = append(s.ms, m)
		s.refs[m.ent] = was.ref(s, m.ent)
		mentioned[m.ent] = true
	}
	for _, p := range was.ps {
		chunk, start, end, ok := a.find(wasText[p.Start:p.End])
		if ok && mentioned[p.ent] {
			p.chunk, p.Start, p.End, p.old = chunk, start, end, true
			s.ps = append(s.ps, p)
		}
	}
	for _, r := range was.rs {
		chunk, start, end, ok := a.find(wasText[r.Start:r.End])
		if ok && mentioned[r.src] && mentioned[r.dst] {
			r.chunk, r.Start, r.End, r.old = chunk, start, end, true
			s.rs = append(s.rs, r)
		}
	}
}
