// Package evictions computes when a pod has to leave a node with taints that it does not tolerate
// forever, and orders these deadlines. It is pure: pods and taints are arguments, deadlines are
// return values.
//
// Duties and invariants:
//
//   - A deadline follows from the objects alone: the time of the taint, the creation of the
//     pod, and the pod's tolerations. It is therefore the same after a change of leader, and
//     moves both ways with changes of taints or tolerations.
//   - A finished or deleted pod has no deadline.
//   - A timer belongs to a pod's UID: another pod of the same name inherits nothing. A pod has
//     at most one timer.
package evictions
