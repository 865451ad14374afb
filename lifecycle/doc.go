// Package lifecycle is the imperative shell of plimsoll controller: it feeds a
// [core.Fleet] with what the API server tells of nodes, pods and leases, and
// carries out what the fleet decides.
//
// Duties and invariants:
//
//   - One goroutine owns the fleet. Everybody else puts what they have learnt
//     into one mailbox and goes on; nobody waits for a decision, and no decision
//     waits for the API server.
//   - No object of the API is kept: it is converted where it comes in. What can
//     not be understood is said once and takes nothing away that was known; only
//     a complete list says that something is gone.
//   - Nothing is decided before every list was complete once, and nothing is
//     written without leadership: losing it ends what is under way, and the
//     process goes on as a standby that follows everything.
//   - Each request has its turn in one budget, in which what protects goes before
//     what tidies. Each is bound to the UID, or to the version, of what was looked
//     at; none is repeated by the client behind anybody's back.
//   - Unless it is told to replace the controllers of Kubernetes, and while
//     another one still writes what it would write, it only rehearses: what it
//     would do is logged and counted, believed, and not done.
package lifecycle
