package deps
import (
_ "github.com/stretchr/testify/require"
_ "pgregory.net/rapid"
_ "github.com/nats-io/nats.go"
_ "github.com/dgraph-io/ristretto/v2"
_ "github.com/prometheus/client_golang/prometheus"
)
