package deps
import (
_ "golang.org/x/net/html"
_ "golang.org/x/net/html/charset"
_ "golang.org/x/text/encoding"
_ "github.com/nats-io/nats.go"
_ "github.com/stretchr/testify/require"
_ "pgregory.net/rapid"
_ "github.com/prometheus/client_golang/prometheus"
)
