// Package pods speaks core/v1: it converts pods to the facts that decisions
// need and reads manifests from a directory. It is the edge at which types of
// Kubernetes end.
//
// Duties and invariants:
//
//   - Requests and limits are the effective ones, as the kubelet ranks by them:
//     init containers, sidecars, overhead and pod-level resources included.
//   - A pod is taken as written: nothing is defaulted but its namespace.
//   - A manifest that can not be used is named with its fault and costs no
//     other pod its place.
package pods
