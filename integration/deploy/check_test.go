package deploy

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
)

const (
	namespace = "factmill"
	account   = "FACTMILL"
	component = "app.kubernetes.io/component"
)

var (
	stages   = []string{"loader", "chunker", "extractor", "resolver"}
	services = []string{"loader", "chunker", "extractor", "resolver", "reviewer", "committer"}
	// running are all that run all the time: the services, each of an image of its own, and the read replicas, of the command line's.
	running = append(slices.Clone(services), "replica")
)

// expect is what an overlay promises.
type expect struct {
	nats                           int32 // servers, and copies of the streams
	keys, scaling, metrics, spread bool
	model, tls                     bool
}

// problems collects what is wrong, each as a sentence.
type problems []string

func (p *problems) add(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// check says what is wrong with a rendered overlay.
func check(w *world, e expect) problems {
	var p problems
	names := []string{}
	for _, l := range w.workloads {
		names = append(names, l.name)
	}
	slices.Sort(names)
	want := append([]string{"nats", "provision"}, running...)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		p.add(false, "workloads are %v, want %v", names, want)
		return p
	}
	for _, l := range w.workloads {
		p.hardened(l)
		p.references(w, l, e)
	}
	p.selectors(w)
	for _, s := range running {
		p.service(w, s, e)
	}
	p.committer(w)
	p.replica(w, e)
	p.nats(w, e)
	p.provision(w, e)
	p.scaling(w, e)
	p.metrics(w, e)
	p.network(w, e)
	p.spread(w, e)
	p.encrypted(w, e)
	return p
}

// hardened: the pod has no more of its node than it needs.
func (p *problems) hardened(l workload) {
	s := l.pod.Spec
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	p.add(is(s.AutomountServiceAccountToken, false), "%s mounts a token", l)
	p.add(is(s.EnableServiceLinks, false), "%s gets service links", l)
	p.add(!s.HostNetwork && !s.HostPID && !s.HostIPC, "%s is in the host's namespaces", l)
	c := s.SecurityContext
	p.add(c != nil && is(c.RunAsNonRoot, true) && c.RunAsUser != nil && *c.RunAsUser > 0 && c.FSGroup != nil, "%s may run as root", l)
	p.add(c != nil && c.SeccompProfile != nil && c.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "%s has no seccomp profile", l)
	p.add(len(s.Containers) == 1 && len(s.InitContainers) == 0, "%s has not one container", l)
	for _, v := range s.Volumes {
		p.add(v.Secret != nil || v.ConfigMap != nil || v.EmptyDir != nil, "%s: volume %s is of a kind that is not meant", l, v.Name)
	}
	k := l.container()
	x := k.SecurityContext
	p.add(x != nil && is(x.AllowPrivilegeEscalation, false) && x.Privileged == nil, "%s may gain privileges", l)
	p.add(x != nil && is(x.ReadOnlyRootFilesystem, true), "%s can write its root", l)
	p.add(x != nil && x.Capabilities != nil && slices.Equal(x.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(x.Capabilities.Add) == 0, "%s has capabilities", l)
	name, tag, _ := strings.Cut(k.Image, ":")
	p.add(name != "" && tag != "" && tag != "latest", "%s: image %q names no version", l, k.Image)
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		req, lim := k.Resources.Requests[r], k.Resources.Limits[r]
		p.add(!req.IsZero() && !lim.IsZero() && req.Cmp(lim) <= 0, "%s: requests and limits of %s are %s and %s", l, r, req.String(), lim.String())
	}
	mounted := map[string]bool{}
	for _, m := range k.VolumeMounts {
		mounted[m.Name] = true
	}
	have := map[string]bool{}
	for _, v := range s.Volumes {
		have[v.Name] = true
		p.add(mounted[v.Name], "%s: volume %s is not mounted", l, v.Name)
	}
	if l.set != nil {
		for _, c := range l.set.Spec.VolumeClaimTemplates {
			have[c.Name] = true
		}
	}
	for m := range mounted {
		p.add(have[m], "%s mounts %s, which is no volume", l, m)
	}
}

