// Package cri is a client of the container runtime interface (CRI v1 over gRPC). It lists the
// containers and sandboxes of pods and the images, measures their usage, and removes them.
//
// Duties and invariants:
//
//   - Every response is converted to the types of this package; no CRI type leaves it. An
//     implausible list (no ID, a size above 2^60) is an error with the call and the field, because
//     callers act upon it. An implausible or missing measurement is unknown, never a wrong number.
//   - [Open] does not wait for the runtime. Calls to an unresponsive one end at the deadline of
//     their context or at [Options.Timeout], whichever is first. Connections are retried with
//     backoff.
//   - Nothing is decided here, and nothing is stored except the connection.
package cri
