// Package inflight is the state of evictions under way: from the decision until what the
// pod held is free again. It is pure: times, observations and results are arguments,
// what follows from them is a value.
//
// Duties and invariants:
//
//   - An eviction is in one [State]. Every change of state is in one transition table;
//     an event that the table does not have changes nothing.
//   - At most one hard eviction is under way for each node condition, and one soft one.
//   - Memory that is freed ends the wait, not time. Time bounds it.
//   - No second pod is chosen for a condition while an eviction holds it, unless memory
//     would be exhausted meanwhile.
package inflight