var secretRow = regexp.MustCompile("(?m)^\\| `(factmill-[a-z-]+)` \\| `([a-z., ]+)` \\|")

// documented are the Secrets that the operator makes, with their keys, as the guide's table says.
func documented() map[string]string {
	b, err := os.ReadFile(filepath.Join(root, guide))
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, m := range secretRow.FindAllStringSubmatch(string(b), -1) {
		out[m[1]] = m[2]
	}
	return out
}

const guide = "docs/operations/kubernetes.md"

// references: each ConfigMap is rendered, each Secret is the operator's and documented, or there is none where the overlay has no keys.
func (p *problems) references(w *world, l workload, e expect) {
	secrets := documented()
	for _, v := range l.pod.Spec.Volumes {
		if v.ConfigMap != nil {
			p.add(w.maps[v.ConfigMap.Name] != nil, "%s: there is no ConfigMap %s", l, v.ConfigMap.Name)
		}
		if v.Secret != nil {
			p.add(secrets[v.Secret.SecretName] != "", "%s: Secret %s is not in the table of %s", l, v.Secret.SecretName, guide)
			p.add(e.keys || v.Secret.SecretName == tlsSecret, "%s: Secret %s in an overlay without keys", l, v.Secret.SecretName)
			p.add(v.Secret.DefaultMode != nil && *v.Secret.DefaultMode&0o007 == 0, "%s: Secret %s is readable by all", l, v.Secret.SecretName)
		}
	}
	for _, f := range l.container().EnvFrom {
		p.add(f.ConfigMapRef != nil && w.maps[f.ConfigMapRef.Name] != nil, "%s: envFrom is no ConfigMap that is there", l)
	}
	for _, v := range l.container().Env {
		p.add(v.ValueFrom == nil || v.ValueFrom.FieldRef != nil, "%s: %s is taken from where nothing checks", l, v.Name)
	}
}

