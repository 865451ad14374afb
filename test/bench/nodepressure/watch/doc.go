// Package watch is the witness of a run: a process with one thread at real-time priority that samples the
// free memory of the node, the ends of processes and the kernel's counters of OOM kills.
//
// Duties and invariants:
//
//   - It is a process of its own, so that neither garbage collection nor a busy processor delays it. Where
//     SCHED_FIFO is not permitted, the report states it.
//   - It knows no contestant and no incident. It reports what happened and judges nothing.
//   - Page cache of files counts as available: the kernel reclaims it before it kills.
//   - It ends with its input.
package watch
