package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// quoted makes one word of s for a shell.
func quoted(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r < 0x80
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// named is a label that a request names, and of which kind it is; kind "" is either.
type named struct{ kind, label string }

// unknownLabels says which labels the graph's schema does not have: why a request found nothing. A schema that cannot be had says
// nothing.
func unknownLabels(ctx context.Context, s *target.Session, labels []named) []string {
	labels = slices.DeleteFunc(labels, func(n named) bool { return n.label == "" })
	if len(labels) == 0 {
		return nil
	}
	raw, err := s.Ask(ctx, "schema.get", api.SchemaGet{})
	if err != nil {
		return nil
	}
	r, err := decode[api.SchemaReply](raw)
	if err != nil {
		return nil
	}
	sch, err := schema.Parse(r.Schema, r.Name, nil)
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range labels {
		if text := unknownLabel(sch, n); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func unknownLabel(sch *schema.Schema, n named) string {
	var known []string
	what := ""
	if n.kind != schema.KindRelation {
		if _, ok := sch.Canon(schema.KindEntity, n.label); ok {
			return ""
		}
		what = "entity type"
		for _, e := range sch.Entities() {
			known = append(known, e.Label)
		}
	}
	if n.kind != schema.KindEntity {
		if _, _, ok := sch.CanonRelation(n.label); ok {
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
	return fmt.Sprintf("the schema has no %s %q%s", what, n.label, schema.Suggest(n.label, known))
}

// relationTypes are labels of relations.
func relationTypes(labels []string) []named {
	var out []named
	for _, l := range labels {
		out = append(out, named{schema.KindRelation, l})
	}
	return out
}

// whyEmpty says on stderr which of the labels are unknown when a request found nothing.
func (c *cli) whyEmpty(ctx context.Context, s *target.Session, found int, labels []named) {
	if found > 0 {
		return
	}
	for _, why := range unknownLabels(ctx, s, labels) {
		c.say("%s", why)
	}
}

// explain adds to a refusal that found no entity which of the types that the request names are unknown.
func explain(ctx context.Context, s *target.Session, err error, labels []named) error {
	if e := refusal(err); e == nil || e.Code != "entity_not_found" {
		return err
	}
	if why := unknownLabels(ctx, s, labels); len(why) > 0 {
		e := *refusal(err)
		e.Message = fmt.Sprintf("%s: %s", e.Message, strings.Join(why, "; "))
		return &e
	}
	return err
}
