// Package collect reads the facts of package clusterstatus from the API server, and judges nothing.
//
// Duties and invariants:
//
//   - Each kind of object is listed once, in pages. No request depends on the number of nodes otherwise.
//   - Of an object only facts stay: a page is released before the next one is read.
//   - What others wrote is bounded and printable: every text is converted here.
package collect
