// Package logcapture stores log output, so that tests can check its content and the number of
// records.
//
// Duties and invariants:
//
//   - A [Book] is safe for concurrent reads and writes, and loses no write.
//   - It reads no clock and starts no goroutine, so it also works in virtual time.
package logcapture
