// Package trial compares what Plimsoll decided on nodes with what others did: kubelets, other programs, and the
// kernel's OOM killer.
//
// Duties and invariants:
//
//   - It is pure: records and options are arguments, and the same ones give the same comparison.
//   - Matching has fixed rules (match.go): the node, the UID or the resource, and a window of time.
//   - What the records do not show is unknown. It never counts as agreement, nor as an advantage of Plimsoll.
//   - Each row has the time, the node, the pod, and the place of the record that it comes from.
//   - Every text of a record is hostile. It is printable and bounded from the beginning.
//   - What is stored is bounded, whatever the size of the records. Beyond the bound there is an error, and no
//     comparison of a part.
package trial
