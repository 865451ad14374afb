// Package kubeletconfig reads the configuration of a kubelet's evictions. From it the package
// derives the configurations with which an agent and a kubelet share a node.
//
// Duties and invariants:
//
//   - The package is pure: its inputs and outputs are the contents of files. Callers find, read and
//     write the files.
//   - Defaults and their oddities are the kubelet's (kubelet.config.k8s.io/v1beta1, Kubernetes
//     1.36). A given map replaces the defaults, and drop-in files are merged by field and key. 0%
//     and 100% switch a threshold off. Percentages are computed in the same floating point.
//   - Fields that do not concern evictions are ignored, as are unknown signals: a kubelet of
//     another version is no fault. A value with which no kubelet starts is a fault, and all faults
//     are reported together.
//   - An import leaves the allocatable resources of the node unchanged, to the byte. It leaves the
//     kubelet no configured hard threshold at or above the agent's.
//   - After an import, no pods are evicted that together use no more than allocatable. For the limit
//     of all pods the kubelet evicts above allocatable with any threshold, and the agent's threshold
//     is below the kubelet's.
package kubeletconfig
