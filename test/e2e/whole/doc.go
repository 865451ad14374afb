// Package whole is a whole node, from end to end: etcd, API server, scheduler,
// the controller manager without the two controllers that Plimsoll replaces,
// containerd, a kubelet, and Plimsoll itself as the pods of its own chart and
// image. One cluster serves all stories; what a story needs otherwise than the
// others is upgraded into the release, as an operator would.
//
// Duties and invariants:
//
//   - Pods come by the scheduler, agents by their DaemonSet: nothing is put on the
//     node by hand but static pods.
//   - A story says who has to go, in which order; everybody else is an innocent. What
//     happened to each is read from the chronicle of the whole run, so that an
//     innocent that failed for a moment is seen.
//   - Nothing sleeps. What is waited for is an entry of the chronicle, a line of
//     the decision log, or an answer.
package whole
