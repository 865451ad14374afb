// Package heartbeat tells from signs of life when a node is silent.
//
// A sign of life is a renewed lease, or a condition Ready that the node itself
// wrote. What follows from silence, and whether it is believed at all, is
// decided elsewhere.
//
// Duties and invariants:
//
//   - Signs are timed by the clock of who watches: a sign is that something
//     changed, not what time the node says it is. A node whose clock is wrong,
//     or was put back, is heard as well as any other. Times that nodes wrote
//     count only where there is nothing else, at first sight, and never as
//     later than now.
//   - A node is silent at its last sign of life plus the grace, that very
//     moment included; without a condition Ready the startup grace counts.
//   - At first sight a node has one interval of renewal to show itself, however
//     old its lease looks, unless the API already says that nobody knows how it
//     fares: that silence is old news, and told at once.
//   - What the controller itself writes is no sign of life: neither Unknown, with
//     one of its reasons, nor the heartbeat that a condition gets which never was
//     reported.
//   - It does not matter whether a node or its lease is seen first.
//   - A silent node is told once, until it was heard again. A node that was
//     deleted leaves nothing to one that comes under its name.
//   - A renewal costs one look-up and allocates nothing: moments in the queue
//     are put right when they come up, which they do once per grace.
package heartbeat
