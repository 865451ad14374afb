// Vm runs programs in a virtual machine with cgroup v2, independent of the cgroup version of
// the host: the kernel tests of packages, any static program, or a whole node with systemd.
//
//	vm test [-m MIB] [-smp N] [-kernel SUITE] [-v] PACKAGE…
//	vm run  [-m MIB] [-smp N] [-kernel SUITE] [-systemd [-suite SUITE] [-package NAME]…] [-put FILE]… [-output FILE] [-env NAME=VALUE]… [-limit TIME] -- COMMAND ARGUMENT…
//	vm node [-m MIB] [-smp N] [-kernel SUITE] [-env NAME=VALUE]… [-limit TIME] PACKAGE [TEST FLAG…]
//
// Duties and invariants:
//
//   - The machine is qemu with software emulation, an unmodified Debian kernel, and an initramfs
//     of static programs: init (see there) and the commands. Its packages are fetched with apt
//     once and cached by version. If one can not be fetched, the error contains the remedy. The
//     kernel is that of the suite in -kernel.
//   - Kernel and root file system come from Debian's mirror, verified with Debian's keyring. The
//     sources of this machine's apt only install missing programs, so that it can be Ubuntu.
//   - With node the machine has a root file system of Debian with systemd, made with mmdebstrap
//     once and cached by its list of packages. init mounts it and continues as systemd, which
//     starts it again as a service that runs the plan. The machine has the components of
//     bin/components, the chart, and what tests would build otherwise (bin/built). The disks
//     of the cache are never written. The control plane runs on the host: the machine is the
//     node.
//   - run -systemd boots that root file system with the given files and no control plane. With
//     -package it has further programs, of which no service starts. What the command writes to its
//     third disk is in the file that -output names.
//   - Files have the same place in the machine as here, relative to the working directory, so
//     that a command line means the same in both.
//   - It succeeds only if every command ran and exited with status 0. A machine that crashes,
//     hangs or sends no report has failed, and the end of its console is printed. run returns
//     the command's own status, or 125 without one.
//   - Times in the machine are those of an emulation: they are comparable only with each other.
//   - The machine and its disk do not outlive it.
package main
