package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// nodeEnv asks a test binary to be one server of a cluster.
const nodeEnv = "FACTMILL_TESTKIT_NATS_NODE"

// nodeConfig of one server, in nodeEnv.
type nodeConfig struct {
	Name, Dir, Log         string
	Client, Route, Monitor int
	Routes                 []string
}

// ServeNode never returns when the process was started by Cluster: it is one NATS server then. TestMain of a package whose tests call Cluster
// begins with it.
func ServeNode() {
	text := os.Getenv(nodeEnv)
	if text == "" {
		return
	}
	if err := serveNode(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveNode(text string) error {
	var c nodeConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("%s: %w", nodeEnv, err)
	}
	// A client that stands still is given up after some seconds instead of minutes.
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Client, HTTPHost: "127.0.0.1", HTTPPort: c.Monitor, JetStream: true, StoreDir: c.Dir,
		PingInterval: 3 * time.Second, MaxPingsOut: 2, SyncInterval: time.Second, JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 64 << 20, LogFile: c.Log, Logtime: true,
		JetStreamLimits: server.JSLimitOpts{MaxBatchTimeout: 10 * time.Second},
		Cluster:         server.ClusterOpts{Name: "factmill-test", Host: "127.0.0.1", Port: c.Route},
		Routes:          server.RoutesFromStr(strings.Join(c.Routes, ",")),
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown() // SIGTERM ends it
	return nil
}

// NATSCluster is servers on loopback, each a process of its own, so that a kill is one.
type NATSCluster struct {
	t     testing.TB
	nodes []*NATSNode
}

// NATSNode is one of them. It keeps its name, addresses and directory when it is started again.
type NATSNode struct {
	Name string
	cfg  nodeConfig
	cmd  *exec.Cmd // nil: not running
	done chan struct{}
}

// Cluster starts n servers with JetStream and waits until they have a leader. The package's TestMain must call ServeNode.
func Cluster(t testing.TB, n int) *NATSCluster {
	t.Helper()
	c := &NATSCluster{t: t}
	dir := t.TempDir()
	var routes []string
	for i := range n {
		ports := freePorts(t, 3)
		name := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &NATSNode{Name: name, cfg: nodeConfig{
			Name: name, Dir: filepath.Join(dir, name), Log: filepath.Join(dir, name+".log"), Client: ports[0], Route: ports[1], Monitor: ports[2],
		}})
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[1]))
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.Kill()
			if b, err := os.ReadFile(n.cfg.Log); err == nil && t.Failed() {
				t.Logf("--- log of %s\n%s", n.Name, tail(b, 6000))
			}
		}
	})
	for _, node := range c.nodes {
		node.cfg.Routes = routes
		c.Start(node)
	}
	Await(t, "a leader of the cluster", func() bool { return c.MetaLeader() != nil })
	return c
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func freePorts(t testing.TB, n int) (out []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close() // all at once, so that each is another
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

// Start starts a server that does not run and waits until it takes connections.
func (c *NATSCluster) Start(n *NATSNode) {
	c.t.Helper()
	require.Nil(c.t, n.cmd, "%s runs", n.Name)
	text, err := json.Marshal(n.cfg)
	require.NoError(c.t, err)
	self, err := os.Executable()
	require.NoError(c.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	require.NoError(c.t, cmd.Start())
	n.cmd, n.done = cmd, make(chan struct{})
	done := n.done
	go func() { _ = cmd.Wait(); close(done) }() // killed: always an error
	Await(c.t, n.Name+" takes connections", func() bool {
		conn, err := net.DialTimeout("tcp", n.address(), time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

func (n *NATSNode) address() string { return fmt.Sprintf("127.0.0.1:%d", n.cfg.Client) }

// Kill ends a server as kill -9 does, and waits. It does nothing when it does not run.
func (n *NATSNode) Kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-n.done
	n.cmd = nil
}

// Nodes are all servers.
func (c *NATSCluster) Nodes() []*NATSNode { return c.nodes }

// URL is that of every server, with commas.
func (c *NATSCluster) URL() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, "nats://"+n.address())
	}
	return strings.Join(all, ",")
}

// Node returns a server by its name.
func (c *NATSCluster) Node(name string) *NATSNode {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	require.Fail(c.t, "no such server", name)
	return nil
}

// MetaLeader leads what makes and moves streams; nil while nobody does, as the servers that run see it.
func (c *NATSCluster) MetaLeader() *NATSNode {
	for _, n := range c.nodes {
		if n.cmd == nil {
			continue
		}
		var jsz struct {
			Meta struct {
				Leader string `json:"leader"`
			} `json:"meta_cluster"`
		}
		if n.ask("jsz", &jsz) != nil || jsz.Meta.Leader == "" {
			continue
		}
		if l := c.Node(jsz.Meta.Leader); l.cmd != nil {
			return l
		}
	}
	return nil
}

func (n *NATSNode) ask(what string, into any) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%s", n.cfg.Monitor, what), nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(into)
}
