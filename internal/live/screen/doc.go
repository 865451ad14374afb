// Package screen renders the state of a node as text of a given width and height, for terminals and for other outputs.
//
// Duties and invariants:
//
//   - It is pure: the same state, size and settings give the same text.
//   - No line is wider than the width, and with a height no text is higher.
//   - The texts of a state are printable and one column wide for each character (see package live). Escape sequences
//     come from here alone, and only with colours.
package screen
