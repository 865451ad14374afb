// Package trial runs the real agent, as an operator would start it, against
// real processes in a sandbox node, and says what came of it: who was evicted,
// what the kernel's OOM killer did, and how long it took. Kernel tests, the
// demo and the benchmarks share it.
//
// Duties and invariants:
//
//   - What is measured is measured apart from the agent: the crossing by
//     reading the node's usage every millisecond, the death by the exit of the
//     process.
//   - A trial ends its agent, its processes and its node, whatever happened.
package trial
