// Command chunker runs the chunker alone, against a NATS server.
package main

import (
	"os"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/chunker"
)

var version = "dev"

func main() {
	os.Exit(app.Main("chunker", version, func(cfg *app.Config, deps app.Deps) (app.Service, error) {
		c := chunker.FromConfig(cfg)
		c.Version = version
		return chunker.New(c, deps)
	}))
}
