package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/testkit"
)

// Every verb that a service answers is one that people may ask by their role, or that another service asks: none is forgotten.
func TestEveryVerbHasItsRights(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	known := map[string]bool{}
	for _, n := range rights.Verbs {
		for v := range n.Verbs {
			known[n.Noun+"."+v] = true
		}
	}
	for _, s := range rights.Services {
		for _, v := range s.Asks {
			known[v] = true
		}
	}
	answered := map[string]bool{}
	sub, err := f.conn.NC.SubscribeSync(f.conn.NC.NewInbox())
	require.NoError(t, err)
	require.NoError(t, f.conn.NC.PublishRequest("$SRV.INFO", sub.Subject, nil))
	for len(answered) == 0 || !answered["judged"] || !answered["all"] {
		m, err := sub.NextMsg(testkit.Patience)
		require.NoError(t, err)
		var info struct {
			Name      string `json:"name"`
			Endpoints []struct {
				Subject string `json:"subject"`
			} `json:"endpoints"`
		}
		require.NoError(t, json.Unmarshal(m.Data, &info))
		for _, e := range info.Endpoints {
			if name, ok := strings.CutPrefix(e.Subject, "factmill.*."); ok {
				require.True(t, known[name], "%s answers %s, and nobody may ask it: pkg/bus/rights", info.Name, name)
				answered[name] = true
			}
		}
		answered["judged"] = answered["judged"] || info.Name == "resolver"
		answered["all"] = answered["query.entity"] && answered["jobs.open"] && answered["review.list"]
	}
	for name := range known {
		if strings.HasPrefix(name, "replica.") || strings.HasPrefix(name, "feed.") { // no replica runs here
			continue
		}
		require.True(t, answered[name], "nobody answers %s, which pkg/bus/rights has", name)
	}
}

// A token and TLS keep strangers from an up, which names neither.
func TestUpWithATokenAndTLS(t *testing.T) {
	dir, addr := t.TempDir(), strings.Replace(freeAddress(t), "127.0.0.1", "0.0.0.0", 1)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("open-sesame\n"), 0o600))
	p := spawn(t, nil, "factmill", "up", "--data", dir, "--listen", addr, "--token-file", token, "--tls")
	url, ca := "nats://"+strings.Replace(addr, "0.0.0.0", "127.0.0.1", 1), filepath.Join(dir, "tls", "cert.pem")
	testkit.Await(t, "up", func() bool { return strings.Contains(p.output(), "Factmill is up") || ended(p) })
	stats := []string{"stats", "--nats", url, "--timeout", "5s"}
	for what, c := range map[string]struct {
		code int
		args []string
		says string
	}{
		"both":        {0, []string{"--tls-ca", ca, "--token-file", token}, ""},
		"no token":    {3, []string{"--tls-ca", ca}, "NATS refused the connection"},
		"wrong token": {3, []string{"--tls-ca", ca, "--token", "x"}, "NATS refused the connection"},
		"no TLS":      {3, []string{"--token-file", token}, "certificate"},
	} {
		r := run(t, "", append(stats, c.args...)...)
		require.Equal(t, c.code, r.code, "%s: %s", what, r.stderr)
		require.Contains(t, r.stderr, c.says, what)
	}
	require.NotContains(t, p.output(), "WARNING")
	require.NotContains(t, p.output(), "open-sesame")
	p.stop(t)

	q := spawn(t, nil, "factmill", "up", "--data", dir, "--listen", strings.Replace(freeAddress(t), "127.0.0.1", "0.0.0.0", 1))
	testkit.Await(t, "up", func() bool { return strings.Contains(q.output(), "Factmill is up") || ended(q) })
	require.Contains(t, q.output(), "WARNING: at 0.0.0.0:")
	require.Contains(t, q.output(), "anybody who can connect may read and change every graph, unencrypted")
	q.stop(t)
}

func ended(p *process) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
