// Command loader runs the loader alone, against a NATS server.
package main

import (
	"os"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/loader"
)

var version = "dev"

func main() {
	os.Exit(app.Main("loader", version, func(cfg *app.Config, deps app.Deps) (app.Service, error) {
		c := loader.FromConfig(cfg)
		c.Version = version
		return loader.New(c, deps)
	}))
}
