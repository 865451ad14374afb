// Vm runs programs in a virtual machine with cgroup v2, whatever the machine it
// runs on has: the kernel tests of packages, or any static program.
//
//	vm test [-m MIB] [-smp N] [-v] PACKAGE…
//	vm run  [-m MIB] [-smp N] [-put FILE]… [-env NAME=VALUE]… [-limit TIME] -- COMMAND ARGUMENT…
//
// Duties and invariants:
//
//   - The machine is qemu with software emulation, a Debian kernel as it is, and
//     an initramfs of static programs: init (see there) and what is to be run.
//     What it needs is fetched with apt once and kept by version; what can not
//     be fetched is named with what to do.
//   - Files lie in the machine where they lie here, relative to the working
//     directory; so a command line means the same in both.
//   - It succeeds only if every command ran and ended with status 0. A machine
//     that dies, hangs or says nothing has failed, with the end of its console.
//     run returns the command's own status, and 125 if there is none.
//   - Times in the machine are those of an emulation: they compare with each
//     other and with nothing else.
//   - Nothing outlives it: not the machine, not its disk.
package main
