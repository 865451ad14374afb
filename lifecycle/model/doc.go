// Package model is the vocabulary of the controller: nodes, pods, conditions, taints and
// tolerations, with only those fields that decisions depend on.
//
// Duties and invariants:
//
//   - Values only. API objects are converted at the edge. Other fields are not stored in
//     memory, given 150 000 nodes and their pods.
//   - Absent is a separate value: a condition that was never reported is neither True nor
//     False nor Unknown.
//   - A value is immutable after it was passed, for both sides. Values common to many pods,
//     such as tolerations, may be shared.
package model
