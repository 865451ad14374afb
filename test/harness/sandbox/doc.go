// Package sandbox makes a cgroup that plays the node, so that tests, the demo
// and the benchmarks drive real processes into real memory pressure without
// risking the machine.
//
// Duties and invariants:
//
//   - A node is one directory per controller (memory, pids, freezer on cgroup
//     v1; one directory on v2) with a memory limit of at most [MaxLimit]. Where
//     a bare unified hierarchy is mounted beside v1, the node exists there too,
//     under the same name, so that cgroup.kill can be tried.
//   - A process is inside its container's cgroups before its first instruction.
//   - Every directory carries the process that made it in its name. [Node.Close]
//     ends what is inside and removes it, [CatchSignals] does so on Ctrl-C, and
//     [Sweep] removes what a maker that died left behind, and nothing else.
//   - Only processes found inside the node's own directories are ever signalled,
//     through pidfds, with their membership checked again.
//
// Nothing here needs package testing: [Need] takes a small interface, the rest
// returns errors.
package sandbox
