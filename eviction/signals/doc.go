// Package signals is the vocabulary of every other package: eviction signals, their units,
// conditions and filesystems, observations of a node, and the facts about a pod that decisions
// need.
//
// Duties and invariants:
//
//   - There is one table of signals (see [Signal.Definition]). Nothing else in the program
//     maps a signal to a resource, a condition, a filesystem, a kind of garbage or a ranking.
//   - An observation is a value with the time of its measurement, or unknown with its cause.
//     The zero [Observation] is unknown: a read that failed, or was never made, can not be
//     mistaken for zero bytes.
//   - Bytes, inodes and PIDs are distinct types. [Amount] is the one untyped number, in the
//     unit of its signal.
//   - The package has no policy, reads no clock, and imports nothing of Kubernetes: its types
//     are converted at the edge.
package signals
