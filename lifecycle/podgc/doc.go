// Package podgc determines when to delete the object of an evicted pod. Such a pod has failed
// because the agent of its node evicted it, and has the agent's mark. No other component deletes
// these pods before there are thousands of them.
//
// Duties and invariants:
//
//   - The time follows from the object alone: from the time of the mark, or from the creation
//     if that is later because of the node's clock. It is therefore the same after a change of
//     leader.
//   - A pod is due only while it has the condition plimsoll.dev/Evicted and no
//     deletionTimestamp.
//   - A pod is returned once, until its result is known. A failed deletion is retried with
//     growing intervals. So is the deletion of a pod that still exists after it.
//   - All state belongs to a UID: another pod of the same name inherits nothing.
package podgc
