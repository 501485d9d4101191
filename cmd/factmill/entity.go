package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// oneEntity reads "ID" or "--type T NAME"; a name alone is enough where one type has it.
func oneEntity(typ string, args []string) (id, name string, err error) {
	if len(args) == 0 {
		return "", "", errors.New("name an entity: its id, or --type T NAME")
	}
	word := strings.Join(args, " ")
	if typ == "" && isID(word) {
		return word, "", nil
	}
	return "", word, nil
}

// isID says whether s looks like an entity's or relation's id: a UUID.
func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		hex := r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
		if dash != (r == '-') || !dash && !hex {
			return false
		}
	}
	return true
}

func (c *cli) entityCmd() *cobra.Command {
	var req api.EntityGet
	cmd := &cobra.Command{
		SuggestFor: []string{"show"}, Use: "entity ID | --type T NAME", Short: "Show an entity with its values and relations", Args: cobra.MinimumNArgs(1),
		Long: `Show one entity: its mentions, its property values and the relations it stands in, each with the sentences that say so.

Name it by id, or by --type and name. A name alone does where only one type has it, and so does another
name that texts use for the entity. Case, spacing, accents, hyphens, a dot at the end and "the" before a name do not matter.

Links are read through: what is linked to the entity is shown with it, by which method and score, and its
relations are shown too. A link is taken apart with "factmill review reject --id MATCH"; --raw shows the entity alone.`,
		Example: "  factmill entity --type Person 'Ada Lovelace'\n  factmill entity 'acme ltd' --json\n  factmill entity 5f1c…",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			var err error
			if req.ID, req.Name, err = oneEntity(req.Type, args); err != nil {
				return usage(err)
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "query.entity", req)
				if err != nil {
					return explain(ctx, s, err, labels.Of(schema.KindEntity, req.Type))
				}
				return reply(c, raw, render.Entity)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Type, "type", "", "the entity's `type`")
	f.BoolVar(&req.Raw, "raw", false, "the entity alone, without what is linked to it")
	f.IntVar(&req.Limit, "limit", 0, "evidence and relations shown (default 50)")
	f.Uint64Var(&req.AsOf, "as-of", 0, "as of this commit `sequence`")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
