// Package live derives the present state of a node from the recording of its agent: signals beside their thresholds,
// the pod that would be evicted, the memory of pods, and the last decisions.
//
// Duties and invariants:
//
//   - It is pure. Entries of the recording and the time are arguments.
//   - Every number comes from the recording, and from the packages by which the agent decides. What the recording does
//     not have is left out, or named as approximate.
//   - Its memory is bounded: the program that uses it shares the memory limit of the agent's container.
//   - Each text and each list of a state is bounded, and has no character that could change a terminal, wherever the
//     state came from.
package live
