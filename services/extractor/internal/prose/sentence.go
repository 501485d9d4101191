package prose

import "strings"

// Sentence is the tokens from First to before Last.
type Sentence struct {
	First, Last int
	// Heading says that the sentence is a heading line: its capitals say little.
	Heading bool
	// Question says that it ends with a question mark.
	Question bool
	// Paragraph says that a blank line, a heading or the start of the text stands before it.
	Paragraph bool
}

type abbreviation uint8

const (
	abbrNone   abbreviation = iota
	abbrBefore              // something always follows: Dr.
	abbrEnd                 // may end a sentence: Jr.
	abbrFirm                // ends a company's name: Ltd.
	abbrNumber              // only before a number: No. 5
)

var abbreviations = abbreviationTable()

func abbreviationTable() map[uint64]abbreviation {
	table := map[uint64]abbreviation{}
	add := func(kind abbreviation, words string) {
		for _, w := range strings.Fields(words) {
			table[Hash(w)] = kind
		}
	}
	add(abbrBefore, `dr mr mrs ms mx prof st ste mt ft gen col capt cmdr lt maj sgt adm rev fr sr hon gov sen rep pres
		approx ca cf esp viz vs dept univ assoc asst`)
	add(abbrEnd, `jr esq etc al kg`)
	add(abbrFirm, `inc ltd co corp llc plc bros bhd pty pte`)
	add(abbrNumber, `no nos vol fig figs pp sec ch eq op`)
	return table
}

// starters are words that begin a sentence after an abbreviation that may end one.
var starters = starterTable()

func starterTable() map[uint64]bool {
	table := map[uint64]bool{}
	for _, w := range strings.Fields(`the a an he she it they we i you this that these those there in on at by for from to with as
		his her its their our my after before since when while where if but and or so yet both all some many most several each
		every no not one two three later then today now however meanwhile also although because during under over between`) {
		table[Hash(w)] = true
	}
	return table
}

// languages are the programming languages that look like an initial, languageBefore the words after which they stand.
var (
	languages      = hashes("c r d")
	languageBefore = hashes("in and with from to for than or uses into")
)

func hashes(words string) map[uint64]bool {
	out := map[uint64]bool{}
	for _, w := range strings.Fields(words) {
		out[Hash(w)] = true
	}
	return out
}

const (
	maxShortLine = 40  // bytes; a shorter line that a capital follows ended on purpose
	maxSentence  = 400 // tokens; longer ones are cut: no rule reaches that far
)

// Sentences appends the sentences of the tokens of text to buf. They cover all tokens, in order.
func Sentences(text string, tokens []Token, buf []Sentence) []Sentence {
	first, para := 0, true
	emit := func(last int) {
		if last <= first {
			return
		}
		s := Sentence{First: first, Last: last, Paragraph: para, Heading: tokens[first].Is('#')}
		for k := last - 1; k >= first && k >= last-3; k-- {
			if tokens[k].Is('?') || tokens[k].Is('？') {
				s.Question = true
			}
		}
		buf = append(buf, s)
		para = s.Heading
		first = last
	}
	lineStart := int32(0)
	for i := range tokens {
		t := &tokens[i]
		if t.Break > 0 && i > first && breaks(text, tokens, first, i, lineStart) {
			emit(i)
		}
		if t.Break > 0 {
			lineStart = t.Start
			if t.Break == 2 && i == first {
				para = true
			}
		}
		if i-first >= maxSentence || t.Is('|') || t.Is('\t') {
			emit(i + 1)
			continue
		}
		if i+1 < len(tokens) && ends(tokens, i) {
			emit(i + 1)
		}
	}
	emit(len(tokens))
	return buf
}

// breaks tells whether the line break before token i ends the sentence that began at first.
func breaks(text string, tokens []Token, first, i int, lineStart int32) bool {
	t, last := tokens[i], tokens[i-1]
	if t.Break == 2 || tokens[first].Is('#') {
		return true
	}
	if t.Kind == Punct { // a list item, a heading, a table row, a quote block
		switch rune(t.Hash) {
		case '-', '*', '•', '#', '|', '>', '–', '—':
			return true
		}
	}
	if t.Kind == Number && i+1 < len(tokens) && (tokens[i+1].Is('.') || tokens[i+1].Is(')')) && !tokens[i+1].Space {
		return true
	}
	if last.End-lineStart >= maxShortLine || last.Is(',') {
		return false
	}
	return t.Kind != Word || t.Shape&Upper != 0
}

// ends tells whether a sentence ends after token i, which is not the last one.
func ends(tokens []Token, i int) bool {
	t, next := tokens[i], tokens[i+1]
	if t.Kind == Word {
		if t.Shape&Initial != 0 && i > 0 && next.Space && next.Shape&(Upper|Initial) == Upper && languages[t.Hash] && languageBefore[tokens[i-1].Hash] {
			return true // "written in C. Django uses"
		}
		if t.Shape&Dotted != 0 && abbreviations[t.Hash] >= abbrEnd && next.Space && (next.Is('"') || next.Is('“')) && i+2 < len(tokens) && !tokens[i+2].Space {
			return tokens[i+2].Shape&Upper != 0 // `at Omega Inc. "She left`
		}
		if t.Shape&Dotted == 0 || t.Shape&Initial != 0 || !next.Space || next.Shape&Upper == 0 {
			return false
		}
		switch abbreviations[t.Hash] {
		case abbrBefore:
			return false
		case abbrFirm: // a name seldom goes on after it, save for Co. Ltd.
			return abbreviations[next.Hash] != abbrFirm
		}
		return starters[next.Hash]
	}
	if t.Kind != Punct {
		return false
	}
	switch rune(t.Hash) {
	case '。', '！', '？':
		return !closer(next)
	case '.', '!', '?', '…':
		if closer(next) && !next.Space {
			return false
		}
		return starts(next)
	}
	// A closing mark after the end: `He left.” Then`
	if !closer(t) || t.Space || i == 0 {
		return false
	}
	switch p := tokens[i-1]; {
	case p.Is('.'), p.Is('!'), p.Is('?'):
		return starts(next)
	}
	return false
}

func starts(t Token) bool {
	if !t.Space {
		return t.Kind == Word && t.Shape&Uncased != 0
	}
	switch t.Kind {
	case Number:
		return true
	case Word:
		return t.Shape&(Upper|Uncased|Mixed) != 0
	}
	return !t.Is(',') && !t.Is(';') && !t.Is(')')
}

func closer(t Token) bool {
	if t.Kind != Punct {
		return false
	}
	switch rune(t.Hash) {
	case '"', '\'', '”', '’', ')', ']', '»', '」', '』':
		return true
	}
	return false
}

// Count is the number of sentences of text.
func Count(text string) int { return len(Sentences(text, Tokens(text, nil), nil)) }

// Around returns the bounds of the sentences that cover start…end of text, without white space at the ends.
func Around(text string, start, end int) (int, int) {
	tokens := Tokens(text, nil)
	lo, hi := start, end
	for _, s := range Sentences(text, tokens, nil) {
		from, to := int(tokens[s.First].Start), int(tokens[s.Last-1].End)
		if from <= start && start < to {
			lo = min(lo, from)
		}
		if from < end && end <= to {
			hi = max(hi, to)
		}
	}
	return lo, hi
}
