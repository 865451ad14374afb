// Package signals is the vocabulary every other package speaks: eviction
// signals, their units, conditions and filesystems, what was observed of a
// node, and the facts about a pod that decisions need.
//
// Duties and invariants:
//
//   - There is one table of signals (see [Signal.Definition]); nothing else in
//     the program maps a signal to a resource, a condition, a filesystem, a
//     reclaimer or a ranking.
//   - An observation is a value with the time it was measured, or unknown with
//     its cause. The zero [Observation] is unknown: a read that failed, or was
//     never made, can not be mistaken for zero bytes.
//   - Bytes, inodes and PIDs are distinct types. [Amount] is the one untyped
//     number, in the unit of the signal it belongs to.
//   - The package holds no policy, reads no clock, and imports nothing of
//     Kubernetes: its types are converted at the edge.
package signals
