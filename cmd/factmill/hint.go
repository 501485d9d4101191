package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
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

// whyEmpty says on stderr which of the labels are unknown when a request found nothing.
func (c *cli) whyEmpty(ctx context.Context, s *target.Session, found int, names []labels.Named) {
	if found > 0 {
		return
	}
	for _, why := range labels.Unknown(ctx, s.Ask, names) {
		c.say("%s", why)
	}
}

// explain adds to a refusal that found no entity which of the types that the request names are unknown.
func explain(ctx context.Context, s *target.Session, err error, names []labels.Named) error {
	if e := refusal(err); e == nil || e.Code != "entity_not_found" {
		return err
	}
	if why := labels.Unknown(ctx, s.Ask, names); len(why) > 0 {
		e := *refusal(err)
		e.Message = fmt.Sprintf("%s: %s", e.Message, strings.Join(why, "; "))
		return &e
	}
	return err
}
