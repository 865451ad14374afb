// Package taints computes the desired taints and labels of a node and the required changes. It is
// pure: a node is the argument, the change is the return value. The order and time of changes are
// decided elsewhere.
//
// Duties and invariants:
//
//   - Only taints that follow from a node's state are changed: seven keys with effect
//     NoSchedule ([Scheduling]) and two with NoExecute ([Execution]). Taints of users and other
//     programs stay.
//   - A change is complete: for a node with the change applied, no further one is returned.
//   - A taint that replaces another one keeps its time. No pod gets more time because its node
//     is lost in another way now.
//   - The input is the condition as believed by the caller. A missing condition requires no
//     taint.
package taints
