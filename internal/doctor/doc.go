// Package doctor judges what was found of a node, or of a cluster: whether
// Plimsoll can do there what its configuration promises, and whether somebody
// else does the same at the same time.
//
// Duties and invariants:
//
//   - It is pure: facts come in as values, findings go out as values. Who looked,
//     and how, is decided elsewhere; so the agent, a command on a node and a test
//     judge alike.
//   - A fact is known, or unknown with its cause. What could not be looked at is a
//     finding of its own, and never passes for healthy.
//   - Every finding is one line of a table: a code that does not change its meaning
//     between versions, a severity, what is wrong and what to do about it.
//   - An error is what makes it wrong to let the agent act: it would act too late,
//     twice, or not at all. A warning costs something that an operator should know.
//     An info is no fault.
package doctor
