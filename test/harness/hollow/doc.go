// Package hollow makes nodes that consist of nothing but what a kubelet tells the
// API server: a Node with its status, a lease that is renewed, pods that run by
// their status, and end when they are deleted. They fall silent, fall ill, come
// back, and live by clocks that are wrong, as told.
//
//	farm, err := hollow.Start(ctx, hollow.Options{Client: clients, Renew: time.Second})
//	n, err := farm.Add(ctx, "a", nil)              // joins, and reports Ready
//	pod, err := n.Run(ctx, hollow.Pod("web", map[string]int64{"node.kubernetes.io/unreachable": 3}))
//	last := n.Stop()                               // the power fails; last is its last sign of life
//	err = n.Resume(ctx)
//	err = n.Report(ctx, corev1.ConditionFalse)     // it lives and is not ready
//	n.Skew(-time.Hour)                             // its clock is wrong
//	n.Assist(true)                                 // its Plimsoll agent lives
//
// Duties and invariants:
//
//   - After Stop has returned nothing of the node reaches the API server any more.
//   - What the node did is known with its times: a sign of life is as old as its
//     request, and no older than its answer ([Node.Beats]).
//   - A living node sees to it, as a kubelet, that the API server has its Ready as
//     it is, and that pods that were deleted end: they leave the API. Those of a
//     silent node stay until it comes back.
package hollow
