// Package inflight is the state of evictions in flight: from the decision until the pod's memory
// or disk space is free again. It is pure: times, observations and results are arguments, and all
// effects are return values.
//
// Duties and invariants:
//
//   - An eviction is in one [State]. Every change of state is in one transition table; an
//     event that the table does not have changes nothing.
//   - The end of an eviction is no state: the agent removes it from the [Set]. It does so when
//     the wait is over (Agent.endWaits), when a dry run ends (Agent.setArmed), and when a soft
//     eviction was withdrawn or has failed (Agent.applySoftResult).
//   - At most one hard eviction is in flight for each node condition, and one soft one.
//   - The wait ends when memory is freed. Time only bounds it.
//   - No second pod is chosen for a condition while an eviction holds it, unless memory would
//     be exhausted meanwhile.
package inflight
