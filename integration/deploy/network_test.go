package deploy

import (
	"fmt"

	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// place is an end of a connection: a pod's labels, and those of its namespace.
type place struct {
	name           string
	pod, namespace map[string]string
}

const nameLabel = "kubernetes.io/metadata.name"

func inside(name string, pod map[string]string) place {
	return place{name, pod, map[string]string{nameLabel: namespace}}
}

func matches(s *metav1.LabelSelector, set map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(set))
}

// allows says whether the policies of the namespace let one end speak to the other's TCP port. What lies outside the namespace is free to.
func (w *world) allows(from, to place, port int) bool {
	return w.passes(netv1.PolicyTypeEgress, from, to, port) && w.passes(netv1.PolicyTypeIngress, to, from, port)
}

// passes is one direction: what the policies that select a pod say of its peer.
func (w *world) passes(way netv1.PolicyType, at, peer place, port int) bool {
	if at.namespace[nameLabel] != namespace {
		return true
	}
	isolated := false
	for _, p := range w.policies {
		governs := false
		for _, t := range p.Spec.PolicyTypes {
			governs = governs || t == way
		}
		if !governs || !matches(&p.Spec.PodSelector, at.pod) {
			continue
		}
		isolated = true
		if way == netv1.PolicyTypeEgress {
			for _, r := range p.Spec.Egress {
				if portIn(r.Ports, port) && peerIn(r.To, peer) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Ingress {
			if portIn(r.Ports, port) && peerIn(r.From, peer) {
				return true
			}
		}
	}
	return !isolated
}

func portIn(ports []netv1.NetworkPolicyPort, port int) bool {
	for _, p := range ports {
		if (p.Protocol == nil || *p.Protocol == "TCP") && (p.Port == nil || p.Port.Type == intstr.Int && p.Port.IntValue() == port) {
			return true
		}
	}
	return len(ports) == 0
}

func peerIn(peers []netv1.NetworkPolicyPeer, peer place) bool {
	for _, p := range peers {
		if p.IPBlock != nil {
			return true // none is expected: whoever adds one sees the matrix fail
		}
		near := peer.namespace[nameLabel] == namespace
		if p.NamespaceSelector != nil {
			near = matches(p.NamespaceSelector, peer.namespace)
		}
		if near && (p.PodSelector == nil || matches(p.PodSelector, peer.pod)) {
			return true
		}
	}
	return len(peers) == 0
}

// places are the pods of the overlay and those outside that policies speak of.
func (w *world) places() []place {
	var out []place
	for _, l := range w.workloads {
		out = append(out, inside(l.name, l.pod.Labels))
	}
	return append(out,
		inside("stranger", map[string]string{"app": "stranger"}),
		inside("client without a namespace", map[string]string{"factmill-client": "true"}),
		place{"client", map[string]string{"factmill-client": "true"}, map[string]string{nameLabel: "apps", "factmill-client": "true"}},
		place{"pod beside the client", nil, map[string]string{nameLabel: "apps", "factmill-client": "true"}},
		place{"keda", nil, map[string]string{nameLabel: "keda"}},
		place{"prometheus", nil, map[string]string{nameLabel: "monitoring"}},
		place{"ollama", map[string]string{"app.kubernetes.io/name": "ollama"}, map[string]string{nameLabel: "ollama"}},
		place{"outside", nil, map[string]string{nameLabel: "elsewhere"}},
	)
}

// reach is every connection that the policies allow from or to a pod of the namespace, over the ports that matter.
func (w *world) reach() map[string]bool {
	out := map[string]bool{}
	all := w.places()
	for _, from := range all {
		for _, to := range all {
			if from.namespace[nameLabel] != namespace && to.namespace[nameLabel] != namespace {
				continue
			}
			for _, port := range []int{80, 443, 4222, 6222, 8080, 8222, 11434} {
				if w.allows(from, to, port) {
					out[fmt.Sprintf("%s -> %s:%d", from.name, to.name, port)] = true
				}
			}
		}
	}
	return out
}
