package lexical

import "strings"

// functionWords carry the grammar of an English sentence or question, not what it is about. Words that are names or acronyms too
// (it, us, may, will, can) are not among them.
const functionWords = `a an the of in on at to for from by with as into onto than then
and or but if is are was were be been being do does did done has have had
who whom whose which what when where why how that this these those there its his her their`

var isFunctionWord = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(functionWords) {
		Terms(w, func(t string) { m[t] = true })
	}
	return m
}()

// Content returns the terms that are no English function words: what a question asks for. Where nothing else is left it
// returns all of them.
func Content(terms []string) []string {
	var out []string
	for _, t := range terms {
		if !isFunctionWord[t] {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return terms
	}
	return out
}
