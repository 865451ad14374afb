// Package kmsg reads the kernel's log from /dev/kmsg, beginning with records that are written after the
// log was opened.
//
// Duties and invariants:
//
//   - A read never blocks a thread: the file is polled by the runtime, and a deadline or Close ends the
//     wait. The deadline passes only while there is no record.
//   - The number of records per second is bounded. Beyond it the reader pauses, and the kernel
//     overwrites what was not read. The log reports that as [ErrLost], and never silently.
//   - Other readers of the log are not affected: the kernel has a position for each open file.
package kmsg
