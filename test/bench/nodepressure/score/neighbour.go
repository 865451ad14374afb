package score

import (
	"math"
	"slices"
)

// maxWindow bounds the slots of a second.
const maxWindow = 100

// isolation returns the neighbour's throughput in the worst hundredth of the seconds, in percent of its
// rate: isol-01 of resctl-bench. Seconds overlap: one begins with each slot. A second above the rate
// catches up with one below it, and counts as one at the rate.
func isolation(n *Neighbour) float64 {
	slots := n.Slots
	if n.Until > 0 && n.SlotWidth > 0 {
		slots = slots[:min(len(slots), int(n.Until/n.SlotWidth))]
	}
	if len(slots) == 0 {
		return 0
	}
	width := 1
	if n.SlotWidth > 0 {
		width = min(max(int(1000/n.SlotWidth), 1), maxWindow, len(slots))
	}
	var seconds []float64
	for i := 0; i+width <= len(slots); i++ {
		sum := 0.0
		for _, share := range slots[i : i+width] {
			sum += share
		}
		seconds = append(seconds, sum/float64(width))
	}
	slices.Sort(seconds)
	return 100 * min(Quantile(seconds, 0.01), 1)
}

// standstill returns the longest time without an answer, in milliseconds.
func standstill(n *Neighbour) float64 {
	slots, longest := 0, 0
	for _, share := range n.Slots {
		slots++
		if share > 0 {
			slots = 0
		}
		longest = max(longest, slots)
	}
	return float64(longest) * n.SlotWidth
}

func ratio(n *Neighbour) float64 {
	if n.Quiet.P99 == 0 || n.During.Requests == 0 {
		return 0
	}
	return n.During.P99 / n.Quiet.P99
}

// Quantile returns a quantile of sorted numbers, the nearest rank; 0 for none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
