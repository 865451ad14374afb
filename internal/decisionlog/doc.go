// Package decisionlog writes decisions and log messages as lines to a stream, such as standard
// output.
//
//   - Writing never blocks the caller. Lines that a stream does not accept are dropped. Their
//     number is reported as soon as the stream accepts lines again.
//   - A line is written whole or not at all.
package decisionlog
