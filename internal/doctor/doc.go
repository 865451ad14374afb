// Package doctor derives findings from the facts of a node or a cluster. They show whether Plimsoll
// can do what its configuration promises, and whether another program does the same at the same
// time.
//
// Duties and invariants:
//
//   - It is pure: facts are values, and findings are values. Package probe reads the facts, so that
//     the agent, a command on a node and a test obtain the same findings.
//   - A fact is known, or unknown with its cause. An unknown fact is a finding of its own, and never
//     counts as healthy.
//   - Every finding is one line of a table: a code that keeps its meaning between versions, a
//     severity, the fault and its remedy.
//   - An error means that the agent must not act: it would act too late, twice, or not at all. A
//     warning is a loss that an operator should know. An info is no fault.
package doctor
