// Package simulate reads scenario files. It runs the agent's own check over the timeline of one
// node in virtual time, and prints the decisions. Scenarios with many nodes are in package
// cluster. It needs no root, no kernel feature and no cluster.
//
// Duties and invariants:
//
//   - The package decides nothing. Observations, usage, garbage collection and kills come
//     from the file, through the ports that the agent has on a real node.
//   - The same file gives the same bytes: nothing depends on the order of a map, on the clock
//     or on the machine.
//   - A file with faults is not simulated in part. Every fault names its field.
package simulate
