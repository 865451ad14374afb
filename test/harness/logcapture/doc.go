// Package logcapture keeps what was logged, so that tests can ask what was said,
// and how often.
//
// Duties and invariants:
//
//   - A [Book] may be written and read at the same time, and nothing that was
//     written is lost.
//   - It reads no clock and starts no goroutine: it serves in virtual time too.
package logcapture
