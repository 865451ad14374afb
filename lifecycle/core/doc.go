// Package core puts the cores of the cluster's side together: observations of
// nodes, leases and pods come in, what is to be done comes out. It is what the
// controller runs, and what a rehearsal of a cluster runs.
//
// One goroutine owns a Fleet. It is handed what is observed, asks [Fleet.Act]
// whenever something was observed or [Fleet.Next] says so, carries out what comes
// back and reports each write with [Fleet.Finished]. Times are arguments; of the
// now of all calls none is earlier than the one before.
//
// Duties and invariants:
//
//   - At one instant is decided in this order: conditions of all nodes, states
//     and rates of zones, taints, pods that are marked, evictions.
//   - Only what changed is looked at again, and what is due: a lease renewal
//     costs a few look-ups and allocates nothing, and while nothing happens Act
//     does nothing, however many nodes there are. Taking over, and entering or
//     leaving a disruption, look at all nodes that are concerned.
//   - A node has one write of its status and one of its taints under way at most,
//     a pod one of each kind. What failed is tried again, ever more slowly, as
//     long as it is still wanted.
//   - A write that succeeded is believed until the object shows it, or for so long
//     that it should have: an older object that comes late undoes nothing.
//   - A node that was heard of within its grace is never tainted for silence, and
//     no write for silence outlives the silence; see [Fleet.Overtaken].
//   - A zone's token is spent on a taint that was written, or on a node whose pods
//     are evicted, and on nothing else.
//   - A pod that has ended is left alone, but for the object of one that bears the
//     mark of its agent's eviction: that is deleted when it has been kept for long
//     enough, never while what is observed may be out of date.
//   - While every zone is fully disrupted no pod is evicted for not-ready or
//     unreachable nodes. Taints of users do what they always do.
//   - Nothing that matters is remembered which the API does not hold: a fleet that
//     takes over makes the same decisions at the same moments, lets nobody wait
//     longer, and spends no token twice.
//   - No output depends on the order of a map.
package core
