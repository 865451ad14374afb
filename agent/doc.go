// Package agent is the loop on a node: it waits until a check is due, has a [Checker] plan
// what to do, executes each [Plan], reports, and saves what must survive a restart.
//
// Duties and invariants:
//
//   - One goroutine owns the state. What runs beside it (a soft eviction that
//     waits for its grace period) reports through a channel.
//   - At most one pod is evicted in a cycle, and no second one while the memory
//     of the first is on its way.
//   - A failed kill is no eviction: the next pod of the ranking is tried in the
//     same cycle.
//   - The path from a look to a kill waits for no lock, no API and no runtime.
//   - The package defines the ports it needs (ports.go) and knows none of their
//     implementations.
package agent