// environ is the container's environment.
func (w *world) environ(l *workload) []string {
	var out []string
	for _, f := range l.container().EnvFrom {
		if f.ConfigMapRef == nil || w.maps[f.ConfigMapRef.Name] == nil {
			continue
		}
		for k, v := range w.maps[f.ConfigMapRef.Name].Data {
			out = append(out, k+"="+v)
		}
	}
	for _, v := range l.container().Env {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// config is how the code understands the container's environment.
func (p *problems) config(w *world, l *workload) *app.Config {
	cfg, err := app.LoadConfig("", w.environ(l), nil)
	if err != nil {
		p.add(false, "%s: %v", l, err)
		return nil
	}
	for _, s := range app.UnknownEnv(w.environ(l)) {
		p.add(false, "%s: %s", l, s)
	}
	p.add(len(cfg.Pinned()) == 0, "%s pins pipeline settings, which belong to the graph: %v", l, cfg.Pinned())
	return cfg
}

// selectors: each finds its pods and no others.
func (p *problems) selectors(w *world) {
	of := func(s *metav1.LabelSelector) []string {
		var out []string
		for _, l := range w.workloads {
			if matches(s, l.pod.Labels) {
				out = append(out, l.name)
			}
		}
		return out
	}
	for _, l := range w.workloads {
		if l.selector != nil {
			p.add(slices.Equal(of(l.selector), []string{l.name}), "%s selects the pods of %v", l, of(l.selector))
		}
	}
	for _, b := range w.budgets {
		p.add(slices.Equal(of(b.Spec.Selector), []string{b.Name}), "PodDisruptionBudget %s selects the pods of %v", b.Name, of(b.Spec.Selector))
		p.add(b.Spec.MaxUnavailable != nil && b.Spec.MaxUnavailable.IntValue() == 1 && b.Spec.MinAvailable == nil, "PodDisruptionBudget %s: maxUnavailable is not 1", b.Name)
	}
	for _, n := range w.policies {
		p.add(len(of(&n.Spec.PodSelector)) > 0, "NetworkPolicy %s selects no pods", n.Name)
	}
	for _, s := range w.services {
		sel := &metav1.LabelSelector{MatchLabels: s.Spec.Selector}
		p.add(len(s.Spec.Selector) > 0 && len(of(sel)) > 0, "Service %s selects no pods", s.Name)
		for _, name := range of(sel) {
			for _, port := range s.Spec.Ports {
				n := portOf(w.workload(name), port.TargetPort.String())
				p.add(n == port.Port, "Service %s: port %d goes to port %q of %s, which is %d", s.Name, port.Port, port.TargetPort.String(), name, n)
			}
		}
	}
}

// portOf is the number of a named port; 0 for none.
func portOf(l *workload, name string) int32 {
	for _, c := range l.container().Ports {
		if c.Name == name {
			return c.ContainerPort
		}
	}
	return 0
}

// service checks one of the six: image, configuration, health, and what stands beside it.
func (p *problems) service(w *world, name string, e expect) {
	l := w.workload(name)
	kind, target := "Deployment", "factmill-"+name
	var args []string
	if name == "committer" || name == "replica" {
		kind = "StatefulSet"
	}
	if name == "replica" {
		target, args = "factmill", []string{"serve", "replica"}
	}
	p.add(l.kind == kind, "%s is not a %s", l, kind)
	k := l.container()
	image, _, _ := strings.Cut(k.Image, ":")
	p.add(image == target && dockerTargets()[strings.TrimPrefix(target, "factmill-")] == "/"+image, "%s: the Dockerfile makes no image %s", l, image)
	p.add(len(k.Command) == 0 && slices.Equal(k.Args, args), "%s has a command", l)
	p.add(l.pod.Labels[component] == name, "%s: its component is %q", l, l.pod.Labels[component])
	cfg := p.config(w, l)
	if cfg == nil {
		return
	}
	p.reachesNATS(w, l, cfg, e)
	host, port, err := net.SplitHostPort(cfg.Get("http.listen"))
	p.add(err == nil && host == "" && strconv.Itoa(int(portOf(l, "http"))) == port, "%s: listens at %q, its port http is %d", l, cfg.Get("http.listen"), portOf(l, "http"))
	for what, probe := range map[string]*corev1.Probe{"startup /live": k.StartupProbe, "liveness /live": k.LivenessProbe, "readiness /ready": k.ReadinessProbe} {
		_, path, _ := strings.Cut(what, " ")
		p.add(probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Path == path && probe.HTTPGet.Port.String() == "http", "%s: probe %s is wrong", l, what)
	}
	grace := l.pod.Spec.TerminationGracePeriodSeconds
	p.add(grace != nil && time.Duration(*grace)*time.Second > app.GraceStop, "%s has less time to stop than it may take", l)
	p.beside(w, name)
}

// beside: a budget and a policy of the same name.
func (p *problems) beside(w *world, name string) {
	n := 0
	for _, b := range w.budgets {
		if b.Name == name {
			n++
		}
	}
	p.add(n == 1, "%s has %d PodDisruptionBudgets", name, n)
	n = 0
	for _, b := range w.policies {
		if b.Name == name && len(b.Spec.PolicyTypes) == 2 {
			n++
		}
	}
	p.add(n == 1, "%s has %d NetworkPolicies for both ways", name, n)
}

// reachesNATS: the address is a Service's, and the key is where the Secret is mounted.
func (p *problems) reachesNATS(w *world, l *workload, cfg *app.Config, e expect) {
	u, err := url.Parse(cfg.Get("nats.url"))
	ok := err == nil
	if ok {
		ok = false
		for _, s := range w.services {
			ok = ok || s.Name == u.Hostname() && s.Spec.Selector["app.kubernetes.io/name"] == "nats" && hasPort(s, u.Port())
		}
	}
	p.add(ok, "%s: no Service of NATS at %q", l, cfg.Get("nats.url"))
	if !e.keys {
		p.add(cfg.Get("nats.nkey") == "", "%s has a key in an overlay without keys", l)
		return
	}
	dir, file := filepath.Split(cfg.Get("nats.nkey"))
	at := ""
	for _, m := range l.container().VolumeMounts {
		if m.MountPath+"/" == dir && m.ReadOnly {
			at = m.Name
		}
	}
	secret := ""
	for _, v := range l.pod.Spec.Volumes {
		if v.Name == at && v.Secret != nil {
			secret = v.Secret.SecretName
		}
	}
	p.add(secret == "factmill-nats-"+l.name && documented()[secret] == file, "%s: its key %q is not that of a Secret of its own", l, cfg.Get("nats.nkey"))
}

func hasPort(s *corev1.Service, port string) bool {
	for _, p := range s.Spec.Ports {
		if strconv.Itoa(int(p.Port)) == port {
			return true
		}
	}
	return false
}

// committer: one writer on a volume that outlives it.
func (p *problems) committer(w *world) {
	l := w.workload("committer")
	if l.set == nil {
		return
	}
	p.add(l.replicas != nil && *l.replicas == 1, "%s is not one", l)
	p.add(l.set.Spec.PodManagementPolicy == appsv1.OrderedReadyPodManagement, "%s is not ordered", l)
	cfg := p.config(w, l)
	if cfg == nil {
		return
	}
	p.keeps(w, l, cfg.Get("data"))
}

// replica: each on a volume of its own, which may go; an overlay that spreads has two.
func (p *problems) replica(w *world, e expect) {
	l := w.workload("replica")
	if l.set == nil {
		return
	}
	want := int32(0)
	if e.spread {
		want = 2
	}
	p.add(l.replicas != nil && *l.replicas == want, "%s are not %d", l, want)
	p.add(l.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement, "%s: each waits for the one before", l)
	src, err := os.ReadFile(filepath.Join(root, "cmd/factmill/wire.go"))
	p.add(err == nil && strings.Contains(string(src), `Name: "replica"`), "%s: factmill serve knows no replica", l)
	if cfg := p.config(w, l); cfg != nil {
		p.claims(w, l, cfg.Get("data"))
	}
}

// keeps: dir is a claimed volume, retained, and the set's Service is there.
func (p *problems) keeps(w *world, l *workload, dir string) {
	p.claims(w, l, dir)
	r := l.set.Spec.PersistentVolumeClaimRetentionPolicy
	p.add(r != nil && r.WhenDeleted == appsv1.RetainPersistentVolumeClaimRetentionPolicyType && r.WhenScaled == r.WhenDeleted, "%s: its volume may be deleted", l)
}

// claims: dir is a claimed volume, and the set's Service is there.
func (p *problems) claims(w *world, l *workload, dir string) {
	claim := false
	for _, m := range l.container().VolumeMounts {
		for _, c := range l.set.Spec.VolumeClaimTemplates {
			claim = claim || c.Name == m.Name && m.MountPath == dir && !m.ReadOnly
		}
	}
	p.add(claim, "%s keeps %q on no volume", l, dir)
	for _, c := range l.set.Spec.VolumeClaimTemplates {
		p.add(c.Labels["app.kubernetes.io/part-of"] == l.pod.Labels["app.kubernetes.io/part-of"], "%s: its claim's labels depend on kubectl's version", l)
	}
	ok := false
	for _, s := range w.services {
		ok = ok || s.Name == l.set.Spec.ServiceName && s.Spec.ClusterIP == "None" && matches(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, l.pod.Labels)
	}
	p.add(ok, "%s: Service %q is not its headless one", l, l.set.Spec.ServiceName)
}

func (p *problems) provision(w *world, e expect) {
	l := w.workload("provision")
	k := l.container()
	image, _, _ := strings.Cut(k.Image, ":")
	p.add(l.kind == "Job" && image == "factmill" && dockerTargets()[image] == "/factmill", "%s: the Dockerfile makes no image %s", l, image)
	p.add(slices.Equal(k.Args, []string{"provision", "--apply", fmt.Sprintf("--replicas=%d", e.nats)}), "%s: its arguments are %v for %d servers", l, k.Args, e.nats)
	src, err := os.ReadFile(filepath.Join(root, "cmd/factmill/provision.go"))
	for _, a := range k.Args {
		word, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		p.add(err == nil && strings.Contains(string(src), `"`+word), "%s: factmill provision knows no %s", l, a)
	}
	p.add(l.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure, "%s does not try again", l)
	if cfg := p.config(w, l); cfg != nil {
		p.reachesNATS(w, l, cfg, e)
	}
}

// scaling: each stage follows the lag of all of its own consumers.
func (p *problems) scaling(w *world, e expect) {
	want := map[string]bool{}
	pending := map[string]int{}
	for _, c := range bus.NewTable(bus.TableOptions{}).Consumers {
		if c.Config.Durable != bus.DurableCommitter {
			want[c.Config.Durable+" "+c.Stream+"/"+c.Config.Durable] = true
			pending[c.Stream] = c.Config.MaxAckPending
		}
	}
	if !e.scaling {
		p.add(len(w.scaled) == 0, "there are ScaledObjects without KEDA")
		return
	}
	have := map[string]bool{}
	for _, s := range w.scaled {
		target := w.workload(s.Spec.ScaleTargetRef.Name)
		if target == nil || target.kind != "Deployment" || s.Spec.ScaleTargetRef.Kind != "" && s.Spec.ScaleTargetRef.Kind != "Deployment" {
			p.add(false, "ScaledObject %s scales %s, which is no Deployment", s.Name, s.Spec.ScaleTargetRef.Name)
			continue
		}
		p.add(slices.Contains(stages, target.name), "%s is scaled, and is no stage", target)
		p.add(target.replicas == nil, "%s says its replicas: each apply would undo its scaling", target)
		lo, hi := s.Spec.MinReplicaCount, s.Spec.MaxReplicaCount
		p.add(lo != nil && hi != nil && *lo >= 1 && *hi >= *lo && (!e.spread || *lo >= 2), "ScaledObject %s: its bounds are wrong", s.Name)
		for _, t := range s.Spec.Triggers {
			m := t.Metadata
			have[target.name+" "+m["stream"]+"/"+m["consumer"]] = true
			p.add(t.Type == "nats-jetstream", "ScaledObject %s: trigger %s", s.Name, t.Type)
			p.add(m["account"] == account, "ScaledObject %s: account %q", s.Name, m["account"])
			lag, err := strconv.Atoi(m["lagThreshold"])
			p.add(err == nil && lag > 0 && lag <= pending[m["stream"]], "ScaledObject %s: lagThreshold %q of %s", s.Name, m["lagThreshold"], m["stream"])
			p.add(p.monitor(w, m["natsServerMonitoringEndpoint"]), "ScaledObject %s: nothing answers at %q", s.Name, m["natsServerMonitoringEndpoint"])
			p.add(len(m) == 5, "ScaledObject %s: unknown metadata in %v", s.Name, m)
		}
	}
	for k := range want {
		p.add(have[k], "no ScaledObject follows %s", k)
	}
	for k := range have {
		p.add(want[k], "a ScaledObject follows %s, which is no consumer of it", k)
	}
}

// monitor: in a cluster KEDA asks <server>.<host>, so the host must be the headless Service.
func (p *problems) monitor(w *world, endpoint string) bool {
	host, port, err := net.SplitHostPort(endpoint)
	set := w.workload("nats").set
	return err == nil && set != nil && host == set.Spec.ServiceName+"."+namespace+".svc.cluster.local" &&
		port == strconv.Itoa(int(portOf(w.workload("nats"), "monitor")))
}

func (p *problems) metrics(w *world, e expect) {
	if !e.metrics {
		p.add(len(w.monitors) == 0, "there are ServiceMonitors without an operator")
		return
	}
	p.add(len(w.monitors) == 1, "there are %d ServiceMonitors", len(w.monitors))
	for _, m := range w.monitors {
		scraped := map[string]int{}
		for _, s := range w.services {
			if !matches(&m.Spec.Selector, s.Labels) {
				continue
			}
			for _, end := range m.Spec.Endpoints {
				p.add(end.Path == "/metrics", "ServiceMonitor: path %s", end.Path)
				for _, l := range w.workloads {
					for _, port := range s.Spec.Ports {
						if port.Name == end.Port && matches(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, l.pod.Labels) {
							scraped[l.name]++
						}
					}
				}
			}
		}
		for _, s := range running {
			p.add(scraped[s] == 1, "%s is scraped %d times", s, scraped[s])
		}
		p.add(len(scraped) == len(running), "what is scraped is %v", scraped)
	}
}

// network: the policies allow what is meant and nothing else.
func (p *problems) network(w *world, e expect) {
	want := map[string]bool{"client -> nats:4222": true, "provision -> nats:4222": true}
	for _, s := range running {
		want[s+" -> nats:4222"] = true
		if e.metrics {
			want["prometheus -> "+s+":8080"] = true
		}
	}
	if e.scaling {
		want["keda -> nats:8222"] = true
	}
	if e.nats > 1 {
		want["nats -> nats:6222"] = true
	}
	if e.model {
		for _, s := range []string{"extractor", "resolver", "committer"} {
			want[s+" -> ollama:11434"] = true
		}
	}
	have := w.reach()
	for k := range want {
		p.add(have[k], "the policies forbid %s", k)
	}
	for k := range have {
		p.add(want[k], "the policies allow %s", k)
	}
}

func (p *problems) nats(w *world, e expect) {
	l := w.workload("nats")
	if l.set == nil {
		p.add(false, "%s is no StatefulSet", l)
		return
	}
	p.add(l.replicas != nil && *l.replicas == e.nats, "%s has not %d servers", l, e.nats)
	p.add(l.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement, "%s: a cluster that waits for its first member never starts", l)
	for _, s := range w.services {
		if s.Name == l.set.Spec.ServiceName {
			p.add(s.Spec.PublishNotReadyAddresses, "%s: members do not find each other before they are ready", l)
		}
	}
	k := l.container()
	image, tag, _ := strings.Cut(k.Image, ":")
	mod, err := os.ReadFile(filepath.Join(root, "integration/go.mod"))
	p.add(err == nil && image == "nats" && strings.Contains(string(mod), "github.com/nats-io/nats-server/v2 v"+tag), "%s: image %s is not the version that the tests run with", l, k.Image)
	for what, probe := range map[string]*corev1.Probe{"startup": k.StartupProbe, "liveness": k.LivenessProbe, "readiness": k.ReadinessProbe} {
		p.add(probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port.String() == "monitor", "%s: its %s probe is wrong", l, what)
	}
	p.beside(w, "nats")
	p.keeps(w, l, "/data")
}

// spread: no node and no zone has all of one component.
func (p *problems) spread(w *world, e expect) {
	if !e.spread {
		return
	}
	over := func(l *workload, key string) bool {
		for _, c := range l.pod.Spec.TopologySpreadConstraints {
			one := len(c.MatchLabelKeys) == 1 && c.MatchLabelKeys[0] == component || !slices.Contains(running, l.name)
			if c.TopologyKey == key && matches(c.LabelSelector, l.pod.Labels) && one && c.MaxSkew == 1 {
				return true
			}
		}
		return false
	}
	for _, s := range append([]string{"reviewer", "replica"}, stages...) {
		l := w.workload(s)
		p.add(over(l, corev1.LabelHostname) && over(l, corev1.LabelTopologyZone), "%s is not spread over nodes and zones", l)
	}
	r := w.workload("reviewer")
	p.add(r.replicas != nil && *r.replicas >= 2, "%s is alone", r)
	l := w.workload("nats")
	apart := false
	if a := l.pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			apart = apart || t.TopologyKey == corev1.LabelHostname && matches(t.LabelSelector, l.pod.Labels)
		}
	}
	p.add(apart && over(l, corev1.LabelTopologyZone), "%s: two servers may be on one node", l)
}
