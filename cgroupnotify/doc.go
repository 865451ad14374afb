// Package cgroupnotify provides the agent's wait: until a check is due, until this program
// requests one, or until the kernel reports a change of memory. A wakeup only starts a check;
// the check observes the state.
//
// Duties and invariants:
//
//   - The deadline is the guarantee, and notifications come in addition. Wait returns at its
//     deadline in any state of the notifications.
//   - One goroutine waits, the agent's own: Wait is one epoll_wait on it, or one
//     read in the poller of Go's runtime that ends with the same events. This goroutine opens,
//     reads and closes every descriptor, so none is closed during a wait. [Notifier.Wake] is safe
//     on any goroutine, also after Close.
//   - Only the registration of a threshold on cgroup v1 runs beside it, because the kernel blocks
//     there for tens of milliseconds. A registration has its own descriptors and shares nothing.
//   - Wait, Wake and a Follow without changes allocate nothing.
//   - Nothing spins: each descriptor is read once and then armed again, at most at its pace, in any
//     state. A source near the line wakes at most 20 times a second. A source of stalls or of
//     cgroups below wakes at most once a second. Bursts are 8 and 2.
//   - A failing source is disabled alone, with its cause in [Notifier.Sources]. A recoverable
//     failure (a removed cgroup, a missing descriptor) is retried once a second.
//   - No write changes a cgroup: no limit, no memory.high.
//
// The sources follow the kernel's Documentation: usage thresholds and oom_control of version 1
// (admin-guide/cgroup-v1/memory.rst); memory.events and memory.events.local of version 2
// (admin-guide/cgroup-v2.rst); pressure stall information (accounting/psi.rst).
// docs/internals/decisions/020 explains the choice.
package cgroupnotify
