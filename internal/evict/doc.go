// Package evict ends one pod: what the API server is told of it, and its
// processes, in the order in which a node survives and nobody starts the pod
// again.
//
// The ladder, from the politest way to the fastest:
//
//	pod of       eviction  first                        then                       at last
//	API server   soft      asked for: Eviction, or a    whoever evicts ends it     withdrawn if nobody has to
//	                       mark that the controller     within its grace period;   go any more, or it ended by
//	                       sees; again while a budget   its processes are waited   itself; immediate when a
//	                       refuses                      for                        hard threshold is crossed
//	API server   hard      owed in writing, and told    SIGKILL to all of it       told later if it was not,
//	                       for as long as memory lasts                             unless it runs again
//	a manifest   soft      SIGTERM                      its grace period           SIGKILL
//	a manifest   hard      -                            SIGKILL to all of it       -
//
// Duties and invariants:
//
//   - The status comes before the kill: a kubelet starts a pod again that dies
//     without one. It is waited for no longer than the caller's patience; a
//     server that does not answer never stops a kill, and leaves it the time for
//     its signals.
//   - What is owed is handed to the state file before the kill, so that a
//     successor pays it.
//   - A request that a budget refuses, or nobody acts on, is taken back when the
//     grace period and a few minutes have passed, and said. So is one whose pod
//     ended by itself meanwhile: it may run again, and was not evicted.
//   - A soft eviction that waits, for a server or for a budget, hears at once
//     that it has to hurry.
package evict
