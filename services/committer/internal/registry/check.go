package registry

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
)

// checked is an entry of a request that can be stored.
type checked struct {
	entry api.RegistryEntry
	key   string   // folded name
	names []string // key and the folded aliases, sorted
}

// named is the folded names of an entry, sorted.
func named(e api.RegistryEntry) []string {
	out := []string{fingerprint.Fold(e.Name)}
	for _, a := range e.Aliases {
		out = append(out, fingerprint.Fold(a))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// problems collects what is wrong with a request, at most maxProblems of them.
type problems struct {
	list  []api.RegistryProblem
	total int
}

const maxProblems = 1000

func (p *problems) add(index int, field, format string, args ...any) {
	if p.total++; len(p.list) < maxProblems {
		p.list = append(p.list, api.RegistryProblem{
			Index: index, Field: field, Path: fmt.Sprintf("entries[%d].%s", index, field), Message: fmt.Sprintf(format, args...),
		})
	}
}

func (p *problems) err(status int, code, what string) error {
	if p.total == 0 {
		return nil
	}
	e := api.Errorf(status, code, "%s: %d of the entries cannot be put, so none was", what, p.bad())
	e.Details = map[string]any{"problems": p.list, "problems_total": p.total}
	return e
}

// bad is how many entries have problems.
func (p *problems) bad() int {
	seen := map[int]bool{}
	for _, x := range p.list {
		seen[x.Index] = true
	}
	return len(seen)
}

// check reads the entries of a request. Every fault is a problem; a label that the schema lacks is a warning.
func check(s *schema.Schema, in []api.RegistryEntry, p *problems) (out []checked, warnings []string) {
	type identity struct{ label, key string }
	first, unknown := map[identity]int{}, map[string]bool{}
	for i, e := range in {
		c, ok := checkEntry(s, i, e, p)
		if !ok {
			continue
		}
		id := identity{c.entry.Type, c.key}
		if at, twice := first[id]; twice {
			p.add(i, "name", "it is the same entry as entries[%d]: %s", at, quote(in[at].Name))
			continue
		}
		first[id] = i
		if _, known := s.Entity(c.entry.Type); !known && !unknown[c.entry.Type] && len(unknown) < 20 {
			unknown[c.entry.Type] = true
			warnings = append(warnings, fmt.Sprintf("the active schema has no entity type %s: its entries wait for one that has", c.entry.Type))
		}
		out = append(out, c)
	}
	return out, warnings
}

func checkEntry(s *schema.Schema, i int, e api.RegistryEntry, p *problems) (checked, bool) {
	before := p.total
	label, err := typeOf(s, e.Type)
	if err != nil {
		p.add(i, "type", "%v", err)
	}
	out := checked{entry: api.RegistryEntry{Type: label, Name: strings.TrimSpace(e.Name), ExternalID: strings.TrimSpace(e.ExternalID), Note: strings.TrimSpace(e.Note)}}
	if why := badName(out.entry.Name); why != "" {
		p.add(i, "name", "%s %s", quote(e.Name), why)
	} else {
		out.key = fingerprint.Fold(out.entry.Name)
		out.names = []string{out.key}
	}
	if len(e.Aliases) > api.MaxRegistryAliases {
		p.add(i, "aliases", "there are %d of them: at most %d", len(e.Aliases), api.MaxRegistryAliases)
		return out, false
	}
	for n, a := range e.Aliases {
		a = strings.TrimSpace(a)
		if why := badName(a); why != "" {
			p.add(i, fmt.Sprintf("aliases[%d]", n), "%s %s", quote(a), why)
			continue
		}
		if key := fingerprint.Fold(a); !slices.Contains(out.names, key) {
			out.names, out.entry.Aliases = append(out.names, key), append(out.entry.Aliases, a)
		}
	}
	slices.Sort(out.names)
	if x := out.entry.ExternalID; x != "" {
		if why := badText(x, api.MaxRegistryName); why != "" {
			p.add(i, "external_id", "%s %s", quote(x), why)
		}
	}
	if why := badText(out.entry.Note, api.MaxRegistryNote); why != "" {
		p.add(i, "note", "%s %s", quote(out.entry.Note), why)
	}
	return out, p.total == before
}

// typeOf is the label that a type stands for: the schema's where it has it in some spelling, else the type itself when it could be
// one.
func typeOf(s *schema.Schema, seen string) (string, error) {
	seen = strings.TrimSpace(seen)
	if seen == "" {
		return "", fmt.Errorf("it is missing")
	}
	if canon, ok := s.Canon(schema.KindEntity, seen); ok {
		return canon, nil
	}
	return seen, schema.CheckLabel(schema.KindEntity, seen)
}

// badName says what is wrong with a name or alias; empty: nothing.
func badName(name string) string {
	if name == "" {
		return "is no name"
	}
	if why := badText(name, api.MaxRegistryName); why != "" {
		return why
	}
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsSymbol(r) {
			return ""
		}
	}
	return "is no name: it has no letter, digit or symbol"
}

func badText(s string, runes int) string {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		return "is no UTF-8"
	case n > runes:
		return fmt.Sprintf("has %d characters: at most %d", n, runes)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has control characters"
	}
	return ""
}

// quote shows text of a request in a message: cut.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
