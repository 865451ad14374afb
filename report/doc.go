// Package report tells the world what was decided: here, lines of JSON on a
// stream.
//
// Duties and invariants:
//
//   - Who reports never waits: lines are handed to a writer of their own, and
//     when it can not keep up (a full pipe, a stuck journal) lines are dropped
//     and their number is told as soon as the stream moves again.
//   - A line is written whole or not at all.
package report
