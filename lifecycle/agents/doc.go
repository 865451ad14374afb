// Package agents keeps what the cluster's side does for the agents on the nodes:
// it tells whether an agent is alive, which soft evictions it asked for are to be
// carried out, and where a dead agent left something behind.
//
// Duties and invariants:
//
//   - An agent is alive for the grace after its lease was seen to change, by the
//     clock of who watches; at first sight by the time in the lease, which never
//     counts as later than now. Without a lease it is not alive. Whether it is
//     says nothing of the node's kubelet.
//   - A pod's eviction is asked for only while the agent that wants it is alive,
//     it still wants it, and it did not begin to want it more than an hour ago.
//     What was refused is asked for again, more and more slowly; so is what was
//     granted, if nothing came of it.
//   - A node is cleared only of what was seen there for the whole grace without
//     its agent being heard: an empty or late cache of leases clears nothing.
//   - Nobody is given a task twice at a time. Pods count by their UID.
//   - A renewal costs one look-up and allocates nothing; nothing walks over all
//     nodes or pods.
package agents
