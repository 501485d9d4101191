package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

const (
	defaultDepth = 1
	maxDepth     = 5
	maxSteps     = 8
	defaultEdges = 50
	maxEdges     = 500
	perFact      = 3 // pieces of evidence of a fact in a list
	pageOfEntity = 200
)

// entityWords say how an entity is named in arguments.
const entityWords = `an entity id, "Type:name", or a name that one entity has`

// target reads an entity argument.
func target(name, text string) (id, label, plainName string, err error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", "", "", badArg("%s is empty: give %s", name, entityWords)
	case len(text) > 1000:
		return "", "", "", badArg("%s has %d bytes: at most 1000; give %s", name, len(text), entityWords)
	case isID(text):
		return strings.ToLower(text), "", "", nil
	}
	if label, rest, ok := strings.Cut(text, ":"); ok && label != "" && !strings.ContainsAny(label, " \t") && strings.TrimSpace(rest) != "" {
		return "", label, strings.TrimSpace(rest), nil
	}
	return "", "", text, nil
}

func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(strings.ToLower(s)) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return false
		}
	}
	return true
}

func (k *Kit) findTool() Tool {
	t := Tool{
		Name: "find_entity", Title: "Find an entity",
		Description: "Find entities (people, organizations, whatever the graph's types are) by name, misspelt or partial ones too, best first. Gives ids for the other tools.",
		InputSchema: object(required("query"), field("query", "string", "a name, or words of it"), field("type", "string", "only entities of this type or below it"),
			number("limit", "entities a page", defaultHits, maxHits), cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			Query  string `json:"query"`
			Type   string `json:"type,omitempty"`
			Limit  int    `json:"limit,omitempty"`
			Cursor string `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		s := searchArgs{Query: a.Query, Kinds: []string{"entity"}, Limit: a.Limit, Cursor: a.Cursor}
		if a.Type != "" {
			s.Labels = []string{a.Type}
		}
		return k.search(ctx, t, s)
	}
	return t
}

func (k *Kit) describeTool() Tool {
	t := Tool{
		Name: "describe_entity", Title: "Describe an entity",
		Description: "All that the graph says of one entity: its properties, relations and mentions, each with evidence ids to cite, and what it is linked with as one thing.",
		InputSchema: object(required("entity"), field("entity", "string", entityWords), cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			Entity string `json:"entity"`
			Cursor string `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		text := a.Cursor
		a.Cursor = ""
		at, err := going(t, text, a)
		if err != nil {
			return Result{}, err
		}
		req := api.EntityGet{Limit: pageOfEntity, Within: k.within}
		if req.ID, req.Type, req.Name, err = target("entity", a.Entity); err != nil {
			return Result{}, err
		}
		r, err := get[api.EntityReply](ctx, k, "query.entity", req)
		if err != nil {
			return Result{}, err
		}
		if at, err = at.still(r.Seq); err != nil {
			return Result{}, err
		}
		return k.described(at, r), nil
	}
	return t
}

func (k *Kit) described(at cursor, r api.EntityReply) Result {
	e := r.Entity
	p := &page{k: k, at: at, seq: r.Seq}
	x := piece{text: fmt.Sprintf("entity %s of type %s, id %s, %d mentions in %d documents, %d relations\n", quoted(e.Name), quoted(e.Type), e.ID, e.MentionsTotal, e.DocumentsTotal, r.RelationsTotal)}
	data := map[string]any{"kind": "entity", "id": e.ID, "name": e.Name, "type": e.Type, "labels": e.Labels, "mentions": e.MentionsTotal, "documents": e.DocumentsTotal, "relations": r.RelationsTotal}
	if c := r.Cluster; c != nil && len(c.Members) > 1 {
		x.text += fmt.Sprintf("one thing with %d others that are named differently; their relations are listed too:\n", len(c.Members)-1)
		var members []map[string]string
		for _, m := range c.Members {
			members = append(members, map[string]string{"id": m.ID, "name": m.Name})
			if m.ID != e.ID && len(members) <= 20 {
				x.text += fmt.Sprintf("- %s, id %s\n", quoted(m.Name), m.ID)
			}
		}
		data["linked"] = members
	}
	x.data = data
	p.add(x)
	names := make([]string, 0, len(e.Properties))
	for name := range e.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p.add(propertyPiece(e.ID, name, e.Properties[name]))
	}
	for _, rel := range r.Relations {
		if rel.Hidden == "" {
			p.add(relationPiece(rel, perFact))
		}
	}
	for _, m := range e.Evidence {
		c, text := cite(e.ID, "", m)
		p.add(piece{text: "mention, " + text, data: map[string]any{"kind": "mention", "evidence": []cited{c}}, evidence: []string{c.ID}})
	}
	if r.RelationsTotal > len(r.Relations) {
		p.say("The entity has more relations than are listed here (%d of %d): explore_relations with relation_types or direction narrows them.", len(r.Relations), r.RelationsTotal)
	}
	return p.result("")
}

