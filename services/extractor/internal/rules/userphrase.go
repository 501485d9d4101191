package rules

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// userPhrases makes phrases of a schema's own words. The words stand for what they say, not only for how it was put: "was built by" is
// "built by" and, the other way round, "builds"; "operates" is "is operated by", the other way round; "is a member of" is what stands
// behind a comma too. other are those that go the other way.
func (rs *ruleset) userPhrases(text string) (same, other []phrase) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return nil, nil
	}
	bare := words
	for len(bare) > 1 && isBe(bare[0]) || len(bare) > 2 && isHave(bare[0]) && bare[1] == "been" {
		bare = bare[1:]
	}
	switch {
	case len(bare) < len(words) && isArticle(bare[0]) && len(bare) > 1: // is the director of
		return []phrase{rs.nounPhrase(bare[1:])}, nil
	case len(bare) < len(words) && rs.isParticiple(bare[0]) && len(bare) > 1: // was built by
		p, back := rs.passive(bare)
		return []phrase{p}, back
	case len(bare) < len(words) && rs.isPrep(bare[0]): // is in
		p := phrase{confidence: 0.9, elems: []elem{beElem}}
		p.elems = append(p.elems, rs.literals(bare)...)
		return []phrase{p}, nil
	case len(bare) < len(words) && !rs.isParticiple(bare[0]): // is part of
		return []phrase{rs.nounPhrase(bare)}, nil
	case len(bare) < len(words):
		bare = words
	}
	base := lemma(bare[0], rs.verbs)
	switch {
	case base == "" && len(bare) == 1 && !rs.isPrep(bare[0]): // a verb whose forms nobody gave: spoilt
		return []phrase{{confidence: 0.9, elems: []elem{{kind: activeVerb, words: []elemWord{{hashWord(bare[0]), anyForm}}}}}}, nil
	case base == "" || rs.isPrep(bare[0]):
		return []phrase{rs.nounPhrase(bare)}, nil
	case len(bare) > 1 && bare[len(bare)-1] == "by":
		p, back := rs.passive(bare)
		return []phrase{p}, back
	}
	return rs.active(bare, base)
}

// passive is a phrase that begins with a participle, and what it says of the doer where it ends with "by".
func (rs *ruleset) passive(words []string) (p phrase, back []phrase) {
	base := lemma(words[0], rs.verbs)
	p = phrase{confidence: 0.9, elems: []elem{{kind: participle, words: []elemWord{{hashWord(words[0]), anyForm}}}}}
	p.elems = append(p.elems, rs.literals(words[1:])...)
	if n := len(words); base != "" && words[n-1] == "by" {
		a := phrase{confidence: 0.9, elems: []elem{rs.verb(words[0], base)}}
		a.elems = append(a.elems, rs.literals(words[1:n-1])...)
		back = append(back, a)
	}
	return p, back
}

// active is a phrase that begins with a verb, in all its forms, and the passive of it where nothing but an object can follow.
func (rs *ruleset) active(words []string, base string) (same, other []phrase) {
	e := rs.verb(words[0], base)
	if f, _ := e.find(hashWord(words[0])); f == pastForm && len(words) > 1 {
		e.kind = participle // "mounted on" is "was mounted on" too
	}
	p := phrase{confidence: 0.9, elems: append([]elem{e}, rs.literals(words[1:])...)}
	if last := words[len(words)-1]; !rs.isPrep(last) && last != "*" && base != "be" && base != "have" {
		done, ok := rs.verbs[base]
		if !ok {
			done = regular(base)
		}
		by := phrase{confidence: 0.9, elems: []elem{{kind: participle, words: []elemWord{{hashWord(done.participle), anyForm}}}}}
		by.elems = append(by.elems, rs.literals(append(slices.Clone(words[1:]), "by"))...)
		other = append(other, by)
	}
	return []phrase{p}, other
}

// verb is the element of a verb: all its forms, and the word itself.
func (rs *ruleset) verb(word, base string) elem {
	e := rs.parseElem("~"+base, rs.verbs)
	if _, ok := e.find(hashWord(word)); !ok {
		e.words = append(e.words, elemWord{hashWord(word), anyForm})
	}
	return e
}

// nounPhrase is a phrase that begins with a noun, or with a preposition that belongs to a verb before it.
func (rs *ruleset) nounPhrase(words []string) phrase {
	return phrase{confidence: 0.9, elems: rs.literals(words), nominal: true, adverbial: rs.isPrep(words[0])}
}

// literals are words as they stand; "*" and "…" stand for one to three words.
func (rs *ruleset) literals(words []string) []elem {
	var out []elem
	for _, w := range words {
		if (w == "*" || w == "…" || w == "...") && len(out) > 0 {
			out = append(out, elem{kind: gapWords})
			continue
		}
		out = append(out, elem{kind: literal, words: []elemWord{{hashWord(w), anyForm}}})
	}
	return out
}

func (rs *ruleset) isPrep(w string) bool { return rs.words.get(hashWord(w)).is(prep) }

// isParticiple tells a word that may be the participle of a verb.
func (rs *ruleset) isParticiple(w string) bool {
	base := lemma(w, rs.verbs)
	if base == "" {
		return false
	}
	f, ok := rs.verbs[base]
	if !ok {
		f = regular(base)
	}
	return w == f.participle || strings.HasSuffix(w, "ed")
}

// beElem is any form of "to be".
var beElem = func() elem {
	e := elem{kind: activeVerb}
	for _, w := range []string{"is", "are", "was", "were", "be", "been", "being"} {
		e.words = append(e.words, elemWord{hashWord(w), anyForm})
	}
	return e
}()

func isBe(w string) bool {
	switch w {
	case "is", "are", "was", "were", "be", "been", "being":
		return true
	}
	return false
}

func isHave(w string) bool { return w == "has" || w == "have" || w == "had" }

func isArticle(w string) bool { return w == "the" || w == "a" || w == "an" }

// beforeVerb finds the subject of a phrase that begins with a preposition: the name before the verb that it belongs to, as in "the Vela
// sailed in May under the command of". It tells whether that decides the matter.
func (w *walk) beforeVerb() bool {
	c := w.c
	for i, n := w.i, 0; i >= w.s.First && n < 14; i, n = i-1, n+1 {
		if at := c.runAt[i]; at > 0 {
			r := &c.runs[at-1]
			if r.last < len(c.tokens) && c.tokens[r.last].Hash == prose.Possessive && r.last <= w.i {
				return true
			}
			if p := w.prepBefore(r); p >= 0 {
				w.a.penalty += 0.03
				i = p
				continue
			}
			w.a.penalty += 0.01 * float64(min(w.i-r.last+1, 8))
			c.group(w.a, int(at-1), w.s)
			return true
		}
		t, e := &c.tokens[i], c.info[i]
		switch {
		case t.Kind == prose.Number:
		case t.Kind != prose.Word, e.is(relative):
			return false
		case e.is(not):
			w.a.negated = true
		case e.is(modal) && c.lower(i): // not May
			w.a.planned = true
		case e.is(pronoun) && !e.is(det):
			w.a.pronoun = i
			return true
		case e.is(conj):
			return false
		}
	}
	return false
}
