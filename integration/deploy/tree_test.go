// Package deploy checks what is under deploy/ against the code: it renders the overlays as kubectl does, decodes them strictly, and
// compares names, ports, streams, environment and rights with the repository's. It needs no cluster.
package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

const root = "../.."

// tree is the files of deploy/k8s, by their paths from there.
type tree map[string]string

func readTree(t *testing.T) tree {
	t.Helper()
	dir := filepath.Join(root, "deploy", "k8s")
	out := tree{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)] = string(b)
		return nil
	}))
	require.Greater(t, len(out), 20)
	return out
}

// with is the tree with one more file, or another one.
func (t tree) with(name, text string) tree {
	out := tree{name: text}
	for n, s := range t {
		if n != name {
			out[n] = s
		}
	}
	return out
}

// render is what kubectl kustomize prints for a directory of the tree.
func (t tree) render(dir string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	for n, s := range t {
		if err := disk.WriteFile("/k8s/"+n, []byte(s)); err != nil {
			return nil, err
		}
	}
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/k8s/"+dir)
	if err != nil {
		return nil, err
	}
	return m.AsYaml()
}

// The types of custom resources, as far as the manifests use them: their modules bring whole operators along.

type trigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
}

type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32    `json:"minReplicaCount"`
		MaxReplicaCount *int32    `json:"maxReplicaCount"`
		PollingInterval *int32    `json:"pollingInterval"`
		CooldownPeriod  *int32    `json:"cooldownPeriod"`
		Triggers        []trigger `json:"triggers"`
	} `json:"spec"`
}

