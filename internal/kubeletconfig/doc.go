// Package kubeletconfig reads what a kubelet is configured to do about
// evictions, and derives from it the configurations with which an agent and a
// kubelet share a node.
//
// Duties and invariants:
//
//   - It is pure: files come in as bytes, and go out as bytes. Who reads them,
//     and where they lie, is decided elsewhere.
//   - Defaults and their oddities are the kubelet's (kubelet.config.k8s.io/v1beta1,
//     Kubernetes 1.36): a map that is given replaces the defaults, drop-in files are
//     merged by field and key, 0% and 100% switch a threshold off, percentages are
//     computed in the same floating point.
//   - Fields that do not concern evictions are passed over, and so are signals that
//     are not known: a kubelet of another version is no fault. A value with which
//     no kubelet would start is one, and all faults come at once.
//   - An import leaves what the node offers to pods, its allocatable, as it was, to
//     the byte, and leaves the kubelet no threshold at or above the agent's.
package kubeletconfig
