// Package cluster runs the controller's own decisions over the timeline of a cluster, in virtual
// time, and prints them. A timeline has nodes that start and fail, their objects in the API, and
// their pods.
//
// Duties and invariants:
//
//   - The package decides nothing. Events come from the file, decisions from the Fleet. The
//     package simulates the API server, and the nodes that write to it.
//   - At one instant all events happen, then the writes of nodes at that instant, then the
//     controller runs until it returns no more actions.
//   - The same file gives the same bytes: nothing depends on the order of a map, on the clock
//     or on the machine.
//   - A healthy node costs a few operations for each of its renewals, and no decision.
//   - A file with faults is not run in part. Every fault names its field.
package cluster
