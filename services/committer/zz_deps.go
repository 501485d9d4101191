package deps
import (
_ "github.com/cockroachdb/pebble/v2"
_ "github.com/cockroachdb/pebble/v2/vfs"
_ "github.com/cockroachdb/datadriven"
_ "github.com/stretchr/testify/require"
_ "pgregory.net/rapid"
_ "github.com/nats-io/nats.go"
_ "github.com/dgraph-io/ristretto/v2"
_ "github.com/prometheus/client_golang/prometheus"
_ "go.uber.org/goleak"
)
