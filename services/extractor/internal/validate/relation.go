package validate

import (
	"cmp"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// Assertion kinds.
const (
	Explicit = "explicit"
	Inferred = "inferred"
	Opinion  = "opinion"
)

func (c *chunk) relation(r *extract.Relation) {
	c.reasons, c.by = c.reasons[:0], cmp.Or(r.By, c.extractor)
	label, swapped, declared := c.schema.CanonRelation(r.Type)
	if !declared {
		label = r.Type
		c.fault(graph.ReasonUndeclaredLabel)
	}
	quote, quoted := c.quote(r)
	source, target := c.end(r.Source, r.SourceName, quote, quoted), c.end(r.Target, r.TargetName, quote, quoted)
	if declared {
		c.fit(label, swapped, &source, &target)
	}
	if swapped {
		source, target = target, source
	}
	c.ends(label, declared, source, target)
	confidence := c.score(r.Confidence, c.cfg.RelationCut, graph.ReasonBelowRelationCut)
	assertion := c.assertion(r.Assertion)
	evidence, ok := c.evidence(quote, quoted, source, target)
	if !ok && (len(c.reasons) == 0 || c.reasons[0] != graph.ReasonNoEvidence) {
		c.fault(graph.ReasonNoEvidence)
	}
	if ok && c.by != byRules {
		c.weigh(evidence, quote, quoted, source, target)
	}
	if len(c.reasons) == 0 && len(c.manual) > 0 && c.asks(item{kind: graph.KindRelation, label: label, assertion: assertion, confidence: confidence}) {
		c.fault(graph.ReasonPolicy)
	}
	short := assertion
	if short == Explicit {
		short = ""
	}
	out := graph.CandidateItem{
		Kind: graph.KindRelation, Label: label, Text: collapse(c.text[evidence.start:evidence.end]),
		SourceText: source.text, TargetText: target.text, SourceLabel: source.label, TargetLabel: target.label,
		Confidence: confidence, Start: evidence.start, End: evidence.end, Assertion: short, Rule: r.Rule,
	}
	kept := graph.RelationItem{
		Type: label, Source: source.place, Target: target.place, Start: evidence.start, End: evidence.end,
		Confidence: confidence, Assertion: short, Extractor: c.by, Rule: r.Rule,
	}
	if c.said(out) {
		return
	}
	if !drops(c.reasons) && (len(c.reasons) > 0 || c.stated(&kept) < 0) {
		if c.relations++; c.relations > c.cfg.MaxRelations {
			c.fault(graph.ReasonLimit)
			c.out.State = graph.Incomplete
			if c.said(out) {
				return
			}
		}
	}
	if len(c.reasons) > 0 {
		c.discard(out)
		return
	}
	c.addRelation(kept, r)
}

const (
	// farSentences and farBytes are how far a model's evidence may reach to hold both ends.
	farSentences = 3
	farBytes     = 800
)

// weigh notes what makes a model's evidence for a relation weak: it tells its reader what to do, its quote names neither end, or the
// ends stand far apart. In a chunk that tells its reader something, one sentence has to name both.
func (c *chunk) weigh(evidence, quote span, quoted bool, source, target end) {
	if c.instructed(evidence) {
		c.fault(graph.ReasonInstruction)
		return
	}
	if len(c.reasons) > 0 {
		return
	}
	named := func(e end) bool {
		_, ok := find(c.text, e.text, quote)
		return ok
	}
	far := 1
	if !c.addressed {
		far = farSentences
	}
	switch {
	case quoted && !named(source) && !named(target):
		c.fault(graph.ReasonLooseEvidence)
	case evidence.end-evidence.start > farBytes || prose.Count(c.text[evidence.start:evidence.end]) > far:
		if far == 1 {
			c.fault(graph.ReasonInstruction)
		} else {
			c.fault(graph.ReasonLooseEvidence)
		}
	}
}

// fit binds ends anew that do not fit the relation, where another mention of the same name does: Paris, the person and the place.
func (c *chunk) fit(label string, swapped bool, source, target *end) {
	if swapped {
		source, target = target, source
	}
	if source.place < 0 || target.place < 0 || c.schema.Allows(label, source.label, target.label) {
		return
	}
	for _, s := range c.namesakes(source.place) {
		for _, t := range c.namesakes(target.place) {
			if c.schema.Allows(label, c.out.Entities[s].Type, c.out.Entities[t].Type) {
				*source, *target = c.bound(s), c.bound(t)
				return
			}
		}
	}
}

// namesakes are the kept mentions with the name of one, itself first.
func (c *chunk) namesakes(place int) []int {
	out := []int{place}
	key := c.key(place)
	for i := range c.out.Entities {
		if i != place && c.key(i) == key {
			out = append(out, i)
		}
	}
	return out
}

func (c *chunk) addRelation(item graph.RelationItem, r *extract.Relation) {
	i := c.stated(&item)
	if i < 0 {
		i = len(c.out.Relations)
		c.out.Relations = append(c.out.Relations, item)
	} else if k := &c.out.Relations[i]; item.Confidence > k.Confidence {
		k.Confidence, k.Rule = item.Confidence, item.Rule
	}
	c.relationProperties(r, i)
}

// stated is the place of a kept relation that is equal, or -1.
func (c *chunk) stated(item *graph.RelationItem) int {
	for i := len(c.out.Relations) - 1; i >= 0; i-- {
		k := &c.out.Relations[i]
		if k.Type == item.Type && k.Source == item.Source && k.Target == item.Target && k.Start == item.Start && k.End == item.End &&
			k.Assertion == item.Assertion {
			return i
		}
	}
	return -1
}

// ends notes the faults of a relation's ends.
func (c *chunk) ends(label string, declared bool, source, target end) {
	if source.place < 0 || target.place < 0 {
		c.fault(graph.ReasonUnresolvedEndpoint)
		return
	}
	if declared && !c.schema.Allows(label, source.label, target.label) {
		c.fault(graph.ReasonOffPattern)
	}
	if !c.schema.SelfAllowed(label) && c.selfLoop(source.place, target.place) {
		c.fault(graph.ReasonSelfLoop)
	}
}

// assertion checks the assertion kind against those that the settings admit.
func (c *chunk) assertion(given string) string {
	kind := strings.ToLower(strings.TrimSpace(given))
	if kind == "" {
		kind = Explicit
	}
	for _, a := range c.cfg.Assertions {
		if a == kind {
			return kind
		}
	}
	c.fault(graph.ReasonAssertionKind)
	return clip(kind, maxLabelRunes)
}

// quote finds a relation's quote. A quote that was given and stands nowhere is a fault.
func (c *chunk) quote(r *extract.Relation) (span, bool) {
	if r.Start >= 0 && r.Start < r.End && r.End <= len(c.text) {
		return span{r.Start, r.End}, true
	}
	if strings.TrimSpace(r.Quote) == "" {
		return span{}, false
	}
	at, ok := find(c.text, r.Quote, span{0, len(c.text)})
	if !ok {
		c.fault(graph.ReasonNoEvidence)
	}
	return at, ok
}

// end binds an end to a kept mention of the chunk: by place, else by name, a mention inside the quote first.
func (c *chunk) end(place int, name string, quote span, quoted bool) end {
	if place >= 0 && place < len(c.kept) {
		e := &c.raw.Entities[place]
		if k := c.kept[place]; k >= 0 {
			return c.bound(k)
		}
		at, ok := c.locate(e.Name, e.Quote, span{e.Start, e.End})
		label := e.Type
		if canon, ok := c.schema.Canon(schema.KindEntity, e.Type); ok {
			label = canon
		}
		return end{place: -1, text: collapse(e.Name), label: label, at: at, found: ok}
	}
	name = collapse(name)
	if k := c.byName(name, quote, quoted); k >= 0 {
		return c.bound(k)
	}
	out := end{place: -1, text: name}
	out.at, out.found = c.locate(name, "", span{-1, -1})
	for i := range c.raw.Entities { // the label of a mention that was not kept is worth showing
		if e := &c.raw.Entities[i]; c.kept[i] < 0 && same(e.Name, name) {
			out.label = e.Type
			break
		}
	}
	return out
}

func (c *chunk) bound(k int) end {
	e := &c.out.Entities[k]
	return end{place: k, text: e.Name, label: e.Type, at: span{e.Start, e.End}, found: true}
}

// byName returns the kept mention with this name, or -1: exact before folded, inside the quote before outside.
func (c *chunk) byName(name string, quote span, quoted bool) int {
	if name == "" {
		return -1
	}
	best, bestRank := -1, 0
	folded := ""
	for i := range c.out.Entities {
		e := &c.out.Entities[i]
		rank := 0
		if e.Name == name {
			rank = 4
		} else {
			if folded == "" {
				folded = fingerprint.Fold(name)
			}
			if fingerprint.Fold(e.Name) == folded || e.Of != "" && fingerprint.Fold(e.Of) == folded {
				rank = 2
			}
		}
		if rank > 0 && quoted && (span{e.Start, e.End}).within(quote) {
			rank++
		}
		if rank > bestRank {
			best, bestRank = i, rank
		}
	}
	return best
}

// evidence is the span that a relation is shown by: its quote, widened to the bound mentions; without a quote the sentences
// around what was found of the ends.
func (c *chunk) evidence(quote span, quoted bool, source, target end) (span, bool) {
	out, ok := quote, quoted
	join := func(at span) {
		if !ok {
			out, ok = at, true
			return
		}
		out = span{min(out.start, at.start), max(out.end, at.end)}
	}
	for _, e := range []end{source, target} {
		if e.found && (e.place >= 0 || !quoted) {
			join(e.at)
		}
	}
	if ok && !quoted {
		out = c.around(out)
	}
	return out, ok
}
