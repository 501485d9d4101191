package validate

import (
	"regexp"
	"strings"
)

// Texts that speak to whoever reads them rather than of the world. A model may do what they say; what it then states has evidence, for
// the name and the value do stand there. So that is no fact: a person decides.
var (
	// reversal takes back what the reader was told, or gives it another role: it taints the rest of its paragraph.
	reversal = regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,80}\b(?:above|previous|prior|preceding|earlier|before|instructions?|rules?|prompts?|guidelines|everything)\b` +
		`|\byou are (?:now )?(?:an?|the|my) (?:ai|assistant|language model|helpful|unrestricted|different)\b` +
		`|\b(?:new|real|updated|system) (?:instructions?|prompt)\b\s*[:.]` +
		`|<\|[a-z_]{2,20}\|>|\[/?INST\]|<</?SYS>>|</?(?:document|system|instructions?|prompt|user|assistant)>` +
		`|(?m:^\s*(?:system|assistant|user)\s*:)|(?m:^#+\s*(?:system|instructions?|prompt)\b)`)
	// order tells the reader what to answer: it taints its sentence.
	order = regexp.MustCompile(`(?i)(?:^|[.!?:;,\n"'(]\s*|\b(?:and|then|must|please|should|to)\s+)(?:output|print|return|respond|reply|answer|emit|generate|add|insert|include|extract|report|list|record|state|say)\b[^.!?\n]{0,60}\b(?:entity|entities|relations?|relationships?|json|triples?|nodes?|edges?|facts?)\b`)
	// literal is an object written out, as a reply would be.
	literal = regexp.MustCompile(`\{\s*"[^"\n]{1,40}"\s*:[^{}]{0,500}\}`)
)

// instructed tells whether a span of the chunk lies in such a text.
func (c *chunk) instructed(at span) bool {
	if !c.looked {
		c.looked = true
		c.orders = instructions(c.text)
	}
	for _, o := range c.orders {
		if at.start < o.end && o.start < at.end {
			return true
		}
	}
	return false
}

// outside is where a name stands outside such texts, when it does.
func (c *chunk) outside(name string, at span) span {
	for from := at; c.instructed(from); {
		next, ok := find(c.text, name, span{from.end, len(c.text)})
		if !ok {
			return at
		}
		if from = next; !c.instructed(from) {
			return from
		}
	}
	return at
}

// instructions lists the spans of a text that speak to its reader.
func instructions(text string) []span {
	var out []span
	for _, m := range reversal.FindAllStringIndex(text, -1) {
		end := len(text)
		if i := strings.Index(text[m[1]:], "\n\n"); i >= 0 {
			end = m[1] + i
		}
		out = append(out, span{sentence(text, m[0], m[1]).start, end})
	}
	for _, m := range order.FindAllStringIndex(text, -1) {
		out = append(out, sentence(text, m[0], m[1]))
	}
	for _, m := range literal.FindAllStringIndex(text, -1) {
		out = append(out, span{m[0], m[1]})
	}
	return out
}

// sentence is the bounds of a match's sentence, roughly: from the last mark that ends one to the next, or the ends of the line.
func sentence(text string, start, end int) span {
	for start < end && strings.IndexByte(" \t\n.!?", text[start]) >= 0 { // a match may begin with the end of the one before
		start++
	}
	from := strings.LastIndexAny(text[:start], ".!?\n") + 1
	to := len(text)
	if i := strings.IndexAny(text[end:], ".!?\n"); i >= 0 {
		to = end + i + 1
	}
	return span{from, to}
}
