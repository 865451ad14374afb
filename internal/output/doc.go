// Package output writes what a command of the client found, in the format that the user requests.
//
// Duties and invariants:
//
//   - A format means the same in every command: text and wide are a table, json and yaml one object
//     with apiVersion and kind, name one line TYPE/NAME for each object.
//   - Colour adds nothing to the text: without it the bytes are the same.
//   - It reads no clock, no environment and no terminal. Texts of the cluster arrive here without
//     control characters (see signals.PrintableText); [Plain] is for messages of errors.
package output
