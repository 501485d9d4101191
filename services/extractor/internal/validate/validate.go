// Package validate decides what becomes of each raw item of an extractor: a kept item, a candidate with every reason, or a
// counted drop. It checks item by item, so that one bad field never costs its siblings.
//
// Choices where the specification leaves them: an unscored item has its cut as confidence, so that it is kept and never
// outranks a scored one. A mention that came without a span is the first occurrence of its name inside the quote, else the
// first in the chunk. A quote that does not hold both mentions of a relation is widened to them; without a quote the evidence is
// the sentences around them. Each reason of each item that was not kept is counted in Dropped, candidates' reasons too.
package validate

import (
	"cmp"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// byRules is the one extractor that no text can tell what to do.
const byRules = "rules"

const (
	maxNameRunes  = 200
	maxLabelRunes = 128  // of a label as seen, in candidates and counts
	maxTextRunes  = 300  // of a candidate's text and of a sample
	maxValueRunes = 2000 // of a property candidate's value: it is converted as it stands, so a longer one is only counted
	maxTallies    = 500  // distinct (kind, label, reason) a document; further labels are counted as "…"
)

// Validator checks the items of one document, chunk after chunk. It is not safe for concurrent use.
type Validator struct {
	schema    *schema.Schema
	cfg       settings.Extractor
	extractor string
	manual    []schema.Condition
	// NoCandidates leaves candidates out; their reasons are counted all the same.
	noCandidates bool

	tally   map[tallyKey]*graph.Dropped
	items   Tally
	kept    []int // by place in the raw entities: place among the kept ones, or -1
	names   []string
	reasons []string
	by      string // extractor of the item under check
	explain func(kind, label, text string, reasons []string)
}

type tallyKey struct{ kind, label, reason string }

// Options of a Validator besides schema and settings.
type Options struct {
	// Extractor is the mode's name, written into every item.
	Extractor string
	// NoCandidates counts what was discarded and keeps none of it.
	NoCandidates bool
	// Explain, when set, is told of each item that is not kept.
	Explain func(kind, label, text string, reasons []string)
}

// New returns a validator for one document.
func New(s *schema.Schema, cfg settings.Extractor, o Options) *Validator {
	return &Validator{
		schema: s, cfg: cfg, extractor: o.Extractor, manual: manualConditions(s), noCandidates: o.NoCandidates, explain: o.Explain,
	}
}

// Chunk checks the items of the chunk whose text begins at byte base of its document. The result's Index is left to the
// caller; its offsets are the document's.
func (v *Validator) Chunk(text string, base int, raw extract.Items) graph.ChunkItems {
	c := &chunk{Validator: v, text: text, raw: raw}
	if raw.Incomplete {
		c.out.State = graph.Incomplete
	}
	v.kept = v.kept[:0]
	v.names = v.names[:0]
	for i := range raw.Entities {
		c.entity(&raw.Entities[i])
	}
	for i := range raw.Relations {
		c.relation(&raw.Relations[i])
	}
	c.shift(base)
	return c.out
}

// Dropped returns what was discarded so far: each reason of each item that was not kept, by kind, label and reason.
func (v *Validator) Dropped() []graph.Dropped {
	out := make([]graph.Dropped, 0, len(v.tally))
	for _, d := range v.tally {
		out = append(out, *d)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Kind != b.Kind {
			return a.Kind < b.Kind
		}
		if a.Label != b.Label {
			return a.Label < b.Label
		}
		return a.Reason < b.Reason
	})
	return out
}

// Tally is how many items were not kept, each once.
type Tally struct {
	Dropped, Undecided int // only counted; for a person to decide on
	Reasons            int // of both together
}

// Items returns how many items were not kept so far.
func (v *Validator) Items() Tally { return v.items }

// count counts an item that is not kept, and each of its reasons; undecided says that a person could decide on it.
func (v *Validator) count(kind, label, sample string, reasons []string, undecided bool) {
	v.items.Reasons += len(reasons)
	if undecided {
		v.items.Undecided++
	} else {
		v.items.Dropped++
	}
	candidate := undecided && !v.noCandidates
	if v.tally == nil {
		v.tally = map[tallyKey]*graph.Dropped{}
	}
	label = clip(label, maxLabelRunes)
	for _, r := range reasons {
		key := tallyKey{kind, label, r}
		d := v.tally[key]
		if d == nil && len(v.tally) >= maxTallies {
			key.label = "…"
			d = v.tally[key]
		}
		if d == nil {
			d = &graph.Dropped{Kind: kind, Label: key.label, Reason: r, Sample: clip(collapse(sample), maxTextRunes)}
			v.tally[key] = d
		}
		if d.Sample == "" || !candidate && d.Count == d.Candidates { // what is only counted is seen nowhere else
			d.Sample = clip(collapse(sample), maxTextRunes)
		}
		d.Count++
		if candidate {
			d.Candidates++
		}
	}
	if v.explain != nil {
		v.explain(kind, label, clip(collapse(sample), maxTextRunes), append([]string(nil), reasons...))
	}
}

