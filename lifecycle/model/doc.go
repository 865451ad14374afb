// Package model is the vocabulary of the cluster's side: nodes, pods, conditions,
// taints and tolerations, with only those fields by which the controller decides.
//
// Duties and invariants:
//
//   - Values only. Objects of the API are converted into them at the edge; what
//     is not here is not kept in memory, for 150 000 nodes and their pods.
//   - Absent is a value of its own: a condition that was never reported is
//     neither True nor False nor Unknown.
//   - A value that was handed over is not changed afterwards by either side;
//     what many pods have in common, such as tolerations, may be shared.
package model
