// Package hog is the workload of the benchmark: a process that follows a program of steps with given
// rates. It also is the neighbour with its measured latency, and the heartbeat of the node.
//
// Duties and invariants:
//
//   - A program is a file of JSON. A process performs what is before the incident, reports that it is
//     ready, and waits for the gate: a lock that the referee holds. All processes of a node pass the gate
//     at the same time, in containers too.
//   - If the referee ends before it opens the gate, the process ends without another step.
//   - Memory is touched page by page, without huge pages and outside of the garbage collector: the
//     charged size is the requested size. Rates have absolute deadlines, so that they do not drift.
//   - A hog has no limit of its own. The referee starts it in a cgroup with one.
//   - Files without a name go with their process. Named ones are in the scratch directory, which the
//     referee removes.
package hog
