package schema

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// finish computes what is made of the whole schema: fingerprints and the complete form.
func (b *builder) finish() {
	s := b.schema
	s.fingerprint = fingerprintOf(b.report, s.shape())
	s.rulesFP = fingerprintOf(b.report, s.rules)
	s.reviewFP = fingerprintOf(b.report, s.review)
	s.descriptions = s.describe()
	raw, err := fingerprint.Canonical(s.complete())
	if err != nil {
		b.add("", "%v", err)
	}
	if len(raw) > maxBytes {
		b.add("", "the complete schema has %d bytes, the limit is %d", len(raw), maxBytes)
	}
	s.marshalled = raw
}

// shape is what the schema fingerprint covers, as the contract writes it down.
func (s *Schema) shape() any {
	type property struct {
		Type     Type  `json:"type"`
		Required bool  `json:"required"`
		Enum     []any `json:"enum"`
	}
	type entity struct {
		Label      string              `json:"label"`
		Parents    []string            `json:"parents"`
		Properties map[string]property `json:"properties"`
	}
	type relation struct {
		Label       string         `json:"label"`
		Patterns    [][2]string    `json:"patterns"`
		Cardinality map[string]any `json:"cardinality"`
		Symmetric   bool           `json:"symmetric"`
	}
	shape := struct {
		Entities  []entity   `json:"entities"`
		Relations []relation `json:"relations"`
	}{[]entity{}, []relation{}}
	for _, e := range s.entities {
		out := entity{e.Label, append([]string{}, e.Parents...), map[string]property{}}
		for _, p := range e.Properties {
			out.Properties[p.Name] = property{p.Type, p.Required, enumValues(p)}
		}
		shape.Entities = append(shape.Entities, out)
	}
	for _, r := range s.relations {
		out := relation{r.Label, [][2]string{}, cardinality(r.Cardinality), r.Symmetric}
		for _, p := range r.Patterns {
			out.Patterns = append(out.Patterns, [2]string{p.Source, p.Target})
		}
		shape.Relations = append(shape.Relations, out)
	}
	return shape
}

func cardinality(c Cardinality) map[string]any {
	bound := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}
	return map[string]any{"max_per_source": bound(c.MaxPerSource), "max_per_target": bound(c.MaxPerTarget)}
}

// enumValues returns an enum as JSON has it: numbers as numbers; nil without one.
func enumValues(p Property) []any {
	if p.Enum == nil {
		return nil
	}
	out := make([]any, len(p.Enum))
	for i, text := range p.Enum {
		if p.Type == TypeInteger || p.Type == TypeFloat {
			out[i] = json.Number(text)
		} else {
			out[i] = text
		}
	}
	return out
}

// complete is the schema in its own grammar, with nothing left to extend; defaults are left out.
func (s *Schema) complete() map[string]any {
	entities := map[string]any{}
	for _, e := range s.entities {
		out := map[string]any{}
		put(out, "description", e.Description, e.Description != "")
		put(out, "parents", e.Parents, len(e.Parents) > 0)
		put(out, "properties", completeProperties(e.Properties), len(e.Properties) > 0)
		entities[e.Label] = out
	}
	relations := map[string]any{}
	for _, r := range s.relations {
		out := map[string]any{}
		patterns := make([]string, len(r.Patterns))
		for i, p := range r.Patterns {
			patterns[i] = p.Source + "->" + p.Target
		}
		put(out, "patterns", patterns, true)
		put(out, "description", r.Description, r.Description != "")
		put(out, "cardinality", cardinality(r.Cardinality), r.Cardinality != Cardinality{})
		put(out, "symmetric", true, r.Symmetric)
		put(out, "self", true, r.Self)
		put(out, "inverse", r.Inverse, len(r.Inverse) > 0)
		put(out, "properties", completeProperties(r.Properties), len(r.Properties) > 0)
		relations[r.Label] = out
	}
	out := map[string]any{
		"name": s.name, "version": s.version, "entities": entities, "relations": relations, "review": s.review,
	}
	put(out, "description", s.description, s.description != "")
	put(out, "rules", s.rules, len(s.rules.Entities)+len(s.rules.Relations) > 0)
	return out
}

func completeProperties(list []Property) map[string]any {
	out := make(map[string]any, len(list))
	for _, p := range list {
		spec := map[string]any{"type": p.Type}
		put(spec, "description", p.Description, p.Description != "")
		put(spec, "required", true, p.Required)
		put(spec, "enum", enumValues(p), p.Enum != nil)
		put(spec, "merge", p.Merge, p.Merge != MergeMostSupported)
		put(spec, "identifies", true, p.Identifies)
		put(spec, "sensitive", true, p.Sensitive)
		out[p.Name] = spec
	}
	return out
}

func put(m map[string]any, key string, value any, when bool) {
	if when {
		m[key] = value
	}
}

// describe is what extraction reads beside the shape.
func (s *Schema) describe() any {
	entities := map[string]any{}
	for _, e := range s.entities {
		out := map[string]any{}
		put(out, "description", e.Description, e.Description != "")
		texts := map[string]string{}
		for _, p := range e.Properties {
			if p.Description != "" {
				texts[p.Name] = p.Description
			}
		}
		put(out, "properties", texts, len(texts) > 0)
		put(entities, e.Label, out, len(out) > 0)
	}
	relations := map[string]any{}
	for _, r := range s.relations {
		out := map[string]any{}
		put(out, "description", r.Description, r.Description != "")
		put(out, "inverse", r.Inverse, len(r.Inverse) > 0)
		put(out, "self", true, r.Self)
		props := map[string]any{}
		for _, p := range r.Properties {
			spec := map[string]any{"type": p.Type, "required": p.Required, "enum": enumValues(p)}
			put(spec, "description", p.Description, p.Description != "")
			props[p.Name] = spec
		}
		put(out, "properties", props, len(props) > 0)
		put(relations, r.Label, out, len(out) > 0)
	}
	return map[string]any{"entities": entities, "relations": relations}
}
