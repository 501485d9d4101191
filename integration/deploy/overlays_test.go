package deploy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var overlays = map[string]expect{
	"base":         {nats: 1, keys: true},
	"overlays/dev": {nats: 1},
	"overlays/ha":  {nats: 3, keys: true, scaling: true, metrics: true, spread: true, tls: true},
}

func TestOverlays(t *testing.T) {
	files := readTree(t)
	for dir, e := range overlays {
		t.Run(dir, func(t *testing.T) {
			w, err := files.look(dir)
			require.NoError(t, err)
			require.Empty(t, check(w, e))
			require.Len(t, w.namespaces, 1)
			require.Equal(t, "restricted", w.namespaces[0].Labels["pod-security.kubernetes.io/enforce"])
		})
	}
}

// The model server is a component that an overlay adds: those that call it know where it is, and may.
func TestModelServer(t *testing.T) {
	files := readTree(t).with("overlays/mine/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+
		"resources: [../ha]\ncomponents: [../../components/model-server]\n")
	w, err := files.look("overlays/mine")
	require.NoError(t, err)
	e := overlays["overlays/ha"]
	e.model = true
	require.Empty(t, check(w, e))
	var p problems
	require.Equal(t, "http://ollama.ollama:11434", p.config(w, w.workload("extractor")).Get("ollama.url"))
}

// TLS is a component, too, for one server without keys as for three with them.
func TestTLSComponent(t *testing.T) {
	w, err := readTree(t).with("overlays/mine/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+
		"resources: [../dev]\ncomponents: [../../components/tls]\n").look("overlays/mine")
	require.NoError(t, err)
	e := overlays["overlays/dev"]
	require.NotEmpty(t, check(w, e))
	e.tls = true
	require.Empty(t, check(w, e))
	conf, _ := mount(t, w)
	o := options(t, conf, "nats-0")
	require.NotNil(t, o.TLSConfig)
	require.Zero(t, o.Cluster.Port)
}

