// Package agentpods speaks core/v1: it converts pods to the facts that decisions
// need and reads manifests from a directory. It is the edge at which types of
// Kubernetes end. Where nobody has such a pod, it makes do with what the
// container runtime says.
//
// Duties and invariants:
//
//   - Requests and limits are the effective ones, as the kubelet ranks by them:
//     init containers, sidecars, overhead and pod-level resources included; of a
//     pod that is resized, what its node has granted.
//   - Nothing that becomes part of a path leaves [FromAPI] or [FromRuntime] but in
//     the form that Kubernetes gives it.
//   - A pod is taken as written: nothing is defaulted but its namespace.
//   - A manifest that can not be used is named with its fault and costs no
//     other pod its place.
package agentpods
