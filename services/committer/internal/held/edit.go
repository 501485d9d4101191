package held

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// sendBack applies edits to what the job's documents state. All of them or none: they are checked as an extraction is, against the schema
// that the job was read with and the text, and the whole job is applied with them once before anything is written.
func (w *decision) sendBack(hooks jobs.Hooks) error {
	return w.d.deps.Jobs.Edit(w.ctx, w.graph, w.job, hooks, func() (map[string]*events.Resolved, error) {
		return w.edited()
	}, func(a jobs.Applied) (err error) {
		w.reply.Planned, err = w.d.plan(w.ctx, w.graph, a, refusalBudget)
		return err
	})
}

// edited makes the edited documents, by token, and says in the record what was and what is.
func (w *decision) edited() (map[string]*events.Resolved, error) {
	byDoc := map[string][]api.JobEdit{}
	for _, e := range w.req.Edits {
		byDoc[e.Document] = append(byDoc[e.Document], e)
	}
	keys := slices.Sorted(maps.Keys(byDoc))
	docs, err := w.d.deps.Jobs.Read(w.ctx, w.graph, w.job, keys)
	if err != nil {
		return nil, err
	}
	out := map[string]*events.Resolved{}
	var was, now []any
	for i, doc := range docs {
		if doc.Resolved == nil || doc.Staged == nil {
			return nil, api.Errorf(400, "bad_value", "edits: document %.200q states nothing: it is not read by this job", keys[i])
		}
		sch, err := w.d.deps.Schemas.Schema(w.graph, doc.Staged.Job.SchemaRevision)
		if err != nil {
			return nil, err
		}
		e := &editor{w: w, s: newStaged(keys[i], doc), schema: sch, gone: map[spot]bool{}, touched: map[spot]bool{}, changed: map[int]bool{}}
		before, after, err := e.apply(byDoc[keys[i]])
		if err != nil {
			return nil, err
		}
		was, now = append(was, before...), append(now, after...)
		r := *doc.Resolved
		r.Assertions = e.a
		out[doc.Token] = &r
	}
	var seen map[string]any
	if err := json.Unmarshal(w.rec.Item, &seen); err != nil {
		return nil, fmt.Errorf("audit of job %s: %w", w.job, err)
	}
	seen["items"] = was
	if w.rec.Item, err = json.Marshal(seen); err == nil {
		w.rec.Edited, err = json.Marshal(map[string]any{"items": now})
	}
	if err != nil {
		return nil, fmt.Errorf("audit of job %s: %w", w.job, err)
	}
	return out, nil
}

// recorded is an item in an audit record.
type recorded struct {
	Document string `json:"document"`
	api.StagedItem
	Dropped bool `json:"dropped,omitempty"`
}

// editor edits one document.
type editor struct {
	w       *decision
	s       *staged          // as it was
	a       graph.Assertions // as it will be
	schema  *schema.Schema
	gone    map[spot]bool
	touched map[spot]bool
	changed map[int]bool // entities that are another one now
	moved   []moved
}

// moved is an item whose evidence stands in another chunk now.
type moved struct {
	from  spot
	chunk int // index
}

func (e *editor) refuse(format string, args ...any) error {
	return api.Errorf(400, "bad_value", "edits: document %.200q: %s", e.s.key, fmt.Sprintf(format, args...))
}

