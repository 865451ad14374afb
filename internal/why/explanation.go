package why

import (
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/ranking"
)

// Explanation is the record of an eviction, and what follows from it. For a pod without one, it has the pod's
// standing alone.
type Explanation struct {
	Node     string              `json:"node"`
	Eviction *decisionlog.Record `json:"eviction,omitempty"`
	Standing *Standing           `json:"standing,omitempty"`
	// Next is the pod that would have been evicted in place of the evicted one; empty without one. WhyNotNext
	// is the first criterion of the ranking by which the two differ.
	Next       string   `json:"next,omitempty"`
	WhyNotNext string   `json:"whyNotNext,omitempty"`
	Changes    []Change `json:"changes,omitempty"`
}

// Explain returns the explanation of an eviction on a node.
func Explain(node string, r *decisionlog.Record) Explanation {
	x := Explanation{Node: node, Eviction: r, Changes: Changes(r)}
	if evicted, next := r.Evicted(); next != nil {
		x.Next, x.WhyNotNext = next.Pod, Difference(evicted, next)
	}
	return x
}

// Difference returns why one pod is ranked before another one of the same ranking.
func Difference(first, second *decisionlog.Place) string {
	a, b := &first.Key, &second.Key
	unit := unitOf(a.Order)
	switch decides(a, b) {
	case byLast:
		return fmt.Sprintf("%s asked to go last", second.Pod)
	case byStats:
		return fmt.Sprintf("nothing was measured of %s", first.Pod)
	case byExcess:
		if a.Order == ranking.ByInodes {
			return fmt.Sprintf("%s uses inodes, and %s none", first.Pod, second.Pod)
		}
		return fmt.Sprintf("%s exceeds its request, and %s does not", first.Pod, second.Pod)
	case byPriority:
		return fmt.Sprintf("the priority of %s is %d, and that of %s is %d", first.Pod, a.Priority, second.Pod, b.Priority)
	case byEvictionPriority:
		return fmt.Sprintf("at equal priority, the eviction priority of %s is %d, and that of %s is %d", first.Pod, a.EvictionPriority, second.Pod, b.EvictionPriority)
	case byIncomplete:
		return fmt.Sprintf("%s could not be measured completely", first.Pod)
	case byOver:
		return overText(first, second, unit)
	}
	return "all criteria are equal, and the order of the UIDs decides"
}

// overText compares the usage of two pods, or its distance to their requests.
func overText(first, second *decisionlog.Place, unit signals.Unit) string {
	a, b := &first.Key, &second.Key
	switch a.Order {
	case ranking.ByInodes, ranking.ByPIDs:
		return fmt.Sprintf("%s uses %s, and %s %s", first.Pod, amount(int64(a.Usage), unit), second.Pod, amount(int64(b.Usage), unit))
	}
	if a.Exceeds {
		return fmt.Sprintf("%s is further above its request: by %s, and %s by %s", first.Pod, amount(int64(a.Usage-a.Request), unit), second.Pod, amount(int64(b.Usage-b.Request), unit))
	}
	return fmt.Sprintf("%s is nearer to its request: %s below, and %s %s below", first.Pod, amount(int64(a.Request-a.Usage), unit), second.Pod, amount(int64(b.Request-b.Usage), unit))
}

func unitOf(o ranking.Order) signals.Unit {
	switch o {
	case ranking.ByInodes:
		return signals.UnitInodes
	case ranking.ByPIDs:
		return signals.UnitPIDs
	}
	return signals.UnitBytes
}

// amount formats an amount with its unit.
func amount(n int64, unit signals.Unit) string { return signals.Readable(signals.Amount(n), unit) }
