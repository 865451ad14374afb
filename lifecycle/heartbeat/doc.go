// Package heartbeat determines from signs of life when a node is silent.
//
// A sign of life is a renewed lease, or a condition Ready written by the node itself. The
// consequences of silence, and its confirmation, are decided elsewhere.
//
// Duties and invariants:
//
//   - Signs of life are timed by the clock of the observer: a sign is a change, whatever time
//     the node writes. A wrong clock on a node has no effect, even if it is set back. Times
//     written by nodes count only at first observation, without other data, and never as later
//     than now.
//   - A node is silent at its last sign of life plus the grace period, that instant included.
//     Without a condition Ready the startup grace period counts.
//   - At first observation a node has one renewal interval to show a sign of life, however old
//     its lease is. The exception is a node already marked as Unknown in the API: that silence
//     is known, and reported at once.
//   - Writes of the controller itself are no signs of life. These are Unknown with one of the
//     controller's reasons, and the heartbeat of a condition that was never reported.
//   - A node and its lease may be observed in either order.
//   - A silent node is reported once, until its next sign of life. A deleted node has no effect
//     on a later one of the same name.
//   - A renewal costs one lookup and allocates nothing. Times in the queue are corrected when
//     they come due, once per grace period.
package heartbeat
