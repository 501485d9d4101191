// Factmill turns documents into a knowledge graph whose every fact shows its sentence. This is the all-in-one binary and the
// command line; see `factmill --help`.
package main

import (
	"os"
)

func main() {
	os.Exit(profiled(func() int { return run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()) }))
}
