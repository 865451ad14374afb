// Package stats observes the running kernel: it fills signal.Observations for a
// node and signal.Usage for its pods, from /proc, the cgroup files, statfs and
// pods' directories.
//
// Duties and invariants:
//
//   - What can not be read is unknown with its cause, never 0, and never an old
//     value passed off as new. A reading above 2^62 is absurd, hence unknown.
//   - A look at the node reads files that are kept open, a handful, and
//     allocates nothing. Pods are measured only when asked for.
//   - An extra look reads memory only; what it leaves out of the observations it
//     was given stays there, with its own time.
//   - A pod is found by its UID where its cgroup must be; what was measured of
//     it is what its cgroup held, or nothing.
//   - Who waits for memory is told from counters that the kernel keeps, and what is
//     a pod's own from its own limits; it decides nothing.
//   - Nobody waits for a disk: who asks for one waits for a bounded time, and a
//     call that never returns keeps one goroutine, however often it is asked
//     again. What a pod keeps on disks is measured beside the agent's loop,
//     within bounds of time, number and depth; what was cut short is a lower
//     bound, see [Directories].
//
// # The node is a cgroup
//
// For the node "/" the numbers are the kubelet's: the capacity is MemTotal, and
// the working set is anonymous memory and page cache but for what is inactive;
// but no more is available than the kernel's MemAvailable.
// For any other cgroup the capacity is its memory limit, or that of its nearest
// limited ancestor, and never more than MemTotal; where the limit is an
// ancestor's, what others use below that ancestor is not seen, so name the
// ancestor as the node where they matter. The free PIDs are pids.max −
// pids.current (tasks, that is threads), or the machine's where pids.max is
// "max": min(kernel.pid_max, kernel.threads-max) − existing tasks.
//
// allocatableMemory.available is the limit of the kubepods cgroup below the node
// minus its working set. Where kubepods has no limit, nobody enforces one; if
// reservations are given, the limit is what they leave of the node's capacity
// (this is how a node without a kubelet has an allocatable), else the signal is
// unknown, as with the kubelet.
//
// Available amounts may be negative: kubepods' limit can be above what the
// node has left, and version 1 charges in batches. They are reported as they
// are.
//
// # What counts as used: the kubelet's choices
//
//   - Page cache: inactive_file is available, active_file is used, though the
//     kernel could take most of it back. Tmpfs and shared memory are used.
//   - Swap: not counted. A page in swap is in no usage (v1 usage_in_bytes, v2
//     memory.current), and free swap is not available memory. With swap a node
//     is more patient than these numbers.
//   - Huge pages (hugetlbfs): part of the capacity, in no memory cgroup's usage.
//     Reserving n GiB of them makes memory.available n GiB too large, with the
//     kubelet as here: raise the threshold by them, or name as the node a cgroup
//     whose limit leaves them out. Transparent huge pages are anonymous memory
//     and used.
//   - Slab and other kernel memory: used wherever a cgroup counts itself (version
//     1 with kernel memory accounting, every version 2 cgroup but the root). The
//     root of version 2 counts anon + file only; what it leaves out is seen all
//     the same, since memory.available of the node "/" is at most the kernel's
//     MemAvailable, on either version. That is not the kubelet's choice.
//     Reclaimable slab counts as used, as far as MemAvailable does.
package stats
