package lifecycle

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/internal/kube/slimpods"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// observation is the latest observation of a node.
type observation struct {
	node    *model.Node
	version string // its resource version
	other   otherWrite
}

// onlyHeartbeats reports whether the later observation differs only in heartbeats: a kubelet's
// report without a change.
func (s *observation) onlyHeartbeats(later *observation) bool {
	a, b := *s.node, *later.node
	if b.Conditions[model.Ready].Status != model.True {
		return false // the heartbeat itself may be a change
	}
	for i := range a.Conditions {
		a.Conditions[i].Heartbeat = b.Conditions[i].Heartbeat
	}
	return a.UID == b.UID && a.Conditions == b.Conditions && a.Labels == b.Labels && a.Unschedulable == b.Unschedulable &&
		a.Autonomy == b.Autonomy && slices.Equal(a.Taints, b.Taints) && slices.Equal(a.Pressures, b.Pressures) && s.other == later.other
}

// allFeeds returns the feeds of the controller: one each for nodes, pods, leases of nodes and
// leases of agents.
func (c *Controller) allFeeds() []feed {
	watching := c.parts.Watching
	c.pods = c.podStore()
	pods := slimpods.From(watching, corev1.NamespaceAll)
	all := []feed{
		feedOf(c, reflector.Kind[*corev1.NodeList]{
			What: "nodes", From: watching.Nodes(), Example: &corev1.Node{}, Into: c.nodeStore(),
			Request: reflector.Requests(watching.Core(), "nodes", ""),
		}),
		feedOf(c, reflector.Kind[*corev1.PodList]{
			What: "pods", From: pods, Request: pods.Request, Example: pods.Example, Into: c.pods,
			Selector: fields.OneTermNotEqualSelector("spec.nodeName", ""),
		}),
		feedOf(c, reflector.Kind[*coordinationv1.LeaseList]{
			What: "leases of nodes", From: watching.Leases(corev1.NamespaceNodeLease),
			Example: &coordinationv1.Lease{}, Into: c.leaseStore(false),
			Request: reflector.Requests(watching.Coordination(), "leases", corev1.NamespaceNodeLease),
		}),
	}
	if c.settings.AgentNamespace != "" {
		all = append(all, feedOf(c, reflector.Kind[*coordinationv1.LeaseList]{
			What: "leases of agents", From: watching.Leases(c.settings.AgentNamespace),
			Example: &coordinationv1.Lease{}, Into: c.leaseStore(true),
			Request: reflector.Requests(watching.Coordination(), "leases", c.settings.AgentNamespace),
		}))
	}
	return all
}

func (c *Controller) converter() *converter {
	return &converter{requested: c.parts.Requested, warn: c.warnings.once}
}

func (c *Controller) nodeStore() cache.ReflectorStore {
	converter := c.converter()
	return &store[*observation]{
		convert: func(object any) (*converted[*observation], error) {
			n, ok := object.(*corev1.Node)
			if !ok {
				return nil, fmt.Errorf("unexpected %T in a list of nodes", object)
			}
			s := &observation{node: converter.node(n), version: n.ResourceVersion, other: c.otherWriters.of(n)}
			return &converted[*observation]{name: n.Name, key: n.Name, value: s, faulty: s.node == nil}, nil
		},
		same: func(a, b *observation) bool { return a.version == b.version && a.node.UID == b.node.UID },
		changed: func(_ string, was, is *observation) {
			if was != nil && was.onlyHeartbeats(is) {
				c.inbox.putLater(func(came time.Duration) event { return nodeHeartbeat{is, came} })
			} else {
				c.inbox.put(nodeSeen{is})
			}
		},
		gone:   func(name string, _ *observation) { c.inbox.put(nodeGone(name)) },
		synced: c.syncing(),
	}
}

func (c *Controller) podStore() *store[*model.Pod] {
	converter := c.converter()
	return &store[*model.Pod]{
		convert: func(object any) (*converted[*model.Pod], error) {
			p, ok := slimpods.Of(object)
			if !ok {
				return nil, fmt.Errorf("unexpected %T in a list of pods", object)
			}
			f := converter.pod(p)
			return &converted[*model.Pod]{namespace: p.Namespace, name: p.Name, key: string(p.UID), value: f, faulty: f == nil}, nil
		},
		same:    samePod,
		changed: func(_ string, _, p *model.Pod) { c.inbox.put(podSeen{p}) },
		gone:    func(uid string, _ *model.Pod) { c.inbox.put(podGone(uid)) },
		synced:  c.syncing(),
	}
}

// samePod reports whether two observations of one pod lead to the same decisions. Most changes of
// a pod's status do.
func samePod(a, b *model.Pod) bool {
	return a.Node == b.Node && a.Ready == b.Ready && a.Deleting == b.Deleting && a.Finished == b.Finished &&
		a.Daemon == b.Daemon && a.Created.Equal(b.Created) &&
		sameTolerations(a.Tolerations, b.Tolerations) && sameRequest(a.Requested, b.Requested) && sameTime(a.Evicted, b.Evicted)
}

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// sameTolerations compares addresses: equal tolerations are shared.
func sameTolerations(a, b []model.Toleration) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func sameRequest(a, b *model.Request) bool {
	return a == b || a != nil && b != nil && a.Cause == b.Cause && a.GraceSeconds == b.GraceSeconds && a.Since.Equal(b.Since)
}

// leaseStore stores the renewal times of leases: of nodes, or of agents. The namespace of the
// latter may have other leases: an agent's has its node as its name and as its holder.
func (c *Controller) leaseStore(agents bool) cache.ReflectorStore {
	return &store[time.Time]{
		convert: func(object any) (*converted[time.Time], error) {
			l, ok := object.(*coordinationv1.Lease)
			if !ok {
				return nil, fmt.Errorf("unexpected %T in a list of leases", object)
			}
			k := &converted[time.Time]{namespace: l.Namespace, name: l.Name, key: l.Name}
			foreign := agents && (l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != l.Name)
			if k.faulty = l.Name == "" || foreign || l.Spec.RenewTime == nil; !k.faulty {
				k.value = l.Spec.RenewTime.Time
			}
			return k, nil
		},
		same:    time.Time.Equal,
		changed: func(name string, _, at time.Time) { c.inbox.renewed(agents, name, at) },
		gone:    func(name string, _ time.Time) { c.inbox.renewed(agents, name, time.Time{}) },
		synced:  c.syncing(),
	}
}

// syncing counts one more list that must be complete before any decision, and returns the
// function that reports its completion.
func (c *Controller) syncing() func() {
	c.lists++
	first := true
	return func() {
		if first {
			first = false
			c.inbox.put(listed{})
		}
	}
}
