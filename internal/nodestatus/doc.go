// Package nodestatus reports the state of the node to the cluster: pressure conditions, events and
// an optional taint.
//
// Duties and invariants:
//
//   - Reporting never blocks the caller: values go to a separate writer, and the latest one counts.
//   - The next write is computed without a clock and without the API server (see ledger, taints).
//     One thin goroutine for each executes it and retries with backoff.
//   - A condition is set at once. It is cleared at the earliest one transition period after the
//     cluster saw it True, even if the agent was restarted with no other memory than the Node.
//   - The agent competes with no other writer: a condition that a kubelet reports stays unchanged.
//     A standard condition that another program rewrites is replaced by a type of our own.
package nodestatus
