// Package podgc says when the object of an evicted pod is deleted: of one that
// has failed because the agent of its node evicted it, and that bears the mark of
// that. Nobody else deletes such pods before there are thousands of them.
//
// Duties and invariants:
//
//   - A moment follows from the object alone: from when it was marked, or from its
//     creation if the node's clock was so wrong that this is later. So it is the
//     same after a change of leader.
//   - Nobody is due who bears no mark, or whom somebody has deleted already; who
//     loses the mark is not due any more.
//   - A pod is told once, until it is known what came of it. What failed is told
//     again, ever more slowly, and so is a pod that outlasts its delete.
//   - All of this belongs to a UID: another pod of the same name inherits nothing.
package podgc
