// Package nodestatus reports decisions and the state of the node: as lines of JSON on a stream, and
// to the cluster. In the cluster it writes pressure conditions, events, an optional taint, the
// agent's heartbeat and, on nodes without a kubelet, the node's heartbeat.
//
// Duties and invariants:
//
//   - Reporting never blocks the caller: values go to a separate writer, and the latest one counts.
//     Lines that a stream does not accept are dropped. Their number is reported as soon as the
//     stream accepts lines again.
//   - A line is written whole or not at all.
//   - The next write is computed without a clock and without the API server (see ledger, renewed,
//     taints). One thin goroutine for each executes it and retries with backoff.
//   - A condition is set at once. It is cleared at the earliest one transition period after the
//     cluster saw it True, even if the agent was restarted with no other memory than the Node.
//   - The agent competes with no other writer: a condition that a kubelet reports stays unchanged.
//     A standard condition that another program rewrites is replaced by a type of our own.
//   - A heartbeat means that the agent checks its node, not that its process exists: without checks
//     it is not renewed. Where a kubelet is known, the node's own lease is never written: a dead
//     kubelet must not appear alive.
package nodestatus
