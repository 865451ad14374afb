package doctor

// Needs are what decides which rights an agent needs of the API server.
type Needs struct {
	Acts               bool   // it may evict pods; else it only looks
	Conditions         bool   // it may report pressure on the Node by itself
	Taints             bool   // --pressure-taint
	Direct             bool   // --soft-eviction=direct
	NodeLease          bool   // --report-node-lease
	HeartbeatNamespace string // where its Lease is; empty: it has none
}

const leases = "coordination.k8s.io"

// Rights are those that the agent needs, each with what is lost without it.
func (n Needs) Rights() (rights []Right) {
	for _, r := range []struct {
		needed bool
		right  Right
	}{
		{true, Right{"list", "", "pods", "", "", "no pods are known, and nobody is evicted"}},
		{true, Right{"watch", "", "pods", "", "", "changes of pods are seen late"}},
		{true, Right{"list", "", "nodes", "", "", "whether there is a kubelet is not known"}},
		{true, Right{"watch", "", "nodes", "", "", "changes of the Node are not seen"}},
		{n.Acts, Right{"patch", "", "pods", "status", "", "evicted pods are started again by their kubelet"}},
		{n.Acts, Right{"create", "", "events", "", "", "nobody is told of evictions"}},
		{n.Acts, Right{"patch", "", "events", "", "", "events that come again are not counted"}},
		{n.Acts && n.Conditions, Right{"patch", "", "nodes", "status", "", "pressure is not reported on the Node"}},
		{n.Acts && n.Taints, Right{"patch", "", "nodes", "", "", "the Node is not tainted"}},
		{n.Acts && n.Direct, Right{"create", "", "pods", "eviction", "", "soft evictions are not asked for"}},
		{n.HeartbeatNamespace != "", Right{"get", leases, "leases", "", n.HeartbeatNamespace, "the agent's lease is not renewed: it looks dead"}},
		{n.HeartbeatNamespace != "", Right{"create", leases, "leases", "", n.HeartbeatNamespace, "the agent has no lease: it looks dead"}},
		{n.HeartbeatNamespace != "", Right{"update", leases, "leases", "", n.HeartbeatNamespace, "the agent's lease is not renewed: it looks dead"}},
		{n.Acts && n.NodeLease, Right{"update", leases, "leases", "", "kube-node-lease", "the node's lease is not renewed: the node looks dead"}},
	} {
		if r.needed {
			rights = append(rights, r.right)
		}
	}
	return rights
}
