// Package coverage says which candidates a schema would no longer keep out. It is computed on reading; nothing changes state.
package coverage

import (
	"encoding/json"
	"sync"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// Schema answers for one schema.
type Schema struct{ s *schema.Schema }

// Parse reads a schema in its own grammar.
func Parse(data []byte) (*Schema, error) {
	s, err := schema.Parse(data, "schema", nil)
	if err != nil {
		return nil, err
	}
	return &Schema{s}, nil
}

// Rule is the schema itself.
func (c *Schema) Rule() *schema.Schema { return c.s }

// Of answers for a schema that was parsed already.
func Of(s *schema.Schema) *Schema { return &Schema{s} }

// Chosen reads what a request says of a schema to cover candidates: nothing (nil), "current", or a schema as an object or text.
func Chosen(raw json.RawMessage, current *Schema) (*Schema, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "current" {
			return current, nil
		}
		raw = json.RawMessage(text)
	}
	s, err := Parse(raw)
	if err != nil {
		return nil, api.Errorf(400, "schema_invalid", "schema: %v", err)
	}
	return s, nil
}

// Group says whether the schema declares what kept the group out: its label, pattern or property. An item that a threshold
// kept out is never covered by a schema.
func (c *Schema) Group(g api.Group) bool {
	for _, r := range g.Reasons {
		switch r {
		case graph.ReasonUndeclaredLabel, graph.ReasonOffPattern, graph.ReasonUndeclaredProperty:
		default:
			return false
		}
	}
	switch g.Kind {
	case graph.KindEntity:
		_, ok := c.s.Canon("entity", g.Label)
		return ok
	case graph.KindRelation:
		return c.relation(g)
	case graph.KindProperty:
		if g.SourceLabel == "" {
			return false
		}
		_, ok := c.s.Property(g.SourceLabel, g.Label)
		return ok
	}
	return false
}

func (c *Schema) relation(g api.Group) bool {
	label, swapped, ok := c.s.CanonRelation(g.Label)
	if !ok || g.SourceLabel == "" || g.TargetLabel == "" {
		return false
	}
	from, to := g.SourceLabel, g.TargetLabel
	if swapped {
		from, to = to, from
	}
	return c.s.Allows(label, from, to)
}

// Cache keeps the parsed active schema of a graph.
type Cache struct {
	mu       sync.Mutex
	revision uint64
	schema   *Schema
}

// NewCache is empty.
func NewCache() *Cache { return &Cache{} }

// Of parses the schema of a reply unless it is the one that was parsed last.
func (c *Cache) Of(r api.SchemaReply) (*Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema != nil && c.revision == r.Revision {
		return c.schema, nil
	}
	s, err := Parse(r.Schema)
	if err != nil {
		return nil, err
	}
	c.revision, c.schema = r.Revision, s
	return s, nil
}
