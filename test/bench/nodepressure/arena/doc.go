// Package arena makes the node of a run: cgroups with the directory names of a kubelet's pods, on cgroup
// v1 and v2, and the processes in them.
//
// Duties and invariants:
//
//   - A node is a cgroup with a memory limit of at most 2 GiB, or the whole machine if the caller
//     declares it expendable.
//   - A process is in its cgroup before it executes the first instruction of its program ([Enter]).
//   - [Node.Close] ends the processes in the node's cgroups, one by one by PID, and nothing else. It
//     removes the directories that this package made, with those that a contestant made in them.
//   - If the referee is killed, a process of its own session does the same ([Reap]). If that one is
//     killed too, the next run does it ([Sweep]).
package arena
