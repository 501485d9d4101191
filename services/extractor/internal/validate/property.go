package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// property checks one property of the kept mention at place.
func (c *chunk) property(p *extract.Property, place int, quote string) {
	holder := &c.out.Entities[place]
	prop, declared := c.schema.Property(holder.Type, p.Name)
	item, ok := c.checkProperty(p, prop, declared, holder.Name, holder.Type, span{holder.Start, holder.End}, holder.Confidence, quote)
	if ok {
		holder = &c.out.Entities[place]
		holder.Properties = withProperty(holder.Properties, item)
	}
}

func (c *chunk) relationProperties(r *extract.Relation, place int) {
	rel := &c.out.Relations[place]
	for i := range r.Properties {
		p := &r.Properties[i]
		prop, declared := c.schema.RelationProperty(rel.Type, p.Name)
		holder := c.out.Entities[rel.Source].Name + " → " + c.out.Entities[rel.Target].Name
		item, ok := c.checkProperty(p, prop, declared, holder, rel.Type, span{rel.Start, rel.End}, rel.Confidence, "")
		if ok {
			rel.Properties = withProperty(rel.Properties, item)
		}
	}
}

// withProperty adds a value, or joins it with an equal one.
func withProperty(list []graph.PropertyItem, item graph.PropertyItem) []graph.PropertyItem {
	for i := range list {
		k := &list[i]
		if k.Name == item.Name && k.Start == item.Start && k.End == item.End && reflect.DeepEqual(k.Value, item.Value) {
			k.Confidence = max(k.Confidence, item.Confidence)
			return list
		}
	}
	return append(list, item)
}

// checkProperty returns the typed value, or makes a candidate of it. at is the evidence of the holder, for a value that is not
// written as such.
func (c *chunk) checkProperty(p *extract.Property, prop schema.Property, declared bool, holder, holderLabel string, at span,
	holderConfidence float64, quote string) (graph.PropertyItem, bool) {
	c.reasons = c.reasons[:0]
	name := p.Name
	text := valueText(p.Value)
	var value any
	if !declared {
		c.fault(graph.ReasonUndeclaredProperty)
	} else {
		name = prop.Name
		var err error
		value, err = schema.ParseValue(prop, p.Value)
		switch {
		case errors.Is(err, schema.ErrNotInEnum):
			c.fault(graph.ReasonNotInEnum)
		case err != nil:
			c.fault(graph.ReasonBadValue)
		}
	}
	confidence, ok := p.Confidence.Value(holderConfidence)
	if !ok {
		c.fault(graph.ReasonBadConfidence)
	}
	where, ok := c.valueSpan(p, prop, text, quote, at)
	if !ok {
		if where = at; len(c.reasons) == 0 {
			c.fault(graph.ReasonNoEvidence)
		}
	}
	if ok && c.by != byRules && c.instructed(where) {
		c.fault(graph.ReasonInstruction)
	}
	if len(c.reasons) == 0 && len(c.manual) > 0 {
		it := item{kind: graph.KindProperty, label: name, assertion: Explicit, confidence: confidence, sensitive: prop.Sensitive}
		qualified := it
		qualified.label = holderLabel + "." + name
		if c.asks(it) || c.asks(qualified) {
			c.fault(graph.ReasonPolicy)
		}
	}
	if len(c.reasons) > 0 {
		if text = strings.ToValidUTF8(text, "\uFFFD"); utf8.RuneCountInString(text) > maxValueRunes {
			c.fault(graph.ReasonLimit)
		}
		out := graph.CandidateItem{
			Kind: graph.KindProperty, Label: name, Text: text, SourceText: holder, SourceLabel: holderLabel,
			Confidence: confidence, Start: where.start, End: where.end,
		}
		if c.said(out) {
			return graph.PropertyItem{}, false
		}
		if !drops(c.reasons) && len(c.out.Candidates) > c.cfg.MaxEntities+c.cfg.MaxRelations {
			c.fault(graph.ReasonLimit)
			c.out.State = graph.Incomplete
		}
		c.discard(out)
		return graph.PropertyItem{}, false
	}
	return graph.PropertyItem{Name: name, Value: value, Start: where.start, End: where.end, Confidence: confidence}, true
}

// valueSpan finds where a value is written: as it was given, as a number with commas, as the year of a date. An enum value or a
// truth value need not be written; its evidence is the quote.
func (c *chunk) valueSpan(p *extract.Property, prop schema.Property, text, quote string, holder span) (span, bool) {
	if p.Start >= 0 && p.Start < p.End && p.End <= len(c.text) {
		return span{p.Start, p.End}, true
	}
	whole := span{0, len(c.text)}
	in := whole
	if strings.TrimSpace(quote) != "" {
		if q, ok := find(c.text, quote, whole); ok {
			in = q
		}
	}
	forms := valueForms(prop, p.Value, text)
	for _, area := range []span{in, whole} {
		for _, form := range forms {
			if at, ok := find(c.text, form, area); ok {
				return at, true
			}
		}
	}
	if (prop.Enum != nil || prop.Type == schema.TypeBoolean) && in != whole {
		return in, true
	}
	if prop.Type == schema.TypeBoolean { // yes and no are seldom written: the sentence about the holder
		return c.around(holder), true
	}
	return span{}, false
}

// valueForms are the ways in which a value may be written.
func valueForms(prop schema.Property, raw any, text string) []string {
	forms := []string{text}
	v, err := schema.ParseValue(prop, raw)
	if err == nil {
		if canon := schema.ValueText(v); canon != text {
			forms = append(forms, canon)
		}
	}
	for _, f := range forms {
		if grouped := group(f); grouped != f {
			forms = append(forms, grouped)
		}
	}
	if prop.Type == schema.TypeDate && err == nil {
		if day, perr := time.Parse(time.DateOnly, schema.ValueText(v)); perr == nil {
			for _, layout := range dateLayouts {
				forms = append(forms, day.Format(layout))
			}
			if day.Month() == time.January && day.Day() == 1 { // a year alone
				forms = append(forms, day.Format("2006"))
			}
		}
	}
	return forms
}

// dateLayouts are the ways in which a day is written.
var dateLayouts = []string{
	"2 January 2006", "January 2, 2006", "January 2 2006", "2 Jan 2006", "Jan 2, 2006", "02 January 2006", "January 02, 2006", "2. January 2006",
	"2.1.2006", "02.01.2006", "2/1/2006", "02/01/2006", "1/2/2006", "01/02/2006", "2006/01/02", "2 January, 2006", "Monday 2 January 2006",
}

// group writes a whole number with commas between thousands.
func group(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1000 {
		return text
	}
	digits := strconv.FormatInt(n, 10)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}

// valueText is a raw value as a person reads it.
func valueText(raw any) string {
	switch x := raw.(type) {
	case string:
		return collapse(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case nil:
		return "null"
	}
	if b, err := json.Marshal(raw); err == nil {
		return clip(string(b), maxValueRunes)
	}
	return clip(fmt.Sprint(raw), maxValueRunes)
}
