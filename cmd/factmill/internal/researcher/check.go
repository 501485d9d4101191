package researcher

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// MinQuote is how many characters a quote has at least, unless it is the whole of its piece of evidence.
const MinQuote = 12

// maxQuoteRead is what is read of a quote, in bytes.
const maxQuoteRead = 4000

// check judges what a model said. A sentence is supported when it has citations and, for each of them, the piece exists, the quote is a slice of it (white
// space and case aside), is long enough, has a word of the sentence, and the graph says that it is current; and when each number of the
// sentence stands in one of its quotes. One citation that fails fails the sentence. That a quote entails the sentence is not checked.
func (q *inquiry) check(ctx context.Context, list []said) (good []Sentence, bad []Unsupported, err error) {
	var ask []Quoted
	for _, s := range list {
		sentence, why := q.look(s)
		if why != "" {
			bad = append(bad, Unsupported{s.text, why})
			continue
		}
		good = append(good, sentence)
		for _, c := range sentence.Citations {
			ask = append(ask, Quoted{c.Evidence, c.Quote})
		}
	}
	if len(ask) == 0 {
		return nil, bad, nil
	}
	verdicts, seq, err := q.Desk.Check(ctx, ask)
	if err != nil {
		return nil, nil, fmt.Errorf("check the citations: %w", err)
	}
	if len(verdicts) != len(ask) {
		return nil, nil, fmt.Errorf("check the citations: %d verdicts about %d quotes", len(verdicts), len(ask))
	}
	q.reply.Seq = seq
	i := 0
	good = slices.DeleteFunc(good, func(s Sentence) bool {
		why := ""
		for _, c := range s.Citations {
			v := verdicts[i]
			i++
			if !v.OK && why == "" {
				why = fmt.Sprintf("evidence %d: %s", c.N, v.Why)
			}
		}
		if why != "" {
			bad = append(bad, Unsupported{s.Text, why})
		}
		return why != ""
	})
	return good, bad, nil
}

// look judges what can be judged without the graph; why is empty when nothing is wrong with it.
func (q *inquiry) look(s said) (out Sentence, why string) {
	out.Text = s.text
	if len(s.cites) == 0 {
		return out, "it cites nothing"
	}
	words := contentWords(s.text)
	quotes := ""
	for _, c := range s.cites {
		if c.n == 0 {
			return out, "a citation names no piece of evidence"
		}
		at := slices.IndexFunc(q.reply.Evidence, func(e Evidence) bool { return e.N == c.n })
		if at < 0 {
			return out, fmt.Sprintf("there is no evidence %d", c.n)
		}
		e := q.reply.Evidence[at]
		start, end, ok := find(e.Quote, c.quote)
		switch {
		case e.Kept:
			return out, fmt.Sprintf("evidence %d is kept: no current version of its document says it", c.n)
		case strings.TrimSpace(c.quote) == "":
			return out, fmt.Sprintf("evidence %d is cited without a quote", c.n)
		case !ok:
			return out, fmt.Sprintf("the quote is not in evidence %d", c.n)
		}
		exact := e.Quote[start:end]
		switch {
		case utf8.RuneCountInString(exact) < MinQuote && exact != strings.TrimSpace(e.Quote):
			return out, fmt.Sprintf("the quote of evidence %d is shorter than %d characters", c.n, MinQuote)
		case !shareWord(words, contentWords(exact)):
			return out, fmt.Sprintf("the quote of evidence %d has no word of the sentence", c.n)
		}
		quotes += " " + exact
		out.Citations = append(out.Citations, Citation{N: e.N, Evidence: e.ID, Document: e.Document, Start: e.Start + start, End: e.Start + end, Quote: exact})
	}
	have := numbers(quotes)
	for _, n := range numbers(s.text) {
		if !slices.Contains(have, n) {
			return out, fmt.Sprintf("no quote of it has the number %s", n)
		}
	}
	return out, ""
}

// find is where quote stands in text, white space and case aside.
func find(text, quote string) (start, end int, ok bool) {
	quote = strings.TrimSpace(quote)
	if quote == "" || len(quote) > maxQuoteRead {
		return 0, 0, false
	}
	if i := strings.Index(text, quote); i >= 0 {
		return i, i + len(quote), true
	}
	parts := strings.Fields(quote)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	re, err := regexp.Compile(`(?i)` + strings.Join(parts, `\s+`))
	if err != nil { // a quote that is not valid UTF-8 stands nowhere
		return 0, 0, false
	}
	at := re.FindStringIndex(text)
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}

// functionWords are words of three letters and more that say nothing of what a sentence is about, in the languages that are met most.
var functionWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`the and for are was were has had have been being not but with from this that these those they them their there then than which who whom whose what when
		where why how his her hers its our your you she him itself did does done will would can could may might must shall should also into onto over under about after before between
		der die das den dem des ein eine einer eines einem einen und oder aber ist sind war waren wird wurde wurden hat haben hatte hatten sich nicht mit von vom aus bei zum zur fur auf dass als wie wer was wann auch nach uber
		les des une dans par pour est sont etait ont avec sur qui que aux ses son leur mais
		los las una del por con para que fue son esta este sus
		gli una del della che con per nel nella sono era`) {
		m[w] = true
	}
	return m
}()

// contentWords are the words of a text, folded, that may say what it is about: those of three letters or more that are no function words,
// and numbers. Of scripts that put no spaces between words, each two characters beside one another are one.
func contentWords(s string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(fold(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		runes := []rune(w)
		switch {
		case slices.ContainsFunc(runes, unspaced):
			for i := 0; i+1 < len(runes); i++ {
				out[string(runes[i:i+2])] = true
			}
		case strings.ContainsFunc(w, unicode.IsDigit), len(runes) >= 3 && !functionWords[w]:
			out[w] = true
		}
	}
	return out
}

// fold takes case and marks off each word, and leaves what stands between words.
func fold(s string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		b.WriteString(fingerprint.CNorm(w))
		b.WriteByte(' ')
	}
	return b.String()
}

func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// sharedStem is how many letters of a word have to begin another one for them to count as forms of one word.
const sharedStem = 4

func shareWord(a, b map[string]bool) bool {
	for w := range a {
		if b[w] {
			return true
		}
		for x := range b {
			short, long := w, x
			if len(short) > len(long) {
				short, long = long, short
			}
			if utf8.RuneCountInString(short) >= sharedStem && strings.HasPrefix(long, short) {
				return true
			}
		}
	}
	return false
}

var (
	numeral = regexp.MustCompile(`\p{Nd}+(?:[.,'’\x{a0}\x{202f}]\p{Nd}+)*`)
	between = regexp.MustCompile(`[^\p{Nd}]`)
)

// numbers are the numbers of a text, without what groups their digits.
func numbers(s string) []string {
	out := numeral.FindAllString(s, -1)
	for i, n := range out {
		out[i] = between.ReplaceAllString(n, "")
	}
	return out
}
