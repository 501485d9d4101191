package validate

import (
	"regexp"
	"strings"
	"unicode"
)

// Texts that speak to whoever reads them rather than of the world. A model may do what they say; what it then states has evidence, for
// the name and the value do stand there. So that is no fact: a person decides.
var (
	// reversal takes back what the reader was told, or gives it another role: it taints the rest of its chunk.
	reversal = regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,80}\b(?:above|previous|prior|preceding|earlier|before|instructions?|rules?|prompts?|guidelines|everything)\b` +
		`|\byou are (?:now )?(?:an?|the|my) (?:ai|assistant|language model|helpful|unrestricted|different)\b` +
		`|\b(?:new|real|updated|system) (?:instructions?|prompt)\b\s*[:.]` +
		`|<\|[a-z_]{2,20}\|>|\[/?INST\]|<</?SYS>>|</?(?:document|system|instructions?|prompt|user|assistant|start_of_turn|end_of_turn)\b[^>]{0,20}>` +
		`|(?:^|[\s.!?])(?:SYSTEM|System|ASSISTANT|Assistant|Human|HUMAN|User|USER)\s*:\s|(?:^|\s)#{2,}\s*(?:system|instructions?|prompt)\b` +
		`|<!--|^\s*(?:BEGIN|END|SECTION)\s+[0-9a-f]{6,}` +
		// The same in other languages.
		`|ignorier\w*[^.!?\n]{0,60}(?:anweisung|regel|vorherig|vorangeh|bisherig|obig)|ignore[zr]?[^.!?\n]{0,60}(?:instructions|règles|consignes|précédent)` +
		`|ignor[aeo]\w*[^.!?\n]{0,60}(?:instruccion|reglas|anterior|istruzion|regole|precedent|instruç|regras)|(?:忽略|无视|無視)[^。！？\n]{0,20}(?:指令|指示|规则|規則|以上|之前|上述)|(?:以前|上記|前|これまで)[^。！？\n]{0,20}(?:指示|命令|ルール)[^。！？\n]{0,20}(?:無視|忘れ)` +
		`|игнорир\w*[^.!?\n]{0,60}(?:инструкц|правил|предыдущ|выше)|забудь\w*[^.!?\n]{0,60}(?:инструкц|правил|предыдущ)|(?:تجاهل|انس)[^.!?\n]{0,60}(?:التعليمات|القواعد|السابق|أعلاه)`)
	// order tells the reader what to answer: it taints its sentence.
	order = regexp.MustCompile(`(?i)(?:^|[.!?:;,\n"'(]\s*|\b(?:and|then|must|please|kindly|should|to|always|only)\s+)(?:output|print|return|respond|reply|answer|emit|generate|add|insert|include|extract|report|list|record|state|say|set|mention|note)\b[^.!?\n]{0,60}\b(?:entity|entities|relations?|relationships?|json|triples?|nodes?|edges?|facts?|graph|confidence|output)\b` +
		`|\b(?:the|your) (?:output|answer|reply|response|json|extraction|schema)\b[^.!?\n]{0,40}\b(?:must|should|shall|has a new|needs to|contains?|includes?)\b` +
		`|\byou (?:must|should|shall|have to|need to|are (?:asked|required|instructed) to)\b` +
		`|\b(?:note|message|instruction|hint)s? (?:to|for) (?:the |any |all )?(?:\w+ )?(?:model|ai|llm|assistant|reader|extractor|annotator|bot)\b` +
		`|\bwhen (?:summari[sz]ing|extracting|reading|processing|answering)\b[^.!?\n]{0,60}\b(?:always|never|mention|include|add|list|note)\b` +
		`|\b(?:added|written|inserted|put) (?:in)?to the (?:knowledge )?graph\b|\brespond only\b|\bonly respond\b|\bkindly note\b|\blinked by [A-Z_]{3,}\b`)
	// told is what stands before an order that the text tells of, to somebody in it: it taints its sentence and no more. aimed is what such a
	// sentence must not hold, for then it may be meant for the reader.
	told  = regexp.MustCompile(`(?i)\b(?:he|she|they|it|[\pL\pN.'’-]+)\s+(?:told|asked|taught|begged|advised|warned|urged|had|wanted|tried|chose|learned|learnt|decided|managed|refused)\s+(?:(?:him|her|them|everybody|everyone|(?:the\s+|his\s+|her\s+|their\s+)?[\pL\pN.'’-]+)\s+)?(?:not\s+)?to\s+$`)
	aimed = regexp.MustCompile(`(?i)\b(?:you|your|we|us|reader|readers|model|ai|llm|assistant|instructions?|rules?|prompts?|guidelines|schema|json|output|extract\w*|entit\w+|relations?)\b|[<>{}\[\]|#]`)
	// literal is an object written out, as a reply would be.
	literal = regexp.MustCompile(`\{\s*"[^"\n]{1,40}"\s*:[^{}]{0,500}\}`)
)

// instructed tells whether a span of the chunk lies in such a text.
func (c *chunk) instructed(at span) bool {
	if !c.looked {
		c.looked = true
		c.orders, c.addressed = ordersIn(c.text)
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

// ordersIn lists the spans of a text that speak to its reader, or may; addressed says that one does for certain.
func ordersIn(text string) (out []span, addressed bool) {
	seen, at := visible(text)
	add := func(from, to int) { out = append(out, span{at[from], at[to]}) }
	for _, m := range reversal.FindAllStringIndex(seen, -1) {
		s := sentence(seen, m[0], m[1])
		if told.MatchString(seen[min(s.start, m[0]):m[0]]) && !aimed.MatchString(seen[s.start:s.end]) {
			add(s.start, s.end)
			continue
		}
		add(s.start, len(seen))
		addressed = true
	}
	for _, m := range order.FindAllStringIndex(seen, -1) {
		s := sentence(seen, m[0], m[1])
		add(s.start, s.end)
		addressed = true
	}
	for _, m := range literal.FindAllStringIndex(seen, -1) {
		add(m[0], m[1])
		addressed = true
	}
	return out, addressed
}

// visible is a text without the characters that nobody sees, and where each of its bytes, and its end, stood.
func visible(text string) (string, []int) {
	var b strings.Builder
	at := make([]int, 0, len(text)+1)
	for i, r := range text {
		if unicode.Is(unicode.Cf, r) {
			continue
		}
		n := b.Len()
		b.WriteRune(r)
		for range b.Len() - n {
			at = append(at, i)
		}
	}
	return b.String(), append(at, len(text))
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