func propertyPiece(owner, name string, row graph.PropertyRow) piece {
	x := piece{text: fmt.Sprintf("property %s is %s\n", quoted(name), propertyValue(row.Value))}
	data := map[string]any{"kind": "property", "name": name, "value": row.Value}
	var list []cited
	for _, e := range row.Evidence[:min(len(row.Evidence), perFact)] {
		c, text := cite(owner, name, e)
		x.text += text
		x.evidence, list = append(x.evidence, c.ID), append(list, c)
	}
	data["evidence"] = list
	var others []any
	for _, o := range row.Others {
		if !o.Rejected && len(others) < perFact {
			others = append(others, o.Value)
			x.text += "others say " + propertyValue(o.Value) + "\n"
			for _, e := range o.Evidence[:min(len(o.Evidence), 1)] {
				c, text := cite(owner, name, e)
				x.text += text
				x.evidence = append(x.evidence, c.ID)
			}
		}
	}
	if len(others) > 0 {
		data["others"] = others
	}
	x.data = data
	return x
}

func (k *Kit) exploreTool() Tool {
	t := Tool{
		Name: "explore_relations", Title: "Explore relations",
		Description: "What stands around an entity: relations and the entities at their far ends, breadth first, each with evidence ids to cite.",
		InputSchema: object(required("entity"), field("entity", "string", entityWords), list("relation_types", "only relations of these types; list_relation_types has them"),
			enum("direction", "seen from the entity; both when left out", "out", "in", "both"), number("depth", "steps to go", defaultDepth, maxDepth),
			number("limit", "relations in all", defaultEdges, maxEdges), cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			Entity    string   `json:"entity"`
			Types     []string `json:"relation_types,omitempty"`
			Direction string   `json:"direction,omitempty"`
			Depth     int      `json:"depth,omitempty"`
			Limit     int      `json:"limit,omitempty"`
			Cursor    string   `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		text := a.Cursor
		a.Cursor = ""
		at, err := going(t, text, a)
		if err != nil {
			return Result{}, err
		}
		req := api.Neighbors{RelationTypes: a.Types, Direction: a.Direction, Within: k.within}
		if req.ID, req.Type, req.Name, err = target("entity", a.Entity); err != nil {
			return Result{}, err
		}
		if req.Depth, err = between("depth", a.Depth, defaultDepth, maxDepth); err != nil {
			return Result{}, err
		}
		if req.Limit, err = between("limit", a.Limit, defaultEdges, maxEdges); err != nil {
			return Result{}, err
		}
		if err := few("relation_types", a.Types); err != nil {
			return Result{}, err
		}
		r, err := get[api.Subgraph](ctx, k, "query.neighbors", req)
		if err != nil {
			return Result{}, err
		}
		if at, err = at.still(r.Seq); err != nil {
			return Result{}, err
		}
		p := k.subgraph(at, r)
		if r.Truncated {
			p.say("There are more relations than these: raise limit, or narrow with relation_types or direction.")
		}
		k.strangers(ctx, p, labels.Of(schema.KindRelation, a.Types...))
		return p.result("No such relation stands at the entity."), nil
	}
	return t
}

// subgraph lists relations, and says who stands at the beginning.
func (k *Kit) subgraph(at cursor, r api.Subgraph) *page {
	p := &page{k: k, at: at, seq: r.Seq}
	var nodes []map[string]string
	for _, n := range r.Nodes {
		nodes = append(nodes, map[string]string{"id": n.ID, "name": n.Name, "type": n.Type})
	}
	p.data = map[string]any{"entities": nodes}
	if len(r.Nodes) > 0 {
		n := r.Nodes[0]
		p.say("From %s of type %s, id %s.", quoted(n.Name), quoted(n.Type), n.ID)
	}
	for _, e := range r.Edges {
		if e.Hidden == "" {
			p.add(relationPiece(e, perFact))
		}
	}
	return p
}

func (k *Kit) pathTool() Tool {
	t := Tool{
		Name: "find_path", Title: "Find a path",
		Description: "How two entities hang together: a shortest path of relations between them, in either direction, each step with evidence ids to cite.",
		InputSchema: object(required("from", "to"), field("from", "string", entityWords), field("to", "string", entityWords), list("relation_types", "only over relations of these types"),
			number("max_depth", "steps to go", 4, maxSteps), cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			From     string   `json:"from"`
			To       string   `json:"to"`
			Types    []string `json:"relation_types,omitempty"`
			MaxDepth int      `json:"max_depth,omitempty"`
			Cursor   string   `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		text := a.Cursor
		a.Cursor = ""
		at, err := going(t, text, a)
		if err != nil {
			return Result{}, err
		}
		for _, end := range []struct{ name, text string }{{"from", a.From}, {"to", a.To}} {
			if _, _, _, err := target(end.name, end.text); err != nil {
				return Result{}, err
			}
		}
		depth, err := between("max_depth", a.MaxDepth, 4, maxSteps)
		if err != nil {
			return Result{}, err
		}
		if err := few("relation_types", a.Types); err != nil {
			return Result{}, err
		}
		r, err := get[api.Subgraph](ctx, k, "query.path", api.Path{From: strings.TrimSpace(a.From), To: strings.TrimSpace(a.To), MaxDepth: depth, RelationTypes: a.Types, Within: k.within})
		if err != nil {
			return Result{}, err
		}
		if at, err = at.still(r.Seq); err != nil {
			return Result{}, err
		}
		p := k.subgraph(at, r)
		none := fmt.Sprintf("There is no path of at most %d steps.", depth)
		switch {
		case r.Truncated:
			none = "The search was cut before it found a path: too many entities stand between. Narrow it with relation_types."
		case len(r.Nodes) == 1:
			none = "Both ends are the same entity."
		}
		k.strangers(ctx, p, labels.Of(schema.KindRelation, a.Types...))
		return p.result(none), nil
	}
	return t
}

func (k *Kit) typesTool() Tool {
	t := Tool{
		Name: "list_relation_types", Title: "List relation types",
		Description: "The types of relations that there are, with how many relations each has.",
		InputSchema: object(cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			Cursor string `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		text := a.Cursor
		a.Cursor = ""
		at, err := going(t, text, a)
		if err != nil {
			return Result{}, err
		}
		r, err := get[api.RelationTypesReply](ctx, k, "query.relation_types", api.RelationTypesGet{Within: k.within})
		if err != nil {
			return Result{}, err
		}
		p := &page{k: k, at: at, seq: r.Seq}
		names := make([]string, 0, len(r.Types))
		for name, n := range r.Types {
			if n > 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			p.add(piece{text: fmt.Sprintf("%s: %d\n", plain(cutAt(name, maxName)), r.Types[name]), data: map[string]any{"type": name, "relations": r.Types[name]}})
		}
		if r.Cut {
			p.say("There may be more: not everything within the limits was looked at.")
		}
		return p.result("There are no relations."), nil
	}
	return t
}
