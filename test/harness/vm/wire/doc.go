// Package wire is what a virtual machine and the program that boots it say to
// each other: the plan, which lies in the initramfs, and the report, which comes
// back over a serial line of its own.
//
// Duties and invariants:
//
//   - Both are lines of JSON, so that neither is parsed by hand. What a command
//     prints travels inside a line: no output, whatever it says, is taken for a
//     result. Only who opens the serial line itself could write one.
//   - A run is good only if the report says so to its end: every command began,
//     ended with status 0, in the plan's order, and the machine said that it was
//     finished. Nothing that is missing counts as good ([Verdict]).
//   - Everything here is pure: no file, no clock.
package wire
