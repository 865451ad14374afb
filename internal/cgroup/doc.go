// Package cgroup speaks the language of the kernel's cgroup files, version 1
// and version 2: where a controller's directory lies, what its files say, and
// which directories of a kubepods tree are pods. It knows no signal, no
// threshold and nothing of Kubernetes' API.
//
// Duties and invariants:
//
//   - Parsers are pure functions over bytes, apart from the readers. Lines they
//     do not know are skipped; a line they know that is malformed, or one they
//     need that is missing, is an error naming it. Nothing missing reads as 0.
//   - Readers keep their files open and read them with pread(2) into a buffer
//     made beforehand: a read allocates nothing. A cgroup that was removed and
//     made again under its path is opened again by the next read.
//   - A reader that fails returns a [*ReadError] saying what was attempted on
//     what file and what to do; the same failure again is the same value, so
//     that failing every few milliseconds costs no garbage either.
//   - A path is relative to each controller's mount, as in /proc/PID/cgroup, and
//     can not lead out of it.
//   - [ParsePodPath] is what a killer trusts: it never takes kubepods, a QoS
//     directory or an ancestor of either for a pod.
//
// Readers are not safe for concurrent use; the agent has one goroutine that
// observes. The rules come from the kernel's Documentation/admin-guide:
// cgroup-v1/memory.rst, cgroup-v1/pids.rst and cgroup-v2.rst.
package cgroup
