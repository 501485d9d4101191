package hybrid

import (
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/model"
)

// merge puts what the rules found and what the model said of one chunk together. Where both name a thing, the model's declared label
// and its properties win, and the rule's span and confidence stay. Nothing that only the rules found is lost.
func merge(s *schema.Schema, found, said extract.Items) extract.Items {
	out := found
	byName := map[string][]int{}
	for i := range out.Entities {
		k := fingerprint.Fold(out.Entities[i].Name)
		byName[k] = append(byName[k], i)
	}
	for _, e := range said.Entities {
		both := byName[fingerprint.Fold(e.Name)]
		if len(both) == 0 {
			e.By = model.Name
			out.Entities = append(out.Entities, e)
			continue
		}
		if label, ok := s.Canon(schema.KindEntity, e.Type); ok {
			for _, i := range both {
				out.Entities[i].Type = label
			}
		}
		// One mention of a name is enough to state a property of it.
		i := both[0]
		out.Entities[i].Properties = properties(out.Entities[i].Properties, e.Properties)
	}
	known := map[[3]string]int{}
	for i := range out.Relations {
		known[relationKey(s, out, out.Relations[i])] = i
	}
	for _, r := range said.Relations {
		if i, ok := known[relationKey(s, out, r)]; ok {
			out.Relations[i].Properties = properties(out.Relations[i].Properties, r.Properties)
			continue
		}
		r.By = model.Name
		out.Relations = append(out.Relations, r)
	}
	out.Incomplete = found.Incomplete || said.Incomplete
	return out
}

// properties are those of the rules with those of the model in their place.
func properties(found, said []extract.Property) []extract.Property {
	if len(said) == 0 {
		return found
	}
	names := map[string]bool{}
	for _, p := range said {
		names[schema.FoldLabel(p.Name)] = true
	}
	var out []extract.Property
	for _, p := range found {
		if !names[schema.FoldLabel(p.Name)] {
			out = append(out, p)
		}
	}
	return append(out, said...)
}

// relationKey is what makes two relations of a chunk the same.
func relationKey(s *schema.Schema, it extract.Items, r extract.Relation) [3]string {
	label, swapped, ok := s.CanonRelation(r.Type)
	if !ok {
		label = r.Type
	}
	name := func(place int, text string) string {
		if place >= 0 && place < len(it.Entities) {
			text = it.Entities[place].Name
		}
		return fingerprint.Fold(text)
	}
	a, b := name(r.Source, r.SourceName), name(r.Target, r.TargetName)
	if rel, ok := s.Relation(label); swapped || ok && rel.Symmetric && b < a {
		a, b = b, a
	}
	return [3]string{label, a, b}
}
