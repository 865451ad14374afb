// Package nodestatus tells the world what was decided and how the node fares: lines
// of JSON on a stream; to the cluster, pressure conditions and events of the
// node, on request a taint, the agent's heartbeat and, where no kubelet runs,
// the node's.
//
// Duties and invariants:
//
//   - Who reports never waits: values are handed to a writer of their own, and
//     the latest counts. Lines that a stream does not take are dropped, and
//     their number is told as soon as the stream moves again.
//   - A line is written whole or not at all.
//   - What to write next is decided without a clock and without the API server
//     (see ledger, renewed, taints); a thin goroutine each does it, and tries
//     again with back-off.
//   - A condition is set at once, and cleared no sooner than the transition
//     period after the cluster saw it True, also when the agent was restarted
//     with nothing but the Node to remember by.
//   - Nothing is written that somebody else fights for: a kubelet that reports a
//     condition is left alone; a standard condition that a stranger rewrites is
//     given up for a type of our own.
//   - A heartbeat says that the agent looks at its node, not that its process
//     exists: without looks it is not renewed. Where a kubelet is known, the
//     node's own lease is never touched: a dead kubelet must not look alive.
package nodestatus
