// Package lifecycle is the imperative shell of plimsoll controller: it passes nodes, pods
// and leases of the API server on to a [core.Fleet], and carries out its decisions.
//
// Duties and invariants:
//
//   - One goroutine owns the fleet. All others put events into its inbox and go on; they
//     wait for no decision, and no decision waits for the API server.
//   - No object of the API is stored: it is converted on arrival. An object that cannot
//     be understood is logged once and replaces nothing; only a complete list shows that
//     an object is gone.
//   - No decision is made before every list was complete once, and nothing is written
//     without leadership: losing it ends the tasks under way, and the process goes on as
//     a standby that follows everything.
//   - Contexts are arguments. A task ends with its executor, the executor with its term.
//   - All requests share one budget, in which protection goes before cleanup. Each is
//     bound to the UID, or to the version, of the observation; the client repeats none.
//   - Except in mode replace, and while another controller still writes the same fields,
//     it runs dry: decisions are logged, counted and simulated, and nothing is written.
package lifecycle
