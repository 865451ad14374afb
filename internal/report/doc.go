// Package report renders an incident from a recording, and the comparison of a trial, as one file without references to
// others.
//
// Duties and invariants:
//
//   - It is pure: the bytes of a recording and a time are arguments, and the same input gives the same
//     bytes. It reads no clock and no file.
//   - It shows what is recorded, and decides nothing again. Whatever is not recorded is stated as
//     missing or unknown.
//   - Every text of a recording is hostile. It is printable and bounded from the beginning, and each form
//     escapes it.
//   - A report is bounded, whatever the size of the recording. A curve keeps the extremes of each part of
//     the time, and lists keep their ends. What is left out is stated.
//   - Colour never carries a meaning alone: shapes, letters and texts repeat it.
package report
