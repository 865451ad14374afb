// Package wire is the protocol between a virtual machine and the program that boots it: the
// plan in the initramfs, and the report on a separate serial line.
//
// Duties and invariants:
//
//   - Both are lines of JSON and need no custom parser. The output of a command is a field of a
//     line: no output can be mistaken for a result. Only a process that opens the serial line
//     could forge one.
//   - A run succeeds only with a complete report: every command began, exited with status 0, in
//     the plan's order, and the machine reported its end. A missing line is a failure
//     ([Verdict]).
//   - All functions are pure: no file, no clock.
package wire
