// Package cluster runs the controller's own decisions over the timeline of a
// cluster, in virtual time, and says what they are: nodes that live and die,
// what the API holds of them, and what becomes of their pods.
//
// Duties and invariants:
//
//   - Nothing is decided here. What happens comes from the file, what follows
//     from it is the fleet's; this package plays the API server, and the nodes
//     that write to it.
//   - At one instant all events happen, then whatever nodes write at that
//     instant, then the controller acts until it has nothing more to do.
//   - The same file gives the same bytes: nothing depends on the order of a map,
//     on the clock or on the machine.
//   - A healthy node costs a few operations for each of its renewals, and no
//     decision.
//   - A file with faults is not run in part; every fault names its field.
package cluster
