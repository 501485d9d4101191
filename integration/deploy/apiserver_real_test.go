//go:build real

package deploy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/factmill/factmill/pkg/testkit"
)

// cluster is a Kubernetes API server with its store, and nothing else: no controllers, so what is created stays as it is.
type cluster struct {
	base   string
	client *http.Client
	kinds  map[string]kindAt // by "apiVersion kind"
}

// kindAt is where objects of a kind lie.
type kindAt struct {
	path       string // "/api/v1" or "/apis/apps/v1"
	name       string // plural
	namespaced bool
}

const token = "of-the-test"

// realParts are the binaries that `make real/kubernetes` builds; without them the test is not run.
func realParts(t *testing.T) (etcd, apiserver string) {
	t.Helper()
	dir := filepath.Join(root, ".real", "kubernetes")
	if d := os.Getenv("FACTMILL_REAL_KUBERNETES"); d != "" {
		dir = d
	}
	etcd, apiserver = filepath.Join(dir, "bin", "etcd"), filepath.Join(dir, "bin", "kube-apiserver")
	for _, f := range []string{etcd, apiserver} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("NOT RUN: there is no %s: make real/kubernetes builds it; the strict decoding of the other tests covers fields and types", f)
		}
	}
	return etcd, apiserver
}

// realCluster starts an API server and its store, empty, on loopback. Both processes are ended by their ids.
func realCluster(t *testing.T) *cluster {
	t.Helper()
	etcd, apiserver := realParts(t)
	work := t.TempDir()
	store, peer := "http://"+freeAddress(t), "http://"+freeAddress(t)
	background(t, filepath.Join(work, "etcd.log"), etcd, "--data-dir", filepath.Join(work, "etcd"), "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error")

	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(k)
	require.NoError(t, err)
	put := func(name, text string) string {
		f := filepath.Join(work, name)
		require.NoError(t, os.WriteFile(f, []byte(text), 0o600))
		return f
	}
	files := certified(t, []string{"localhost"}, []string{"127.0.0.1"})
	accounts := put("accounts.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	at := freeAddress(t)
	_, port, err := net.SplitHostPort(at)
	require.NoError(t, err)
	log := filepath.Join(work, "apiserver.log")
	ended := background(t, log, apiserver, "--etcd-servers", store, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", port, "--endpoint-reconciler-type", "none",
		"--tls-cert-file", put("tls.crt", files["tls.crt"]), "--tls-private-key-file", put("tls.key", files["tls.key"]),
		"--token-auth-file", put("tokens.csv", token+",admin,admin,system:masters\n"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://localhost", "--service-account-key-file", accounts, "--service-account-signing-key-file", accounts,
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount")
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(files["ca.crt"])))
	c := &cluster{base: "https://" + at, kinds: map[string]kindAt{},
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}}
	testkit.AwaitFor(t, 2*time.Minute, "the API server", func() bool {
		select {
		case <-ended:
			text, _ := os.ReadFile(log)
			require.Fail(t, "the API server ended", "%s", text[max(0, len(text)-3000):])
		default:
		}
		r, err := c.call(t.Context(), http.MethodGet, "/readyz", "", nil)
		return err == nil && r.code == http.StatusOK
	})
	return c
}

// background runs a command until the test ends; the channel is closed when it has ended by then.
func background(t *testing.T, log, name string, args ...string) <-chan struct{} {
	t.Helper()
	out, err := os.Create(log)
	require.NoError(t, err)
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		<-done
		timer.Stop()
		_ = out.Close()
	})
	return done
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// answer is what the server said.
type answer struct {
	code     int
	warnings []string
	body     []byte
	object   unstructured.Unstructured
}

func (c *cluster) call(ctx context.Context, method, path, query string, o *unstructured.Unstructured) (a answer, err error) {
	var body io.Reader
	if o != nil {
		b, err := o.MarshalJSON()
		if err != nil {
			return a, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+query, body)
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	r, err := c.client.Do(req)
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	if a.body, err = io.ReadAll(io.LimitReader(r.Body, 8<<20)); err != nil {
		return a, err
	}
	a.code, a.warnings = r.StatusCode, r.Header.Values("Warning")
	if json.Valid(a.body) {
		_ = json.Unmarshal(a.body, &a.object.Object) // of an answer that is no object the code says enough
	}
	return a, nil
}

// where is the place of a kind, asked of the server.
func (c *cluster) where(ctx context.Context, apiVersion, kind string) (kindAt, error) {
	if r, ok := c.kinds[apiVersion+" "+kind]; ok {
		return r, nil
	}
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	a, err := c.call(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return kindAt{}, err
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		return kindAt{}, err
	}
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") {
			c.kinds[apiVersion+" "+r.Kind] = kindAt{path, r.Name, r.Namespaced}
		}
	}
	r, ok := c.kinds[apiVersion+" "+kind]
	if !ok {
		return r, fmt.Errorf("the server has no %s of %s", kind, apiVersion)
	}
	return r, nil
}

// create creates an object with strict validation of its fields, or tries to (dry).
func (c *cluster) create(ctx context.Context, o *unstructured.Unstructured, dry bool) (a answer, err error) {
	at, err := c.where(ctx, o.GetAPIVersion(), o.GetKind())
	if err != nil {
		return a, err
	}
	query := "?fieldValidation=Strict&fieldManager=test"
	if dry {
		query += "&dryRun=All"
	}
	return c.call(ctx, http.MethodPost, at.of(o.GetNamespace()), query, o)
}

func (r kindAt) of(namespace string) string {
	if !r.namespaced {
		return r.path + "/" + r.name
	}
	return r.path + "/namespaces/" + namespace + "/" + r.name
}

// get reads an object back.
func (c *cluster) get(ctx context.Context, o *unstructured.Unstructured) (answer, error) {
	at, err := c.where(ctx, o.GetAPIVersion(), o.GetKind())
	if err != nil {
		return answer{}, err
	}
	return c.call(ctx, http.MethodGet, at.of(o.GetNamespace())+"/"+o.GetName(), "", nil)
}

// objects are the documents of manifests.
func objects(manifests []byte) ([]*unstructured.Unstructured, error) {
	docs := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(manifests)))
	defer docs.Close()
	buf := make([]byte, 1<<20)
	var out []*unstructured.Unstructured
	for {
		n, err := docs.Read(buf)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal(buf[:n], &o.Object); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
}
