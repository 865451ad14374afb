// Package recorder keeps what happened in a cluster, with times: every state
// that its nodes and pods went through, its events, and who wrote what, by the
// API server's own audit.
//
//	audit, err := chronicle.NewAudit(dir, "system:serviceaccount:plimsoll-system:plimsoll-controller")
//	c := cluster.Make(t, cluster.Options{…, Args: map[cluster.Components][]string{cluster.APIServer: audit.Flags()}})
//	book, err := chronicle.Keep(ctx, clients, audit)
//	err = book.Until(ctx, func() bool { return book.Node("a").Is(corev1.NodeReady) == corev1.ConditionUnknown })
//	deletes := book.Writes(chronicle.Of("delete", "pods"))
//
// Duties and invariants:
//
//   - It changes nothing, and knows nothing of what is tested.
//   - States come by watches, in their order and without gaps: a watch that can not
//     go on where it was lost is an error of the book, not a hole in it. They bear the time of their
//     arrival, which is late where this process waits for a processor.
//   - Writes come by the audit of the API server and bear its time. They are
//     complete: what was asked, refused requests and those of processes that
//     were killed included.
package recorder
