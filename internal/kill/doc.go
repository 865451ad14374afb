// Package kill ends all processes of one pod by the fastest mechanism of the kernel: cgroup.kill on
// cgroup v2. On v1 it sets pids.max=0, then sends SIGKILL through pidfds until the pod's cgroup is
// empty, frozen processes and fork bombs included. Only exempt directories, such as the sandbox's,
// receive no signal ([Target.Exempt]). process_mrelease(2) frees a dying process's memory on the
// killer's CPU time, so that it is freed even if the victim gets no CPU time.
//
// Duties and invariants:
//
//  1. A signal is sent only into a directory with the place and the name of that pod
//     ([cgroup.ParsePodPath]) and with the observed inode. On 64-bit kernels a cgroup's inode number is
//     never reused. Never into kubepods, the directory of a QoS class or anything above. No symbolic
//     link and no other mount is followed.
//  2. Never to a PID of 1 or less, nor to this process: a directory with PID 1 or this process is
//     refused before any signal. Members of a foreign PID namespace read as 0 on v2. On v1 they are
//     missing from the list. There an empty list counts only in the host's PID namespace, or if
//     pids.current agrees. Such members are counted and reported.
//  3. On v1 only through a pidfd, and only if the process is still listed in the pod after the pidfd
//     was opened: a reused PID cannot be hit. The remaining risk is a process that moves to another
//     cgroup in the microseconds in between. No mechanism of the kernel closes that gap on v1.
//  4. A kill waits for no lock of a slow operation, nor for the API or the runtime, and uses memory
//     that [New] prefaulted. It waits only for the exits.
//  5. pids.max is always restored: a runtime may start containers in the directory again, and survivors
//     must be able to fork. The previous value is recorded at the directory itself, for
//     [Killer.Restore].
//  6. A pod without processes is the goal, not an error.
//  7. A kill returns at its deadline, however many processes and directories the pod has; the clock is
//     read within every batch. The remaining work continues in a goroutine of the Killer, which ends
//     with the pod or with [Killer.Close]. An incomplete listing neither prevents the signals to the
//     listed processes, nor the write to cgroup.kill. A graceful kill also ends when a signal could end
//     none of the remaining processes.
package kill
