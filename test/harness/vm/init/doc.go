// Init is the first process of a virtual machine that package test/harness/vm boots: it
// mounts what a Linux system has, runs the plan, reports and powers the machine
// off.
//
// Duties and invariants:
//
//   - It is static and alone: there is no other program in the machine but those
//     that the plan runs.
//   - One result for every command, in order. What a command prints is reported
//     line by line as it comes, before its result.
//   - Nothing of a command outlives it: whatever still runs when it ended, or
//     its time was up, is killed and reaped before the next one begins.
//   - A fault of its own is reported and ends the machine; so does a panic, which
//     the kernel answers by giving up the machine without a result.
package main
