package doctor

// Needs are the parts of the configuration that determine an agent's rights on the API server.
type Needs struct {
	Conditions bool   // it may report pressure on the Node by itself
	Taints     bool   // --pressure-taint
	Direct     bool   // --soft-eviction=direct
	NodeLease  bool   // --report-node-lease
	Reviews    bool   // metrics are served beyond loopback
	Namespace  string // of its Lease; empty: it has none
	Arming     string // the ConfigMap there with the arming setting of all agents; empty: none is read
	DaemonSet  string // of the agent, there; empty: it has none
	Records    string // namespace of the records of evictions; empty: none are written
}

const leases = "coordination.k8s.io"

// notRecorded is the loss without a right on the records of evictions.
const notRecorded = "evictions are not recorded in the cluster"

// Rights returns the rights that the agent needs to act, each with the loss without it.
func (n Needs) Rights() (rights []Right) {
	records := n.Records != ""
	beats, arming, set := n.Namespace != "", n.Namespace != "" && n.Arming != "", n.Namespace != "" && n.DaemonSet != ""
	for _, r := range []struct {
		needed bool
		right  Right
	}{
		{true, Right{Verb: "list", Resource: "pods", Loss: "no pods are known, so none is evicted"}},
		{true, Right{Verb: "watch", Resource: "pods", Loss: "changes of pods are seen late"}},
		{true, Right{Verb: "get", Resource: "pods", Loss: "the status of an evicted pod is not reported after a first failure"}},
		{true, Right{Verb: "list", Resource: "nodes", Loss: "whether there is a kubelet is not known"}},
		{true, Right{Verb: "watch", Resource: "nodes", Loss: "changes of the Node are not seen"}},
		{n.Conditions || n.Taints || n.NodeLease, Right{Verb: "get", Resource: "nodes", Loss: "the Node is not written after a failed write, and its lease is not renewed"}},
		{true, Right{Verb: "patch", Resource: "pods", Subresource: "status", Loss: "evicted pods are started again by their kubelet"}},
		{true, Right{Verb: "create", Resource: "events", Loss: "evictions have no events"}},
		{true, Right{Verb: "patch", Resource: "events", Loss: "events that come again are not counted"}},
		{n.Conditions, Right{Verb: "patch", Resource: "nodes", Subresource: "status", Loss: "pressure is not reported on the Node"}},
		{n.Taints, Right{Verb: "patch", Resource: "nodes", Loss: "the Node is not tainted"}},
		{n.Direct, Right{Verb: "create", Resource: "pods", Subresource: "eviction", Loss: "soft evictions are not requested"}},
		{n.Reviews, Right{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews", Loss: "metrics are refused to all clients"}},
		{n.Reviews, Right{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Loss: "metrics are refused to all clients"}},
		{beats, Right{Verb: "get", Group: leases, Resource: "leases", Namespace: n.Namespace, Loss: "the agent's lease is not renewed: it looks dead"}},
		{beats, Right{Verb: "create", Group: leases, Resource: "leases", Namespace: n.Namespace, Loss: "the agent has no lease: it looks dead"}},
		{beats, Right{Verb: "update", Group: leases, Resource: "leases", Namespace: n.Namespace, Loss: "the agent's lease is not renewed: it looks dead"}},
		{arming, Right{Verb: "list", Resource: "configmaps", Namespace: n.Namespace, Name: n.Arming, Loss: "the ConfigMap does not arm or disarm this agent"}},
		{arming, Right{Verb: "watch", Resource: "configmaps", Namespace: n.Namespace, Name: n.Arming, Loss: "the ConfigMap arms or disarms this agent late"}},
		{set, Right{Verb: "get", Group: "apps", Resource: "daemonsets", Namespace: n.Namespace, Name: n.DaemonSet, Loss: "what the agent wrote stays when it is uninstalled"}},
		{records, Right{Verb: "get", Resource: "configmaps", Namespace: n.Records, Loss: notRecorded, Record: true}},
		{records, Right{Verb: "create", Resource: "configmaps", Namespace: n.Records, Loss: notRecorded, Record: true}},
		{records, Right{Verb: "update", Resource: "configmaps", Namespace: n.Records, Loss: notRecorded, Record: true}},
		{n.NodeLease, Right{Verb: "get", Group: leases, Resource: "leases", Namespace: "kube-node-lease", Loss: "the node's lease is not renewed: the node looks dead"}},
		{n.NodeLease, Right{Verb: "create", Group: leases, Resource: "leases", Namespace: "kube-node-lease", Loss: "the node has no lease: it looks dead"}},
		{n.NodeLease, Right{Verb: "update", Group: leases, Resource: "leases", Namespace: "kube-node-lease", Loss: "the node's lease is not renewed: the node looks dead"}},
	} {
		if r.needed {
			rights = append(rights, r.right)
		}
	}
	return rights
}
