package candidates

import (
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// flat are the fields of an edit one by one: span, endpoints, source, target, properties and matched_entity are taken apart. A field that
// is said twice is refused.
func flat(kind string, fields map[string]any) (map[string]any, error) {
	out := map[string]any{}
	put := func(name string, v any) error {
		if _, twice := out[name]; twice {
			return api.Errorf(400, "bad_value", "set: %.40s is said twice", name)
		}
		out[name] = v
		return nil
	}
	inside := func(name string, v any, fn func(name string, v any) error) error {
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 {
			return api.Errorf(400, "bad_value", "set: %.40s must be an object of fields", name)
		}
		for _, k := range sortedKeys(m) {
			if err := fn(k, m[k]); err != nil {
				return err
			}
		}
		return nil
	}
	side := func(name string, v any) error {
		return inside(name, v, func(k string, v any) error { return put(name+"_"+k, v) })
	}
	for _, name := range sortedKeys(fields) {
		v := fields[name]
		var err error
		switch {
		case name == "type":
			err = put("label", v)
		case name == "name" && kind == graph.KindEntity, name == "value" && kind == graph.KindProperty:
			err = put("text", v)
		case name == "matched_entity" && kind == graph.KindEntity:
			err = put("entity", v)
		case (name == "source" || name == "target") && kind != graph.KindEntity:
			err = side(name, v)
		case name == "endpoints" && kind != graph.KindEntity:
			err = inside(name, v, side)
		case name == "span":
			if pair, ok := v.([]any); ok && len(pair) == 2 {
				v = map[string]any{"start": pair[0], "end": pair[1]}
			}
			err = inside(name, v, put)
		case name == "properties" && kind == graph.KindProperty:
			if m, _ := v.(map[string]any); len(m) != 1 {
				return nil, api.Errorf(400, "bad_value", "set: properties must be an object of one property and its value")
			}
			err = inside(name, v, func(k string, v any) error {
				if err := put("label", k); err != nil {
					return err
				}
				return put("text", v)
			})
		default:
			err = put(name, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// quoted moves the evidence to where a quote stands, in the chunk where it was before any other. With offsets too it must stand there.
func (e *editor) quoted(v any, offsets bool) error {
	quote, _ := v.(string)
	if strings.TrimSpace(quote) == "" || len(quote) > maxField {
		return api.Errorf(400, "bad_value", "set: quote must be a piece of the document's text, of at most %d bytes", maxField)
	}
	n := &e.now
	if offsets {
		if n.Start < 0 || n.Start > n.End || n.End > len(e.text) || e.text[n.Start:n.End] != quote {
			return api.Errorf(400, "bad_value", "set: quote is not what stands at %d to %d of the document's text", n.Start, n.End)
		}
		return nil
	}
	if n.Chunk >= 0 && n.Chunk < len(e.chunks) {
		if _, start, end, ok := store.FindQuote(e.text, []graph.Chunk{e.chunks[n.Chunk]}, quote); ok {
			n.Start, n.End = start, end
			return nil
		}
	}
	chunk, start, end, ok := store.FindQuote(e.text, e.chunks, quote)
	if !ok {
		return api.Errorf(400, "bad_value", "set: quote %.80q is not in the document's text", quote)
	}
	n.Chunk, n.Start, n.End = chunk, start, end
	return nil
}

// fits refuses what can never become a fact of the active schema although that declares its label: a relation between types that its
// patterns do not join, and a value that is none of its property's. What was so before the edit, and came to review for it, may stay so.
func (e *editor) fits(was graph.Candidate) error {
	why, err := e.breaks(e.now)
	if err != nil || why == "" {
		return err
	}
	if before, err := e.breaks(was); err != nil || before == why {
		return err
	}
	return api.Errorf(400, "bad_value", "set: %s", why)
}

// breaks says how a candidate breaks the schema; "" it does not, or the schema does not declare what it speaks of.
func (e *editor) breaks(c graph.Candidate) (string, error) {
	switch c.Kind {
	case graph.KindRelation:
		label, swapped, ok := e.schema.CanonRelation(c.Label)
		if !ok {
			return "", nil
		}
		source, err := e.side(end{c.SourceText, c.SourceLabel, c.SourceEntity})
		if err != nil {
			return "", err
		}
		target, err := e.side(end{c.TargetText, c.TargetLabel, c.TargetEntity})
		if err != nil {
			return "", err
		}
		if swapped {
			source, target = target, source
		}
		switch {
		case source.label != "" && target.label != "" && !e.schema.Allows(label, source.label, target.label):
			return "the schema has no pattern " + label + " " + source.label + "->" + target.label, nil
		case source.entity != "" && source.entity == target.entity && !e.schema.SelfAllowed(label):
			return "the schema lets no " + label + " go from a thing to itself", nil
		}
	case graph.KindProperty:
		holder, err := e.side(end{c.SourceText, c.SourceLabel, c.SourceEntity})
		if err != nil || holder.label == "" {
			return "", err
		}
		spec, ok := e.schema.Property(holder.label, c.Label)
		if !ok {
			return "", nil
		}
		if _, err := schema.ParseValue(spec, c.Text); err != nil {
			return "value: " + err.Error(), nil
		}
	}
	return "", nil
}

// side is the entity of an end, where it is one, and its type, where the schema declares it.
func (e *editor) side(x end) (answer, error) {
	a, err := e.ends.find(x)
	if err != nil || a.entity != "" {
		return a, err
	}
	label, _ := e.schema.Canon(schema.KindEntity, x.label)
	return answer{label: label}, nil
}