// Each check sees the mistake that it is there for.
func TestMistakesAreSeen(t *testing.T) {
	files := readTree(t)
	for _, c := range []struct {
		file, was, is string
		sees          string
	}{
		{"base/loader.yaml", "resources:", "resource:", `unknown field "spec.template.spec.containers[0].resource"`},
		{"base/loader.yaml", "cpu: 100m", "cpu: lots", "quantities must match"},
		{"base/loader.yaml", "image: factmill-loader", "image: factmill-lodaer", "the Dockerfile makes no image factmill-lodaer"},
		{"base/loader.yaml", "maxUnavailable: 1", "maxUnavailable: 0", "PodDisruptionBudget loader: maxUnavailable is not 1"},
		{"base/loader.yaml", "name: FACTMILL_NATS_NKEY", "name: FACTMILL_NATS_NKYE", "did you mean FACTMILL_NATS_NKEY?"},
		{"base/loader.yaml", "secretName: factmill-nats-loader", "secretName: factmill-nats-chunker", "is not that of a Secret of its own"},
		{"base/loader.yaml", "secretName: factmill-nats-loader", "secretName: loader", "Secret loader is not in the table"},
		{"base/loader.yaml", "value: /etc/factmill/nats/seed", "value: /etc/factmill/nats/key", "is not that of a Secret of its own"},
		{"base/loader.yaml", "defaultMode: 0440", "defaultMode: 0444", "is readable by all"},
		{"base/loader.yaml", "port: 4222", "port: 4223", "the policies forbid loader -> nats:4222"},
		{"base/loader.yaml", "  policyTypes: [Ingress, Egress]", "  ingress: [{}]\n  policyTypes: [Ingress, Egress]", "the policies allow outside -> loader:80"},
		{"base/loader.yaml", "    app.kubernetes.io/component: loader\nspec", "    app.kubernetes.io/component: loader2\nspec", "PodDisruptionBudget loader selects the pods of []"},
		{"base/loader.yaml", "kind: PodDisruptionBudget\nmetadata:\n  name: loader", "kind: PodDisruptionBudget\nmetadata:\n  name: loaders", "loader has 0 PodDisruptionBudgets"},
		{"base/loader.yaml", "          volumeMounts:", "          command: [/bin/sh]\n          volumeMounts:", "Deployment loader has a command"},
		{"base/loader.yaml", "      volumes:", "      volumes:\n        - name: docs\n          hostPath: {path: /srv}", "volume docs is of a kind that is not meant"},
		{"base/loader.yaml", "spec:\n  selector", "spec:\n  replicas: 4\n  selector", "each apply would undo its scaling"},
		{"base/chunker.yaml", "kind: Deployment", "kind: DaemonSet", "nothing checks a *v1.DaemonSet"},
		{"base/committer.yaml", "replicas: 1", "replicas: 2", "StatefulSet committer is not one"},
		{"base/committer.yaml", "OrderedReady", "Parallel", "StatefulSet committer is not ordered"},
		{"base/committer.yaml", "value: /var/lib/factmill", "value: /data", `StatefulSet committer keeps "/data" on no volume`},
		{"base/committer.yaml", "app.kubernetes.io/part-of: factmill", "app.kubernetes.io/managed-by: hand", "labels depend on kubectl's version"},
		{"base/committer.yaml", "whenDeleted: Retain", "whenDeleted: Delete", "its volume may be deleted"},
		{"base/committer.yaml", "serviceName: committer", "serviceName: commiter", `Service "commiter" is not its headless one`},
		{"base/committer.yaml", "targetPort: http", "targetPort: htpp", "Service committer: port 8080 goes to port \"htpp\""},
		{"base/replica.yaml", `["serve", "replica"]`, `["serve", "all"]`, "StatefulSet replica has a command"},
		{"base/replica.yaml", "value: /var/lib/factmill", "value: /data", `StatefulSet replica keeps "/data" on no volume`},
		{"base/replica.yaml", "secretName: factmill-nats-replica", "secretName: factmill-nats-committer", "is not that of a Secret of its own"},
		{"overlays/ha/replica.yaml", "replicas: 2", "replicas: 0", "StatefulSet replica are not 2"},
		{"base/patches/hardening.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "Job provision may run as root"},
		{"base/patches/hardening.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "StatefulSet nats can write its root"},
		{"base/patches/hardening.yaml", "type: RuntimeDefault", "type: Unconfined", "has no seccomp profile"},
		{"base/patches/hardening.yaml", "drop: [ALL]", "add: [NET_ADMIN]", "has capabilities"},
		{"base/patches/hardening.yaml", "automountServiceAccountToken\n  value: false", "automountServiceAccountToken\n  value: true", "mounts a token"},
		{"base/patches/service.yaml", "path: /ready", "path: /readyz", "probe readiness /ready is wrong"},
		{"base/patches/service.yaml", "containerPort: 8080", "containerPort: 8081", `listens at ":8080", its port http is 8081`},
		{"base/patches/service.yaml", "value: 30", "value: 5", "less time to stop than it may take"},
		{"base/kustomization.yaml", "nats://nats:4222", "nats://natz:4222", `no Service of NATS at "nats://natz:4222"`},
		{"base/kustomization.yaml", "FACTMILL_LOG_FORMAT=json", "FACTMILL_LOG_FORMAT=xml", "log.format"},
		{"base/kustomization.yaml", "FACTMILL_LOG_FORMAT=json", "FACTMILL_CHUNKER_SIZE=300", "pins pipeline settings"},
		{"base/kustomization.yaml", "newTag: dev", "newTag: latest", "names no version"},
		{"base/kustomization.yaml", "resources:", "resource:", "unknown field"},
		{"base/nats.yaml", "image: nats:2.15.3", "image: nats:2.10.0", "is not the version that the tests run with"},
		{"base/nats.yaml", "podManagementPolicy: Parallel", "podManagementPolicy: OrderedReady", "never starts"},
		{"base/nats.yaml", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "do not find each other"},
		{"base/nats.yaml", `          podSelector:
            matchLabels:
              factmill-client: "true"`, "", "the policies allow pod beside the client -> nats:4222"},
		{"overlays/ha/provision.yaml", "--apply", "--aply", "factmill provision knows no --aply"},
		{"base/network.yaml", "  name: default-deny\nspec:\n  podSelector: {}\n  policyTypes: [Ingress, Egress]", "  name: default-deny\nspec:\n  podSelector: {}\n  policyTypes: [Egress]", "the policies allow outside -> provision:80"},
		{"components/scaling/scaledobjects.yaml", "FACTMILL_CHUNKED", "FACTMILL_CHUNKS", "no ScaledObject follows extractor FACTMILL_CHUNKED/extractor"},
		{"components/scaling/scaledobjects.yaml", "consumer: chunker", "consumer: loader", "a ScaledObject follows chunker FACTMILL_LOADED/loader"},
		{"components/scaling/scaledobjects.yaml", "account: FACTMILL", "account: $G", `account "$G"`},
		{"components/scaling/scaledobjects.yaml", "nats-headless.factmill", "nats.factmill", "nothing answers at"},
		{"components/scaling/scaledobjects.yaml", "pollingInterval", "polInterval", `unknown field "polInterval"`},
		{"components/scaling/scaledobjects.yaml", "lagThreshold: \"8\"", "lagThreshold: \"0\"", "lagThreshold \"0\""},
		{"components/scaling/network.yaml", "port: 8222", "port: 8223", "the policies forbid keda -> nats:8222"},
		{"components/monitoring/metrics.yaml", "endpoints:\n    - port: http", "endpoints:\n    - port: metrics", "loader is scraped 0 times"},
		{"components/monitoring/metrics.yaml", "      app.kubernetes.io/component: metrics\n  podTargetLabels", "  podTargetLabels", "committer is scraped 2 times"},
		{"overlays/ha/provision.yaml", "--replicas=3", "--replicas=1", "its arguments are [provision --apply --replicas=1] for 3 servers"},
		{"overlays/ha/nats.yaml", "replicas: 3", "replicas: 2", "has not 3 servers"},
		{"overlays/ha/nats.yaml", "topologyKey: kubernetes.io/hostname", "topologyKey: kubernetes.io/os", "two servers may be on one node"},
		{"overlays/ha/spread.yaml", "topologyKey: topology.kubernetes.io/zone", "topologyKey: topology.kubernetes.io/region", "is not spread"},
		{"overlays/ha/at-least-two.yaml", "value: 2", "value: 9", "its bounds are wrong"},
		{"components/tls/clients.yaml", "            items:\n              - key: ca.crt\n                path: ca.crt\n", "", "loader: of factmill-nats-tls it sees []"},
		{"components/tls/clients.yaml", "key: ca.crt", "key: tls.key", "loader: of factmill-nats-tls it sees [tls.key]"},
		{"components/tls/kustomization.yaml", "nats-ca/ca.crt", "nats/ca.crt", `provision: the authority "/etc/factmill/nats/ca.crt" is not that of`},
		{"components/tls/kustomization.yaml", "      kind: Job", "      kind: CronJob", "provision: the authority"},
		{"components/tls/nats.yaml", "factmill-nats-tls", "nats-tls", "Secret nats-tls is not in the table"},
		{"overlays/ha/reviewer.yaml", "replicas: 2", "replicas: 1", "reviewer is alone"},
		{"overlays/ha/network.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "the policies forbid nats -> nats:6222"},
	} {
		t.Run(c.file+": "+c.is, func(t *testing.T) {
			require.Contains(t, files[c.file], c.was)
			w, err := files.with(c.file, strings.ReplaceAll(files[c.file], c.was, c.is)).look("overlays/ha")
			if err != nil {
				require.ErrorContains(t, err, c.sees)
				return
			}
			require.Contains(t, strings.Join(check(w, overlays["overlays/ha"]), "\n"), c.sees)
		})
	}
	// Keys that an overlay without keys keeps.
	w, err := files.with("overlays/dev/no-keys.yaml", strings.Replace(files["overlays/dev/no-keys.yaml"], "      volumes:\n        - name: nats-key\n          $patch: delete\n", "", 1)).look("overlays/dev")
	require.NoError(t, err)
	require.Contains(t, strings.Join(check(w, overlays["overlays/dev"]), "\n"), "Secret factmill-nats-loader in an overlay without keys")
}
