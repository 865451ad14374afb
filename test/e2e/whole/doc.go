// Package whole tests a complete node: etcd, API server, scheduler, the controller manager
// without the two controllers that Plimsoll replaces, containerd and a kubelet. Plimsoll itself
// runs as the pods of its own chart and image. One cluster serves all scenarios. A scenario upgrades
// the release for its own settings, as an operator would.
//
// Duties and invariants:
//
//   - Pods are placed by the scheduler and agents by their DaemonSet. Only static pods are put on
//     the node directly.
//   - A scenario names the pods to be evicted, in order; all others are innocents. Their states are
//     read from the record of the whole run, so that another pod that failed temporarily is found.
//   - Nothing sleeps. Every wait is for an entry of the record, a line of the decision log, or an
//     answer.
//
// REPEAT=n in the environment runs each scenario n times, such as that of
// -test.run 'TestNode_RunsScenariosInOrder/^memory(#[0-9]+)?$'.
package whole
