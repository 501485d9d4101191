//go:build real

package deploy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/factmill/factmill/pkg/testkit"
)

// define makes the kinds of KEDA, the Prometheus operator and cert-manager known. Their definitions are in testdata/crds: our own, from the
// public references, as far as the manifests go, strict.
func (c *cluster) define(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/crds/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		list, err := objects(b)
		require.NoError(t, err)
		for _, o := range list {
			a, err := c.create(t.Context(), o, false)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, a.code, "%s: %s", f, a.body)
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			version := fmt.Sprint(group, "/", versions[0].(map[string]any)["name"])
			testkit.AwaitFor(t, time.Minute, kind, func() bool {
				_, err := c.where(t.Context(), version, kind)
				if err != nil {
					return false
				}
				probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "probe", "namespace": "default"}, "surplus": 1}}
				a, err := c.create(t.Context(), probe, true) // until the kind is served, and checks its fields
				return err == nil && a.code == http.StatusBadRequest && strings.Contains(string(a.body), "surplus")
			})
		}
	}
}

// TestRealKubernetes: a real API server takes every object of each overlay, strictly validated, without a warning, first as a trial and then
// really, and admits the pods of every template under the restricted level of the namespace.
func TestRealKubernetes(t *testing.T) {
	realParts(t)
	files := readTree(t).with("overlays/all/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+
		"resources: [../ha]\ncomponents: [../../components/cert-manager, ../../components/model-server]\n")
	for _, dir := range []string{"overlays/dev", "overlays/ha", "overlays/all"} {
		t.Run(dir, func(t *testing.T) {
			c := realCluster(t)
			c.define(t)
			text, err := files.render(dir)
			require.NoError(t, err)
			list, err := objects(text)
			require.NoError(t, err)
			require.Equal(t, "Namespace", list[0].GetKind(), "kubectl applies them in this order")
			takes := func(o *unstructured.Unstructured, dry bool) answer {
				t.Helper()
				a, err := c.create(t.Context(), o, dry)
				require.NoError(t, err)
				require.Equal(t, http.StatusCreated, a.code, "%s %s: %s", o.GetKind(), o.GetName(), a.body)
				require.Empty(t, a.warnings, "%s %s", o.GetKind(), o.GetName())
				return a
			}
			takes(list[0], true)
			takes(list[0], false)
			for _, o := range list[1:] {
				takes(o, true)
			}
			a, err := c.get(t.Context(), list[1])
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, a.code, "a trial made %s %s", list[1].GetKind(), list[1].GetName())
			pods := 0
			for _, o := range list[1:] {
				takes(o, false)
				a, err := c.get(t.Context(), o)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, a.code)
				require.NotEmpty(t, a.object.GetUID())
				require.Equal(t, o.GetName(), a.object.GetName())
				if p := podOf(o); p != nil {
					takes(p, true)
					pods++
				}
			}
			require.Equal(t, 9, pods) // the services, replica, NATS, the Job
			t.Logf("%s: the API server took %d objects and %d pods, without a warning", dir, len(list), pods)
		})
	}
}

// podOf is a pod of a workload's template, with its claims as the controllers give them; nil of what has none.
func podOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	labels, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "metadata", "labels")
	spec, ok, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	if !ok {
		return nil
	}
	claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	for _, c := range claims {
		name, _, _ := unstructured.NestedString(c.(map[string]any), "metadata", "name")
		volumes, _, _ := unstructured.NestedSlice(spec, "volumes")
		spec["volumes"] = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name + "-" + o.GetName() + "-0"}})
	}
	p := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": o.GetName(), "namespace": o.GetNamespace(), "labels": labels}, "spec": spec}}
	return p.DeepCopy()
}

