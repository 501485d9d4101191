package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
)

// version is set when a release is built: -ldflags "-X main.version=1.2.3".
var version = "dev"

func (c *cli) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs, Long: "Print the version of Factmill and of the Go it was built with.",
		Example: "  factmill version --json",
		RunE: func(*cobra.Command, []string) error {
			c.ran = true
			if c.json {
				return render.Value(c.out, map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprint(c.out, versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("factmill %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
