package plan

import "slices"

// Within is the beginning of the plan, in canonical order, that takes about n bytes of JSON at most, and how many changes and base documents it
// leaves out, with those that it only counts. Its fingerprint is another one unless no listed one is left out.
func (p *Plan) Within(n int) (short *Plan, leftOut int) {
	whole := *p
	whole.Base, whole.Changes = slices.Clone(p.Base), slices.Clone(p.Changes)
	short = whole.Canonical()
	c, used := 0, 0
	for ; c < len(short.Changes); c++ {
		if used += short.Changes[c].Size(); used > n*3/4 {
			break
		}
	}
	b := 0
	for used = min(used, n*3/4); b < len(short.Base); b++ {
		if used += 60 + 2*len(short.Base[b].Document); used > n {
			break
		}
	}
	leftOut = len(short.Changes) - c + len(short.Base) - b
	if short.Rest != nil {
		leftOut += short.Rest.Changes
	}
	short.Changes, short.Base = short.Changes[:c:c], short.Base[:b:b]
	return short, leftOut
}

// Size is about how many bytes the change takes in JSON.
func (c Change) Size() int {
	n := 250 + 2*(len(c.Label)+len(c.Source)+len(c.Target)+len(c.Document)+len(text(c.Value))+len(text(c.Was)))
	for _, q := range c.Quotes {
		n += 60 + 2*len(q.Text)
	}
	return n
}
