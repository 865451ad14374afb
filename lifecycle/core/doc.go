// Package core combines the decisions of the controller: observations of nodes, leases
// and pods are its input, actions its output. The controller runs it, and so does the
// simulation of a cluster.
//
// One goroutine owns a Fleet. It passes observations on, calls [Fleet.Act] after any of
// them and at the time of [Fleet.Next], carries out the actions, and reports each write
// with [Fleet.Finished]. Times are arguments, and never decrease from call to call.
//
// The state of a node is two enums with transition tables: its health, by heartbeats and
// reports, and how far its eviction is, by the queue of its zone (states.go).
//
// Duties and invariants:
//
//   - One call of Act decides in this order: conditions of all nodes, states and rates
//     of zones, taints, marks of pods, evictions.
//   - Act evaluates only what changed or is due. A lease renewal costs a few lookups
//     and allocates nothing; while nothing happens Act does nothing, whatever the number
//     of nodes. A takeover, and the start and end of a disruption, evaluate all nodes
//     that are affected.
//   - At most one write of a node's status and one of its taints is under way, and one
//     of each kind for a pod. A failed write is repeated with backoff as long as it is
//     wanted.
//   - A write that succeeded counts until the object shows it, or should have: an older
//     object that arrives late undoes nothing.
//   - A node with a heartbeat within its grace period is never tainted as unreachable,
//     and no write for missing heartbeats outlives them; see [Fleet.Obsolete].
//   - A zone's token is spent on a taint that was written, or on a node with pods being
//     evicted, and on nothing else.
//   - A pod that has ended is not changed. The object of one with the mark of its
//     agent's eviction is deleted after EvictedPodTTL, never while the observations may
//     be out of date.
//   - While every zone is fully disrupted no pod is evicted for not-ready or unreachable
//     nodes. Taints of users are not affected by that.
//   - Everything that matters is stored in the API: a fleet that takes over makes the
//     same decisions at the same time, delays no node, and spends no token twice.
//   - No output depends on the order of a map.
package core
