// Package evictions says when a pod has to leave a node whose taints it does not
// bear for ever, and keeps those moments in order. It is pure: pods and taints
// come in, moments come out.
//
// Duties and invariants:
//
//   - A moment follows from the objects alone: from when a taint was added, when
//     the pod was created, and what the pod tolerates. So it is the same after a
//     change of leader, and moves both ways when taints or tolerations do.
//   - A pod that has finished, or that somebody has deleted already, has none.
//   - A timer belongs to a pod's UID: another pod of the same name inherits
//     nothing. A pod has one timer at most.
package evictions
