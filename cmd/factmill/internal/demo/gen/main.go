// Command gen copies the documents and the schema of an example: gen FROM TO.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want FROM and TO, not %d arguments", len(args))
	}
	from, to := args[0], args[1]
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(to, "docs"), os.DirFS(filepath.Join(from, "docs"))); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(from, "schema.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "schema.yaml"), b, 0o644)
}
