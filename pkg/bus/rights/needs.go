package rights

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/bus"
)

// Needs says who may publish or subscribe to a subject: the roles of people, and else the users of the services' account that are no
// services. A service's own requests take what no person has.
func Needs(subject string, subscribe bool) (roles []Role, users []string) {
	if subscribe {
		if name, _, ok := strings.Cut(strings.TrimPrefix(subject, bus.Inbox("")), "."); ok && strings.HasPrefix(subject, bus.Inbox("")) && slices.Contains(Names(), name) {
			return nil, slices.Compact([]string{name, Admin})
		}
		return Roles, []string{Admin} // only services cannot listen in a usual inbox
	}
	for _, r := range Roles {
		if (Person{Name: "x", Role: r}).User().publishes(subject) {
			roles = append(roles, r)
		}
	}
	if len(roles) > 0 {
		return roles, nil
	}
	if provision().publishes(subject) {
		users = append(users, Provision)
	}
	return nil, append(users, Admin)
}

func (u User) publishes(subject string) bool {
	return slices.ContainsFunc(u.Publish, func(pattern string) bool { return covers(pattern, subject) })
}

// covers says whether a subject falls under a pattern with * and >.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}
