// Package score judges a run: what was expected and observed gives the score.
//
// Duties and invariants:
//
//   - It is pure. A score can be computed again from a result, on any machine, and is the same.
//   - It knows no contestant. It judges ends of pods by the list of those that may end, by the memory that was left, and by
//     what the kernel counted.
//   - A run that measured nothing is invalid, and counts neither for nor against a contestant.
package score
