package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/factmill/factmill/pkg/bus"
)

// tlsSecret has the certificate of NATS, its key, and its authority.
const tlsSecret = "factmill-nats-tls"

// mountedAt is where a pod sees a Secret, and which of its keys ("" for all).
func mountedAt(l *workload, secret string) (dir string, keys []string) {
	for _, v := range l.pod.Spec.Volumes {
		if v.Secret == nil || v.Secret.SecretName != secret {
			continue
		}
		for _, m := range l.container().VolumeMounts {
			if m.Name == v.Name && m.ReadOnly {
				dir = m.MountPath
			}
		}
		for _, i := range v.Secret.Items {
			keys = append(keys, i.Key)
		}
	}
	return dir, keys
}

// encrypted: whoever speaks to NATS knows its authority and has none of its keys, or nobody expects TLS.
func (p *problems) encrypted(w *world, e expect) {
	for _, name := range append([]string{"provision"}, running...) {
		l := w.workload(name)
		cfg := p.config(w, l)
		if cfg == nil {
			continue
		}
		dir, keys := mountedAt(l, tlsSecret)
		ca := cfg.Get("nats.tls.ca")
		if !e.tls {
			p.add(ca == "" && dir == "", "%s expects TLS of NATS, which has none", l)
			continue
		}
		p.add(dir != "" && ca == dir+"/ca.crt", "%s: the authority %q is not that of %s", l, ca, tlsSecret)
		p.add(slices.Equal(keys, []string{"ca.crt"}), "%s: of %s it sees %v", l, tlsSecret, keys)
	}
	dir, keys := mountedAt(w.workload("nats"), tlsSecret)
	p.add((dir != "") == e.tls && len(keys) == 0, "StatefulSet nats: %s is at %q, keys %v", tlsSecret, dir, keys)
	p.add(documented()[tlsSecret] == "tls.crt, tls.key, ca.crt", "the table of %s does not name the keys of %s", guide, tlsSecret)
}

// certified are the files of the Secret for names and addresses, as the guide's commands make them.
func certified(t *testing.T, names []string, ips []string) map[string]string {
	t.Helper()
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	signed := func(c, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		if parent == nil {
			parent, signer = c, k
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, k.Public(), signer)
		require.NoError(t, err)
		out, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return out, k
	}
	from, to := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	ca, caKey := signed(&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "factmill"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "nats"}, NotBefore: from, NotAfter: to, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, a := range ips {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(a))
	}
	c, k := signed(leaf, ca, caKey)
	der, err := x509.MarshalECPrivateKey(k)
	require.NoError(t, err)
	return map[string]string{"ca.crt": block("CERTIFICATE", ca.Raw), "tls.crt": block("CERTIFICATE", c.Raw), "tls.key": block("EC PRIVATE KEY", der)}
}

// subjects are the names and addresses that the guide's command asks a certificate for.
func subjects(t *testing.T) (names, ips []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, guide))
	require.NoError(t, err)
	_, line, ok := strings.Cut(string(text), "subjectAltName=")
	require.True(t, ok, "%s makes no certificate", guide)
	line, _, _ = strings.Cut(line, "\n")
	for _, s := range strings.Split(line, ",") {
		kind, v, _ := strings.Cut(strings.TrimSpace(s), ":")
		switch kind {
		case "DNS":
			names = append(names, v)
		case "IP":
			ips = append(ips, v)
		default:
			require.Fail(t, "a subject is neither name nor address", s)
		}
	}
	return names, ips
}

