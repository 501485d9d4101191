// Command reviewer runs the reviewer alone, against a NATS server.
package main

import (
	"os"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/reviewer"
)

var version = "dev"

func main() {
	os.Exit(app.Main("reviewer", version, func(cfg *app.Config, deps app.Deps) (app.Service, error) {
		c := reviewer.FromConfig(cfg)
		c.Version = version
		return reviewer.New(c, deps)
	}))
}
