// Package limiter decides whether the eviction of a pod is limited. The reasons are a used-up
// quota of the operator, evictions without effect, and an owner that recreates its pods again and
// again. It is pure: times and amounts are arguments, limits are return values.
//
// Duties and invariants:
//
//   - In no hour, wherever it begins, does a namespace have more evictions than the quota
//     allows, or more than its share once all of them reach the quota. No namespace uses the
//     share of another one, and a restart resets nothing.
//   - Exhaustion overrides quotas and backoffs: the hourly quota is several times as high,
//     owners are not limited, and ineffective evictions protect no hog: see [Limiter.HasLastingEffect].
//   - An eviction is evaluated by the usage outside of pods, in the unit of its signal. It is
//     ineffective if that has grown by more than half of the pod's measured usage. Growth
//     beyond the pod's usage counts against the eviction before. Growth of other pods counts
//     against none, since evictions are the remedy for it.
//   - Every limit has an end time, however long the pressure lasts.
//   - No limit outlasts the pressure: see [Limiter.Clear].
//   - A decision without limits allocates nothing.
package limiter