// The certificate is good for every name under which a pod, a person behind a port-forward, or another server of the cluster speaks to NATS.
func TestCertificateNames(t *testing.T) {
	names, ips := subjects(t)
	files := certified(t, names, ips)
	b, _ := pem.Decode([]byte(files["tls.crt"]))
	leaf, err := x509.ParseCertificate(b.Bytes)
	require.NoError(t, err)
	w, err := readTree(t).look("overlays/ha")
	require.NoError(t, err)
	host := strings.TrimPrefix(strings.TrimSuffix(w.maps[mapOf(t, w, "loader")].Data["FACTMILL_NATS_URL"], ":4222"), "nats://")
	want := []string{host, host + "." + namespace, host + "." + namespace + ".svc", host + "." + namespace + ".svc.cluster.local", "localhost", "127.0.0.1"}
	conf, _ := mount(t, w)
	for _, r := range options(t, conf, "nats-0").Routes {
		want = append(want, r.Hostname())
	}
	require.Len(t, want, 9)
	for _, h := range want {
		require.NoError(t, leaf.VerifyHostname(h))
	}
	require.Error(t, leaf.VerifyHostname("elsewhere"))

	// The component with cert-manager asks for the same.
	w, err = readTree(t).with("overlays/mine/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+
		"resources: [../ha]\ncomponents: [../../components/cert-manager]\n").look("overlays/mine")
	require.NoError(t, err)
	require.Empty(t, check(w, overlays["overlays/ha"]))
	require.Len(t, w.issuers, 2)
	require.Len(t, w.certs, 2)
	by := map[string]*issuer{}
	for _, i := range w.issuers {
		by[i.Name] = i
	}
	made := map[string]bool{} // Secrets
	for _, c := range w.certs {
		made[c.Spec.SecretName] = true
		from := by[c.Spec.IssuerRef.Name]
		require.NotNil(t, from, "%s: there is no Issuer %s", c.Name, c.Spec.IssuerRef.Name)
		require.Equal(t, "Issuer", c.Spec.IssuerRef.Kind)
		require.Equal(t, c.Spec.IsCA, from.Spec.SelfSigned != nil, c.Name)
		require.Greater(t, c.Spec.Duration.Duration, c.Spec.RenewBefore.Duration+24*time.Hour)
		if c.Spec.IsCA {
			continue
		}
		require.Equal(t, tlsSecret, c.Spec.SecretName)
		require.ElementsMatch(t, names, c.Spec.DNSNames)
		require.ElementsMatch(t, ips, c.Spec.IPAddresses)
		require.Subset(t, c.Spec.Usages, []string{"server auth", "client auth"})
	}
	for _, i := range w.issuers {
		require.True(t, i.Spec.SelfSigned != nil || made[i.Spec.CA.SecretName], "nobody makes the authority of %s", i.Name)
	}
}

// mapOf is the ConfigMap of a workload's environment.
func mapOf(t *testing.T, w *world, name string) string {
	t.Helper()
	i := slices.IndexFunc(w.workload(name).container().EnvFrom, func(f corev1.EnvFromSource) bool { return f.ConfigMapRef != nil })
	require.GreaterOrEqual(t, i, 0)
	return w.workload(name).container().EnvFrom[i].ConfigMapRef.Name
}

// With TLS, NATS lets in who knows its authority, and nobody in the clear or under another authority; its servers speak TLS to each other.
func TestNATSEncrypts(t *testing.T) {
	w, err := readTree(t).look("overlays/ha")
	require.NoError(t, err)
	conf, seeds := mount(t, w)
	o := options(t, conf, "nats-0")
	require.True(t, o.TLSConfig != nil && o.Cluster.TLSConfig != nil)
	require.NotEmpty(t, o.Cluster.TLSConfig.ClientCAs, "a route is let in without a certificate")
	servers := start(t, conf, 3)
	opts := bus.Options{URL: servers[0].ClientURL(), NKey: seeds["loader"], Once: true, Inbox: bus.Inbox("loader"), CA: authority(conf)}
	c, err := bus.Connect(t.Context(), opts)
	require.NoError(t, err)
	state, err := c.NC.TLSConnectionState()
	require.NoError(t, err)
	require.EqualValues(t, 0x0304, state.Version)
	c.Close()

	opts.CA = ""
	_, err = bus.Connect(t.Context(), opts)
	require.Error(t, err)
	require.ErrorContains(t, err, "x509")
	opts.CA = filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(opts.CA, []byte(certified(t, []string{"nats"}, nil)["ca.crt"]), 0o600))
	_, err = bus.Connect(t.Context(), opts)
	require.ErrorContains(t, err, "x509")

	// A client that was told of an authority says nothing to a server in the clear, its key neither.
	base, err := readTree(t).look("base")
	require.NoError(t, err)
	conf, seeds = mount(t, base)
	plain := start(t, conf, 1)
	opts.URL, opts.NKey = plain[0].ClientURL(), seeds["loader"]
	_, err = bus.Connect(t.Context(), opts)
	require.ErrorIs(t, err, nats.ErrSecureConnWanted)
}
