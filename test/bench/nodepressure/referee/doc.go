// Package referee runs one incident against one contestant and returns what it observed.
//
// Duties and invariants:
//
//   - It knows no contestant: programs, files and readiness come from the contestant's file. It knows no
//     incident: pods, steps and expectations come from the incident's file.
//   - A contestant sees what its file asks for: the node's cgroup, the directory of the pods' cgroups, the
//     pods' manifests. Names and UIDs of pods reveal nothing about their part in the incident.
//   - The same seed gives the same pods, steps, order and waiting time.
//   - Before the incident a quiet time gives the neighbour's own latency and the contestant's idle cost.
//     Then a random part of the contestant's period passes, so that periodic checks come at any time.
//   - Everything that it started has ended and everything that it made is gone when it returns, also after
//     an error. Package arena does the same if this process is killed.
package referee
