package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/events"
)

// onReplica are the commands that a read replica can answer.
var onReplica = []string{
	"stats", "entity", "neighbors", "path", "evidence", "document", "search", "documents", "entities", "facts", "export", "verify",
}

// credentials are the values that say who a connection is, and encryption those that say whom it trusts.
var (
	credentials = []string{"nats.creds", "nats.nkey", "nats.user", "nats.password"}
	encryption  = []string{"nats.token", "nats.token_file", "nats.tls.ca", "nats.tls.cert", "nats.tls.key"}
)

// checkCall refuses flags that no place makes right.
func (c *cli) checkCall(cmd *cobra.Command) error {
	if c.timeout <= 0 {
		return fmt.Errorf("--timeout is %s: it must be more than nothing, such as 30s", c.timeout)
	}
	if !c.replica {
		return nil
	}
	if cmd.Parent() == nil || cmd.Parent().HasParent() || !slices.Contains(onReplica, cmd.Name()) {
		return fmt.Errorf("--replica: %s asks the committer, a replica cannot answer it: leave it out (replicas answer %s)", cmd.CommandPath(), strings.Join(onReplica, ", "))
	}
	if c.cfg.Get("nats.url") == "" || c.cfg.Source("data") == "flag" {
		return errors.New("--replica reads at running services, and nothing here says which: give --nats URL, and no --data")
	}
	return nil
}

// checkPlace refuses flags about a connection that is not made where the command works.
func (c *cli) checkPlace() error {
	switch url, data := c.cfg.Get("nats.url"), c.cfg.Source("data") == "flag"; {
	case data && c.given["nats.url"] != "":
		return target.ErrBothTargets
	case data:
		return c.refuse("--data works embedded on that directory, where nobody asks for it: give it with --nats URL, or leave it out", credentials, encryption)
	case url == "":
		return c.refuse("it is for the server of --nats URL, and none is given", credentials)
	}
	return nil
}

// ownServer refuses flags of a client for up, which brings the server.
func (c *cli) ownServer() error {
	return c.refuse("up brings its own NATS, which knows no names or keys: leave it out. --token-file asks clients for a token; "+
		"for people with names run a NATS server of your own (factmill keys, factmill serve)", credentials, []string{"nats.tls.ca"})
}

// refuse is wrong usage when the call has a flag for one of the values.
func (c *cli) refuse(why string, lists ...[]string) error {
	for _, key := range slices.Concat(lists...) {
		if flag := c.given[key]; flag != "" {
			return usagef("--%s: %s", flag, why)
		}
	}
	return nil
}

// called is how the call gave a configuration value: a flag, a variable, or its name in the file.
func (c *cli) called(key string) string {
	switch {
	case c.given[key] != "":
		return "--" + c.given[key]
	case c.cfg != nil && c.cfg.Source(key) == "environment":
		return app.EnvName(key)
	case c.cfg != nil && c.cfg.Source(key) == "file":
		return key + " in the configuration file"
	}
	for _, s := range short {
		if s.key == key {
			return "--" + s.flag
		}
	}
	return key
}

// explained says what people can do about an error of the connection: its options under the names that the call gave them, and who may what
// this user may not.
func (c *cli) explained(err error) error {
	var bad *bus.BadOption
	if errors.As(err, &bad) {
		return usagef("%s", bad.Called(c.called(bad.Key)))
	}
	return permitted(err)
}

// permitted adds to a refusal of NATS the roles or users that may.
func permitted(err error) error {
	e := refusal(err)
	if e == nil || e.Code != "not_allowed" || e.Details["needs"] != nil {
		return err
	}
	subject, _ := e.Details["subject"].(string)
	if subject == "" {
		return err
	}
	roles, users := rights.Needs(subject, e.Details["does"] == "subscribe")
	said := *e
	said.Details = maps.Clone(e.Details)
	said.Details["needs"] = map[string]any{"roles": roles, "users": users}
	said.Message = fmt.Sprintf("%s: it takes %s; who runs the NATS server gives it (factmill keys)", err.Error(), needed(roles, users))
	return &said
}

// needed names roles of people, and users by their keys.
func needed(roles []rights.Role, users []string) string {
	var out []string
	if names := fmt.Sprint(roles); len(roles) > 0 {
		out = append(out, "the role "+orList(strings.Fields(strings.Trim(names, "[]"))))
	}
	if len(users) > 0 {
		out = append(out, "the key of "+orList(users))
	}
	return strings.Join(out, ", or ")
}

func orList(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}

// reach are the flags by which another command reaches the place where this one works, without secrets: those that this one was given.
// Commands find what comes from the environment or the file by themselves.
func (c *cli) reach(key string) string {
	out := ""
	if c.config != "" {
		out += " --config " + quoted(c.config)
	}
	for _, s := range short {
		if s.key == "nats.nkey" && key != "" && c.cfg.Get(s.key) != "" {
			out += " --" + s.flag + " " + quoted(key)
			continue
		}
		if c.given[s.key] == "" {
			continue
		}
		switch value := c.cfg.Get(s.key); s.key {
		case "nats.url":
			out += " --nats " + quoted(bus.Redacted(value))
		case "nats.password":
			out += " --password …"
		case "nats.token":
			out += " --token-file FILE"
		default:
			out += " --" + s.flag + " " + quoted(value)
		}
	}
	if c.graph != "" && c.graph != events.DefaultGraph {
		out += " --graph " + c.graph
	}
	return out
}

// at is how a hint's command reaches the place where this one works.
func (c *cli) at() string {
	if c.cfg == nil {
		return ""
	}
	return c.reach("")
}

// atAs is at with the seed of another user: it lies beside the one that this command was given, as factmill keys lays them.
func (c *cli) atAs(user string) string {
	key := c.cfg.Get("nats.nkey")
	return c.reach(filepath.Join(filepath.Dir(key), user))
}
