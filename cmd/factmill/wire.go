package main

import (
	"path/filepath"
	"slices"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/chunker"
	"github.com/factmill/factmill/services/committer"
	"github.com/factmill/factmill/services/extractor"
	"github.com/factmill/factmill/services/loader"
	"github.com/factmill/factmill/services/resolver"
	"github.com/factmill/factmill/services/reviewer"
)

// builders is all the wiring of the all-in-one: the six services, in the order in which they are started. A service of its own
// binary is made in the same way.
var builders = []target.Builder{
	{Name: "committer", Build: func(cfg *app.Config, dir string, _ bool, deps app.Deps) (app.Service, error) {
		c := committer.FromConfig(cfg)
		c.Dir, c.Version = filepath.Join(dir, "store"), version
		return committer.New(c, deps)
	}},
	{Name: "reviewer", Build: func(cfg *app.Config, _ string, _ bool, deps app.Deps) (app.Service, error) {
		c := reviewer.FromConfig(cfg)
		c.Version = version
		return reviewer.New(c, deps)
	}},
	{Name: "resolver", Build: func(cfg *app.Config, _ string, pinned bool, deps app.Deps) (app.Service, error) {
		c := resolver.FromConfig(cfg)
		c.Pinned, c.Version = pins(c.Pinned, pinned), version
		return resolver.New(c, deps)
	}},
	{Name: "extractor", Build: func(cfg *app.Config, _ string, pinned bool, deps app.Deps) (app.Service, error) {
		c := extractor.FromConfig(cfg)
		c.Pinned, c.Version = pins(c.Pinned, pinned), version
		return extractor.New(c, deps)
	}},
	{Name: "chunker", Build: func(cfg *app.Config, _ string, pinned bool, deps app.Deps) (app.Service, error) {
		c := chunker.FromConfig(cfg)
		c.Pinned, c.Version = pins(c.Pinned, pinned), version
		return chunker.New(c, deps)
	}},
	{Name: "loader", Build: func(cfg *app.Config, _ string, _ bool, deps app.Deps) (app.Service, error) {
		c := loader.FromConfig(cfg)
		c.Version = version
		return loader.New(c, deps)
	}},
}

// served are the services that serve can run: those of the all-in-one, and the read replica, which all does not mean.
var served = append(slices.Clone(builders), target.Builder{Name: "replica", Build: func(cfg *app.Config, dir string, _ bool, deps app.Deps) (app.Service, error) {
	c := committer.ReplicaFromConfig(cfg)
	c.Dir, c.Version = filepath.Join(dir, "replica"), version
	return committer.NewReplica(c, deps)
}})

// pins are the settings that a service insists on: none in the all-in-one, where they were put into the graph.
func pins(in map[string]string, pinned bool) map[string]string {
	if pinned {
		return in
	}
	return nil
}