// TestRealKubernetesRefuses: the same server refuses what is wrong, and says what. So the test above can fail.
func TestRealKubernetesRefuses(t *testing.T) {
	c := realCluster(t)
	c.define(t)
	files := readTree(t)
	text, err := files.render("overlays/ha")
	require.NoError(t, err)
	list, err := objects(text)
	require.NoError(t, err)
	a, err := c.create(t.Context(), list[0], false)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, a.code)
	for _, x := range []struct {
		kind, name string
		was, is    string
		code       int
		says       string
	}{
		{"Deployment", "loader", `"minReadySeconds":0`, `"minReadySeconds":"soon"`, 400, "minReadySeconds"},
		{"Deployment", "loader", `"selector":{`, `"selektor":{},"selector":{`, 400, `unknown field "spec.selektor"`},
		{"Deployment", "loader", `"matchLabels":{`, `"matchLabels":{"a":"b",`, 422, "does not match template `labels`"},
		{"Deployment", "loader", `"cpu":"100m"`, `"cpu":"3"`, 422, "must be less than or equal to cpu limit"},
		{"StatefulSet", "committer", `"OrderedReady"`, `"Whenever"`, 422, "podManagementPolicy"},
		{"Service", "nats", `"port":4222`, `"port":74222`, 422, "must be between 1 and 65535"},
		{"PodDisruptionBudget", "nats", `"maxUnavailable":1`, `"maxUnavailable":1,"minAvailable":1`, 422, "cannot be both set"},
		{"NetworkPolicy", "nats", `"Egress"`, `"Exgress"`, 422, "policyTypes"},
		{"Job", "provision", `"OnFailure"`, `"Always"`, 422, "restartPolicy"},
		{"ScaledObject", "loader", `"pollingInterval":15`, `"pollingInterval":"15s"`, 422, "pollingInterval"},
		{"ScaledObject", "loader", `"cooldownPeriod"`, `"coolPeriod"`, 400, `unknown field "spec.coolPeriod"`},
		{"ServiceMonitor", "factmill", `"interval":"30s"`, `"interval":"half a minute"`, 422, "interval"},
		{"Pod", "loader", `"allowPrivilegeEscalation":false`, `"allowPrivilegeEscalation":true`, 403, "violates PodSecurity"},
		{"Pod", "nats", `"drop":["ALL"]`, `"drop":[]`, 403, "violates PodSecurity"},
	} {
		t.Run(x.kind+" "+x.name+" "+x.is, func(t *testing.T) {
			var o *unstructured.Unstructured
			for _, o = range list {
				if p := podOf(o); x.kind == "Pod" && p != nil && o.GetName() == x.name {
					o = p
				}
				if o.GetKind() == x.kind && o.GetName() == x.name {
					break
				}
			}
			require.Equal(t, x.kind+x.name, o.GetKind()+o.GetName())
			if x.kind == "Deployment" {
				o = o.DeepCopy()
				require.NoError(t, unstructured.SetNestedField(o.Object, int64(0), "spec", "minReadySeconds"))
			}
			b, err := o.MarshalJSON()
			require.NoError(t, err)
			broken := &unstructured.Unstructured{}
			a, err := c.create(t.Context(), o, true)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, a.code, "as it is: %s", a.body)
			require.Contains(t, string(b), x.was)
			require.NoError(t, broken.UnmarshalJSON([]byte(strings.Replace(string(b), x.was, x.is, 1))))
			a, err = c.create(t.Context(), broken, true)
			require.NoError(t, err)
			require.Equal(t, x.code, a.code, "%s", a.body)
			require.Contains(t, string(a.body), strings.ReplaceAll(x.says, `"`, `\"`))
		})
	}
	// What it only warns of is seen, too.
	for _, o := range list {
		if o.GetKind() != "Deployment" {
			continue
		}
		b, err := o.MarshalJSON()
		require.NoError(t, err)
		loose := &unstructured.Unstructured{}
		require.NoError(t, loose.UnmarshalJSON([]byte(strings.Replace(string(b), `"runAsNonRoot":true`, `"runAsNonRoot":false`, 1))))
		a, err := c.create(t.Context(), loose, true)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, a.code)
		require.Len(t, a.warnings, 1, o.GetName())
		require.Contains(t, a.warnings[0], "PodSecurity")
	}
}
