// Package limiter says when a pod that would be evicted is spared: because the
// operator's bound is reached, because evictions have stopped to help, or
// because its owner brings it back again and again. It is pure: times and
// amounts come in, holds come out as values.
//
// Duties and invariants:
//
//   - In no hour, wherever it begins, does a namespace have more evictions than
//     the bound allows, or more than its share once all of them reach the bound.
//     No namespace spends the share of another one; a restart gives none back.
//   - What is exhausted overrides bounds and back-offs: the bound of an hour is
//     several times as high, owners are not spared, and a hold of futile
//     evictions spares no hog: see [Restraint.Lasts].
//   - An eviction is judged by what is held outside of pods, in the unit of the
//     signal it was for: where that has grown by more than half of what the pod
//     was seen to use, the pod's end has relieved nobody. What was taken beyond
//     that counts against the eviction before. What other pods took meanwhile
//     counts against none: there evictions are the remedy.
//   - Every hold ends: it has a time at which it is over, however long the
//     pressure lasts.
//   - Nothing is held for pressure that is over: see [Restraint.Clear].
//   - A decision with nothing to hold allocates nothing.
package limiter
