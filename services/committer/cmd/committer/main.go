// Command committer runs the committer alone, against a NATS server.
package main

import (
	"os"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/committer"
)

var version = "dev"

func main() {
	os.Exit(app.Main("committer", version, func(cfg *app.Config, deps app.Deps) (app.Service, error) {
		c := committer.FromConfig(cfg)
		c.Version = version
		return committer.New(c, deps)
	}))
}
