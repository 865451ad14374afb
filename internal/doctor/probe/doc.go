// Package probe looks at a node, or at a cluster from outside, and hands over
// what it found as facts for package doctor to judge.
//
// Duties and invariants:
//
//   - It only looks: nothing on the node or in the cluster is changed by it. What it
//     posts to the API server are questions (SelfSubjectAccessReview), which leave
//     no object behind.
//   - A look ends within [Patience], or when its context does. Whoever has not
//     answered by then is unknown, with that as the cause.
//   - It needs no rights: what can not be read, on the node or from the API server,
//     is unknown with its cause, and everything else is told all the same.
//   - It judges nothing. That a file is absent is a fact only where absence has one
//     meaning; otherwise it is unknown.
package probe
