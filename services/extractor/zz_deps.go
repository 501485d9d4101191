package deps
import (
_ "golang.org/x/text/unicode/norm"
_ "github.com/stretchr/testify/require"
_ "pgregory.net/rapid"
_ "github.com/cockroachdb/datadriven"
_ "github.com/nats-io/nats.go"
_ "github.com/dgraph-io/ristretto/v2"
_ "github.com/prometheus/client_golang/prometheus"
)
