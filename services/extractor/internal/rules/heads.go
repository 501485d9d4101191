package rules

import (
	"strings"
	"unicode"
)

// loadHeads reads the nouns that say what a name is.
func (rs *ruleset) loadHeads() {
	for _, l := range lines("heads.txt") {
		head, list, _ := strings.Cut(l, ":")
		words := strings.Fields(list)
		if head == "thing" || head == "made" {
			product := head == "made" && rs.types[tProduct-1].declared
			for _, w := range words {
				e := rs.words.put(hashWord(w))
				e.flags |= thing
				if product {
					e.in, e.near = tProduct, tProduct
				}
				rs.words.put(hashWord(w + "s")).flags |= soft
			}
			continue
		}
		name, where, _ := strings.Cut(head, " ")
		t := rs.builtin[name]
		for _, w := range words {
			e := rs.words.put(hashWord(w))
			switch where {
			case "suffix":
				e.suffix, e.flags = t, e.flags|orgSuffix
			case "in":
				if e.in == 0 {
					e.in = t
				}
			case "before":
				e.before = t
			case "near":
				if e.near == 0 {
					e.near = t
				}
				switch t {
				case tOrganization:
					e.flags |= firm
				case tLocation:
					e.flags |= placeWord
				}
			}
		}
	}
}

// schemaHeads makes the words of the schema's own labels, and the nouns that its descriptions list first, say what a name is.
func (rs *ruleset) schemaHeads() {
	for _, e := range rs.schema.Entities() {
		t := rs.byLabel[e.Label]
		for _, w := range describedNouns(e.Description) {
			x := rs.words.put(hashWord(w))
			if rs.isBuiltin(t) && x.in+x.near > 0 || x.flags&(stop|soft|adjective|adverb|prep|topic) != 0 {
				continue
			}
			if x.flags&role != 0 || t == tPerson {
				continue
			}
			x.near = t
			if !rs.isBuiltin(t) || x.in == 0 {
				x.in = t
			}
		}
	}
	for _, e := range rs.schema.Entities() {
		t := rs.byLabel[e.Label]
		words := labelWords(e.Label)
		if w := words[len(words)-1]; t != tPerson && len(w) > 2 && !(rs.isBuiltin(t) && rs.words.get(hashWord(w)).in > 0) {
			x := rs.words.put(hashWord(w))
			x.in, x.near = t, t
		}
	}
}

func (rs *ruleset) isBuiltin(t uint16) bool { return int(t) <= len(builtinTypes) }

// describedNouns returns the nouns that a description begins with: "A company, university or agency that …".
func describedNouns(text string) []string {
	var out []string
	last := ""
	flush := func() {
		if len(last) > 3 {
			out = append(out, last)
		}
		last = ""
	}
	for i, w := range strings.Fields(strings.ToLower(text)) {
		if i > 14 {
			break
		}
		bare := strings.TrimRight(w, ",.;:")
		switch bare {
		case "a", "an", "the", "any":
			continue
		case "or", "and":
			flush()
			continue
		case "that", "which", "who", "whose", "where", "when", "of", "in", "for", "with", "such", "on", "at", "not", "from", "to", "by", "as", "used", "made", "other":
			flush()
			return out
		}
		for _, r := range bare {
			if !unicode.IsLetter(r) && r != '-' {
				return out
			}
		}
		last = bare
		if bare != w {
			flush()
			if strings.ContainsAny(w, ".;:") {
				return out
			}
		}
	}
	flush()
	return out
}

// labelWords splits a label into lower-case words: SpaceTelescope, SPACE_TELESCOPE and space-telescope are space, telescope.
func labelWords(label string) []string {
	var out []string
	word := ""
	runes := []rune(label)
	for i, r := range runes {
		if r == '_' || r == '-' {
			if word != "" {
				out = append(out, word)
			}
			word = ""
			continue
		}
		if unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]) && word != "" {
			out = append(out, word)
			word = ""
		}
		word += string(unicode.ToLower(r))
	}
	if word != "" || len(out) == 0 {
		out = append(out, word)
	}
	return out
}
