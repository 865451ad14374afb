package ranking

import (
	"math"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Relief returns the amount that the end of the pod frees, as it is ranked: nothing if the pod was
// not measured. Tasks are what PIDs count, and a pod is ranked by its processes.
func (k *Key) Relief() signals.Amount { return max(k.Usage, k.Tasks) }

// Frees reports whether the end of the pod frees at least the given amount. A pod that was measured
// incompletely may hold any amount, as in its place of the ranking.
func (k *Key) Frees(least signals.Amount) bool { return k.Incomplete != "" || k.Relief() >= least }

// Relief returns the amount that the end of all unprotected pods frees. It is the maximum if one of
// them was measured incompletely. It does not allocate.
func Relief(ranked []Ranked) (together signals.Amount) {
	for i := range ranked {
		switch k := &ranked[i].Key; {
		case k.Protection != signals.Unprotected:
		case k.Incomplete != "":
			return math.MaxInt64
		default:
			together = together.Plus(k.Relief())
		}
	}
	return together
}
