// Package heartbeat renews the agent's lease and, on nodes without a kubelet, the node's lease. A
// controller derives from them whether a node is lost.
//
// Duties and invariants:
//
//   - A heartbeat means that the agent checks its node, not that its process exists: without checks
//     it is not renewed.
//   - Where a kubelet is known, the node's own lease is never written: a dead kubelet must not
//     appear alive.
//   - The next renewal is computed without a clock and without the API server (see renewed). One
//     thin goroutine for each lease executes it and retries with backoff.
package heartbeat
