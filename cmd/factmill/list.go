package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// What is in a graph, for somebody who knows no name yet.

const defaultListed = 50

func listFlags(f *pflag.FlagSet, limit *int, cursor *string, asOf *uint64) {
	f.IntVar(limit, "limit", defaultListed, "rows shown (at most 1000)")
	f.StringVar(cursor, "cursor", "", "go on where the last page ended")
	f.Uint64Var(asOf, "as-of", 0, "as of this commit `sequence`")
}

// listed asks for pages until the limit is reached or nothing more follows, and shows each as it comes; a page may be shorter
// than what was asked for. With --json it is one page, exactly as it came.
func listed[T any](ctx context.Context, c *cli, s *target.Session, verb string, limit int, request func(limit int, cursor string) any, cursor string,
	show func(w io.Writer, reply T, first bool) (rows int, next string, err error)) (found int, err error) {
	for first := true; ; first = false {
		raw, err := s.Ask(ctx, verb, request(limit-found, cursor))
		if err != nil {
			return found, err
		}
		r, err := decode[T](raw)
		if err != nil {
			return found, err
		}
		out := c.out
		if c.json {
			out = io.Discard
		}
		n, next, err := show(out, r, first)
		if found += n; err != nil {
			return found, err
		}
		if c.json {
			return found, render.JSON(c.out, json.RawMessage(raw))
		}
		if next == "" {
			return found, nil
		}
		if found >= limit {
			c.say("more: --cursor %s", next)
			return found, nil
		}
		cursor = next
	}
}

func (c *cli) documentsCmd() *cobra.Command {
	var req api.DocumentList
	cmd := &cobra.Command{
		SuggestFor: []string{"docs", "ls", "list"}, Use: "documents", Short: "List the documents of the graph", Args: noArgs,
		Long:    "List the documents that are in the graph, by key, with their titles, versions and chunks. --prefix shows those whose keys begin so.",
		Example: "  factmill documents\n  factmill documents --prefix docs/ --limit 200\n  factmill documents --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				_, err := listed(ctx, c, s, "query.documents", req.Limit, func(limit int, cursor string) any {
					r := req
					r.Limit, r.Cursor = limit, cursor
					return r
				}, req.Cursor, func(w io.Writer, r api.DocumentListReply, first bool) (int, string, error) {
					return len(r.Documents), r.Next, render.Documents(w, r, first)
				})
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&req.Prefix, "prefix", "", "only documents whose key begins so")
	listFlags(cmd.Flags(), &req.Limit, &req.Cursor, &req.AsOf)
	return cmd
}

func (c *cli) entitiesCmd() *cobra.Command {
	var req api.EntityList
	cmd := &cobra.Command{
		SuggestFor: []string{"nodes"}, Use: "entities", Short: "List the entities of the graph", Args: noArgs,
		Long:    "List the entities that are in the graph, by name, with their types and how often they are mentioned. --type shows those of that type or below it.",
		Example: "  factmill entities\n  factmill entities --type Person --limit 200\n  factmill entities --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				n, err := listed(ctx, c, s, "query.entities", req.Limit, func(limit int, cursor string) any {
					r := req
					r.Limit, r.Cursor = limit, cursor
					return r
				}, req.Cursor, func(w io.Writer, r api.EntityListReply, first bool) (int, string, error) {
					return len(r.Entities), r.Next, render.Entities(w, r, first)
				})
				if err == nil {
					c.whyEmpty(ctx, s, n, labels.Of(schema.KindEntity, req.Type))
				}
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&req.Type, "type", "", "only entities of this `type`, or below it")
	listFlags(cmd.Flags(), &req.Limit, &req.Cursor, &req.AsOf)
	return cmd
}

func (c *cli) factsCmd() *cobra.Command {
	var req api.RelationList
	cmd := &cobra.Command{
		SuggestFor: []string{"relations", "triples"}, Use: "facts", Short: "List the relations of the graph, with their sentences", Args: noArgs,
		Long:    "List the relations that are in the graph, by the name of what they begin at, each with a sentence that says so. --type shows those of that type.",
		Example: "  factmill facts\n  factmill facts --type WORKS_FOR --limit 200\n  factmill facts --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				n, err := listed(ctx, c, s, "query.relations", req.Limit, func(limit int, cursor string) any {
					r := req
					r.Limit, r.Cursor = limit, cursor
					return r
				}, req.Cursor, func(w io.Writer, r api.RelationListReply, first bool) (int, string, error) {
					return len(r.Relations), r.Next, render.Facts(w, r, first)
				})
				if err == nil {
					c.whyEmpty(ctx, s, n, labels.Of(schema.KindRelation, req.Type))
				}
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&req.Type, "type", "", "only relations of this `type`")
	listFlags(cmd.Flags(), &req.Limit, &req.Cursor, &req.AsOf)
	return cmd
}
