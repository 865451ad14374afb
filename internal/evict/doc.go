// Package evict ends one pod. It reports the eviction to the API server and ends the pod's
// processes, in an order that frees the node's memory and keeps the kubelet from restarting the
// pod.
//
// The sequence, from the politest step to the fastest:
//
//	pod of       eviction  first                       then                      last
//	API server   soft      request: an Eviction, or a  the deletion ends it      withdrawn once unneeded,
//	                       condition for the           within its grace period;  or if the pod ended by
//	                       controller; retried while   wait for its processes    itself; immediate when a
//	                       a budget refuses                                      hard threshold is crossed
//	API server   hard      enqueue the status, and     SIGKILL to all processes  report a pending status,
//	                       report it while time                                  unless the pod runs again
//	                       remains
//	a manifest   soft      SIGTERM                     its grace period          SIGKILL
//	a manifest   hard      -                           SIGKILL to all processes  -
//
// Duties and invariants:
//
//   - The status precedes the kill: a kubelet restarts a pod that ends without a status. The wait for
//     the status is bounded by the caller. An unresponsive server never prevents a kill, and the time
//     for its signals remains.
//   - A pending status is handed to the state file before the kill, so that the next run reports it.
//   - A request refused by a budget, or not acted on, is withdrawn and logged when the
//     grace period and a few minutes have passed. So is a request for a pod that ended by itself
//     meanwhile: the pod may run again, and was not evicted.
//   - A soft eviction that waits for a server or a budget escalates immediately when requested.
package evict
