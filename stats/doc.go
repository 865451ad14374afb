// Package stats observes the running kernel. It fills signals.Observations for a node and
// signals.Usage for its pods, from /proc, cgroup files, statfs and pods' directories.
//
// Duties and invariants:
//
//   - An unreadable value is unknown with its cause, never 0, and an old value never carries a new
//     time. A reading above 2^62 is invalid, hence unknown.
//   - A check of the node reads a handful of files that stay open, and allocates nothing. Pods are
//     measured only on request.
//   - An early check reads memory only. The other signals stay in the observations, with their own
//     times.
//   - A pod is found by its UID at the expected path of its cgroup. A measurement is the content of
//     that cgroup, or nothing.
//   - Stalls are derived from kernel counters, and limits of a pod from its own cgroups. The package
//     makes no decision.
//   - Every wait for a disk is bounded. A call that never returns occupies one goroutine, however
//     often it is repeated. Pods' disk usage is measured beside the agent's loop, within bounds of
//     time, number and depth. A measurement cut short is a lower bound, see [Directories].
//
// # The node is a cgroup
//
// For the node "/" the numbers are the kubelet's. The capacity is MemTotal, and the working set
// is anonymous memory plus page cache without its inactive part. In addition, the available
// amount is at most the kernel's MemAvailable.
//
// For any other cgroup the capacity is its memory limit, or that of its nearest limited
// ancestor, at most MemTotal. If the limit is an ancestor's, usage by other cgroups below that
// ancestor is not observed. If it matters, configure the ancestor as the node. The free PIDs
// are pids.max − pids.current, where PIDs are tasks including threads. If pids.max is "max",
// they are the machine's: min(kernel.pid_max, kernel.threads-max) − existing tasks.
//
// allocatableMemory.available is the limit of the kubepods cgroup below the node minus its
// working set. If kubepods has no limit but reservations are configured, the limit is the
// node's capacity minus the reservations. A node without a kubelet has its allocatable memory
// by this rule. Otherwise the signal is unknown, as in the kubelet.
//
// Available amounts may be negative: the limit of kubepods can exceed the node's remaining
// memory, and version 1 charges in batches. They are reported unchanged.
//
// # What counts as used: the kubelet's choices
//
//   - Page cache: inactive_file is available and active_file is used, though the kernel could
//     reclaim most of it. Tmpfs and shared memory are used.
//   - Swap: not counted. A page in swap is in no usage (v1 usage_in_bytes, v2 memory.current), and
//     free swap is not available memory. A node with swap tolerates more than these numbers show.
//   - Huge pages (hugetlbfs): part of the capacity, in no memory cgroup's usage. Reserving n GiB of
//     them makes memory.available n GiB too large, in the kubelet and here. Raise the threshold by
//     that amount, or configure a cgroup with a limit that excludes them as the node. Transparent
//     huge pages are anonymous memory and used.
//   - Slab and other kernel memory: used in every cgroup that accounts it (version 1 with kernel
//     memory accounting, every version 2 cgroup but the root). The root of version 2 counts
//     anon + file only. The rest is still observed, because memory.available of the node "/" is at
//     most the kernel's MemAvailable, on either version. This differs from the kubelet.
//     Reclaimable slab counts as used to the extent that MemAvailable counts it so.
package stats