// chunk is one call of Chunk.
type chunk struct {
	*Validator
	text      string
	raw       extract.Items
	out       graph.ChunkItems
	entities  int // that were not dropped: kept and candidates
	relations int
	before    map[sameItem]bool
	orders    []span // what speaks to the reader; valid when looked
	addressed bool   // one of them speaks to nobody else
	looked    bool
}

// fault notes a reason of the item under check.
func (v *Validator) fault(reason string) { v.reasons = append(v.reasons, reason) }

// drops tells whether a reason means that an item is only counted.
func drops(reasons []string) bool {
	for _, r := range reasons {
		switch r {
		case graph.ReasonNoEvidence, graph.ReasonBadName, graph.ReasonSelfLoop, graph.ReasonBelowFloor, graph.ReasonLimit:
			return true
		}
	}
	return false
}

// keep is called for each raw entity, in order: place is its place among the kept ones, or -1.
func (c *chunk) keep(place int) { c.kept = append(c.kept, place) }

func (c *chunk) entity(e *extract.Entity) {
	c.reasons, c.by = c.reasons[:0], cmp.Or(e.By, c.extractor)
	at, ok := c.locate(e.Name, e.Quote, span{e.Start, e.End})
	name := e.Name
	if ok && c.by != byRules {
		at = c.outside(e.Name, at)
	}
	if ok {
		name = c.text[at.start:at.end]
	} else {
		c.fault(graph.ReasonNoEvidence)
	}
	name = collapse(name)
	if !saneName(name) {
		c.fault(graph.ReasonBadName)
	}
	label, declared := c.schema.Canon(schema.KindEntity, e.Type)
	if !declared {
		label = e.Type
		c.fault(graph.ReasonUndeclaredLabel)
	}
	confidence := c.score(e.Confidence, c.cfg.EntityCut, graph.ReasonEntityBand)
	if ok && c.by != byRules && c.instructed(at) {
		c.fault(graph.ReasonInstruction)
	}
	if len(c.reasons) == 0 && len(c.manual) > 0 && c.asks(item{kind: graph.KindEntity, label: label, assertion: "explicit", confidence: confidence}) {
		c.fault(graph.ReasonPolicy)
	}
	out := graph.CandidateItem{
		Kind: graph.KindEntity, Label: label, Text: name, Confidence: confidence, Start: at.start, End: at.end, Rule: e.Rule,
	}
	if c.said(out) {
		c.keep(-1)
		return
	}
	if !drops(c.reasons) && c.mention(at, label) < 0 {
		if c.entities++; c.entities > c.cfg.MaxEntities {
			c.fault(graph.ReasonLimit)
			c.out.State = graph.Incomplete
			if c.said(out) {
				c.keep(-1)
				return
			}
		}
	}
	if len(c.reasons) > 0 {
		c.discard(out)
		c.keep(-1)
		c.orphans(e.Properties)
		return
	}
	c.keep(c.add(graph.EntityItem{
		Type: label, Name: name, Of: c.fullName(e.Of, name), Start: at.start, End: at.end,
		Confidence: confidence, Extractor: c.by, Rule: e.Rule,
	}, e))
}

// add appends a kept mention, or joins it with an equal one, and checks its properties.
func (c *chunk) add(m graph.EntityItem, e *extract.Entity) int {
	place := c.mention(span{m.Start, m.End}, m.Type)
	if place < 0 {
		place = len(c.out.Entities)
		c.out.Entities = append(c.out.Entities, m)
	} else if k := &c.out.Entities[place]; m.Confidence > k.Confidence {
		k.Confidence, k.Rule = m.Confidence, m.Rule
	}
	for i := range e.Properties {
		c.property(&e.Properties[i], place, e.Quote)
	}
	return place
}

// mention is the place of the kept mention of a label at a span, or -1.
func (c *chunk) mention(at span, label string) int {
	for i := len(c.out.Entities) - 1; i >= 0; i-- {
		if k := &c.out.Entities[i]; k.Start == at.start && k.End == at.end && k.Type == label {
			return i
		}
	}
	return -1
}

// said tells whether an item with the reasons of the one under check was said before: small models repeat themselves, and one item that is
// said twice is one. An item without a reason was not; equal ones are joined where they are kept.
func (c *chunk) said(item graph.CandidateItem) bool {
	if len(c.reasons) == 0 {
		return false
	}
	k := sameItem{item.Kind, item.Label, item.Text, item.SourceText, item.TargetText, item.Assertion, strings.Join(c.reasons, " "), item.Start, item.End}
	if c.before[k] {
		return true
	}
	if c.before == nil {
		c.before = map[sameItem]bool{}
	}
	c.before[k] = true
	return false
}

// sameItem is what makes two items that are not kept the same.
type sameItem struct {
	kind, label, text, source, target, assertion, reasons string
	start, end                                            int
}

