package query

import (
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxSameWord is how many entities with one word in their names are compared with a name that no index has.
const maxSameWord = 5000

// named finds an entity by name, and by type when label is not empty. Names are tried folded, then without a dot at the end or
// with one (Acme Ltd, Acme Ltd.), then by what CNorm leaves of them (accents, hyphens and a leading article do not count). Each
// time merge keys come before aliases (names that a mention was written with), and the type itself before types below it; a
// name that several have alike is refused.
func (v *view) named(label, name string) (store.EntityFold, error) {
	if canon, ok := v.schema.Canon(schema.KindEntity, label); ok {
		label = canon
	}
	var others []store.NamedEntity // of the name, of another type
	for _, form := range forms(name) {
		if label != "" && !v.sn.limited() { // then only the names inside count
			e, ok, err := v.sn.Entity(fingerprint.EntityID(label, form))
			if err == nil && ok {
				_, ok, err = v.sn.ToldApart(e.ID) // then it is one of several
				ok = !ok
			}
			if err != nil || ok {
				return e, err
			}
		}
		hits, err := v.sn.EntitiesNamed(form)
		if err != nil {
			return store.EntityFold{}, err
		}
		e, ok, err := v.one(label, name, hits)
		if err != nil || ok {
			return e, err
		}
		others = append(others, hits...)
	}
	hits, err := v.sameWords(name)
	if err != nil {
		return store.EntityFold{}, err
	}
	e, ok, err := v.one(label, name, hits)
	if err != nil || ok {
		return e, err
	}
	return store.EntityFold{}, unnamed(label, name, append(others, hits...))
}

// forms are the folded names under which an entity may be called name.
func forms(name string) []string {
	folded := fingerprint.Fold(name)
	bare := strings.TrimRight(folded, ". ")
	switch bare {
	case "":
		return []string{folded}
	case folded:
		return []string{folded, folded + "."}
	default:
		return []string{folded, bare}
	}
}

// one is the entity that the best of the hits name, if one does.
func (v *view) one(label, name string, hits []store.NamedEntity) (e store.EntityFold, ok bool, err error) {
	for _, admit := range []func(store.NamedEntity) bool{
		func(n store.NamedEntity) bool { return n.Full && v.isA(n.Label, label, true) },
		func(n store.NamedEntity) bool { return v.isA(n.Label, label, true) },
		func(n store.NamedEntity) bool { return v.isA(n.Label, label, false) },
	} {
		var found []store.NamedEntity
		for _, h := range hits {
			if admit(h) {
				found = append(found, h)
			}
		}
		if len(found) > 1 {
			return e, false, v.ambiguous(name, found)
		}
		if len(found) == 1 {
			return v.sn.Entity(found[0].ID)
		}
	}
	return e, false, nil
}

// sameWords lists the entities with a name that differs from name in what CNorm drops only, of those that share one of its
// rarer words.
func (v *view) sameWords(name string) ([]store.NamedEntity, error) {
	want := fingerprint.CNorm(name)
	ids, err := v.withWords(lexical.QueryTerms(want+" "+name, maxQueryTerms))
	if err != nil {
		return nil, err
	}
	var out []store.NamedEntity
	for _, id := range ids {
		e, ok, err := v.sn.Entity(id)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if fingerprint.CNorm(e.Key) == want {
			out = append(out, store.NamedEntity{Name: e.Key, ID: id, Label: e.Label, Full: true})
			continue
		}
		if i := slices.IndexFunc(e.Names, func(n store.NameCount) bool { return fingerprint.CNorm(n.Name) == want }); i >= 0 {
			out = append(out, store.NamedEntity{Name: fingerprint.Fold(e.Names[i].Name), ID: id, Label: e.Label})
		}
	}
	return out, nil
}

// withWords lists entities that have one of the words in a name, at most maxSameWord, those of rare words first. A word that is
// more common than that is passed over.
func (v *view) withWords(terms []string) ([]string, error) {
	var lists []map[string]bool
	for _, t := range terms {
		ids := map[string]bool{}
		err := v.sn.NamePostings(t, func(id string) error {
			if ids[id] = true; len(ids) > maxSameWord {
				return store.ErrStop
			}
			return v.tick()
		})
		if err != nil {
			return nil, err
		}
		if len(ids) <= maxSameWord {
			lists = append(lists, ids)
		}
	}
	slices.SortStableFunc(lists, func(a, b map[string]bool) int { return len(a) - len(b) })
	all := map[string]bool{}
	for _, ids := range lists {
		if len(all)+len(ids) > maxSameWord {
			break
		}
		maps.Copy(all, ids)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// isA says whether an entity's label is the one asked for ("": any); unless exact, one below it will do.
func (v *view) isA(label, wanted string, exact bool) bool {
	if wanted == "" || label == wanted {
		return true
	}
	if exact {
		return false
	}
	for _, l := range v.labels(label) {
		if l == wanted {
			return true
		}
	}
	return false
}

func (v *view) ambiguous(name string, found []store.NamedEntity) error {
	const most = 20
	list := make([]map[string]any, 0, min(len(found), most))
	apart := ""
	for _, f := range found[:min(len(found), most)] {
		one := map[string]any{"id": f.ID, "type": f.Label, "name": f.Name}
		e, _, err := v.sn.Entity(f.ID)
		if err != nil {
			return err
		}
		h, err := v.homonym(e)
		if err != nil {
			return err
		}
		if h != nil {
			one["homonym"] = h
			if apart += "\n  " + f.ID + "  "; h.Undecided {
				apart += "undecided"
			} else {
				apart += clip(h.Property + " " + schema.ValueText(h.Value))
			}
		}
		list = append(list, one)
	}
	e := badValue("%d entities are named %q: give the type or the id%s", len(found), clip(name), apart)
	e.Details = map[string]any{"entities": list, "total": len(found)}
	return e
}

// unnamed says that no entity of the type has the name, and which types have it.
func unnamed(label, name string, others []store.NamedEntity) error {
	if label == "" {
		return api.Errorf(404, "entity_not_found", "no entity is named %q", clip(name))
	}
	var types []string
	for _, o := range others {
		types = append(types, o.Label)
	}
	slices.Sort(types)
	if types = slices.Compact(types); len(types) == 0 {
		return api.Errorf(404, "entity_not_found", "no %s is named %q", clip(label), clip(name))
	}
	return api.Errorf(404, "entity_not_found", "no %s is named %q, but there is one of type %s", clip(label), clip(name), strings.Join(types, ", "))
}
