package deps
import (
_ "github.com/stretchr/testify/require"
_ "github.com/nats-io/nats.go"
)