// fullName returns the name that a short form stands for, where it is one.
func (c *chunk) fullName(of, name string) string {
	if of = collapse(of); of == name || !saneName(of) {
		return ""
	}
	return of
}

// orphans counts the properties of an entity that is not kept: their holder does not exist.
func (c *chunk) orphans(list []extract.Property) {
	for i := range list {
		c.count(graph.KindProperty, list[i].Name, valueText(list[i].Value), []string{graph.ReasonUnresolvedEndpoint}, false)
	}
}

// score checks a confidence against a cut and the floor; band is the reason between them.
func (c *chunk) score(s extract.Score, cut float64, band string) float64 {
	confidence, ok := s.Value(cut)
	switch {
	case !ok:
		c.fault(graph.ReasonBadConfidence)
	case confidence >= cut:
	case confidence >= c.cfg.Floor:
		c.fault(band)
	default:
		c.fault(graph.ReasonBelowFloor)
	}
	return confidence
}

// discard makes a candidate of the item under check, or only counts it.
func (c *chunk) discard(item graph.CandidateItem) {
	sample := item.Text
	if item.Kind == graph.KindRelation {
		sample = item.SourceText + " → " + item.TargetText
	}
	c.count(item.Kind, item.Label, sample, c.reasons, !drops(c.reasons))
	if c.noCandidates || drops(c.reasons) {
		return
	}
	item.Label = clip(item.Label, maxLabelRunes)
	item.SourceLabel, item.TargetLabel = clip(item.SourceLabel, maxLabelRunes), clip(item.TargetLabel, maxLabelRunes)
	item.SourceText, item.TargetText = clip(item.SourceText, maxTextRunes), clip(item.TargetText, maxTextRunes)
	if item.Kind != graph.KindProperty {
		item.Text = clip(item.Text, maxTextRunes)
	}
	item.Reasons = append([]string(nil), c.reasons...)
	item.Extractor = c.by
	c.out.Candidates = append(c.out.Candidates, item)
}

// locate returns the span of a name: the one given when it slices to the name, else where the name stands, inside the quote
// first. A quote that was given and stands nowhere is no evidence.
func (c *chunk) locate(name, quote string, given span) (span, bool) {
	whole := span{0, len(c.text)}
	if given.start >= 0 && given.start < given.end && given.end <= len(c.text) && same(c.text[given.start:given.end], name) {
		return given, true
	}
	if strings.TrimSpace(quote) != "" {
		q, ok := find(c.text, quote, whole)
		if !ok {
			return span{}, false
		}
		if at, ok := find(c.text, name, q); ok {
			return at, true
		}
	}
	return find(c.text, name, whole)
}

func saneName(name string) bool {
	if name == "" || len(name) > maxNameRunes*utf8.UTFMax || !utf8.ValidString(name) {
		return false
	}
	count, says := 0, false
	for _, r := range name {
		if count++; count > maxNameRunes || unicode.IsControl(r) {
			return false
		}
		says = says || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsSymbol(r)
	}
	return says
}

// clip cuts s to n runes, and makes it valid text.
func clip(s string, n int) string {
	if len(s) <= n && utf8.ValidString(s) {
		return s
	}
	count := 0
	for i := range s {
		if count == n {
			s = s[:i] + "…"
			break
		}
		count++
	}
	return strings.ToValidUTF8(s, "�")
}

func (c *chunk) shift(base int) {
	for i := range c.out.Entities {
		e := &c.out.Entities[i]
		e.Start, e.End = e.Start+base, e.End+base
		shiftAll(e.Properties, base)
	}
	for i := range c.out.Relations {
		r := &c.out.Relations[i]
		r.Start, r.End = r.Start+base, r.End+base
		shiftAll(r.Properties, base)
	}
	for i := range c.out.Candidates {
		k := &c.out.Candidates[i]
		k.Start, k.End = k.Start+base, k.End+base
	}
}

func shiftAll(list []graph.PropertyItem, base int) {
	for i := range list {
		list[i].Start, list[i].End = list[i].Start+base, list[i].End+base
	}
}

// end is one end of a relation: a kept mention, or a text.
type end struct {
	place       int // among the kept mentions, or -1
	text, label string
	at          span
	found       bool // at is where the text stands
}

// key is what makes two ends of one label the same entity.
func (c *chunk) key(place int) string {
	e := &c.out.Entities[place]
	if e.Of != "" {
		return fingerprint.Fold(e.Of)
	}
	return fingerprint.Fold(e.Name)
}

func (c *chunk) selfLoop(a, b int) bool {
	if a == b {
		return true
	}
	return c.out.Entities[a].Type == c.out.Entities[b].Type && c.key(a) == c.key(b)
}

// around is the evidence of a relation that came without a quote.
func (c *chunk) around(at span) span {
	lo, hi := prose.Around(c.text, at.start, at.end)
	return span{lo, hi}
}
