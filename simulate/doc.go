// Package simulate reads scenario files, and runs the agent's own cycle over the
// timeline of one node in virtual time and says what is decided. Scenarios of
// many nodes are those of package rehearse. It needs no root, no kernel feature
// and no cluster.
//
// Duties and invariants:
//
//   - Nothing is decided here. Observations, usage, reclaim and kills come from
//     the file, by way of the ports that the agent has on a real node.
//   - The same file gives the same bytes: nothing depends on the order of a
//     map, on the clock or on the machine.
//   - A file with faults is not simulated in part; every fault names its field.
package simulate
