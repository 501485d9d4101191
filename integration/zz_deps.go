package deps
import (
_ "github.com/nats-io/nats.go"
_ "github.com/nats-io/nats-server/v2/server"
_ "github.com/stretchr/testify/require"
_ "pgregory.net/rapid"
_ "go.uber.org/goleak"
)
