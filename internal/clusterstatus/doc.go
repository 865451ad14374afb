// Package clusterstatus derives the state of a cluster's nodes and agents from facts, as rows of a
// document: the nodes that need attention first.
//
// Duties and invariants:
//
//   - It is pure. Facts and the time are arguments, and package collect reads them.
//   - What a silent agent published last is not its state: its signals and conditions count as unknown.
//   - One ordered table decides the attention that a node needs, and thereby the order of the rows.
//     Nodes that need the same attention follow in natural order of their names.
//   - Facts have no control characters. They were replaced where the objects were converted.
package clusterstatus
