// Package trial runs the real agent with an operator's command line against real processes in a
// sandbox node and reports the result: evictions, OOM kills and latencies. Kernel tests, the
// demo and the benchmarks share it.
//
// Duties and invariants:
//
//   - Measurements are independent of the agent: the crossing by reading the node's usage every
//     millisecond, the end of a process by its exit.
//   - A trial ends its agent, its processes and its node in every case.
package trial
