package rights

import (
	"fmt"
	"strings"
	"time"
)

// Wiring says how a configuration refers to keys and to people.
type Wiring struct {
	// Keys are the public nkeys by user. Without one the variable $KEY_<NAME> stands in its place.
	Keys map[string]string
	// KeysFile has the variables, PeopleFile the accounts of people: as they are included. Empty: none.
	KeysFile, PeopleFile string
	People               []Person
}

// ReplyWithin is how long a request may be under way: longer than the longest verb may take.
const ReplyWithin = 65 * time.Minute

const replyWithin = "65m"

// Replies that a service may give to a request. It gives one; but the server counts each further delivery of a request to the same connection
// (a verb's subscription, and the noun's for unknown verbs), and both desks of the committer answer a ping.
const Replies = 3

// Config is the block of accounts for a NATS server's configuration.
func Config(w Wiring) string {
	var b strings.Builder
	if w.KeysFile != "" {
		fmt.Fprintf(&b, "include %q\n\n", w.KeysFile)
	}
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", Account)
	for _, u := range Users() {
		key := w.Keys[u.Name]
		if key == "" {
			key = "$" + Variable(u.Name)
		}
		fmt.Fprintf(&b, "      { # %s\n        nkey: %s\n", u.Name, key)
		permissions(&b, "        ", u)
		b.WriteString("      }\n")
	}
	b.WriteString("    ]\n    exports: [\n")
	for _, s := range exports() {
		fmt.Fprintf(&b, "      { service: %q, threshold: %q }\n", s, replyWithin)
	}
	b.WriteString("    ]\n  }\n")
	if w.PeopleFile != "" {
		fmt.Fprintf(&b, "  include %q\n", w.PeopleFile)
	}
	people(&b, "  ", w.People)
	b.WriteString("}\n")
	return b.String()
}

// Variable is the name of a user's key in the file of keys.
func Variable(user string) string { return "KEY_" + strings.ToUpper(user) }

// KeysConfig is the file with the public keys of the users.
func KeysConfig(keys map[string]string) string {
	var b strings.Builder
	b.WriteString("# Public keys of Factmill's users, made by `factmill keys`.\n")
	for _, n := range Names() {
		fmt.Fprintf(&b, "%s: %s\n", Variable(n), keys[n])
	}
	return b.String()
}

// PeopleConfig is the file with the accounts of people.
func PeopleConfig(list []Person) string {
	var b strings.Builder
	b.WriteString("# Accounts of people and programs, made by `factmill keys`. The name in the imports is the actor in the audit.\n")
	people(&b, "", list)
	return b.String()
}

func people(b *strings.Builder, in string, list []Person) {
	for _, p := range list {
		fmt.Fprintf(b, "%s%s { # %s\n%s  users: [\n%s    {\n%s      nkey: %s\n", in, accountOf(p), p.Role, in, in, in, p.Key)
		permissions(b, in+"      ", p.User())
		fmt.Fprintf(b, "%s    }\n%s  ]\n%s  imports: [\n", in, in, in)
		for _, i := range p.Imports() {
			fmt.Fprintf(b, "%s    { service: { account: %s, subject: %q }, to: %q }\n", in, Account, i.To, i.From)
		}
		fmt.Fprintf(b, "%s  ]\n%s}\n", in, in)
	}
}

// accountOf is the name of a person's account: no word of the configuration's own.
func accountOf(p Person) string { return "BY_" + p.Name }

func permissions(b *strings.Builder, in string, u User) {
	if u.Publish == nil && u.Subscribe == nil {
		return
	}
	fmt.Fprintf(b, "%spermissions {\n", in)
	list := func(what string, subjects []string) {
		fmt.Fprintf(b, "%s  %s { allow: [\n", in, what)
		for _, s := range subjects {
			fmt.Fprintf(b, "%s    %q\n", in, s)
		}
		fmt.Fprintf(b, "%s  ] }\n", in)
	}
	list("publish", u.Publish)
	list("subscribe", u.Subscribe)
	if u.Answers {
		fmt.Fprintf(b, "%s  allow_responses { max: %d, expires: %q }\n", in, Replies, replyWithin)
	}
	fmt.Fprintf(b, "%s}\n", in)
}
