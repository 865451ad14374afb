// Package agents decides on the controller's work for the agents on the nodes. It determines
// whether an agent is alive, which of its requested soft evictions to execute, and where a dead
// agent left conditions or taints behind.
//
// Duties and invariants:
//
//   - An agent is alive for the grace period after an observed change of its lease, by the
//     clock of the observer. At first observation the time in the lease counts, but never as
//     later than now. Without a lease it is not alive. This has no relation to the node's
//     kubelet.
//   - A pod's eviction is requested from the API only while its agent is alive, the request
//     still stands, and it is at most an hour old. Refused evictions are retried with growing
//     intervals. So are granted ones without an effect.
//   - A node is cleaned only of conditions and taints that were observed for the whole grace
//     period without a sign of life of its agent. An empty or late cache of leases cleans up
//     nothing.
//   - A task is never issued twice at a time. Pods are identified by UID.
//   - A renewal costs one lookup and allocates nothing. Nothing iterates over all nodes or
//     pods.
package agents
