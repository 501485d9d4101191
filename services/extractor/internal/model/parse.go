package model

import (
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// Parse reads a reply: thoughts, fences and prose around the JSON are taken off, known variants of its shape are mapped. Several
// values that have the shape of an answer are one: what a later one says of an item takes the place of what an earlier one said of it. The error is an *llm.ReplyError.
// Nothing in a reply is believed: what an item is worth is the validator's to say.
func Parse(raw string) (extract.Items, error) {
	var out answer
	err := llm.Read(raw, answerKeys, func(v any) error {
		a, err := shape(v)
		if err == nil {
			out.entities = later(out.entities, a.entities, entityKey)
			out.relations = later(out.relations, a.relations, relationKey)
		}
		return err
	})
	if err != nil {
		return extract.Items{}, err
	}
	return items(out)
}

// answer is a reply in its own shape: lists of objects.
type answer struct{ entities, relations []object }

// later puts the items of a later value behind those of the earlier ones, and in the place of what was said of the same before.
func later(before, now []object, key func(object) string) []object {
	if len(before) == 0 || len(now) == 0 {
		return append(before, now...)
	}
	said := map[string]bool{}
	for _, o := range now {
		said[key(o)] = true
	}
	before = slices.DeleteFunc(before, func(o object) bool { k := key(o); return k != "" && said[k] })
	return append(before, now...)
}

func entityKey(o object) string {
	if name := text(o, nameKeys...); name != "" {
		return fingerprint.Fold(name)
	}
	return scalar(o["id"])
}

func relationKey(o object) string {
	ids := byID{}
	return strings.Join([]string{fingerprint.Fold(ids.end(o, sourceKeys)), fingerprint.Fold(ids.end(o, targetKeys)), schema.FoldLabel(text(o, relationKeys...))}, "\x00")
}

// Names under which the parts of a reply are known.
var (
	entitiesKeys  = []string{"entities", "nodes", "entity"}
	relationsKeys = []string{"relations", "relationships", "edges", "triples", "relation"}
	nameKeys      = []string{"name", "entity_name", "entity", "text", "mention"}
	typeKeys      = []string{"type", "entity_type", "label", "category", "class"}
	sourceKeys    = []string{"source", "subject", "from", "head", "source_entity", "source_name"}
	targetKeys    = []string{"target", "object", "to", "tail", "target_entity", "target_name"}
	relationKeys  = []string{"type", "relation", "predicate", "relationship", "relation_type", "label"}
	quoteKeys     = []string{"quote", "evidence", "span"}
	scoreKeys     = []string{"confidence", "score", "probability"}
	answerKeys    = slices.Concat(entitiesKeys, relationsKeys, nameKeys)
)

// shape recognises an answer.
func shape(v any) (answer, error) {
	switch v := v.(type) {
	case []any:
		// A bare list is one of entities, or of relations when its items have ends.
		list, err := objects("the reply", v)
		if err != nil {
			return answer{}, err
		}
		if len(list) == 0 {
			return answer{}, llm.Bad(llm.CodeInvalid, "the reply is an empty list, not an object with entities and relations")
		}
		if llm.First(list[0], sourceKeys...) != nil && llm.First(list[0], targetKeys...) != nil {
			return answer{relations: list}, nil
		}
		return answer{entities: list}, nil
	case object:
		v, err := llm.Answering(v)
		if err != nil {
			return answer{}, err
		}
		var a answer
		es, rs := every(v, entitiesKeys), every(v, relationsKeys)
		if es == nil && rs == nil {
			// One level of wrapping, as in {"result": {...}}.
			for _, k := range llm.Sorted(v) {
				if in, ok := v[k].(object); ok && (llm.First(in, entitiesKeys...) != nil || llm.First(in, relationsKeys...) != nil) {
					return shape(in)
				}
			}
			return answer{}, llm.Bad(llm.CodeInvalid, "the reply has neither entities nor relations")
		}
		if a.entities, err = objects("entities", es); err != nil {
			return answer{}, err
		}
		if a.relations, err = objects("relations", rs); err != nil {
			return answer{}, err
		}
		return a, nil
	}
	return answer{}, llm.Bad(llm.CodeInvalid, "the reply is a %T, not an object", v)
}

// every is what stands under the names of one part: of several lists one.
func every(o object, keys []string) any {
	var all []any
	for _, k := range keys {
		if v := o[k]; v != nil {
			all = append(all, v)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return llm.Joined(all...)
}

// objects makes a list of objects of what stands for one. What is no object in it becomes an empty one, which the validator counts.
func objects(what string, v any) ([]object, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case object:
		return []object{llm.Lowered(v)}, nil
	case []any:
		out := make([]object, 0, len(v))
		for _, x := range v {
			switch x := x.(type) {
			case object:
				out = append(out, llm.Lowered(x))
			case string:
				out = append(out, object{"name": x})
			default:
				out = append(out, object{})
			}
		}
		return out, nil
	}
	return nil, llm.Bad(llm.CodeInvalid, "%s is a %T, not a list", what, v)
}

// items makes raw items of an answer. A list of entities of which none has a type is not an answer to what was asked.
func items(a answer) (extract.Items, error) {
	var out extract.Items
	typed := len(a.entities) == 0
	ids := identified(a.entities)
	for _, o := range a.entities {
		e := extract.Entity{Name: text(o, nameKeys...), Start: -1, Quote: text(o, quoteKeys...), Confidence: score(o), Properties: properties(o)}
		e.Type, typed = kind(o, &typed, typeKeys...)
		out.Entities = append(out.Entities, e)
	}
	if !typed {
		return extract.Items{}, llm.Bad(llm.CodeInvalid, "no entity of the reply has a type")
	}
	for _, o := range a.relations {
		r := extract.Relation{
			Source: -1, Target: -1, SourceName: ids.end(o, sourceKeys), TargetName: ids.end(o, targetKeys), Start: -1,
			Quote: text(o, quoteKeys...), Confidence: score(o), Assertion: assertion(o),
			Properties: properties(o),
		}
		r.Type, _ = kind(o, new(bool), relationKeys...)
		out.Relations = append(out.Relations, r)
	}
	out.Incomplete = len(out.Entities) >= maxItems || len(out.Relations) >= maxItems
	return out, nil
}

// byID are the names of entities that relations know by an id.
type byID map[string]string

// identified names entities that have an id and no name, as in nodes of {id, label}: by their label when they have a type besides, else by
// the id; and returns who has which id. An id that is another's name is that name.
func identified(entities []object) byID {
	ids, names := byID{}, map[string]bool{}
	for _, o := range entities {
		id, label := scalar(o["id"]), text(o, "label")
		_, number := o["id"].(json.Number)
		switch {
		case id == "" || text(o, nameKeys...) != "":
		case text(o, typeKeys[0], typeKeys[1]) != "" && label != "":
			o["name"] = label
		case !number:
			o["name"] = id
		}
		name := text(o, nameKeys...)
		names[name] = true
		if id != "" && name != "" {
			ids[id] = name
		}
	}
	for id := range ids {
		if names[id] {
			delete(ids, id)
		}
	}
	return ids
}

// end is the name of an end.
func (ids byID) end(o object, keys []string) string {
	name := text(o, keys...)
	if name == "" {
		name = scalar(llm.First(o, keys...))
	}
	if known, ok := ids[name]; ok {
		return known
	}
	return name
}

// scalar is a text or a number as text.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return norm.NFKC.String(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// assertion is the kind as it was given; what is no text is no kind that anybody admits.
func assertion(o object) string {
	switch v := o["assertion"].(type) {
	case nil:
		return ""
	case string:
		return strings.ToLower(strings.TrimSpace(v))
	}
	return "malformed"
}

// Unknown is the label of an item that came without a type.
const Unknown = "unknown"

// kind is an item's type; of one that fits no declared type, its kind. typed becomes true when there is one.
func kind(o object, typed *bool, keys ...string) (string, bool) {
	t := text(o, keys...)
	if strings.EqualFold(t, Other) {
		t = first1(text(o, "kind"), Other)
	}
	if t == "" {
		return Unknown, *typed
	}
	return t, true
}

func first1(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

// text is the first of the keys whose value is a text.
func text(o object, keys ...string) string {
	for _, k := range keys {
		switch v := o[k].(type) {
		case string:
			return norm.NFKC.String(v) // as the text is
		case object:
			if s, ok := v["name"].(string); ok {
				return norm.NFKC.String(s)
			}
		}
	}
	return ""
}

// score is the confidence as it was given: absent is unscored, null is not a number.
func score(o object) extract.Score {
	for _, k := range scoreKeys {
		if v, ok := o[k]; ok {
			return extract.ScoreOf(v)
		}
	}
	return extract.Score{}
}

// properties are those of an item: an object, or a list of names and values. Anything else is one property that no schema has.
func properties(o object) []extract.Property {
	var out []extract.Property
	add := func(name string, v any) {
		if s, ok := v.(string); ok {
			v = norm.NFKC.String(s)
		}
		if v != nil && v != "" { // a format that names all properties makes models fill in nothing
			out = append(out, extract.Property{Name: name, Value: v, Start: -1})
		}
	}
	switch p := o["properties"].(type) {
	case nil:
	case object:
		for _, name := range llm.Sorted(p) {
			add(name, p[name])
		}
	case []any:
		for _, x := range p {
			if one, ok := x.(object); ok && text(one, "name", "key", "property") != "" {
				add(text(one, "name", "key", "property"), llm.First(one, "value"))
			} else {
				add("properties", x)
			}
		}
	default:
		add("properties", p)
	}
	return out
}
