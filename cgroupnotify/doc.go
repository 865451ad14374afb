// Package cgroupnotify waits for the agent: until a look is due, until this
// program wants one, or until the kernel has something to say of memory. It says
// "look now" and nothing else; what there is to see, the look finds out.
//
// Duties and invariants:
//
//   - The time is the guarantee, notifications come on top. Whatever becomes of
//     them, Wait returns at the time it was given.
//   - One goroutine waits, and it is the agent's own: Wait is one epoll_wait on
//     it. Every descriptor is opened, heard and closed by this goroutine, so
//     that none is closed under a waiter; [Notifier.Wake] may be called from
//     anywhere, also after Close.
//   - The one thing done beside it is registering a threshold on cgroup v1: the
//     kernel waits there for tens of milliseconds. A registration has descriptors
//     of its own and shares nothing.
//   - Wait, Wake and a Follow that changes nothing allocate nothing.
//   - Nothing spins: each descriptor is heard once and then armed again, and no
//     more often than its pace allows, whatever state it is in. A source near
//     the line wakes at most 20 times a second, one of stalls or of cgroups
//     below once a second, after bursts of 8 and 2.
//   - A source that fails is given up alone, with its cause in
//     [Notifier.Sources]. What may come back (a cgroup that was removed, a
//     descriptor) is tried again once a second.
//   - Nothing is written to a cgroup that changes it: no limit, no memory.high.
//
// What is watched, by the kernel's Documentation: usage thresholds and
// oom_control of version 1 (admin-guide/cgroup-v1/memory.rst); memory.events and
// memory.events.local of version 2 (admin-guide/cgroup-v2.rst); pressure stall
// information (accounting/psi.rst). docs/internals/decisions/020 says why these.
package cgroupnotify