type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector        metav1.LabelSelector `json:"selector"`
		PodTargetLabels []string             `json:"podTargetLabels"`
		Endpoints       []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type issuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName  string          `json:"secretName"`
		CommonName  string          `json:"commonName"`
		IsCA        bool            `json:"isCA"`
		Duration    metav1.Duration `json:"duration"`
		RenewBefore metav1.Duration `json:"renewBefore"`
		PrivateKey  struct {
			Algorithm      string `json:"algorithm"`
			Size           int    `json:"size"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		Usages      []string `json:"usages"`
		DNSNames    []string `json:"dnsNames"`
		IPAddresses []string `json:"ipAddresses"`
		IssuerRef   struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// world is what an overlay makes of a cluster.
type world struct {
	workloads  []workload
	services   []*corev1.Service
	maps       map[string]*corev1.ConfigMap // by name
	budgets    []*policyv1.PodDisruptionBudget
	policies   []*netv1.NetworkPolicy
	scaled     []*scaledObject
	monitors   []*serviceMonitor
	issuers    []*issuer
	certs      []*certificate
	namespaces []*corev1.Namespace
}

// workload is a Deployment, StatefulSet or Job.
type workload struct {
	kind, name string
	selector   *metav1.LabelSelector // nil: a Job's is made by the cluster
	replicas   *int32
	pod        corev1.PodTemplateSpec
	set        *appsv1.StatefulSet
}

func (w workload) container() corev1.Container { return w.pod.Spec.Containers[0] }

func (w workload) String() string { return w.kind + " " + w.name }

func (w *world) workload(name string) *workload {
	for i := range w.workloads {
		if w.workloads[i].name == name {
			return &w.workloads[i]
		}
	}
	return nil
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, netv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

var strict = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

// decode reads manifests strictly: an unknown kind, an unknown or doubled field, or a value of a wrong type is an error.
func decode(manifests []byte) (*world, error) {
	w := &world{maps: map[string]*corev1.ConfigMap{}}
	docs := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(manifests)))
	defer docs.Close()
	buf := make([]byte, 1<<20)
	seen := map[string]bool{}
	for {
		n, err := docs.Read(buf)
		if errors.Is(err, io.EOF) {
			return w, nil
		}
		if err != nil {
			return nil, err
		}
		doc := buf[:n]
		var head metav1.PartialObjectMetadata
		if err := sigsyaml.Unmarshal(doc, &head); err != nil {
			return nil, err
		}
		id := head.Kind + " " + head.Namespace + "/" + head.Name
		if seen[id] {
			return nil, fmt.Errorf("%s stands twice", id)
		}
		seen[id] = true
		if head.Namespace != namespace && head.Kind != "Namespace" {
			return nil, fmt.Errorf("%s is not in the namespace %s", id, namespace)
		}
		if err := w.add(head, doc); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
}

func (w *world) add(head metav1.PartialObjectMetadata, doc []byte) error {
	switch head.APIVersion + "/" + head.Kind {
	case "keda.sh/v1alpha1/ScaledObject":
		o := &scaledObject{}
		w.scaled = append(w.scaled, o)
		return sigsyaml.UnmarshalStrict(doc, o)
	case "monitoring.coreos.com/v1/ServiceMonitor":
		o := &serviceMonitor{}
		w.monitors = append(w.monitors, o)
		return sigsyaml.UnmarshalStrict(doc, o)
	case "cert-manager.io/v1/Issuer":
		o := &issuer{}
		w.issuers = append(w.issuers, o)
		return sigsyaml.UnmarshalStrict(doc, o)
	case "cert-manager.io/v1/Certificate":
		o := &certificate{}
		w.certs = append(w.certs, o)
		return sigsyaml.UnmarshalStrict(doc, o)
	}
	o, _, err := strict.Decode(doc, nil, nil)
	if err != nil {
		return err
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		w.workloads = append(w.workloads, workload{kind: "Deployment", name: o.Name, selector: o.Spec.Selector, replicas: o.Spec.Replicas, pod: o.Spec.Template})
	case *appsv1.StatefulSet:
		w.workloads = append(w.workloads, workload{kind: "StatefulSet", name: o.Name, selector: o.Spec.Selector, replicas: o.Spec.Replicas, pod: o.Spec.Template, set: o})
	case *batchv1.Job:
		w.workloads = append(w.workloads, workload{kind: "Job", name: o.Name, pod: o.Spec.Template})
	case *corev1.Service:
		w.services = append(w.services, o)
	case *corev1.ConfigMap:
		w.maps[o.Name] = o
	case *policyv1.PodDisruptionBudget:
		w.budgets = append(w.budgets, o)
	case *netv1.NetworkPolicy:
		w.policies = append(w.policies, o)
	case *corev1.Namespace:
		w.namespaces = append(w.namespaces, o)
	default:
		return fmt.Errorf("nothing checks a %T: no Secret with values, and no kind that this test does not know", o)
	}
	return nil
}

// look renders and decodes.
func (t tree) look(dir string) (*world, error) {
	b, err := t.render(dir)
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// Every file is read by a kustomization, and every manifest as it stands is strict: rendering would hide a key that stands twice.
func TestFilesAreUsedAndStrict(t *testing.T) {
	files := readTree(t)
	used := map[string]bool{}
	n := 0
	for name, text := range files {
		if path.Base(name) != "kustomization.yaml" {
			continue
		}
		used[name] = true
		var k types.Kustomization
		require.NoError(t, sigsyaml.UnmarshalStrict([]byte(text), &k), name)
		at := func(f string) string { return path.Join(path.Dir(name), f) }
		for _, r := range k.Resources {
			used[at(r)] = true
			for i, doc := range strings.Split(files[at(r)], "\n---\n") {
				if strings.TrimSpace(doc) == "" {
					continue
				}
				var head metav1.PartialObjectMetadata
				require.NoError(t, sigsyaml.Unmarshal([]byte(doc), &head), "%s, document %d", at(r), i)
				require.NoError(t, (&world{maps: map[string]*corev1.ConfigMap{}}).add(head, []byte(doc)), "%s, document %d", at(r), i)
				n++
			}
		}
		for _, p := range k.Patches {
			used[at(p.Path)] = true
		}
		for _, c := range k.ConfigMapGenerator {
			for _, f := range c.FileSources {
				used[at(f)] = true
			}
		}
	}
	require.Greater(t, n, 25)
	for name := range files {
		require.True(t, used[name], "deploy/k8s/%s is used by no kustomization", name)
	}
}
