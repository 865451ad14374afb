// Package oomkill explains the kernel's OOM kills: the killed process and its pod, the limit that was
// met, what held most of the memory below that limit, and what grew most before.
//
// Duties and invariants:
//
//   - The package is pure. Records of the kernel's log, readings of memory and times are arguments.
//   - A name is never wrong. It follows from complete and unambiguous lines of the kernel, and from
//     bounds of the memory that hold whatever happened between two readings. Otherwise it is unknown.
//   - Only records of the kernel's own facility count. Programs with access to /dev/kmsg cannot
//     write such records.
//   - Names of processes, and of cgroups that pods create, are hostile. A text in them that resembles
//     the kernel's makes a kill unknown at most.
//   - A gap in the log's sequence numbers ends every line that was pending.
//   - A record that the kernel truncated may lack any part of a line. No cgroup and no amount follows from it.
//     The same holds for a line that another record splits.
//   - What is stored is bounded: one pending line, ten times, and a fixed number of readings.
//
// The texts are those of Linux 5.10 to 6.18: mm/oom_kill.c, mm/memcontrol.c and mm/memcontrol-v1.c.
package oomkill
