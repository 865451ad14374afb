// Package clusterprobe reads the facts of a cluster for package doctor, from outside of its nodes.
//
// Duties and invariants:
//
//   - It only reads, and it runs on any system: agents, controllers and policies are examined by what the API server has.
//   - A probe ends within its patience, or when its context ends. A fact without an answer by then is unknown, with that
//     as the cause.
//   - It needs no rights: a fact that cannot be read is unknown with its cause. All other facts are returned nevertheless.
//   - It derives no findings. What others wrote is bounded and printable: every text is converted here.
package clusterprobe
