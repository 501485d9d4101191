package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// mount lays the files of NATS as its pod sees them and returns the configuration's path and the seed files by user.
func mount(t *testing.T, w *world) (conf string, seeds map[string]string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		f := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(f), 0o700))
		require.NoError(t, os.WriteFile(f, []byte(text), 0o600))
		return f
	}
	seeds = map[string]string{}
	l := w.workload("nats")
	for _, m := range l.container().VolumeMounts {
		for _, v := range l.pod.Spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil:
				for name, text := range w.maps[v.ConfigMap.Name].Data {
					if at, _ := mountedAt(l, tlsSecret); at != "" {
						text = strings.ReplaceAll(text, at+"/", filepath.Join(dir, at)+"/")
					}
					write(filepath.Join(m.MountPath, name), text)
				}
			case v.Secret != nil && v.Secret.SecretName == tlsSecret:
				names, ips := subjects(t)
				for name, text := range certified(t, names, ips) {
					write(filepath.Join(m.MountPath, name), text)
				}
			case v.Secret != nil:
				made, people := keys(t)
				require.Equal(t, "keys.conf, people.conf", documented()[v.Secret.SecretName])
				write(filepath.Join(m.MountPath, "keys.conf"), rights.KeysConfig(rights.Publics(made)))
				write(filepath.Join(m.MountPath, "people.conf"), rights.PeopleConfig(people))
				for user, k := range made {
					seeds[user] = write(filepath.Join("seeds", user), k.Seed)
				}
			}
		}
	}
	args := l.container().Args
	require.Equal(t, "--config", args[0])
	return filepath.Join(dir, args[1]), seeds
}

// authority is the file that a client of NATS would see, beside the configuration that mount wrote.
func authority(conf string) string {
	return filepath.Join(filepath.Dir(conf), "..", "nats-tls", "ca.crt")
}

// keys are those that `factmill keys` makes: of every user, and of one person.
func keys(t *testing.T) (map[string]rights.Key, []rights.Person) {
	t.Helper()
	made, err := rights.NewKeys()
	require.NoError(t, err)
	you, err := rights.NewKey()
	require.NoError(t, err)
	made["you"] = you
	return made, []rights.Person{{Name: "you", Role: rights.Operator, Key: you.Public}}
}

// options are the server's, as its pod would read them.
func options(t *testing.T, conf, pod string) *server.Options {
	t.Helper()
	t.Setenv("POD_NAME", pod)
	o, err := server.ProcessConfigFile(conf)
	require.NoError(t, err)
	return o
}

// start runs n servers with the configuration of their pods, but on loopback, on free ports, each in a directory of the test's.
func start(t *testing.T, conf string, n int32) []*server.Server {
	t.Helper()
	var routes []*url.URL
	var ports []net.Listener // held until all are known
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports = append(ports, l)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
	}
	var all []*server.Server
	for i, l := range ports {
		o := options(t, conf, fmt.Sprintf("nats-%d", i))
		if n > 1 {
			require.Len(t, o.Routes, int(n))
			o.Cluster.Host, o.Cluster.Port, o.Routes = "127.0.0.1", l.Addr().(*net.TCPAddr).Port, routes
		}
		o.StoreDir, o.Host, o.Port, o.HTTPHost, o.HTTPPort = t.TempDir(), "127.0.0.1", server.RANDOM_PORT, "127.0.0.1", server.RANDOM_PORT
		o.NoSigs, o.NoLog = true, true
		s, err := server.NewServer(o)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		all = append(all, s)
	}
	for _, s := range all {
		require.True(t, s.ReadyForConnections(30*time.Second))
	}
	return all
}

// NATS takes the rendered configuration, its ports are the pod's, and its store holds what the table may need.
func TestNATSConfiguration(t *testing.T) {
	files := readTree(t)
	for dir, e := range overlays {
		t.Run(dir, func(t *testing.T) {
			w, err := files.look(dir)
			require.NoError(t, err)
			conf, _ := mount(t, w)
			o := options(t, conf, "nats-0")
			l := w.workload("nats")
			require.EqualValues(t, o.Port, portOf(l, "client"))
			require.EqualValues(t, o.HTTPPort, portOf(l, "monitor"))
			require.Equal(t, "nats-0", o.ServerName)
			require.True(t, o.JetStream)
			require.Equal(t, "/data", o.StoreDir)
			grace := time.Duration(*l.pod.Spec.TerminationGracePeriodSeconds) * time.Second
			require.Greater(t, grace, o.LameDuckDuration+o.LameDuckGracePeriod)

			need := int64(0)
			table := bus.NewTable(bus.TableOptions{})
			for _, s := range table.Streams {
				need += max(s.MaxBytes, 0)
			}
			for _, b := range table.Buckets {
				need += b.MaxBytes
			}
			volume := l.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"]
			require.Greater(t, o.JetStreamMaxStore, need+1<<30, "and the audit trail, which has no bound")
			require.Less(t, o.JetStreamMaxStore, volume.Value())
			require.True(t, volume.Cmp(resource.MustParse("1Gi")) > 0)

			require.Equal(t, e.nats > 1, o.Cluster.Port != 0)
			if e.nats == 1 {
				return
			}
			require.EqualValues(t, o.Cluster.Port, portOf(l, "cluster"))
			require.True(t, o.Cluster.NoAdvertise)
			var routes []string
			for _, r := range o.Routes {
				routes = append(routes, r.String())
			}
			var want []string
			for i := range e.nats {
				want = append(want, fmt.Sprintf("nats://nats-%d.%s:%d", i, l.set.Spec.ServiceName, o.Cluster.Port))
			}
			require.Equal(t, want, routes)
		})
	}
}

