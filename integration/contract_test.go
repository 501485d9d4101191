package integration

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

const requestWait = 5 * time.Second

// ping asks every micro service for its name, as nats micro ls does.
func (c *cluster) ping() []string {
	c.t.Helper()
	inbox := nats.NewInbox()
	sub, err := c.conn.NC.SubscribeSync(inbox)
	require.NoError(c.t, err)
	require.NoError(c.t, c.conn.NC.PublishRequest("$SRV.PING", inbox, nil))
	var names []string
	for {
		m, err := sub.NextMsg(500 * time.Millisecond)
		if err != nil {
			require.ErrorIs(c.t, err, nats.ErrTimeout)
			return names
		}
		var p struct {
			Name string `json:"name"`
		}
		require.NoError(c.t, json.Unmarshal(m.Data, &p))
		names = append(names, p.Name)
	}
}
