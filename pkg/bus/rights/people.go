package rights

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// Person is whoever uses Factmill: a person, or a program. Each is a NATS account of its own, whose only way in are imports that put its name
// into the subject. So the name that the audit has is the server's word: no header or body can say otherwise.
type Person struct {
	// Name stands in the audit, and is a subject token.
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Key is the public nkey.
	Key string `json:"key"`
}

// Role says what a person may do.
type Role string

// Roles.
const (
	Publisher Role = "publisher" // sends documents and watches their jobs
	Reader    Role = "reader"    // asks, looks at what waits for review and at what was decided
	Reviewer  Role = "reviewer"  // reads and decides
	Operator  Role = "operator"  // all of these, and schema, settings, registry, jobs, dead letters, back-ups
)

// Roles in the order of what they may.
var Roles = []Role{Publisher, Reader, Reviewer, Operator}

var personName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Check refuses a person that cannot be one.
func (p Person) Check() error {
	if !personName.MatchString(p.Name) || slices.Contains(Names(), p.Name) || p.Name == "policy" || p.Name == "factmill" {
		return fmt.Errorf("bad name %.80q: it must match %s, and be no service's and not policy, provision, admin or factmill", p.Name, personName)
	}
	if !slices.Contains(Roles, p.Role) {
		return fmt.Errorf("%s has the unknown role %.80q: roles are publisher, reader, reviewer, operator", p.Name, p.Role)
	}
	return nil
}

// Verbs are the verbs that people may use, by noun: each with the roles that may, whom operator is one of always. What is not here is between
// the services.
var Verbs = []struct {
	Noun  string
	Verbs map[string][]Role
}{
	{"query", all([]Role{Reader, Reviewer}, "stats", "seq", "health", "entity", "search", "neighbors", "path", "evidence", "citations", "document", "documents", "entities",
		"relations", "relation_types", "stored", "export", "verify", "candidates")},
	{"replica", all([]Role{Reader, Reviewer}, "stats", "entity", "search", "neighbors", "path", "evidence", "citations", "document", "documents", "entities",
		"relations", "relation_types", "export", "verify")},
	{"review", join(all([]Role{Reader, Reviewer}, "list", "show", "stats", "audit", "patch", "policy"),
		all([]Role{Reviewer}, "approve", "reject", "undo", "edit", "prune", "convert"))},
	{"jobs", join(all([]Role{Publisher, Reader, Reviewer}, "get", "list"), all([]Role{Reviewer}, "accept"), all([]Role{Publisher}, "cancel"))},
	{"schema", join(all([]Role{Publisher, Reader, Reviewer}, "get", "history"), all(nil, "put"))},
	{"settings", join(all([]Role{Publisher, Reader, Reviewer}, "get"), all(nil, "put"))},
	{"registry", join(all([]Role{Reader, Reviewer}, "get", "list", "lookup"), all(nil, "put", "delete"))},
	{"dead-letters", join(all([]Role{Reader, Reviewer}, "list", "show"), all(nil, "replay", "drop"))},
	{"vectors", join(all([]Role{Reader, Reviewer}, "status"), all(nil, "reembed"))},
	{"backup", all(nil, "begin", "read", "end")},
}

func all(roles []Role, verbs ...string) map[string][]Role {
	out := map[string][]Role{}
	for _, v := range verbs {
		out[v] = roles
	}
	return out
}

func join(maps ...map[string][]Role) map[string][]Role {
	out := map[string][]Role{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// May says whether a role may use noun.verb.
func (r Role) May(noun, verb string) bool {
	for _, n := range Verbs {
		if roles, ok := n.Verbs[verb]; ok && n.Noun == noun {
			return r == Operator || slices.Contains(roles, r)
		}
	}
	return false
}

// sends says whether the role brings documents in.
func (r Role) sends() bool { return r == Publisher || r == Operator }

// Import is one way from a person's account into that of the services: what it publishes to From arrives at To.
type Import struct{ From, To string }

// uploads are the ways by which a client sends files: it writes objects and looks whether they are there. It reads no bytes and purges
// nothing: what an upload that broke off left behind, the committer finds.
func uploads() (out []Import) {
	s, files := object(bus.BucketUploads), "$O."+bus.BucketUploads
	for _, call := range []string{js("STREAM.INFO", s), js("DIRECT.GET", s, files+".M.*")} {
		out = append(out, Import{From: theirs(call), To: call})
	}
	for _, f := range []string{files + ".C.*", files + ".M.*"} {
		out = append(out, Import{From: f, To: f})
	}
	return out
}

// theirs is how people name a call of the JetStream interface.
func theirs(call string) string { return bus.RootJS + strings.TrimPrefix(call, "$JS.API") }

// Imports of a person: of each noun that it may ask, with its name in the subject; and as they are, documents, uploads and health.
func (p Person) Imports() []Import {
	out := []Import{{bus.HealthSubject("*"), bus.HealthSubject("*")}}
	for _, n := range Verbs {
		for v := range n.Verbs {
			if p.Role.May(n.Noun, v) {
				from := verb(n.Noun)
				out = append(out, Import{from, bus.RootBy + "." + p.Name + strings.TrimPrefix(from, events.Root)})
				break
			}
		}
	}
	if p.Role.sends() {
		for _, s := range event(events.KindIngest) {
			out = append(out, Import{s, s})
		}
		out = append(out, uploads()...)
	}
	slices.SortFunc(out, func(a, b Import) int { return strings.Compare(a.From, b.From) })
	return out
}

// User are the lists of the person's user in its account. The inbox is the usual one: nobody else is in the account.
func (p Person) User() User {
	u := User{Name: p.Name, Subscribe: []string{"_INBOX.>"}, Publish: []string{bus.HealthSubject("*")}}
	for _, n := range Verbs {
		for v := range n.Verbs {
			if p.Role.May(n.Noun, v) {
				u.Publish = append(u.Publish, verb(n.Noun+"."+v))
			}
		}
	}
	if p.Role.sends() {
		u.Publish = append(u.Publish, event(events.KindIngest)...)
		for _, i := range uploads() {
			u.Publish = append(u.Publish, i.From)
		}
		// These lead nowhere, and the client is told at once: whether its own account has streams, it has not, and what tidies up behind a
		// broken upload.
		u.Publish = append(u.Publish, js("STREAM.INFO", object(bus.BucketUploads)), theirs(js("STREAM.PURGE", object(bus.BucketUploads))))
	}
	u.Publish = sorted(u.Publish)
	return u
}

// exports of the account: what people may import, by subject. Each is private to nobody: who has an account is the operator's choice.
func exports() []string {
	out := append(event(events.KindIngest), bus.HealthSubject("*"))
	for _, i := range uploads() {
		out = append(out, i.To)
	}
	for _, n := range Verbs {
		out = append(out, by(n.Noun))
	}
	return sorted(out)
}
