// Package labels says which types that a request names the schema does not have: why nothing was found.
package labels

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// Ask sends a request and returns the reply's body.
type Ask func(ctx context.Context, verb string, req any) (json.RawMessage, error)

// Named is a label that a request names, and of which kind it is (schema.KindEntity, schema.KindRelation); kind "" is either.
type Named struct{ Kind, Label string }

// Of are labels of one kind.
func Of(kind string, names ...string) []Named {
	var out []Named
	for _, l := range names {
		out = append(out, Named{kind, l})
	}
	return out
}

// Unknown says which labels the graph's schema does not have, each with the one that was probably meant. A schema that cannot be had says
// nothing.
func Unknown(ctx context.Context, ask Ask, names []Named) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(n Named) bool { return n.Label == "" })
	if len(names) == 0 {
		return nil
	}
	raw, err := ask(ctx, "schema.get", api.SchemaGet{})
	if err != nil {
		return nil
	}
	var r api.SchemaReply
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil
	}
	sch, err := schema.Parse(r.Schema, r.Name, nil)
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range names {
		if text := unknown(sch, n); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func unknown(sch *schema.Schema, n Named) string {
	var known []string
	what := ""
	if n.Kind != schema.KindRelation {
		if _, ok := sch.Canon(schema.KindEntity, n.Label); ok {
			return ""
		}
		what = "entity type"
		for _, e := range sch.Entities() {
			known = append(known, e.Label)
		}
	}
	if n.Kind != schema.KindEntity {
		if _, _, ok := sch.CanonRelation(n.Label); ok {
			return ""
		}
		if what != "" {
			what += " or "
		}
		what += "relation type"
		for _, x := range sch.Relations() {
			known = append(known, x.Label)
		}
	}
	return fmt.Sprintf("the schema has no %s %q%s", what, n.Label, schema.Suggest(n.Label, known))
}
