// Package hollow simulates nodes by their traffic with the API server: a Node with its status, a
// renewed lease, and pods. The pods run by their status and end after their deletion. Nodes can
// become silent or not ready, recover, and have a wrong clock.
//
//	farm, err := hollow.Start(ctx, hollow.Options{Client: clients, Renew: time.Second})
//	n, err := farm.Add(ctx, "a", nil)              // joins, and reports Ready
//	pod, err := n.Run(ctx, hollow.Pod("web", 3))
//	last := n.Stop()                               // power failure; last is its last heartbeat
//	err = n.Resume(ctx)
//	err = n.Report(ctx, corev1.ConditionFalse)     // alive and not ready
//	n.Skew(-time.Hour)                             // wrong clock
//	n.Assist(true)                                 // its Plimsoll agent is alive
//
// Duties and invariants:
//
//   - After Stop has returned, no request of the node reaches the API server.
//   - The node records its heartbeats and those of its agent with times: each reached the server
//     after its request was sent and before the response ([Node.Beats]).
//   - A live node corrects its Ready condition in the API server, and ends deleted pods by
//     removing them from the API, as a kubelet does. Those of a silent node stay until it
//     resumes.
package hollow
