// Package recorder records a cluster with times: every state of its nodes and pods, its events,
// and all writes with their users from the API server's own audit.
//
//	audit, err := recorder.NewAudit(dir, "system:serviceaccount:plimsoll-system:plimsoll-controller")
//	c := cluster.Make(t, cluster.Options{…, Args: map[cluster.Components][]string{cluster.APIServer: audit.Flags()}})
//	rec, err := recorder.Start(ctx, clients, audit)
//	err = rec.Until(ctx, func() bool { return rec.Node("a").Is(corev1.NodeReady) == corev1.ConditionUnknown })
//	deletes := rec.Writes(recorder.Of("delete", "pods"))
//
// Duties and invariants:
//
//   - It has no side effects and does not depend on the tested code.
//   - States come from watches, in order and without gaps. A watch that can not be resumed is an
//     error of the recorder, not a gap. The time of a state is its arrival, which is late if this
//     process waits for a processor.
//   - Writes come from the audit of the API server, with its times. They are complete: they
//     include request bodies, rejected requests and those of killed processes.
package recorder
