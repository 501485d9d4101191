package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) registryCmd() *cobra.Command {
	return parent("registry", "Known entities: names, aliases, ids of other systems",
		`The registry holds the entities of the graph that are known beforehand. A mention that equals exactly one entry's name or alias is
that entity. A change counts for the jobs that begin after it; ingest --force reads old documents again.`,
		c.registryImportCmd(), c.registryPutCmd(), c.registryGetCmd(), c.registryListCmd(), c.registryDeleteCmd())
}

func (c *cli) registryPutCmd() *cobra.Command {
	var e api.RegistryEntry
	var dry bool
	cmd := &cobra.Command{
		SuggestFor: []string{"add", "set"}, Use: "put --type T NAME", Short: "Add an entry, or replace the one of that name", Args: cobra.MinimumNArgs(1),
		Long: `Add an entry, or replace the entry of the same type and name: aliases, external id and note are as given then.

The type is an entity type of the schema; one that the schema lacks is taken and warned of.`,
		Example: "  factmill registry put --type Organization 'International Business Machines' --alias IBM --alias 'Big Blue' --external-id Q37156",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if e.Type == "" {
				return usagef("name the entry's type: --type T")
			}
			e.Name = strings.Join(args, " ")
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "registry.put", api.RegistryPut{Entries: []api.RegistryEntry{e}, DryRun: dry})
				if err != nil {
					return err
				}
				return replyAnd(c, raw, func(w io.Writer, r api.RegistryPutReply) error {
					return put(w, r.Revision, r.Added, r.Updated, r.Unchanged, 0, dry)
				}, func(r api.RegistryPutReply) { c.warned(r.Warnings) })
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&e.Type, "type", "", "the entry's `type`")
	f.StringArrayVar(&e.Aliases, "alias", nil, "another `name` of the entity; repeats")
	f.StringVar(&e.ExternalID, "external-id", "", "the entity's `id` in another system")
	f.StringVar(&e.Note, "note", "", "a `note` for people")
	f.BoolVar(&dry, "dry-run", false, "only say what would be done")
	return cmd
}

// put shows what was done.
func put(w io.Writer, revision uint64, added, updated, unchanged, failed int, dry bool) error {
	counts := fmt.Sprintf("%s added, %s updated, %s unchanged", render.Number(added), render.Number(updated), render.Number(unchanged))
	if failed > 0 {
		counts += ", " + render.Number(failed) + " failed"
	}
	if dry {
		_, err := fmt.Fprintf(w, "dry run, nothing was put: %s\n", counts)
		return err
	}
	_, err := fmt.Fprintf(w, "registry revision %d: %s\n", revision, counts)
	return err
}

func (c *cli) warned(warnings []string) {
	for _, w := range warnings {
		c.say("warning: %s", w)
	}
}

func (c *cli) registryGetCmd() *cobra.Command {
	var req api.RegistryGet
	cmd := &cobra.Command{
		SuggestFor: []string{"show"}, Use: "get [--type T] NAME | --external-id ID", Short: "Show the entries that have a name, alias or external id",
		Long:    "Show the entries that have a name or alias, those with the name first; or the one with an external id.",
		Example: "  factmill registry get IBM\n  factmill registry get --type Organization --external-id Q37156 --json",
		RunE: ask(c, "registry.get", func(_ *cobra.Command, args []string) (any, error) {
			req.Name = strings.Join(args, " ")
			if (req.Name == "") == (req.ExternalID == "") {
				return nil, fmt.Errorf("name an entry: its name or alias, or --external-id")
			}
			return req, nil
		}, func(w io.Writer, r api.RegistryGetReply) error { return entries(w, r.Entries, true) }),
	}
	cmd.Flags().StringVar(&req.Type, "type", "", "only entries of this `type`")
	cmd.Flags().StringVar(&req.ExternalID, "external-id", "", "the entity's `id` in another system")
	return cmd
}

// entries shows a page; further ones go on without a head.
func entries(w io.Writer, list []api.RegistryRow, first bool) error {
	head := []string{"NAME", "TYPE", "EXTERNAL ID", "ALIASES", "NOTE"}
	if !first {
		head = []string{"", "", "", "", ""}
	}
	t := render.NewTable(head...).Cap(0, 60).Cap(3, 60).Cap(4, 40)
	for _, x := range list {
		t.Row(x.Name, x.Type, x.ExternalID, strings.Join(x.Aliases, " | "), x.Note)
	}
	return t.Write(w)
}

func (c *cli) registryListCmd() *cobra.Command {
	var req api.RegistryList
	cmd := &cobra.Command{
		SuggestFor: []string{"ls"}, Use: "list", Short: "List the registry's entries", Args: noArgs,
		Long:    "List the registry's entries by type and name. --q shows those of which the name or an alias begins so.",
		Example: "  factmill registry list\n  factmill registry list --type Person --q ada --limit 200\n  factmill registry list --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				_, err := listed(ctx, c, s, "registry.list", req.Limit, func(limit int, cursor string) any {
					r := req
					r.Limit, r.Cursor = limit, cursor
					return r
				}, req.Cursor, func(w io.Writer, r api.RegistryListReply, first bool) (int, string, error) {
					if len(r.Entries) == 0 && first && r.Next == "" {
						_, err := fmt.Fprintln(w, noEntries(r.Total))
						return 0, "", err
					}
					return len(r.Entries), r.Next, entries(w, r.Entries, first)
				})
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Type, "type", "", "only entries of this `type`")
	f.StringVar(&req.Q, "q", "", "only entries of which the name or an alias begins with this `text`")
	f.IntVar(&req.Limit, "limit", defaultListed, "rows shown (at most 1000)")
	f.StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	return cmd
}

func noEntries(total int) string {
	if total == 0 {
		return "no known entities: factmill registry import FILE puts some in"
	}
	return "no such entry, of " + render.Count(total, "entry", "entries") + " in the registry"
}

func (c *cli) registryDeleteCmd() *cobra.Command {
	var req api.RegistryDelete
	cmd := &cobra.Command{
		SuggestFor: []string{"remove", "rm"}, Use: "delete --type T NAME | --type T --external-id ID", Short: "Remove an entry",
		Long: `Remove the entry with a name (an alias names none) or an external id. What the graph holds stays: documents that are read again lose
the entry's identity.`,
		Example: "  factmill registry delete --type Organization 'International Business Machines'",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			req.Name = strings.Join(args, " ")
			if req.Type == "" || (req.Name == "") == (req.ExternalID == "") {
				return usagef("name the entry: --type T, and its name or --external-id")
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "registry.delete", req)
				if err != nil {
					return err
				}
				return reply(c, raw, func(w io.Writer, r api.RegistryDeleteReply) error {
					_, err := fmt.Fprintf(w, "registry revision %d: %s\n", r.Revision, render.Line(r.Entry.Type+" "+r.Entry.Name+" removed"))
					return err
				})
			})
		}),
	}
	cmd.Flags().StringVar(&req.Type, "type", "", "the entry's `type`")
	cmd.Flags().StringVar(&req.ExternalID, "external-id", "", "the entity's `id` in another system")
	return cmd
}
