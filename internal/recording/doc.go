// Package recording is the format of recordings: the observations and decisions of an agent, in
// frames. It encodes and decodes. Package ring stores the frames on a node.
//
// Duties and invariants:
//
//   - A frame is decoded whole or not at all. It has a length and a checksum, so a torn or changed
//     frame is detected, and reading continues behind it.
//   - A segment is a header and the frames that follow it. It is readable without other segments. A
//     recording is a sequence of segments.
//   - Checks and usages are stored as differences to the frame before. A key frame is absolute:
//     after a lost frame, decoding continues with the next one.
//   - Input is never trusted: every length is bounded by the bytes that follow. Pods, which take many
//     times their size in memory, have a bound of their own.
//   - A value with its new pods fits into a segment, whatever pods there are. A check with a part
//     left out is marked: its replay is not exact.
//   - Pods are stored as the facts that decide. These have no command lines and no environment.
//   - A decoded check has the values of the encoded one to the nanosecond, so that a replay decides
//     by the same input.
package recording
