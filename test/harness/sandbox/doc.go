// Package sandbox creates a cgroup that represents a node. Tests, the demo and the benchmarks
// drive real processes in it into real memory pressure without a risk for the machine.
//
// Duties and invariants:
//
//   - A node is one directory per controller (memory, pids, freezer on cgroup v1; one directory
//     on v2) with a memory limit of at most [MaxLimit]. If a bare unified hierarchy is mounted
//     beside v1, the node exists there too, under the same name, so that tests can use
//     cgroup.kill.
//   - A process is inside its container's cgroups before its first instruction.
//   - The name of every directory contains the process that created it. [Node.Close] ends the
//     processes inside and removes it, [CatchSignals] does so on Ctrl-C, and [Sweep] removes
//     the directories of dead owners, and nothing else.
//   - Signals go only to processes inside the node's own directories, through pidfds, after a
//     second check of their membership.
//
// The package does not depend on package testing: [Need] takes a small interface, and all other
// functions return errors.
package sandbox