func (e *editor) apply(edits []api.JobEdit) (was, now []any, err error) {
	e.a = copied(e.s.a)
	var spots []spot
	for _, x := range edits {
		at, err := e.s.find(x.Item)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(spots, at) {
			return nil, nil, e.refuse("item %s stands there twice", x.Item)
		}
		spots = append(spots, at)
		was = append(was, recorded{Document: e.s.key, StagedItem: e.s.item(at)})
		switch {
		case x.Drop && len(x.Set) > 0:
			err = e.refuse("item %s is dropped or changed, not both", x.Item)
		case x.Drop:
			e.gone[at] = true
		case len(x.Set) == 0:
			err = e.refuse("item %s: say what to set, or drop it", x.Item)
		default:
			err = e.set(at, x)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if err := e.check(); err != nil {
		return nil, nil, err
	}
	after := &staged{StagedDocument: e.s.StagedDocument, key: e.s.key, a: e.a, text: e.s.text, names: e.s.names}
	for _, at := range spots {
		r := recorded{Document: e.s.key, Dropped: e.gone[at]}
		if r.Dropped {
			r.StagedItem = api.StagedItem{Item: e.s.names[at], Kind: at.kind}
		} else {
			r.StagedItem = after.item(at)
		}
		now = append(now, r)
	}
	e.tidy()
	return was, now, nil
}

func copied(a graph.Assertions) graph.Assertions {
	a.Entities, a.Candidates, a.Chunks = slices.Clone(a.Entities), slices.Clone(a.Candidates), slices.Clone(a.Chunks)
	for i := range a.Chunks {
		c := &a.Chunks[i]
		c.Mentions, c.Properties, c.Relations = slices.Clone(c.Mentions), slices.Clone(c.Properties), slices.Clone(c.Relations)
		for j := range c.Relations {
			c.Relations[j].Properties = maps.Clone(c.Relations[j].Properties)
		}
	}
	return a
}

// text reads a field that is a text.
func (e *editor) text(name string, v any) (string, error) {
	s, ok := v.(string)
	if !ok || len(s) > maxField || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || strings.TrimSpace(s) == "" {
		return "", e.refuse("%s must be a text of at most %d bytes, without control characters", name, maxField)
	}
	return s, nil
}

// maxField is the most bytes of a text that a person sets.
const maxField = 2000

func (e *editor) set(at spot, x api.JobEdit) error {
	e.touched[at] = true
	for _, name := range slices.Sorted(maps.Keys(x.Set)) {
		v := x.Set[name]
		var known bool
		var err error
		switch at.kind {
		case itemEntity:
			known, err = e.setEntity(at, name, v)
		case itemMention:
			m := &e.a.Chunks[at.chunk].Mentions[at.at]
			known, err = e.setSpan(&m.Start, &m.End, name, v)
		case itemProperty:
			known, err = e.setProperty(at, name, v)
		case itemRelation:
			known, err = e.setRelation(at, name, v)
		}
		if err != nil {
			return err
		}
		if !known {
			return e.refuse("%.40q of item %s cannot be set; of a staged %s: %s", name, x.Item, at.kind, settable[at.kind])
		}
	}
	return nil
}

var settable = map[string]string{
	itemEntity: "type, name, entity", itemMention: "start, end", itemProperty: "name, value, source, start, end",
	itemRelation: "type, source, target, start, end, properties", itemCandidate: "nothing: drop it, or edit it in the review list once the job is in",
}

func (e *editor) setSpan(start, end *int, name string, v any) (bool, error) {
	into := map[string]*int{"start": start, "end": end}[name]
	if into == nil {
		return false, nil
	}
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) || n < 0 || n > math.MaxInt32 {
		return true, e.refuse("%s must be an offset, in bytes of the document's text", name)
	}
	*into = int(n)
	return true, nil
}

// setEntity makes an entity of the document another one, with all that is said of it.
func (e *editor) setEntity(at spot, name string, v any) (bool, error) {
	ref := &e.a.Entities[at.at]
	s, err := e.text(name, v)
	if err != nil {
		return true, err
	}
	switch name {
	case "type":
		label, ok := e.schema.Canon(schema.KindEntity, s)
		if !ok {
			return true, e.refuse("type %.80q is not declared in the schema that the job was read with", s)
		}
		ref.Label = label
	case "name":
		key := fingerprint.Fold(s)
		if key == "" || !strings.Contains(fingerprint.Fold(e.s.text), key) {
			return true, e.refuse("the name %.80q is not in the text", s)
		}
		ref.Key = key
	case "entity":
		var found bool
		err := desk.With(e.w.d.deps.Store, e.w.graph, func(sn *store.Snapshot) error {
			if sn == nil {
				return nil
			}
			f, ok, err := sn.Entity(strings.ToLower(s))
			if found = ok; ok {
				ref.Label, ref.Key = f.Label, f.Key
			}
			return err
		})
		if err != nil {
			return true, err
		}
		if !found {
			return true, api.Errorf(404, "entity_not_found", "edits: entity: no such entity %.60q", s)
		}
	default:
		return false, nil
	}
	ref.ID = fingerprint.EntityID(ref.Label, ref.Key)
	e.changed[at.at] = true
	return true, nil
}

// end is the entity of the document that a text names: by its item, its id, or its name.
func (e *editor) end(name string, v any) (int, error) {
	s, err := e.text(name, v)
	if err != nil {
		return 0, err
	}
	if at, ok := e.s.spots[s]; ok && at.kind == itemEntity {
		return at.at, nil
	}
	found := -1
	for i, ref := range e.s.a.Entities {
		if _, ok := e.s.names[spot{itemEntity, 0, i}]; !ok {
			continue // dropped before
		}
		if ref.ID == strings.ToLower(s) {
			return i, nil
		}
		if foldsTo(s, ref.Key) {
			if found >= 0 {
				return 0, e.refuse("%s: several entities are called %.80q: name the item", name, s)
			}
			found = i
		}
	}
	if found < 0 {
		return 0, e.refuse("%s: the document names no entity %.80q", name, s)
	}
	return found, nil
}

func foldsTo(name, key string) bool { return key != "" && fingerprint.Fold(name) == key }

func (e *editor) setProperty(at spot, name string, v any) (bool, error) {
	p := &e.a.Chunks[at.chunk].Properties[at.at]
	var err error
	switch name {
	case "name":
		p.Name, err = e.text(name, v)
	case "value":
		p.Value = v
	case "source":
		p.Entity, err = e.end(name, v)
	default:
		return e.setSpan(&p.Start, &p.End, name, v)
	}
	return true, err
}

func (e *editor) setRelation(at spot, name string, v any) (bool, error) {
	r := &e.a.Chunks[at.chunk].Relations[at.at]
	if one, ok := strings.CutPrefix(name, "properties."); ok {
		name, v = "properties", map[string]any{one: v}
	}
	var err error
	switch name {
	case "type":
		r.Type, err = e.text(name, v)
	case "source":
		r.Source, err = e.end(name, v)
	case "target":
		r.Target, err = e.end(name, v)
	case "properties":
		list, ok := v.(map[string]any)
		if !ok {
			return true, e.refuse("properties must be an object: the values by name, null to take one away")
		}
		for _, p := range slices.Sorted(maps.Keys(list)) {
			if err := e.relationProperty(r, p, list[p]); err != nil {
				return true, err
			}
		}
	default:
		return e.setSpan(&r.Start, &r.End, name, v)
	}
	return true, err
}

func (e *editor) relationProperty(r *graph.RelationA, name string, v any) error {
	if r.Properties == nil {
		r.Properties = map[string]any{}
	}
	if v == nil {
		delete(r.Properties, name)
		return nil
	}
	r.Properties[name] = v // checked with the others
	return nil
}
