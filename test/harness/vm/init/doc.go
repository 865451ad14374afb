// Init is the first process of a virtual machine that package test/harness/vm boots. It mounts
// the file systems of a Linux system, runs the plan, reports and powers the machine off.
//
// Duties and invariants:
//
//   - It is static, and the only programs in the machine are init and those of the plan.
//   - The report contains one result for every command, in order. The output of a command is
//     reported line by line as it arrives, before its result.
//   - No process of a command outlives it: after its exit or time limit, remaining processes are
//     killed and reaped before the next command begins.
//   - A fault of its own is reported and ends the machine. So does a panic: the kernel then stops
//     the machine without a result.
package main
