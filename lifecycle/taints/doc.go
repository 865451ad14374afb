// Package taints says which taints and labels a node is to have, from what is
// known of it, and what has to change for that. It is pure: a node comes in, the
// change comes out as a value; whose turn it is and when is decided elsewhere.
//
// Duties and invariants:
//
//   - Only taints that follow from a node's state are touched: seven keys with
//     effect NoSchedule ([Scheduling]) and two with NoExecute ([Execution]). What
//     users and other programs put on a node stays.
//   - A node that carries out a change needs no further one: the same question
//     asked again is answered with nothing.
//   - A taint that replaces another keeps its moment, so that no pod gets more
//     time because its node is lost in another way now.
//   - What is asked about is the condition, as the caller believes it; a
//     condition that a node does not have wants no taint.
package taints
