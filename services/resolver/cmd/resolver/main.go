// Command resolver runs the resolver alone, against a NATS server.
package main

import (
	"os"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/resolver"
)

var version = "dev"

func main() {
	os.Exit(app.Main("resolver", version, func(cfg *app.Config, deps app.Deps) (app.Service, error) {
		c := resolver.FromConfig(cfg)
		c.Version = version
		return resolver.New(c, deps)
	}))
}
