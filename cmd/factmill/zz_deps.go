package deps
import (
_ "github.com/spf13/cobra"
_ "github.com/schollz/progressbar/v3"
_ "github.com/stretchr/testify/require"
_ "github.com/nats-io/nats.go"
_ "golang.org/x/term"
_ "go.yaml.in/yaml/v3"
)
