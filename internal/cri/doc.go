// Package cri speaks the container runtime interface (CRI v1 over gRPC): what
// runs in pods, which images there are, what they use, and how to remove them.
//
// Duties and invariants:
//
//   - Every answer is turned into the values of this package; no CRI type
//     leaves it. A list to act upon that can not be right (no ID, a size above
//     2^60) is an error that names the call and the field; a measurement that
//     can not be right, or was not told, is not known. It is never a wrong number.
//   - [Open] does not wait for the runtime. Calls to one that does not
//     answer end at the deadline of their context or at [Options.Timeout],
//     whichever is first, and connections are made again with a back-off.
//   - Nothing here decides; nothing is remembered but the connection.
package cri
