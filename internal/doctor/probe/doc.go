// Package probe reads the facts of a node for package doctor. Package clusterprobe reads those of a cluster.
//
// Duties and invariants:
//
//   - It only reads: nothing on the node or in the cluster changes. The objects it posts to the API
//     server are reviews (SelfSubjectAccessReview), which are not stored.
//   - A probe ends within [Patience], or when its context ends. A fact without an answer by then is
//     unknown, with that as the cause.
//   - It needs no rights: a fact that cannot be read, on the node or from the API server, is unknown
//     with its cause. All other facts are returned nevertheless.
//   - It derives no findings. The absence of a file is a fact only if absence has one meaning;
//     otherwise the fact is unknown.
package probe
