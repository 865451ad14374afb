// Package decisionlog has the form of a decision, and writes decisions and log messages as lines to a
// stream, such as standard output.
//
//   - One [Record] is the source of everything that is reported about a decision.
//   - Writing never blocks the caller. Lines that a stream does not accept are dropped. Their
//     number is reported as soon as the stream accepts lines again.
//   - A line is written whole or not at all.
package decisionlog
