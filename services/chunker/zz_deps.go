package deps
import (
_ "github.com/yuin/goldmark"
_ "github.com/yuin/goldmark/extension"
_ "github.com/stretchr/testify/require"
_ "pgregory.net/rapid"
_ "github.com/cockroachdb/datadriven"
_ "github.com/nats-io/nats.go"
_ "github.com/prometheus/client_golang/prometheus"
)
