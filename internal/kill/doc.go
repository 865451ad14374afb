// Package kill ends all processes of one pod by the shortest way the kernel
// offers: cgroup.kill on cgroup v2; on v1 pids.max=0, then SIGKILL through
// pidfds until the pod's cgroup is empty, frozen processes and fork bombs
// included. process_mrelease(2) frees a dying process's memory on the killer's
// time, so that a victim without CPU time does not keep it.
//
// Duties and invariants:
//
//  1. A signal is sent only into a directory whose place and name are that
//     pod's ([cgroup.ParsePodPath]) and whose inode is the one observed; on
//     64-bit kernels a cgroup's inode number is never used again. Never into
//     kubepods, a QoS class's directory or anything above; no symbolic link and
//     no other mount is followed.
//  2. Never to a PID of 1 or less, nor to this process: a directory that holds
//     PID 1 or this process is refused before anything is signalled. Members of
//     a foreign PID namespace read as 0 on v2, and are left out of the list on
//     v1, where an empty list is believed only in the host's PID namespace or if
//     pids.current agrees. They are counted and reported.
//  3. On v1 only through a pidfd, and only if the process is still listed in the
//     pod after the pidfd was opened: a PID used again can not be hit. What
//     remains is a process that moves to another cgroup in the microseconds
//     between; nothing the kernel offers on v1 closes that.
//  4. A kill waits for no lock that anything slow holds, nor for the API or the runtime, and uses
//     memory that [New] touched. What it waits for are the exits themselves.
//  5. pids.max gets its old value back, whatever happened: a runtime may start
//     containers in the directory again, and a survivor must not be crippled. The
//     old value is recorded at the directory itself, for [Killer.Restore].
//  6. A pod without processes is the goal, not a fault.
//  7. A kill returns at its deadline, however many processes and directories the pod
//     has; the clock is read within every batch. The rest goes on in a goroutine that
//     the Killer owns, which ends with the pod or with [Killer.Close]. What a listing
//     could not read keeps neither what it found from being signalled, nor cgroup.kill
//     from being written.
package kill
