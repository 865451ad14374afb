// Package agentpods converts pods of core/v1 to the facts that decisions need, and reads manifests
// from a directory. It is the boundary of the Kubernetes types.
//
// Duties and invariants:
//
//   - Requests and limits are the effective ones, by which the kubelet ranks: with init containers,
//     sidecars, overhead and pod-level resources. For a resized pod they are those granted by its
//     node.
//   - Every part of a path that leaves [FromAPI] has a form valid in Kubernetes.
//   - A pod is converted as written: only its namespace has a default.
//   - An invalid manifest is reported with its fault and does not affect other pods.
package agentpods
