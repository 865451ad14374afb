// Package agent is the loop on a node. It waits until a check is due, has a [Checker] plan the
// steps, executes each [Plan], reports, and saves the state that must survive a restart.
//
// Duties and invariants:
//
//   - One goroutine owns the state. Tasks beside it, such as a soft eviction in its grace
//     period, report through a channel.
//   - At most one pod is evicted per check. No second one is evicted while the memory of the
//     first is still being freed.
//   - A failed kill is no eviction: the next pod of the ranking is tried in the same check. If the
//     API server has recorded it already, that pod is waited for, since the kubelet may end it.
//   - The path from a check to a kill waits for no lock and no runtime, and for the API
//     server only as long as memory lasts.
//   - The package defines the ports it needs (ports.go) and depends on none of their
//     implementations.
package agent