// Servers with the rendered configuration let each user in with its seed and nobody without, take the whole table, answer the
// probes, and tell KEDA the lag of every consumer that a ScaledObject names, at the server that leads it.
func TestNATSServes(t *testing.T) {
	w, err := readTree(t).look("overlays/ha")
	require.NoError(t, err)
	conf, seeds := mount(t, w)
	e := overlays["overlays/ha"]
	servers := start(t, conf, e.nats)
	table := bus.NewTable(bus.TableOptions{Replicas: int(e.nats)})

	connect := func(user string) (*bus.Conn, error) {
		o := bus.Options{URL: servers[0].ClientURL(), NKey: seeds[user], CA: authority(conf), Once: true}
		if user != "you" {
			o.Inbox = bus.Inbox(user)
		}
		return bus.Connect(t.Context(), o)
	}
	_, err = connect("nobody")
	require.ErrorIs(t, err, bus.ErrRefused)
	conn, err := connect(rights.Provision)
	require.NoError(t, err)
	defer conn.Close()
	testkit.AwaitFor(t, time.Minute, "the streams", func() bool { // until the cluster has a leader and its members: the Job tries again, too
		err = bus.EnsureAll(t.Context(), conn.JS, table)
		return err == nil
	})
	for _, name := range append([]string{rights.Admin}, running...) {
		c, err := connect(name)
		require.NoError(t, err, name)
		require.NoError(t, c.Check(t.Context(), table), name)
		c.Close()
	}
	require.Len(t, seeds, len(running)+3) // and provision, admin, the replica, you
	// A person's documents get in, and what only a service may say does not, at whichever server.
	you, err := connect("you")
	require.NoError(t, err)
	defer you.Close()
	_, err = you.Ingest(t.Context(), "default", []byte(`{"text":"Ada."}`), nil)
	require.NoError(t, err)
	require.NoError(t, you.NC.Publish(events.Subject{Graph: "default", Kind: events.KindLoaded, Job: "j1", Item: "d"}.String(), nil))
	require.ErrorIs(t, testkit.Receive(t, "a violation", you.Failed()), nats.ErrPermissionViolation)

	k := w.workload("nats").container()
	for _, s := range servers {
		for _, probe := range []string{k.StartupProbe.HTTPGet.Path, k.LivenessProbe.HTTPGet.Path, k.ReadinessProbe.HTTPGet.Path} {
			require.Contains(t, string(get(t, "http://"+s.MonitorAddr().String()+probe)), `"ok"`, probe)
		}
	}
	for _, o := range w.scaled {
		for _, tr := range o.Spec.Triggers {
			testkit.AwaitFor(t, 20*time.Second, fmt.Sprint(o.Name, tr.Metadata), func() bool { return led(t, servers, tr.Metadata) })
		}
	}
	require.False(t, led(t, servers, map[string]string{"account": "$G", "stream": bus.StreamFound, "consumer": bus.DurableLoader}))
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode, string(b))
	return b
}

// led asks each server as KEDA does, and says whether one shows the consumer and is its leader.
func led(t *testing.T, servers []*server.Server, m map[string]string) bool {
	t.Helper()
	for _, s := range servers {
		var info struct {
			Accounts []struct {
				Name    string `json:"name"`
				Streams []struct {
					Name      string `json:"name"`
					Consumers []struct {
						Name    string `json:"name"`
						Cluster struct {
							Leader string `json:"leader"`
						} `json:"cluster"`
					} `json:"consumer_detail"`
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		url := fmt.Sprintf("http://%s/jsz?acc=%s&consumers=true&config=true", s.MonitorAddr(), account)
		require.NoError(t, json.Unmarshal(get(t, url), &info))
		for _, a := range info.Accounts {
			for _, st := range a.Streams {
				for _, c := range st.Consumers {
					if a.Name == m["account"] && st.Name == m["stream"] && c.Name == m["consumer"] && c.Cluster.Leader == s.Name() {
						return true
					}
				}
			}
		}
	}
	return false
}
