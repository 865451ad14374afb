// Package cgroup implements the format of the kernel's cgroup files, version 1 and version 2.
// It knows the paths of controllers' directories, the content of their files, and the pods of a
// kubepods tree. It does not depend on signals, thresholds or the Kubernetes API.
//
// Duties and invariants:
//
//   - Parsers are pure functions over bytes, separate from the readers. Unknown lines are skipped. A
//     malformed known line, or a missing required one, is an error that names it. A missing value
//     never reads as 0.
//   - Readers keep their files open and read them with pread(2) into a preallocated buffer: a read
//     allocates nothing. A cgroup that was removed and recreated at its path is opened again by the
//     next read.
//   - A failing reader returns a [*ReadError] with the operation, the file and a remedy. A repeated
//     failure returns the same value, so failing every few milliseconds causes no garbage either.
//   - A path is relative to each controller's mount, as in /proc/PID/cgroup, and can not lead out of
//     it.
//   - [ParsePodPath] is the safeguard before a kill: it never accepts kubepods, a QoS directory or
//     an ancestor of either as a pod.
//
// Readers are not safe for concurrent use; the agent observes on one goroutine. The rules
// follow the kernel's Documentation/admin-guide: cgroup-v1/memory.rst, cgroup-v1/pids.rst and
// cgroup-v2.rst.
package cgroup
