// Command extractor runs the extractor alone, against a NATS server.
package main

import (
	"os"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/extractor"
)

var version = "dev"

func main() {
	os.Exit(app.Main("extractor", version, func(cfg *app.Config, deps app.Deps) (app.Service, error) {
		c := extractor.FromConfig(cfg)
		c.Version = version
		return extractor.New(c, deps)
	}))
}
