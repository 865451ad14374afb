// Package ring stores a recording on a node, in a directory of segments with a bounded size. A
// goroutine of its own writes, so that no check waits for a disk.
//
// Duties and invariants:
//
//   - The caller never waits. It fills a slot of a queue of fixed size. If the queue is full, the
//     value is dropped and counted, and a later check has the number of lost ones.
//   - The size of all segments is within the bound at any time. Whole segments are removed before
//     a new one is created, and the space of the present one is reserved.
//   - A segment is only appended to, and never by another run. After a failed write the segment is
//     closed, and the next one begins later. It is complete by itself.
//   - A ring may have decisions alone. Their lines are those of the decision log.
//   - Nothing is synced: a recording survives the end of the process, and after a power failure
//     the last seconds may be missing.
package ring
